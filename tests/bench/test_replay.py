"""The whole replay, for real, on a small world: agents are forked, killed and started again, and all is judged."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.shared import ROOT


@pytest.fixture(scope="module")
def played():
    command = [sys.executable, "-m", "bench.workloads", "--world", "tests.bench.tiny", "--seeds", "2", "--json"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(["src", "."])}
    done = subprocess.run(
        [*command, "--kills", "0.05"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def test_every_row_is_played_to_its_end(played):
    _, rows, _ = played
    assert list(rows) == ["no-retry", "careful", "settled", "settled-probes"]
    assert {figures["runs"] for figures in rows.values()} == {24}
    assert all(figures["kills"] > 0 for figures in rows.values())
    assert all(figures["requests"] > 0 and figures["added"] is not None for figures in rows.values())


def test_careful_retries_do_things_twice_and_the_ledger_shows_it(played):
    careful = played[1]["careful"]
    assert careful["duplicates"]
    assert careful["right"] < careful["runs"]


def test_without_retry_answers_are_missing(played):
    assert played[1]["no-retry"]["no_answer"] > 0
    assert played[1]["no-retry"]["lost"]  # killed, and not started again


@pytest.mark.parametrize("row", ["settled", "settled-probes"])
def test_with_settled_nothing_is_doubled_lost_or_told_wrong(played, row):
    code, rows, said = played
    figures = rows[row]
    kinds = ("duplicates", "false_done", "false_not", "lost", "unexplained")
    assert {kind: figures[kind] for kind in kinds} == {kind: [] for kind in kinds}
    assert code == 0 or "FAIL  settled-probes: given up" in said  # so few calls: one given up is too many


def test_with_probes_every_doubt_is_settled_and_without_them_none(played):
    assert not played[1]["settled-probes"]["left"]
    assert len(played[1]["settled"]["left"]) == played[1]["settled"]["queued"] > 0
