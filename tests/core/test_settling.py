"""Bringing a doubt to an end: orphans, attempts that are over, probes, and a person's word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from settled.core.call import Call
from settled.core.doubt.settling import Adopt, Over, Refused, Resolve, Settle
from settled.core.encoding import codec
from settled.core.model import Effect, Standing, Terms
from settled.core.states import Event, State
from tests.core.build import LOST, at, attempt, call, journal

if TYPE_CHECKING:
    from settled.journals.memory import MemoryJournal

S = State
OPEN, NONE, MAYBE, DONE = Standing.OPEN, Standing.NONE, Standing.MAYBE, Standing.DONE
VALUE = codec.dumps("value")
LIFE = {"lifetime": 10.0}


def performed(kept: Call, transition: Any, *, seconds: float = 5.0) -> tuple[Any, MemoryJournal]:
    store = journal(kept, seconds=seconds)
    return store.perform(transition), store


def rows(store: MemoryJournal) -> list[tuple[Event, str]]:
    return [(row.event, row.detail) for row in store.log("op_1")]


def kinds(store: MemoryJournal) -> list[str]:
    return [alert.kind for alert in store.alerts()]


# --- orphans ------------------------------------------------------------------------------


def test_an_orphan_in_doubt_is_unknown_and_alerts() -> None:
    after, store = performed(call(S.PROCESSING, attempt(), epoch=3, series=4), Adopt("op_1"), seconds=30)
    assert (after.state, after.epoch, after.reason, after.series, after.decided) == (S.UNKNOWN, 4, "owner_lost", 0, "")
    assert (rows(store), kinds(store)) == ([(Event.DOUBT, "lease over")], ["unknown"])
    assert after.attempts[0].over is None  # the end of a lease is no proof that nothing runs


@pytest.mark.parametrize(
    "kept",
    [call(S.PROCESSING, attempt(1, NONE)), call(S.PROCESSING, attempt(), terms={"effect": Effect.READ})],
    ids=["nothing in doubt", "a read"],
)
def test_an_orphan_without_doubt_was_not_done(kept: Call) -> None:
    after, store = performed(kept, Adopt("op_1"), seconds=30)
    assert (after.state, after.decided, after.reason) == (S.NOT_DONE, "owner_lost", "owner_lost")
    assert (rows(store), kinds(store)) == ([(Event.ABSENT, "lease over")], [])


def test_a_dead_owner_needs_no_lease_to_end_and_its_attempts_are_over() -> None:
    kept = call(S.PROCESSING, attempt(1, NONE, over=None), attempt(2), attempt(3, MAYBE))
    after, store = performed(kept, Adopt("op_1", dead=1))
    assert (after.state, [a.over for a in after.attempts]) == (S.UNKNOWN, [None, at(5), at(1)])
    assert rows(store) == [(Event.DOUBT, "owner dead")]
    assert performed(kept, Adopt("op_1", dead=2))[0] == kept
    assert performed(kept, Adopt("op_1"))[0] == kept


def test_only_a_call_at_work_can_be_an_orphan() -> None:
    for state in (S.UNKNOWN, S.SUCCEEDED, S.NOT_DONE):
        kept = call(state, attempt(1, MAYBE))
        after, store = performed(kept, Adopt("op_1", dead=1), seconds=99)
        assert (after, rows(store)) == (kept, [])


def test_attempts_of_a_dead_process_are_over_from_now_on() -> None:
    kept = call(S.UNKNOWN, attempt(1), attempt(2), attempt(3, MAYBE, over=at(9, boot="boot-0")))
    after, store = performed(kept, Over("op_1", [2, 3]))
    assert [a.over for a in after.attempts] == [None, at(5), at(5)]
    assert rows(store) == [(Event.NOTE, "attempts over")]
    again, store = performed(after, Over("op_1", [2, 3]), seconds=8)
    assert (again, rows(store)) == (after, [])


# --- probes -------------------------------------------------------------------------------


def doubt(**changes: Any) -> Call:
    kept = {"terms": LIFE, "fault": LOST, "reason": "owner_lost", "held": True, "epoch": 3} | changes
    return call(S.UNKNOWN, attempt(1, NONE), attempt(2, MAYBE), **kept)


def test_a_probe_that_found_it_settles_with_the_result() -> None:
    after, store = performed(doubt(), Settle("op_1", 3, happened=True, began=at(0), result=VALUE, note="a note"))
    assert (after.state, after.epoch, after.result, after.note) == (S.SUCCEEDED, 4, VALUE, "a note")
    assert (after.decided, after.held, after.reason, after.fault) == ("probe", False, "", None)
    assert rows(store) == [(Event.SUCCEED, "probe")]


def test_a_probe_that_proves_absence_clears_every_doubt() -> None:
    after, store = performed(doubt(), Settle("op_1", 3, happened=False, began=at(11)), seconds=12)
    assert (after.state, after.epoch, after.decided, after.result) == (S.NOT_DONE, 4, "probe", None)
    assert [a.standing for a in after.attempts] == [NONE, NONE]
    assert rows(store) == [(Event.ABSENT, "probe")]


def test_what_was_done_in_part_stays_so() -> None:
    kept = call(S.UNKNOWN, attempt(1, Standing.SOME), attempt(2, MAYBE), terms=LIFE)
    after, _ = performed(kept, Settle("op_1", 1, happened=False, began=at(11)), seconds=12)
    assert [a.standing for a in after.attempts] == [Standing.SOME, NONE]


def test_a_probe_of_another_epoch_or_state_settles_nothing() -> None:
    verdict = Settle("op_1", 3, happened=True, began=at(99))
    for kept in (doubt(epoch=4), call(S.PROCESSING, attempt(), epoch=3), call(S.FAILED, epoch=3)):
        after, store = performed(kept, verdict)
        assert (after, rows(store)) == (kept, [])


def test_a_bound_declared_since_then_lets_a_probe_prove() -> None:
    early = Settle("op_1", 3, happened=False, began=at(4), today=Terms(lifetime=3.0))
    assert performed(doubt(terms={}), early)[0].state is S.NOT_DONE
    assert performed(doubt(), early)[0].state is S.UNKNOWN
    assert performed(doubt(terms={}), Settle("op_1", 3, happened=False, began=at(4)))[0].state is S.UNKNOWN


# --- a person's word ----------------------------------------------------------------------


def test_happened_is_taken_with_its_result_and_who_said_so() -> None:
    after, store = performed(doubt(), Resolve("op_1", "happened", "ann", "seen it", result=VALUE, note="a note"))
    assert (after.state, after.epoch, after.result, after.note) == (S.SUCCEEDED, 4, VALUE, "a note")
    assert (after.decided, after.reason, after.asserted, after.held) == ("person:ann", "seen it", True, False)
    assert rows(store) == [(Event.SUCCEED, "happened by ann: seen it")]


def test_hold_keeps_it_and_asserts_nothing() -> None:
    after, store = performed(doubt(held=False), Resolve("op_1", "hold", "ann", "wait"))
    assert (after.state, after.held, after.asserted, after.epoch) == (S.UNKNOWN, True, False, 4)
    assert rows(store) == [(Event.HOLD, "hold by ann: wait")]


@pytest.mark.parametrize(("then", "state"), [("rerun", S.NOT_DONE), ("fail", S.FAILED)])
def test_did_not_happen_ends_every_doubt(then: Any, state: State) -> None:
    kept = call(S.UNKNOWN, attempt(1, MAYBE, over=at(1)), attempt(2, OPEN), terms=LIFE, held=True)
    word = Resolve("op_1", "did_not_happen", "ann", "asked", then=then, force=True)
    after, store = performed(kept, word, seconds=50)
    assert (after.state, after.asserted, after.held, after.decided) == (state, True, False, "person:ann")
    assert [(a.standing, a.over) for a in after.attempts] == [(NONE, at(1)), (NONE, at(50))]
    assert [detail for _, detail in rows(store)] == ["did_not_happen by ann: asked"]


@pytest.mark.parametrize(("force", "asserted"), [(False, False), (True, True)])
def test_a_word_that_a_probe_could_prove_is_not_merely_asserted_unless_forced(force: bool, asserted: bool) -> None:
    after, _ = performed(doubt(), Resolve("op_1", "did_not_happen", "ann", "asked", force=force), seconds=11)
    assert (after.state, after.asserted) == (S.FAILED, asserted)


def test_a_word_that_cannot_be_taken_says_why_and_shows_the_call() -> None:
    kept = doubt()
    early = Resolve("op_1", "did_not_happen", "ann", "asked")
    assert performed(kept, early)[0] == Refused(
        "it can still take effect: wait for max_request_lifetime, or force it", kept
    )
    changed = Resolve("op_1", "happened", "ann", "seen", epoch=2)
    assert performed(kept, changed)[0] == Refused("the call has changed since it was looked at", kept)
    done = call(S.SUCCEEDED, attempt(1, DONE))
    assert performed(done, early)[0] == Refused("the call is succeeded, not unknown", done)
    assert journal().perform(early) == Refused("no call has this operation id", None)


def test_an_orphan_is_judged_as_one() -> None:
    kept = call(S.PROCESSING, attempt(), epoch=3)
    assert performed(kept, Resolve("op_1", "happened", "ann", "seen"), seconds=29)[0] == Refused(
        "the call is processing, not unknown", kept
    )
    after, _ = performed(kept, Resolve("op_1", "happened", "ann", "seen"), seconds=30)
    assert (after.state, after.epoch) == (S.SUCCEEDED, 5)


def test_who_has_seen_why_a_settled_call_is_disputed_holds_it() -> None:
    kept = call(S.SUCCEEDED, attempt(1, DONE), disputed=True, result=VALUE)
    after, store = performed(kept, Resolve("op_1", "hold", "ann", "known"))
    assert (after.state, after.held, after.disputed, after.result, after.epoch) == (S.SUCCEEDED, True, True, VALUE, 1)
    assert rows(store) == [(Event.NOTE, "seen by ann: known")]
    assert isinstance(performed(kept, Resolve("op_1", "happened", "ann", "x"))[0], Refused)
    plain = call(S.SUCCEEDED, attempt(1, DONE))
    assert isinstance(performed(plain, Resolve("op_1", "hold", "ann", "x"))[0], Refused)
    unknown, store = performed(doubt(disputed=True), Resolve("op_1", "hold", "ann", "x"))
    assert (unknown.epoch, rows(store)) == (4, [(Event.HOLD, "hold by ann: x")])


def test_only_an_asserted_absence_is_taken_back() -> None:
    for asserted, taken in ((True, True), (False, False)):
        kept = call(S.NOT_DONE, attempt(1, NONE), asserted=asserted)
        after, _ = performed(kept, Resolve("op_1", "happened", "ann", "seen", result=VALUE))
        assert isinstance(after, Call) is taken
        assert isinstance(performed(kept, Resolve("op_1", "did_not_happen", "ann", "x"))[0], Refused)
    failed = call(S.FAILED, attempt(1, NONE), asserted=True)
    assert isinstance(performed(failed, Resolve("op_1", "happened", "ann", "x"))[0], Refused)
