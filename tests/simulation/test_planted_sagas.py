"""Bugs in rolling back, planted one at a time: the oracle must see each of them, and nothing without them."""

from types import SimpleNamespace

import pytest

from settled.core.approval import leave
from settled.core.attempts import progress
from settled.core.call import evolve
from settled.core.matching import claim
from settled.core.runs import entering as runs
from settled.core.runs import rollback, saga
from settled.core.states import Event, State
from settled.core.values import replace
from settled.testing.simulate import simulate
from settled.testing.simulation.profiles import PROFILES

MOST_SEEDS = 300
SAGAS, UNDOING = PROFILES["sagas"], PROFILES["undoing"]


@pytest.fixture
def planted(monkeypatch):
    """Return a check: with the bug in place the oracle objects; without it the same seeds are clean."""

    def check(profile, words, first=0):
        for seed in range(first, MOST_SEEDS):
            if any(" I6 " in v and words in v for v in simulate(seed, profile).violations):
                break
        else:
            pytest.fail(f"{MOST_SEEDS} worlds, and the bug was not seen")
        monkeypatch.undo()
        assert [v for clean in range(first, seed + 1) for v in simulate(clean, profile).violations] == []

    return check


def nothing(process):
    """Nobody goes on with what was left."""
    yield from ()


def test_the_first_begun_is_undone_first(monkeypatch, planted):
    original = saga.outline

    def reversed_outline(books, tenant, run_id):
        seen = original(books, tenant, run_id)
        return replace(seen, undo=seen.undo[::-1])

    monkeypatch.setattr(saga, "outline", reversed_outline)
    planted(SAGAS, "undone before")


def test_a_call_begins_behind_the_rollbacks_back(monkeypatch, planted):
    monkeypatch.setattr(claim, "runs", SimpleNamespace(**{**vars(runs), "barred": lambda books, ask: ""}))
    planted(replace(UNDOING, name="behind its back", pause=0.02, weather="busy"), "begins in a run that is")


def test_a_call_in_flight_goes_on_with_its_attempts(monkeypatch, planted):
    monkeypatch.setattr(progress, "runs", SimpleNamespace(**{**vars(runs), "barred": lambda books, ask: ""}))
    planted(replace(UNDOING, name="going on", pause=0.02, weather="busy"), "begins in a run that is")


def test_a_compensation_in_doubt_counts_as_done(monkeypatch, planted):
    original = rollback.Rollback._compensate

    def hopeful(self, call):
        return replace((yield from original(self, call)), status="succeeded")

    def unchecked(self, books, now):
        call = books.by_id(self.operation_id)
        changed, row = evolve(call, Event.UNDONE, now, detail="by hope", reason="")
        books.put(changed, row)
        return changed

    monkeypatch.setattr(rollback.Rollback, "_compensate", hopeful)
    monkeypatch.setattr(saga.StepUndone, "apply", unchecked)
    planted(SAGAS, "on record as undone, and it is not")


def test_what_is_unknown_is_taken_for_not_done(monkeypatch, planted):
    monkeypatch.setattr(saga.Outline, "is_undone", property(lambda self: not (self.undo or self.lost)))
    planted(SAGAS, "its run is on record as undone")


def test_what_could_not_be_undone_is_taken_for_undone(monkeypatch, planted):
    monkeypatch.setattr(saga.Outline, "is_undone", True)
    planted(SAGAS, "its run is on record as undone")


def test_a_compensation_that_fails_stops_the_others(monkeypatch, planted):
    original = rollback.Rollback._stuck

    def stopping(self, call, reason, note=""):
        yield from original(self, call, reason, note)
        self.tried.update(f"op{number}" for number in range(200))
        return True

    monkeypatch.setattr(rollback.Rollback, "_stuck", stopping)
    monkeypatch.setattr("settled.testing.simulation.simulation.carry_on", nothing)
    monkeypatch.setattr("settled.testing.simulation.people.carry_on", nothing)
    planted(SAGAS, "neither undone nor in the queue")


def test_an_unfinished_rollback_is_left_to_itself(monkeypatch, planted):
    monkeypatch.setattr("settled.testing.simulation.simulation.carry_on", nothing)
    monkeypatch.setattr("settled.testing.simulation.people.carry_on", nothing)
    planted(UNDOING, "its rollback has not come to its end")


def test_why_a_step_waits_is_not_looked_at_again(monkeypatch, planted):
    """The simulator found this one in the library itself: doubt about an undo that a person has settled as not done."""

    def only_done(step, undoings, tools, now):
        undoing = undoings.get(step.operation_id)
        return undoing is not None and undoing.state is State.SUCCEEDED

    monkeypatch.setattr(rollback, "_worth", only_done)
    planted(replace(UNDOING, name="missing tools", missing=0.5), "in the queue without need")


def test_news_of_what_was_open_comes_too_late(monkeypatch, planted):
    """The simulator found this one in the library itself."""
    original = saga.Undo.apply
    monkeypatch.setattr(saga.Undo, "apply", lambda self, books, now: original(replace(self, open=()), books, now))
    planted(replace(SAGAS, name="n3", trips=8, weather="storm", people=4, reconcilers=4), "undone before")


def test_a_rollback_that_was_won_back_passes_by_the_step_that_it_was_lost_at(monkeypatch, planted):
    """The simulator found this one in the library itself."""

    class Kept(set):
        def clear(self):
            """Forget nothing."""

    original = rollback.Rollback.__init__

    def forgetting_nothing(self, order, at):
        original(self, order, at)
        self.tried = Kept()

    hangs = {"pause": 0.03, "journal_faults": 0.05, "crash": 0.002, "weather": "busy", "trips": 5, "reconcilers": 4}
    monkeypatch.setattr(rollback.Rollback, "__init__", forgetting_nothing)
    planted(replace(UNDOING, name="won back 2", **hangs), "undone before", first=115)


def test_what_waits_for_leave_stands_in_a_run_that_is_undone(monkeypatch, planted):
    monkeypatch.setattr(saga, "close_waiting", lambda books, scope, now: ())
    planted(PROFILES["undoing what waits for leave"], "refuse in a run that is undone")


# --- leave ---

APPROVALS = PROFILES["approvals"]


def test_leave_is_used_twice(monkeypatch, seen):
    monkeypatch.setattr(claim, "use", lambda given: given)
    seen(APPROVALS, " leave ", "used before")


def test_leave_that_is_over_is_used(monkeypatch, seen):
    monkeypatch.setattr(leave, "_counts", lambda given, terms, now: True)
    seen(APPROVALS, " leave ", "over")


def test_a_call_begins_without_leave(monkeypatch, seen):
    monkeypatch.setattr(claim, "given", lambda call, terms, now: True)
    seen(APPROVALS, " leave ", "not given")
