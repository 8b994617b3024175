"""The claim: what it puts on record, what it answers from, and what its entry remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from settled.core.ask import Ask, Begun, Busy, Doubtful, Stands, Superseded, Untold, WouldRun
from settled.core.encoding.keys import scoped_key
from settled.core.matching.claim import Claim, Reserve
from settled.core.matching.entry import Entry
from settled.core.model import Effect, KeyKind, Standing
from settled.core.runs.entering import EnterRun
from settled.core.states import Event, State
from settled.core.values import replace
from tests.core.build import BUSY, ME, OTHER, ask, at, attempt, call, journal

if TYPE_CHECKING:
    from settled.core.call import Call

S = State
NONE, MAYBE, DONE = Standing.NONE, Standing.MAYBE, Standing.DONE
RUN = "run:0::r"


def scoped(entry: Entry | None = None, **changes: Any) -> Ask:
    of_run = {"kind": KeyKind.SCOPED, "scope": RUN, "key": "", "lane": "l", "tenant": "t", "entry": entry or Entry()}
    return ask(**(of_run | changes))


def made(state: State = S.SUCCEEDED, *attempts: Any, **changes: Any) -> Call:
    of_run = {"kind": KeyKind.SCOPED, "scope": RUN, "lane": "l", "tenant": "t", "entry": 1, "series": 1}
    return call(state, *attempts, **(of_run | changes))


def second() -> Entry:
    return Entry(2, (1,))


# --- what is put on record ----------------------------------------------------------------


def test_a_new_call_holds_all_that_was_asked() -> None:
    entry = Entry(3)
    despite = frozenset({"op_b", "op_a"})
    wish = scoped(entry, words="1:w", fingerprint="1:f", message="m", step="s", despite=despite, lease=20.0)
    store = journal()
    reply = store.perform(Claim(wish))
    assert isinstance(reply, Begun)
    new = reply.call
    assert (new.operation_id, new.kind, new.tenant, new.tool, new.terms) == (
        "op_2",
        KeyKind.SCOPED,
        "t",
        "pay",
        wish.terms,
    )
    assert (new.scope, new.lane, new.identity, new.words, new.fingerprint) == (RUN, "l", "1:i", "1:w", "1:f")
    assert (new.n, new.arguments, new.state, new.epoch, new.claim) == (1, b"1j{}", S.PROCESSING, 1, "op_2")
    assert (new.owner, new.lease, new.created, new.changed) == (OTHER, at(22), at(2), at(2))
    assert (new.entry, new.series, new.before, new.message, new.step) == (3, 3, 0, "m", "s")
    assert new.despite == ("op_a", "op_b")
    assert new.key == scoped_key("t", RUN, "l", "pay", "1:i", 1)
    [row] = store.log("op_2")
    assert (row.event, row.detail, row.attempt) == (Event.CLAIM, "pay", 1)
    assert [(a.no, a.epoch, a.owner, a.begun) for a in new.attempts] == [(1, 1, OTHER, at(2))]


def test_outside_of_a_run_a_call_belongs_to_no_entry() -> None:
    new = journal().perform(Claim(ask(key="mine"))).call
    assert (new.key, new.n, new.entry, new.series, new.despite) == ("mine", 1, 0, 0, ())
    twin = journal(call(S.SUCCEEDED, n=4)).perform(Claim(ask(key="mine"))).call
    assert twin.n == 1


def test_the_number_counts_on_from_the_highest_of_this_identity() -> None:
    store = journal(made(n=4, operation_id="op_a", key="a"))
    new = store.perform(Claim(scoped(Entry(no=1)))).call
    assert (new.n, new.key) == (5, scoped_key("t", RUN, "l", "pay", "1:i", 5))
    for change in ({"lane": "x"}, {"scope": "run:0::x"}, {"identity": "1:x"}, {"tool": "x"}):
        assert store.perform(Claim(scoped(operation_id=f"op {change}", **change))).call.n == 1


def test_a_new_series_is_taken_over_whole() -> None:
    parked = made(
        S.PARKED, attempt(1, NONE), not_before=at(1).wall, fault=BUSY, reason="deadline", epoch=4, owner=ME, lease=at(0)
    )
    store = journal(parked)
    taken = store.perform(Claim(scoped(second(), lease=20.0))).call
    assert (taken.state, taken.epoch, taken.claim, taken.owner, taken.lease) == (S.PROCESSING, 5, "op_2", OTHER, at(22))
    assert (taken.series, taken.before, taken.not_before, taken.fault, taken.reason) == (2, 1, None, None, "")
    assert [(a.no, a.epoch, a.owner, a.begun) for a in taken.attempts] == [(1, 1, ME, at(0)), (2, 5, OTHER, at(2))]
    [row] = store.log("op_1")
    assert (row.event, row.epoch, row.attempt) == (Event.CLAIM, 5, 2)
    without = journal(call(S.NOT_DONE, attempt(1, NONE), series=6)).perform(Claim(ask())).call
    assert without.series == 6


def test_a_claim_that_may_not_begin_takes_nothing_over() -> None:
    absent = call(S.NOT_DONE, attempt(1, NONE))
    store = journal(absent)
    assert store.perform(Claim(ask(), begin=False)) == WouldRun(absent)
    assert store.books.rows == []


# --- what answers -------------------------------------------------------------------------


def test_within_a_step_what_was_not_done_stands_and_a_later_asker_tries_again() -> None:
    undone = made(S.NOT_DONE, attempt(1, NONE))
    assert isinstance(journal(undone).perform(Claim(scoped(second()))), Begun)
    of_now = replace(undone, series=2)
    assert journal(of_now).perform(Claim(scoped(second()))) == Stands(of_now, like=True)
    business = call(S.NOT_DONE, attempt(1, NONE), series=2)
    assert isinstance(journal(business).perform(Claim(ask(entry=second()))), Begun)
    assert journal(business).perform(Claim(ask(entry=second(), step="s"))) == Stands(business)
    assert isinstance(journal(replace(business, series=1)).perform(Claim(ask(entry=second(), step="s"))), Begun)


def test_who_waited_for_another_series_starts_its_own() -> None:
    undone = call(S.NOT_DONE, attempt(1, NONE))
    assert journal(undone).perform(Claim(ask(), joined="op_1")) == Stands(undone)
    assert isinstance(journal(undone).perform(Claim(ask(), joined="op_7")), Begun)
    assert isinstance(journal(replace(undone, claim="")).perform(Claim(ask())), Begun)


def test_who_waited_for_an_entry_that_is_fenced_out_by_now_makes_the_call_itself() -> None:
    undone = made(S.NOT_DONE, attempt(1, NONE))
    assert isinstance(journal(undone).perform(Claim(scoped(second()), joined=undone.claim)), Begun)
    of_now = replace(undone, series=2)
    assert journal(of_now).perform(Claim(scoped(second()), joined=undone.claim)) == Stands(of_now, like=True)


def test_what_is_at_work_or_in_doubt_says_whether_it_is_only_alike() -> None:
    flight = made(S.PROCESSING, attempt())
    assert journal(flight).perform(Claim(scoped(second()))) == Busy(flight, like=True)
    doubt = made(S.UNKNOWN, attempt(1, MAYBE))
    assert journal(doubt).perform(Claim(scoped(second()))) == Doubtful(doubt, like=True)
    assert journal(made()).perform(Claim(scoped(second()))) == Stands(made(), like=True)
    by_key = call(S.PROCESSING, attempt())
    assert journal(by_key).perform(Claim(ask())) == Busy(by_key, like=False)


def test_an_asker_whose_new_series_was_not_answered_finds_it_begun() -> None:
    store = journal(call(S.NOT_DONE, attempt(1, NONE)))
    first = store.perform(Claim(ask()))
    assert isinstance(first, Begun)
    assert store.perform(Claim(ask())) == first
    assert len(store.books.rows) == 1


def test_the_id_of_a_claim_recognises_only_its_own_call() -> None:
    lost = call(S.UNKNOWN, attempt(1, MAYBE), operation_id="op_2", claim="op_2", key="another")
    assert journal(lost).perform(Claim(ask())) == Begun(lost)
    taken = replace(lost, claim="op_5", key="key-1")
    assert journal(taken).perform(Claim(ask())) == Doubtful(taken)


def test_what_was_not_done_but_is_in_doubt_stands() -> None:
    odd = call(S.NOT_DONE, attempt(1, MAYBE))
    assert journal(odd).perform(Claim(ask())) == Stands(odd)


def test_an_asker_that_was_matched_asks_about_that_one() -> None:
    pinned = made(operation_id="op_9", key="9")
    store = journal(made(), pinned)
    assert store.perform(Claim(scoped(second()), pinned="op_9")) == Stands(pinned)
    assert store.perform(Claim(scoped(second()), pinned="op_gone")) == Stands(made(), like=True)


@pytest.mark.parametrize("effect", [Effect.IDEMPOTENT, Effect.READ])
def test_a_repeat_in_doubt_must_be_harmless_by_the_record_and_by_today(effect: Effect) -> None:
    for then, today, repeats in ((effect, effect, True), (effect, Effect.WRITE, False), (Effect.WRITE, effect, False)):
        doubt = call(S.UNKNOWN, attempt(1, MAYBE), terms={"effect": then})
        reply = journal(doubt).perform(Claim(ask(terms={"effect": today}), repeat=True))
        assert isinstance(reply, Begun) is repeats
    doubt = call(S.UNKNOWN, attempt(1, MAYBE), terms={"effect": effect})
    assert journal(doubt).perform(Claim(ask(terms={"effect": effect}))) == Doubtful(doubt)


@pytest.mark.parametrize(("seconds", "repeats"), [(49, True), (50, False)])
def test_a_deduplicated_call_is_repeated_while_it_is_remembered(seconds: float, repeats: bool) -> None:
    terms = {"effect": Effect.DEDUPLICATED, "remote_retention": 50.0}
    doubt = call(S.UNKNOWN, attempt(1, MAYBE), terms=terms)
    assert isinstance(journal(doubt, seconds=seconds).perform(Claim(ask(terms=terms), repeat=True)), Begun) is repeats


def test_an_equal_call_outside_whose_lease_is_over_is_in_doubt() -> None:
    flight = call(S.PROCESSING, attempt(), kind=KeyKind.RANDOM, key="another")
    reply = journal(flight, seconds=30).perform(Claim(ask(kind=KeyKind.RANDOM, key="mine")))
    assert isinstance(reply, Doubtful)
    assert (reply.call.state, reply.call.epoch, reply.like) == (S.UNKNOWN, 2, True)
    assert reply.call.attempts[0].over is None  # its owner may still be at it


# --- who may start nothing ----------------------------------------------------------------


def test_a_later_entry_of_the_run_fences_an_earlier_one_out() -> None:
    store = journal()
    for _ in range(2):
        store.perform(EnterRun("r", "t"))
    assert store.perform(Claim(scoped(run_id="r", run_entry=1))) == Superseded("r")
    assert isinstance(store.perform(Claim(scoped(run_id="r", run_entry=2))), Begun)
    assert store.perform(Claim(scoped(run_id="r", run_entry=2, tenant="x", operation_id="op_3"))) == Superseded("r")


def test_a_later_attempt_of_the_enclosing_call_fences_an_earlier_one_out() -> None:
    around = call(S.PROCESSING, attempt(1, NONE), attempt(2), operation_id="op_7", key="7", tool="outer")
    inner = {"scope": "call:op_7", "run_id": ""}
    assert journal(around).perform(Claim(scoped(Entry(no=1), **inner))) == Superseded("")
    assert isinstance(journal(around).perform(Claim(scoped(Entry(no=2), **inner))), Begun)
    assert isinstance(journal().perform(Claim(scoped(Entry(no=1), **inner))), Begun)
    assert isinstance(journal(around).perform(Claim(scoped(Entry(no=1), scope="op_7"))), Begun)
    assert isinstance(journal(around).perform(Claim(ask(scope="call:op_7", key="new"))), Begun)


# --- what the entry remembers -------------------------------------------------------------


def test_the_entry_remembers_who_waits_for_what_and_the_step() -> None:
    entry = second()
    store = journal(made())
    store.perform(Claim(scoped(entry, words="1:new", step="s1")))
    assert entry.waiting == {"op_2": ("op_1", True)}
    assert (entry.answered, entry.steps) == ({"op_1": "1:new"}, {"op_1": "s1"})
    assert store.books.by_step(RUN, "s1") == "op_1"
    other = Entry()
    store = journal()
    store.perform(Claim(scoped(other)))
    assert (other.waiting, store.books.steps) == ({"op_2": ("op_2", False)}, {})


def test_a_model_that_is_told_is_told_once_and_remembered() -> None:
    entry, done = second(), made(identity="1:x", words="1:x", fingerprint="1:x")
    store = journal(done)
    wish = scoped(entry, by_model=True, message="m1", step="s1")
    assert store.perform(Claim(wish)) == Untold((done,))
    assert (entry.told, entry.answered, entry.listed) == ({"op_1": S.SUCCEEDED}, {"op_1": ""}, {"op_1": "m1"})
    assert entry.refused == {"s1": (done,)}
    assert entry.waiting == {}
    assert store.perform(Claim(wish)) == Untold((done,))  # the same step again
    later = replace(wish, step="s2", message="m2", operation_id="op_3")
    assert isinstance(store.perform(Claim(later)), Begun)


def test_without_a_step_the_asker_itself_is_remembered_as_told() -> None:
    entry, done = second(), made(identity="1:x", words="1:x", fingerprint="1:x")
    entry.listed["op_1"] = "m0"
    journal(done).perform(Claim(scoped(entry, by_model=True, message="m1")))
    assert entry.refused == {"op_2": (done,)}
    assert entry.listed == {"op_1": "m0"}  # who was told first


def test_what_keeps_refusing_tells_nobody() -> None:
    entry, done = second(), made(identity="1:x", words="1:x", fingerprint="1:x")
    store = journal(done)
    for _ in range(2):
        assert store.perform(Claim(scoped(entry, by_model=True, untold="block"))) == Untold((done,), once=False)
    assert entry == second()


def test_a_message_is_matched_without_a_record() -> None:
    entry = second()
    store = journal(made())
    assert store.perform(Reserve([scoped(entry, message="m", sibling="m\x1f0")])) is None
    assert entry.reserved == {"op_1": "m\x1f0"}
    assert store.books.rows == []


def test_what_is_made_in_another_calls_place_is_noted_with_its_claim() -> None:
    store = journal()
    assert isinstance(store.perform(Claim(ask(instead=("op_9", 3)))), Begun)
    assert store.books.steps == {("instead:op_9", "3"): "op_2"}
    untouched = journal(call(S.SUCCEEDED, fingerprint="1:x"))
    untouched.perform(Claim(ask(instead=("op_9", 3))))  # a conflict: nothing is made
    assert untouched.books.steps == {}
