"""Evidence that comes late: appended always, settling what it can, disputing what it speaks against."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from settled.core.attempts.outcome import NEVER_SENT
from settled.core.doubt.late import Evidence
from settled.core.doubt.settling import Adopt, Settle
from settled.core.encoding import codec
from settled.core.model import Effect, Fault, FaultClass, Standing
from settled.core.model import Evidence as Proof
from settled.core.states import Event, State
from tests.core.build import BUSY, LOST, REFUSED, SOME, UNREADABLE, at, attempt, call, journal

if TYPE_CHECKING:
    from settled.core.call import Call
    from settled.journals.memory import MemoryJournal

S = State
OPEN, NONE, MAYBE, DONE = Standing.OPEN, Standing.NONE, Standing.MAYBE, Standing.DONE
VALUE = codec.dumps("value")
READ = {"effect": Effect.READ}


def heard(kept: Call, fault: Fault | None = None, no: int = 1, **more: object) -> tuple[Call, MemoryJournal]:
    store = journal(kept, seconds=5.0)
    after = store.perform(Evidence("op_1", no, fault, **more))
    assert after is not None
    assert store.get("op_1") == after
    return after, store


def kinds(store: MemoryJournal) -> list[str]:
    return [alert.kind for alert in store.alerts()]


def rows(store: MemoryJournal) -> list[tuple[Event, str]]:
    return [(row.event, row.detail) for row in store.log("op_1")]


def test_a_late_success_settles_with_all_that_it_brings() -> None:
    kept = call(S.UNKNOWN, attempt(1, MAYBE), fault=LOST, reason="owner_lost", held=True, epoch=4)
    after, store = heard(kept, result=VALUE, note="a note")
    assert (after.state, after.epoch, after.result, after.note, after.fault) == (S.SUCCEEDED, 5, VALUE, "a note", None)
    assert (after.decided, after.reason, after.held, after.disputed) == ("late", "", False, False)
    assert (after.attempts[0].standing, after.attempts[0].ended, after.attempts[0].over) == (DONE, at(5), at(5))
    assert rows(store) == [(Event.SUCCEED, "late answer")]
    assert kinds(store) == []


def test_a_late_answer_that_cannot_be_used_is_a_success_without_a_result() -> None:
    after, _ = heard(call(S.UNKNOWN, attempt(1, MAYBE)), UNREADABLE)
    assert (after.state, after.result, after.fault) == (S.SUCCEEDED, None, UNREADABLE)
    read, _ = heard(call(S.NOT_DONE, attempt(1, MAYBE), terms=READ), UNREADABLE)
    assert read.state is S.NOT_DONE  # what was read is gone: ask again
    value, _ = heard(call(S.NOT_DONE, attempt(1, MAYBE), terms=READ), result=VALUE)
    assert (value.state, value.result) == (S.SUCCEEDED, VALUE)


@pytest.mark.parametrize("state", [S.NOT_DONE, S.PARKED])
def test_a_success_against_what_was_held_for_proved_is_disputed(state: State) -> None:
    after, store = heard(call(state, attempt(1, MAYBE)), result=VALUE)
    assert (after.state, after.disputed, kinds(store)) == (S.SUCCEEDED, True, ["disputed"])
    read, store = heard(call(state, attempt(1, NONE), terms=READ), result=VALUE)
    assert (read.state, read.disputed, kinds(store)) == (S.SUCCEEDED, False, [])
    proved, store = heard(call(S.UNKNOWN, attempt(1, NONE), attempt(2, MAYBE)), result=VALUE)
    assert (proved.disputed, kinds(store)) == (True, ["disputed"])
    before, store = heard(call(S.UNKNOWN, attempt(1, MAYBE), disputed=True), result=VALUE)
    assert (before.disputed, kinds(store)) == (True, ["disputed"])


@pytest.mark.parametrize("state", [S.COMPENSATING, S.COMPENSATED])
def test_a_late_success_of_what_was_undone_says_nothing_new(state: State) -> None:
    after, store = heard(call(state, attempt(1, MAYBE)), result=VALUE)
    assert (after.state, after.result, after.disputed) == (state, None, False)
    assert (after.attempts[0].standing, rows(store), kinds(store)) == (DONE, [(Event.NOTE, "")], [])


@pytest.mark.parametrize("state", [S.FAILED, S.REFUSED, S.EXPIRED])
def test_a_success_against_a_final_state_disputes_it_and_changes_nothing(state: State) -> None:
    after, store = heard(call(state, attempt(1, MAYBE), held=True), result=VALUE)
    assert (after.state, after.result, after.disputed, after.held) == (state, None, True, False)
    assert (after.attempts[0].standing, rows(store), kinds(store)) == (DONE, [(Event.DISPUTE, "")], ["disputed"])
    read, store = heard(call(state, attempt(1, MAYBE), terms=READ, held=True), result=VALUE)
    assert (read.disputed, read.held, rows(store), kinds(store)) == (False, True, [(Event.NOTE, "")], [])


@pytest.mark.parametrize(
    ("effect", "disputed"),
    [(Effect.WRITE, True), (Effect.IDEMPOTENT, False), (Effect.DEDUPLICATED, False), (Effect.READ, False)],
)
def test_two_successes_of_what_is_not_safe_to_repeat_are_disputed(effect: Effect, disputed: bool) -> None:
    kept = call(S.SUCCEEDED, attempt(1, MAYBE), attempt(2, DONE), result=VALUE, terms={"effect": effect})
    after, _ = heard(kept, result=codec.dumps("other"))
    assert (after.state, after.result, after.disputed) == (S.SUCCEEDED, VALUE, disputed)
    once, _ = heard(call(S.SUCCEEDED, attempt(1, MAYBE), terms={"effect": effect}), result=VALUE)
    assert once.disputed is False


@pytest.mark.parametrize(
    ("fault", "state", "event"), [(REFUSED, S.FAILED, Event.FAIL), (BUSY, S.NOT_DONE, Event.ABSENT)]
)
def test_a_late_failure_settles_once_nothing_is_in_doubt(fault: Fault, state: State, event: Event) -> None:
    after, store = heard(call(S.UNKNOWN, attempt(1, MAYBE), epoch=4), fault)
    assert (after.state, after.epoch, after.fault, after.decided) == (state, 5, fault, "late")
    assert (after.attempts[0].standing, after.attempts[0].fault) == (NONE, fault)
    assert (rows(store), kinds(store)) == ([(event, "late answer")], [])


@pytest.mark.parametrize(
    "kept",
    [
        call(S.UNKNOWN, attempt(1, MAYBE), attempt(2, MAYBE)),
        call(S.UNKNOWN, attempt(1, MAYBE), attempt(2, Standing.SOME, over=None)),
        call(S.PROCESSING, attempt(1, MAYBE), attempt(2, NONE)),
        call(S.PARTIAL, attempt(1, MAYBE)),
    ],
    ids=["another in doubt", "another not over", "at work", "done in part"],
)
def test_else_it_is_only_noted(kept: Call) -> None:
    after, store = heard(kept, REFUSED)
    assert (after.state, after.epoch, after.attempts[0].standing) == (kept.state, kept.epoch, NONE)
    assert (rows(store), kinds(store)) == ([(Event.NOTE, "")], [])


@pytest.mark.parametrize(
    ("kept", "disputed"),
    [
        (call(S.UNKNOWN, attempt(1, MAYBE)), False),
        (call(S.UNKNOWN, attempt(1, NONE), attempt(2, OPEN)), False),
        (call(S.NOT_DONE, attempt(1, NONE)), True),
        (call(S.PARKED, attempt(1, MAYBE), not_before=1.0), True),
    ],
    ids=["in doubt", "its last attempt in doubt", "held for not done", "parked"],
)
def test_a_late_part_is_never_taken_for_nothing(kept: Call, disputed: bool) -> None:
    after, store = heard(kept, SOME, no=len(kept.attempts), result=VALUE)
    assert (after.state, after.result, after.fault, after.decided) == (S.PARTIAL, VALUE, SOME, "late")
    assert (after.disputed, after.not_before, after.epoch) == (disputed, None, kept.epoch + 1)
    assert rows(store) == [(Event.SPLIT, "late answer")]


def test_a_part_outweighs_a_refusal_that_comes_later() -> None:
    kept = call(S.UNKNOWN, attempt(1, MAYBE), attempt(2, Standing.SOME, fault=SOME), result=VALUE)
    after, _ = heard(kept, REFUSED)
    assert (after.state, after.fault, after.result) == (S.PARTIAL, SOME, VALUE)
    waiting, _ = heard(call(S.UNKNOWN, attempt(1, MAYBE), attempt(2, MAYBE)), SOME, no=2, result=VALUE)
    assert (waiting.state, waiting.result) == (S.UNKNOWN, VALUE)  # the other may have had the rest of it


@pytest.mark.parametrize(
    "kept",
    [call(S.PROCESSING, attempt(1), log_no=1), call(S.UNKNOWN, attempt(1, MAYBE), attempt(2, MAYBE), log_no=1)],
)
def test_what_a_part_has_brought_is_in_the_log_too(kept: Call) -> None:
    after, store = heard(kept, SOME, result=VALUE)
    assert (after.state, after.result) == (kept.state, VALUE)
    assert [row.digest for row in store.log("op_1")] == [codec.digest(VALUE)]
    again = store.perform(Evidence("op_1", 2, SOME)) if len(kept.attempts) > 1 else after
    assert again is not None
    assert again.result == VALUE  # one that brings nothing takes nothing away


def test_a_part_outlives_its_owner_and_a_probe_that_saw_nothing() -> None:
    kept = call(S.PROCESSING, attempt(1, Standing.SOME, fault=SOME), attempt(2, NONE), terms={"lifetime": 1.0})
    store = journal(kept, seconds=40.0)
    assert store.perform(Adopt("op_1")).state is S.PARTIAL
    doubted = call(S.UNKNOWN, attempt(1, Standing.SOME), attempt(2, MAYBE), terms={"lifetime": 1.0})
    store = journal(doubted, seconds=40.0)
    assert store.perform(Settle("op_1", 1, happened=False, began=at(39))).state is S.PARTIAL


def test_a_late_doubt_or_part_is_noted() -> None:
    for fault, standing in ((LOST, MAYBE), (SOME, Standing.SOME)):
        after, _ = heard(call(S.PROCESSING, attempt(1)), fault)
        assert (after.state, after.attempts[0].standing, after.attempts[0].fault) == (S.PROCESSING, standing, fault)


def test_a_refusal_of_every_attempt_speaks_against_a_success() -> None:
    after, store = heard(call(S.SUCCEEDED, attempt(1, MAYBE), held=True), REFUSED)
    assert (after.disputed, after.held, kinds(store)) == (True, False, ["disputed"])
    other, _ = heard(call(S.SUCCEEDED, attempt(1, MAYBE), attempt(2, MAYBE), disputed=True, held=True), REFUSED)
    assert (other.disputed, other.held) == (True, True)  # nothing new against it
    read, store = heard(call(S.SUCCEEDED, attempt(1, MAYBE), terms=READ), REFUSED)
    assert (read.disputed, kinds(store)) == (False, [])


def test_what_only_one_asker_can_know_says_nothing_of_what_another_has_begun() -> None:
    kept = call(S.UNKNOWN, attempt(1, OPEN), claim="op_a")
    after, _ = heard(kept, NEVER_SENT, claim="op_a")
    assert (after.state, after.attempts[0].standing) == (S.NOT_DONE, NONE)
    unmoved, store = heard(kept, NEVER_SENT, claim="op_b")
    assert unmoved == kept
    assert rows(store) == []


def test_an_attempt_that_still_runs_is_not_over() -> None:
    running = call(S.UNKNOWN, attempt(1, OPEN))
    after, _ = heard(running, LOST, over=False)
    assert (after.attempts[0].over, after.attempts[0].ended) == (None, at(5))
    known, _ = heard(call(S.UNKNOWN, attempt(1, OPEN, over=at(3))), LOST, over=False)
    assert known.attempts[0].over == at(3)


@pytest.mark.parametrize(
    ("kept", "fault"),
    [
        (attempt(1, DONE), None),
        (attempt(1, DONE), REFUSED),
        (attempt(1, NONE), REFUSED),
        (attempt(1, NONE), LOST),
        (attempt(1, Standing.SOME), REFUSED),
    ],
)
def test_what_says_nothing_new_is_not_kept(kept: object, fault: Fault | None) -> None:
    record = call(S.UNKNOWN, kept)
    after, store = heard(record, fault)
    assert (after, rows(store)) == (record, [])


@pytest.mark.parametrize(
    "kept", [attempt(1, NONE, ended=None), attempt(1, NONE, over=None), attempt(1, MAYBE), attempt(1, OPEN)]
)
def test_what_is_not_known_whole_is_told_again(kept: object) -> None:
    _, store = heard(call(S.UNKNOWN, kept), REFUSED)
    assert len(rows(store)) == 1


def test_a_cancelled_attempt_proves_absence_without_being_final() -> None:
    gone = Fault(FaultClass.CANCELLED, Proof.NONE, "cancelled")
    after, _ = heard(call(S.UNKNOWN, attempt(1, MAYBE)), gone)
    assert after.state is S.NOT_DONE
