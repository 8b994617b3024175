"""Bugs in joining runs and in runs inside of runs, planted one at a time: the oracle must see each of them."""

from types import SimpleNamespace

import pytest

from settled.core.ask import Ask
from settled.core.matching import claim
from settled.core.runs import entering as runs
from settled.core.runs import joins, saga
from settled.core.values import replace
from settled.journals.memory import MemoryBooks
from settled.testing.simulation.profiles import PROFILES

JOINS, CHILDREN, STORM = PROFILES["joins"], PROFILES["children"], PROFILES["joins in a storm"]
HURRIED = replace(JOINS, name="joins and hangs", pause=0.01, weather="busy")


@pytest.fixture
def lax(monkeypatch):
    """Return what lets a claim pass that should be refused for some reasons, if a lane makes it."""

    def allow(*reasons):
        def barred(books, ask):
            why = runs.barred(books, ask)
            return "" if ask.lane_entry and why in reasons else why

        monkeypatch.setattr(claim, "runs", SimpleNamespace(**{**vars(runs), "barred": barred}))

    return allow


def test_a_joined_call_begins_behind_the_rollbacks_back(lax, seen):
    lax("rolled_back")
    seen(JOINS, " I6 ", "begins in a run that is")


def test_a_joined_call_begins_in_a_run_that_has_ended(lax, seen):
    lax("run_ended")
    seen(JOINS, " I6 ", "begins in a run that has ended")


def test_a_token_outlives_its_entry(lax, seen):
    lax("superseded")
    seen(HURRIED, " I6 ", "by the token of an entry that is over")


def test_a_lane_is_worked_in_by_two(monkeypatch, seen):
    def of_the_run_alone(books, ask):
        return runs.barred(books, replace(ask, lane_entry=0))

    monkeypatch.setattr(claim, "runs", SimpleNamespace(**{**vars(runs), "barred": of_the_run_alone}))
    seen(HURRIED, " I6 ", "its lane is another process's")


def test_a_token_never_expires(monkeypatch, seen):
    original = joins.JoinRun.apply
    monkeypatch.setattr(
        joins.JoinRun, "apply", lambda self, books, now: original(replace(self, until=float("inf")), books, now)
    )
    seen(JOINS, " I6 ", "a token that has expired")


def test_a_run_that_has_ended_is_joined(monkeypatch, seen):
    monkeypatch.setattr(joins, "closed", lambda run, entry: "" if run and run.entry == entry else "superseded")
    seen(JOINS, " I6 ", "joined a run that is completed")


def test_one_agent_is_answered_by_anothers_call(monkeypatch, seen):
    original = MemoryBooks.alike
    monkeypatch.setattr(
        MemoryBooks,
        "alike",
        lambda self, scope, lane, tool, identity, entries: original(self, scope, "", tool, identity, entries),
    )
    seen(HURRIED, " I6 ", "answers lane")


def test_one_agent_is_answered_by_anothers_step(monkeypatch, seen):
    monkeypatch.setattr(Ask, "step_scope", property(lambda self: self.scope))
    seen(PROFILES["colleagues"], " I6 ", "answers lane")


def test_what_joined_agents_did_is_not_undone(monkeypatch, seen):
    original = saga.outline

    def of_the_host_alone(books, tenant, run_id):
        seen = original(books, tenant, run_id)
        return replace(seen, undo=tuple(step for step in seen.undo if not getattr(step, "lane", "")))

    monkeypatch.setattr(saga, "outline", of_the_host_alone)
    seen(JOINS, " I6 ", "neither undone nor in the queue")


def test_each_agents_calls_are_undone_by_themselves(monkeypatch, seen):
    original = saga.outline

    def lane_by_lane(books, tenant, run_id):
        seen = original(books, tenant, run_id)
        return replace(seen, undo=tuple(sorted(seen.undo, key=lambda step: getattr(step, "lane", ""))))

    monkeypatch.setattr(saga, "outline", lane_by_lane)
    seen(JOINS, " I6 ", "undone before")


# --- runs inside of runs ---


def test_a_call_begins_inside_of_a_run_that_is_undone(monkeypatch, seen):
    """The simulator found this one in the library itself."""
    monkeypatch.setattr(runs, "undone_around", lambda books, run: None)
    seen(STORM, " I6 ", "begins inside of a run that is")


def test_a_run_is_undone_without_those_inside_of_it(monkeypatch, seen):
    original = saga.outline

    def alone(books, tenant, run_id):
        seen = original(books, tenant, run_id)
        return replace(seen, undo=tuple(step for step in seen.undo if not hasattr(step, "run_id")))

    monkeypatch.setattr(saga, "outline", alone)
    seen(CHILDREN, " I6 ", "the run around it is undone")
