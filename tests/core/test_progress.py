"""What an owner records while it works: row by row, with what it says."""

from __future__ import annotations

from typing import Any

import pytest

from settled.core.ask import Superseded
from settled.core.attempts.budget import RetryBudget
from settled.core.attempts.progress import Begin, BudgetSpent, Charge, Close, End, FencedOut, Renew
from settled.core.call import Call
from settled.core.doubt.late import Evidence as Late
from settled.core.doubt.settling import Adopt
from settled.core.encoding import codec
from settled.core.model import Effect, Evidence, Fault, FaultClass, Standing
from settled.core.runs.entering import EnterRun
from settled.core.states import Event, State
from settled.core.values import replace
from tests.core.build import BUSY, LOST, OTHER, REFUSED, SOME, UNREADABLE, ask, at, attempt, call, journal, own

S = State
OPEN, NONE, MAYBE, DONE = Standing.OPEN, Standing.NONE, Standing.MAYBE, Standing.DONE
VALUE = codec.dumps("value")
READ = {"effect": Effect.READ}


def one(state: State = S.PROCESSING, standing: Standing = OPEN, **changes: object) -> Call:
    return call(state, attempt(1, standing), **changes)


# --- a further intent ---------------------------------------------------------------------


@pytest.mark.parametrize(("state", "event", "epoch"), [(S.PROCESSING, Event.BEGIN, 3), (S.NOT_DONE, Event.CLAIM, 4)])
def test_a_further_intent_names_who_makes_it_and_when(state: State, event: Event, epoch: int) -> None:
    store = journal(one(state, NONE, epoch=3))
    begun = store.perform(Begin("op_1", 3, 2, ask(lease=20.0)))
    assert isinstance(begun, Call)
    new = begun.attempts[-1]
    assert (new.no, new.epoch, new.owner, new.begun, new.standing) == (2, epoch, OTHER, at(2), OPEN)
    assert (begun.owner, begun.lease, begun.epoch, begun.claim) == (OTHER, at(22), epoch, "op_2")
    assert begun.state is S.PROCESSING
    assert [(row.event, row.attempt) for row in store.log("op_1")] == [(event, 2)]


def test_an_intent_whose_answer_was_lost_is_not_made_twice() -> None:
    kept = call(S.PROCESSING, attempt(1, NONE), attempt(2))
    store = journal(kept)
    assert store.perform(Begin("op_1", 1, 2, own())) == kept
    assert store.perform(Begin("op_1", 1, 1, own())) == kept
    assert store.books.rows == []


def test_of_two_who_saw_it_not_done_one_goes_on() -> None:
    store = journal(one(S.NOT_DONE, NONE))
    mine, theirs = Begin("op_1", 1, 2, own()), Begin("op_1", 1, 2, ask())
    begun = store.perform(mine)
    assert isinstance(begun, Call)
    assert store.perform(mine) == begun  # the answer was lost
    assert store.perform(theirs) == FencedOut(begun)
    assert len(store.log("op_1")) == 1


@pytest.mark.parametrize("later", [Late("op_1", 2, None), Adopt("op_1", dead=2)])
def test_a_repeated_intent_is_nobodys_once_the_call_has_been_taken(later: Any) -> None:
    store = journal(one(S.NOT_DONE, NONE))
    begin = Begin("op_1", 1, 2, own())
    store.perform(begin)
    taken = store.perform(later)
    assert store.perform(begin) == FencedOut(taken)


def test_what_was_proved_not_done_is_not_gone_on_with_by_an_entry_that_was_superseded() -> None:
    store = journal(one(S.NOT_DONE, NONE))
    store.perform(EnterRun("r", ""))
    begin = Begin("op_1", 1, 2, own(run_id="r", run_entry=1))
    store.perform(EnterRun("r", ""))
    assert store.perform(begin) == Superseded("r")
    assert store.books.rows == []
    assert isinstance(store.perform(replace(begin, ask=own(run_id="r", run_entry=2))), Call)


