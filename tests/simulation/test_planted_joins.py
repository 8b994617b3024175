"""Bugs in joining runs and in runs inside of runs, planted one at a time: the oracle must see each of them."""

from types import SimpleNamespace

import pytest

from settled.core import claim, joins, runs, saga
from settled.core.ask import Ask
from settled.core.values import replace
from settled.journals.memory import MemoryBooks
from settled.testing.profiles import PROFILES
from settled.testing.simulate import simulate

MOST_SEEDS = 300
JOINS, CHILDREN, STORM = PROFILES["joins"], PROFILES["children"], PROFILES["joins in a storm"]
HURRIED = replace(JOINS, name="joins and hangs", pause=0.01, weather="busy")


@pytest.fixture
def planted(monkeypatch):
    """Return a check: with the bug in place the oracle objects; without it the same seeds are clean."""

    def check(profile, words):
        for seed in range(MOST_SEEDS):
            if any(" I6 " in v and words in v for v in simulate(seed, profile).violations):
                break
        else:
            pytest.fail(f"{MOST_SEEDS} worlds, and the bug was not seen")
        monkeypatch.undo()
        assert [v for clean in range(seed + 1) for v in simulate(clean, profile).violations] == []

    return check


@pytest.fixture
def lax(monkeypatch):
    """Return what lets a claim pass that should be refused for some reasons, if a lane makes it."""

    def allow(*reasons):
        def barred(books, ask):
            why = runs.barred(books, ask)
            return "" if ask.lane_entry and why in reasons else why

        monkeypatch.setattr(claim, "runs", SimpleNamespace(**{**vars(runs), "barred": barred}))

    return allow


def test_a_joined_call_begins_behind_the_rollbacks_back(lax, planted):
    lax("rolled_back")
    planted(JOINS, "begins in a run that is")


def test_a_joined_call_begins_in_a_run_that_has_ended(lax, planted):
    lax("run_ended")
    planted(JOINS, "begins in a run that has ended")


def test_a_token_outlives_its_entry(lax, planted):
    lax("superseded")
    planted(HURRIED, "by the token of an entry that is over")


def test_a_lane_is_worked_in_by_two(monkeypatch, planted):
    def of_the_run_alone(books, ask):
        return runs.barred(books, replace(ask, lane_entry=0))

    monkeypatch.setattr(claim, "runs", SimpleNamespace(**{**vars(runs), "barred": of_the_run_alone}))
    planted(HURRIED, "its lane is another process's")


def test_a_token_never_expires(monkeypatch, planted):
    original = joins.JoinRun.apply
    monkeypatch.setattr(
        joins.JoinRun, "apply", lambda self, books, now: original(replace(self, until=float("inf")), books, now)
    )
    planted(JOINS, "a token that has expired")


def test_a_run_that_has_ended_is_joined(monkeypatch, planted):
    monkeypatch.setattr(joins, "closed", lambda run, entry: "" if run and run.entry == entry else "superseded")
    planted(JOINS, "joined a run that is completed")


def test_one_agent_is_answered_by_anothers_call(monkeypatch, planted):
    original = MemoryBooks.alike
    monkeypatch.setattr(
        MemoryBooks,
        "alike",
        lambda self, scope, lane, tool, identity, entries: original(self, scope, "", tool, identity, entries),
    )
    planted(HURRIED, "answers lane")


def test_one_agent_is_answered_by_anothers_step(monkeypatch, planted):
    monkeypatch.setattr(Ask, "step_scope", property(lambda self: self.scope))
    planted(PROFILES["colleagues"], "answers lane")


def test_what_joined_agents_did_is_not_undone(monkeypatch, planted):
    original = saga.outline

    def of_the_host_alone(books, tenant, run_id):
        seen = original(books, tenant, run_id)
        return replace(seen, undo=tuple(step for step in seen.undo if not getattr(step, "lane", "")))

    monkeypatch.setattr(saga, "outline", of_the_host_alone)
    planted(JOINS, "neither undone nor in the queue")


def test_each_agents_calls_are_undone_by_themselves(monkeypatch, planted):
    original = saga.outline

    def lane_by_lane(books, tenant, run_id):
        seen = original(books, tenant, run_id)
        return replace(seen, undo=tuple(sorted(seen.undo, key=lambda step: getattr(step, "lane", ""))))

    monkeypatch.setattr(saga, "outline", lane_by_lane)
    planted(JOINS, "undone before")


# --- runs inside of runs ---


def test_a_call_begins_inside_of_a_run_that_is_undone(monkeypatch, planted):
    """The simulator found this one in the library itself."""
    monkeypatch.setattr(runs, "undone_around", lambda books, run: None)
    planted(STORM, "begins inside of a run that is")


def test_a_run_is_undone_without_those_inside_of_it(monkeypatch, planted):
    original = saga.outline

    def alone(books, tenant, run_id):
        seen = original(books, tenant, run_id)
        return replace(seen, undo=tuple(step for step in seen.undo if not hasattr(step, "run_id")))

    monkeypatch.setattr(saga, "outline", alone)
    planted(CHILDREN, "the run around it is undone")
