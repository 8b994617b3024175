"""Thousands of seeded worlds, each judged by ground truth. A million: ``python -m settled.testing.simulate``."""

import json
from collections import Counter
from pathlib import Path

import pytest

from settled.testing.simulate import main, play_all, profile_of, simulate, story
from settled.testing.simulation.profiles import PROFILES

SEEDS = 2_010
KEPT = [
    tuple(line.split(maxsplit=1)) for line in (Path(__file__).parent / "seeds.txt").read_text().splitlines() if line
]


@pytest.fixture(scope="module")
def worlds():
    """Play all seeds once; return the verdicts with violations, and the facts of all."""
    failed, facts = [], Counter()
    for some_failed, some_facts in play_all(0, SEEDS, jobs=2):
        failed += some_failed
        facts.update(some_facts)
    return failed, facts


def test_every_promise_is_kept_in_every_world(worlds):
    failed, facts = worlds
    assert [(v.seed, v.profile, v.violations) for v in failed] == []
    assert facts["worlds"] == SEEDS


def test_much_happens_in_these_worlds(worlds):
    _, facts = worlds
    least = {
        "crashes": 500,
        "cancelled": 50,
        "journal error": 100,
        "shut": 100,
        "became unknown": 1000,
        "became not_done": 500,
        "became failed": 500,
        "became parked": 10,
        "told in_progress": 50,
        "told conflict": 50,
        "told rejected": 200,
        "settled by late": 50,
        "settled by probe": 500,
        "settled by person": 50,
        "effects": 10_000,
        "told awaiting_approval": 100,
        "told refused": 30,
        "run completed": 50,
        "run compensated": 100,
        "run partly_compensated": 100,
        "told that a run is held": 20,
    }
    assert {what: facts[what] for what, number in least.items() if facts[what] < number} == {}


def test_doubt_is_bounded(worlds):
    _, facts = worlds
    assert facts["needless unknown"] <= 0.01 * facts["calls"]
    assert facts["left unknown"] <= 0.1 * facts["calls"]


@pytest.mark.parametrize(("seed", "profile"), KEPT)
def test_seeds_that_once_failed(seed, profile):
    assert simulate(int(seed), profile).violations == ()


@pytest.mark.parametrize("profile", PROFILES)
def test_a_seed_always_gives_the_same_world(profile):
    assert story(7, profile) == story(7, profile) != story(8, profile)


def test_a_seed_stands_for_a_kind_of_world():
    assert {profile_of(seed) for seed in range(len(PROFILES))} == set(PROFILES)
    assert simulate(3).profile == profile_of(3)


def test_the_command_counts_worlds(capsys, tmp_path):
    assert main(["--seeds", "60", "--json", "--failing", str(tmp_path / "failing")]) == 0
    assert json.loads(capsys.readouterr().out)["facts"]["worlds"] == 60
    assert not (tmp_path / "failing").exists()


def test_the_command_names_failing_seeds(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("settled.core.rules.closing_state", lambda call, *, final: "failed")
    assert main(["--seeds", "3", "--profile", "storm", "--failing", str(tmp_path / "failing")]) == 1
    named = (tmp_path / "failing").read_text().split()
    assert named[1] == "storm"
    assert f"seed {named[0]} (storm)" in capsys.readouterr().out


def test_the_command_tells_a_story(capsys):
    assert main(["--story", "3", "--profile", "crashes"]) == 0
    assert "EFFECT" in capsys.readouterr().out