def test_what_is_at_work_is_gone_on_with_by_its_owner_whatever_entry_came_since() -> None:
    store = journal(one(S.PROCESSING, NONE))  # a later entry sees it at work, and waits
    store.perform(EnterRun("r", ""))
    store.perform(EnterRun("r", ""))
    assert isinstance(store.perform(Begin("op_1", 1, 2, own(run_id="r", run_entry=1))), Call)


def test_who_may_begin_nothing_more_sees_how_the_call_stands() -> None:
    for kept in (one(S.PROCESSING, NONE, epoch=2), one(S.FAILED, NONE), one(S.SUCCEEDED, DONE), one(S.UNKNOWN, NONE)):
        assert journal(kept).perform(Begin("op_1", 1, 2, own())) == FencedOut(kept)
    assert journal(one()).perform(Begin("op_1", 1, 2, own())) == FencedOut(one())


def test_a_repeat_costs_its_run_what_it_says_and_other_runs_nothing() -> None:
    store = journal(one(S.PROCESSING, NONE))
    store.perform(EnterRun("r", ""))
    store.perform(EnterRun("other", ""))
    charge = Charge("r", RetryBudget(total=3, floor=0), cost=2)
    assert isinstance(store.perform(Begin("op_1", 1, 2, own(), charge)), Call)
    assert [store.books.run("", name).spent for name in ("r", "other")] == [{"pay": 2}, {}]  # type: ignore[union-attr]
    store.perform(End("op_1", 1, 2, BUSY, go_on=True))
    refused = store.perform(Begin("op_1", 1, 3, own(), charge))
    assert isinstance(refused, BudgetSpent)
    assert store.books.run("", "r").spent == {"pay": 2}  # type: ignore[union-attr]


def test_outside_of_a_run_and_in_one_that_is_not_on_record_nothing_is_debited() -> None:
    for charge in (None, Charge("no such run", RetryBudget(total=0))):
        store = journal(one(S.PROCESSING, NONE))
        assert isinstance(store.perform(Begin("op_1", 1, 2, own(), charge)), Call)
        assert store.books.run_records == {}


# --- the end of an attempt ----------------------------------------------------------------


def test_a_success_is_on_record_with_its_result_and_note() -> None:
    store = journal(one())
    ended = store.perform(End("op_1", 1, 1, None, VALUE, "too large"))
    assert isinstance(ended, Call)
    assert (ended.state, ended.result, ended.note, ended.decided) == (S.SUCCEEDED, VALUE, "too large", "answer")
    assert (ended.fault, ended.reason, ended.not_before, ended.epoch) == (None, "", None, 1)
    made = ended.attempts[0]
    assert (made.standing, made.ended, made.over, made.fault) == (DONE, at(2), at(2), None)
    assert [(row.event, row.detail) for row in store.log("op_1")] == [(Event.SUCCEED, "")]
    assert store.alerts() == []


@pytest.mark.parametrize(
    ("fault", "state", "event", "decided"),
    [
        (REFUSED, S.FAILED, Event.FAIL, "answer"),
        (Fault(FaultClass.INVALID, Evidence.NONE, "bad"), S.FAILED, Event.FAIL, "answer"),
        (BUSY, S.NOT_DONE, Event.ABSENT, "answer"),
        (Fault(FaultClass.CANCELLED, Evidence.NONE, "gone"), S.NOT_DONE, Event.ABSENT, "answer"),
        (SOME, S.PARTIAL, Event.SPLIT, "answer"),
        (UNREADABLE, S.SUCCEEDED, Event.SUCCEED, "answer"),
        (LOST, S.UNKNOWN, Event.DOUBT, ""),
    ],
    ids=lambda value: getattr(value, "code", None),
)
def test_a_failure_is_on_record_with_what_it_proves(fault: Fault, state: State, event: Event, decided: str) -> None:
    store = journal(one())
    ended = store.perform(End("op_1", 1, 1, fault, reason="attempts"))
    assert isinstance(ended, Call)
    assert (ended.state, ended.fault, ended.decided, ended.reason) == (state, fault, decided, "attempts")
    assert [(row.event, row.detail) for row in store.log("op_1")] == [(event, f"{fault.code}/{fault.evidence}")]
    assert [a.kind for a in store.alerts()] == (["unknown"] if state is S.UNKNOWN else [])


def test_an_end_that_goes_on_decides_nothing() -> None:
    ended = journal(one()).perform(End("op_1", 1, 1, BUSY, go_on=True, park=9.0))
    assert isinstance(ended, Call)
    assert (ended.state, ended.decided, ended.not_before) == (S.PROCESSING, "", None)
    some = journal(one()).perform(End("op_1", 1, 1, SOME, go_on=True))
    assert isinstance(some, Call)
    assert some.state is S.PROCESSING
    read = journal(one(terms=READ)).perform(End("op_1", 1, 1, LOST, go_on=True))
    assert isinstance(read, Call)
    assert read.state is S.PROCESSING


@pytest.mark.parametrize("park", [0.0, 60.0])
def test_what_is_parked_says_until_when(park: float) -> None:
    parked = journal(one()).perform(End("op_1", 1, 1, BUSY, park=park))
    assert isinstance(parked, Call)
    assert (parked.state, parked.not_before, parked.decided) == (S.PARKED, at(2 + park).wall, "")
    final = journal(one()).perform(End("op_1", 1, 1, REFUSED, park=60.0))
    assert isinstance(final, Call)
    assert (final.state, final.not_before) == (S.FAILED, None)


def test_a_refusal_from_the_key_store_proves_every_attempt_absent() -> None:
    terms = {"effect": Effect.DEDUPLICATED, "remote_errors": "stored", "remote_retention": 1e6}
    store = journal(call(S.PROCESSING, attempt(1, MAYBE), attempt(2), terms=terms))
    ended = store.perform(End("op_1", 1, 2, REFUSED))
    assert isinstance(ended, Call)
    assert [a.standing for a in ended.attempts] == [NONE, NONE]


def test_the_same_end_told_twice_is_on_record_once() -> None:
    store = journal(one())
    end = End("op_1", 1, 1, BUSY, go_on=True)
    first = store.perform(end)
    assert store.perform(end) == first
    assert len(store.books.rows) == 1


def test_a_late_answer_that_was_faster_than_the_end_is_believed() -> None:
    for told, fault, state in ((NONE, BUSY, S.NOT_DONE), (NONE, LOST, S.NOT_DONE), (MAYBE, LOST, S.UNKNOWN)):
        kept = one(standing=told)
        ended = journal(kept).perform(End("op_1", 1, 1, fault, reason="attempts"))
        assert isinstance(ended, Call)
        assert (ended.state, ended.reason, ended.attempts) == (state, "attempts", kept.attempts)


def test_a_success_is_a_success_whatever_was_told_before() -> None:
    ended = journal(one(standing=NONE)).perform(End("op_1", 1, 1, None, VALUE))
    assert isinstance(ended, Call)
    assert (ended.state, ended.result, ended.attempts[0].standing) == (S.SUCCEEDED, VALUE, DONE)


def test_the_end_of_a_call_that_is_settled_already_is_kept_as_evidence() -> None:
    for kept, disputed in ((one(S.FAILED, NONE), True), (one(S.NOT_DONE, NONE), True), (one(S.UNKNOWN, MAYBE), False)):
        reply = journal(kept).perform(End("op_1", 1, 1, None, VALUE, "a note"))
        assert isinstance(reply, FencedOut)
        assert reply.call is not None
        assert (reply.call.attempts[0].standing, reply.call.disputed) == (DONE, disputed)
    same = one(S.NOT_DONE, NONE)
    assert journal(same).perform(End("op_1", 1, 1, BUSY)) == same  # the answer to the end was lost


def test_an_end_that_comes_too_late_is_kept_as_evidence() -> None:
    lost = one(S.UNKNOWN, OPEN, epoch=2)
    reply = journal(lost).perform(End("op_1", 1, 1, None, VALUE, "a note"))
    assert isinstance(reply, FencedOut)
    assert reply.call is not None
    assert (reply.call.state, reply.call.result, reply.call.note) == (S.SUCCEEDED, VALUE, "a note")
    running = journal(lost).perform(End("op_1", 1, 1, LOST, over=False))
    assert isinstance(running, FencedOut)
    assert running.call is not None
    assert (running.call.attempts[0].over, running.call.attempts[0].standing) == (None, MAYBE)
    over = journal(lost).perform(End("op_1", 1, 1, LOST))
    assert isinstance(over, FencedOut)
    assert over.call is not None
    assert over.call.attempts[0].over == at(2)


def test_an_end_of_an_attempt_under_a_former_owner_is_not_this_owners() -> None:
    """Attempt 1 was taken over by epoch 2, whose end is another matter than what epoch 1 recorded."""
    kept = call(S.PROCESSING, attempt(1, NONE), attempt(2, OPEN, epoch=2), epoch=2)
    ended = journal(kept).perform(End("op_1", 2, 2, BUSY))
    assert isinstance(ended, Call)
    assert ended.state is S.NOT_DONE


# --- closing and leases -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kept", "state", "alerts"),
    [
        (one(standing=NONE), S.NOT_DONE, []),
        (one(standing=MAYBE), S.UNKNOWN, ["unknown"]),
        (one(terms=READ), S.NOT_DONE, []),
    ],
    ids=["nothing in doubt", "in doubt", "a read"],
)
def test_a_call_whose_next_attempt_was_not_made_is_closed_with_the_reason(
    kept: Call, state: State, alerts: list[str]
) -> None:
    store = journal(kept)
    closed = store.perform(Close("op_1", 1, "breaker_open"))
    assert isinstance(closed, Call)
    assert (closed.state, closed.reason, closed.decided) == (state, "breaker_open", "answer")
    assert [row.detail for row in store.log("op_1")] == ["breaker_open"]
    assert [a.kind for a in store.alerts()] == alerts


def test_only_its_owner_closes_a_call_that_is_at_work() -> None:
    for kept in (one(standing=NONE, epoch=2), one(S.FAILED, NONE)):
        assert journal(kept).perform(Close("op_1", 1, "x")) == FencedOut(kept)


@pytest.mark.parametrize(("seconds", "ends"), [(27.0, 30.0), (28.0, 30.0), (28.5, 30.5), (40.0, 42.0)])
def test_a_lease_only_grows(seconds: float, ends: float) -> None:
    store = journal(one())
    assert store.perform(Renew([("op_1", 1, seconds)])) == ()
    kept = store.get("op_1")
    assert kept is not None
    assert kept.lease.mono == ends
    assert store.books.rows == []


def test_a_lease_of_another_boot_begins_anew() -> None:
    store = journal(replace(one(), lease=at(900, boot="boot-0")))
    assert store.perform(Renew([("op_1", 1, 5.0)])) == ()
    kept = store.get("op_1")
    assert kept is not None
    assert kept.lease == at(7)


def test_a_late_end_whose_answer_was_lost_is_answered_by_what_stands() -> None:
    """Another attempt has settled it meanwhile: its result is everybody's, also for who asks again."""
    by_another = call(
        S.SUCCEEDED, attempt(1), replace(attempt(2, DONE), epoch=2), epoch=2, terms={"effect": Effect.IDEMPOTENT}
    )
    store = journal(replace(by_another, result=codec.dumps("theirs"), decided="answer"))
    mine = End("op_1", 1, 1, None, VALUE)
    first, again = store.perform(mine), store.perform(mine)
    assert isinstance(first, FencedOut)
    assert isinstance(again, FencedOut)
    assert again.call is not None
    assert again.call.result == codec.dumps("theirs")


def test_what_is_in_doubt_says_why_by_the_attempt_that_may_have_been_done() -> None:
    """A later attempt that was surely not done is not why nobody knows; what kept a repeat from being made is."""
    kept = call(S.PROCESSING, attempt(1, MAYBE, fault=LOST), attempt(2))
    for reason, told in ((BUSY.code, "read_timeout"), ("deadline", "deadline")):
        ended = journal(kept).perform(End("op_1", 1, 2, BUSY, reason=reason))
        assert isinstance(ended, Call)
        assert (ended.state, ended.reason) == (S.UNKNOWN, told)
