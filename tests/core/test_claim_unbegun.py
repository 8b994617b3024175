"""What a claim does short of an attempt: it asks for leave, gives a call up, keeps it for a draft, or is held up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from settled.core.approval.drafts import DRAFTING
from settled.core.ask import Ask, Begun, BudgetSpent, Paused, Stands, Unsettled, WouldRun
from settled.core.attempts.budget import RetryBudget
from settled.core.attempts.charge import Charge
from settled.core.instead.fallback import FELL_BACK
from settled.core.matching.claim import Claim
from settled.core.matching.entry import Entry
from settled.core.model import Effect, KeyKind, Leave, Standing
from settled.core.noted.pausing import Pause
from settled.core.runs.entering import EnterRun
from settled.core.states import Event, State
from settled.core.values import replace
from tests.core.build import BUSY, ask, at, attempt, call, journal

if TYPE_CHECKING:
    from settled.core.call import Call
    from settled.journals.memory import MemoryJournal

S = State
NONE, MAYBE = Standing.NONE, Standing.MAYBE
RUN = "run:0::r"
NOW = at(2)
"""When the journal is asked, unless it says otherwise."""
LEAVE = Leave("more than 500", 0.0, version="v1", persons=2, within=100.0)
FRESH = replace(LEAVE, until=NOW.wall + 100.0)
"""The leave as it is asked for then."""
WAITING = replace(FRESH, until=at(5).wall, by=("ann",))
GIVEN = replace(WAITING, by=("ann", "bob"), given=True)
BY_HAND = Leave("all else failed", 0.0, by_hand="take cash")
ASKING = {"leave": LEAVE, "terms": {"version": "v1"}}


def in_run(**changes: Any) -> Ask:
    """An ask in the second entry of a run."""
    of_run = {"kind": KeyKind.SCOPED, "scope": RUN, "key": "", "entry": Entry(2, (1,)), "run_id": "r", "run_entry": 2}
    return ask(**(of_run | changes))


def of_run(state: State, *attempts: Any, **changes: Any) -> Call:
    """A call of its first entry."""
    return call(state, *attempts, **({"kind": KeyKind.SCOPED, "scope": RUN, "entry": 1, "series": 1} | changes))


def entered(*calls: Call) -> MemoryJournal:
    store = journal(*calls)
    for _ in range(2):
        store.perform(EnterRun("r", ""))
    return store


def alerts(store: MemoryJournal) -> list[tuple[str, str]]:
    return [(each.kind, each.operation_id) for each in store.books.outbox.values()]


def owed(store: MemoryJournal) -> list[str]:
    return list(store.books.owed("", "pay", "1:i"))


# --- leave is asked for -------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "is_owed"), [(KeyKind.RANDOM, ["op_2"]), (KeyKind.BUSINESS, [])])
def test_a_call_that_needs_leave_waits_on_record_and_people_are_told_in_that_commit(
    kind: KeyKind, is_owed: list[str]
) -> None:
    store = journal()
    wish = ask(kind=kind, **ASKING)
    reply = store.perform(Claim(wish))
    assert isinstance(reply, Stands)
    assert (reply.call.state, reply.call.leave, reply.call.reason) == (S.AWAITING_APPROVAL, FRESH, "more than 500")
    assert reply.call.attempts == ()
    [row] = store.log("op_2")
    assert (row.event, row.detail) == (Event.ASK_LEAVE, "more than 500")
    assert (alerts(store), owed(store)) == ([("approval", "op_2")], is_owed)
    assert store.perform(Claim(wish)) == reply  # the answer was lost: it is asked for once
    assert len(store.log("op_2")) == 1


@pytest.mark.parametrize(
    ("leave", "anew"),
    [
        (WAITING, False),
        (replace(WAITING, until=NOW.wall), True),
        (replace(WAITING, version="v0"), True),
        (replace(WAITING, until=NOW.wall, by_hand="take cash"), False),
    ],
    ids=["in time", "too late", "for another version", "a person does it"],
)
@pytest.mark.parametrize("alike", [True, False])
def test_what_waits_for_leave_answers_and_is_asked_for_anew_once_nobody_decided_in_time(
    leave: Leave, *, anew: bool, alike: bool
) -> None:
    kept = (of_run if alike else call)(S.AWAITING_APPROVAL, leave=leave)
    store = entered(kept)
    reply = store.perform(Claim((in_run if alike else ask)(**ASKING)))
    assert isinstance(reply, Stands)
    assert (reply.call.state, reply.like) == (S.AWAITING_APPROVAL, alike)
    assert reply.call.leave == (FRESH if anew else leave)
    assert [(row.event, row.detail) for row in store.books.rows] == (
        [(Event.NOTE, "asked for leave anew")] if anew else []
    )
    assert alerts(store) == ([("approval", "op_1")] if anew else [])


def test_leave_that_was_given_is_used_in_the_commit_of_the_first_intent() -> None:
    given = call(S.NOT_DONE, leave=GIVEN)
    store = journal(given)
    store.books.put_owed(given)
    reply = store.perform(Claim(ask(**ASKING)))
    assert isinstance(reply, Begun)
    assert (reply.call.leave, len(reply.call.attempts)) == (replace(GIVEN, used=True), 1)
    assert owed(store) == []  # from now on it is the asker's


def test_leave_that_was_given_counts_within_the_step_and_for_who_waited_for_it() -> None:
    of_now = of_run(S.NOT_DONE, series=2, leave=GIVEN)
    assert isinstance(entered(of_now).perform(Claim(in_run(**ASKING))), Begun)
    assert isinstance(journal(call(S.NOT_DONE, leave=GIVEN)).perform(Claim(ask(**ASKING), joined="op_1")), Begun)
    stale = replace(of_now, leave=replace(GIVEN, used=True))
    assert entered(stale).perform(Claim(in_run(**ASKING))) == Stands(stale, like=True)


@pytest.mark.parametrize(
    "leave",
    [
        None,
        WAITING,
        replace(GIVEN, used=True),
        replace(GIVEN, until=NOW.wall),
        replace(GIVEN, version="v0"),
    ],
    ids=["never asked for", "not given", "used", "too old", "for another version"],
)
@pytest.mark.parametrize("alike", [True, False])
def test_without_leave_that_counts_a_further_series_asks_for_it(leave: Leave | None, *, alike: bool) -> None:
    undone = (of_run if alike else call)(S.NOT_DONE, attempt(1, NONE), leave=leave, fault=BUSY)
    store = entered(undone)
    reply = store.perform(Claim((in_run if alike else ask)(**ASKING)))
    assert isinstance(reply, Stands)
    assert (reply.call.state, reply.call.leave, reply.like) == (S.AWAITING_APPROVAL, FRESH, alike)
    assert (reply.call.fault, reply.call.reason, len(reply.call.attempts)) == (None, "more than 500", 1)
    assert alerts(store) == [("approval", "op_1")]
    assert store.log("op_1")[-1].event == Event.ASK_LEAVE


def test_what_a_person_is_to_do_is_on_record_and_never_expires() -> None:
    store = journal()
    reply = store.perform(Claim(ask(leave=BY_HAND)))
    assert isinstance(reply, Stands)
    assert (reply.call.state, reply.call.reason) == (S.AWAITING_APPROVAL, "by_hand")
    assert reply.call.leave is not None
    assert (reply.call.leave.until > at(1e9).wall, reply.call.leave.by_hand) == (True, "take cash")
    assert [(row.event, row.detail) for row in store.log("op_2")] == [(Event.ASK_LEAVE, "all else failed; take cash")]
    assert alerts(store) == [("by_hand", "op_2")]


# --- a call is given up, or kept for its draft ---------------------------------------------


@pytest.mark.parametrize(
    ("state", "events"),
    [(S.NOT_DONE, [Event.FAIL]), (S.PARKED, [Event.ABSENT, Event.FAIL])],
    ids=["not done", "parked"],
)
@pytest.mark.parametrize("alike", [True, False])
def test_a_call_that_was_not_done_is_given_up_for_good_before_anything_is_done_in_its_place(
    state: State, events: list[Event], *, alike: bool
) -> None:
    undone = (of_run if alike else call)(state, attempt(1, NONE))
    store = entered(undone)
    reply = store.perform(Claim((in_run if alike else ask)(), begin=False, forgo=True))
    assert isinstance(reply, Stands)
    assert (reply.call.state, reply.call.reason, reply.call.epoch, reply.like) == (S.FAILED, FELL_BACK, 2, alike)
    assert [row.event for row in store.log("op_1")] == events
    assert reply.call == store.get("op_1")


def test_what_may_have_happened_is_not_given_up() -> None:
    odd = call(S.NOT_DONE, attempt(1, MAYBE))
    assert journal(odd).perform(Claim(ask(), begin=False, forgo=True)) == Stands(odd)
    alike = of_run(S.NOT_DONE, attempt(1, MAYBE))
    assert entered(alike).perform(Claim(in_run(), begin=False, forgo=True)) == Stands(alike, like=True)
    begun = journal(call(S.NOT_DONE, attempt(1, NONE))).perform(Claim(ask(), forgo=True))
    assert isinstance(begun, Begun)  # an attempt may be made after all
    assert isinstance(journal().perform(Claim(ask(key="new"), forgo=True)), Begun)


@pytest.mark.parametrize(("kind", "is_owed"), [(KeyKind.RANDOM, ["op_2"]), (KeyKind.BUSINESS, [])])
def test_what_was_given_up_without_an_attempt_is_owed_where_no_key_finds_it(kind: KeyKind, is_owed: list[str]) -> None:
    store = journal()
    reply = store.perform(Claim(ask(kind=kind), begin=False, forgo=True))
    assert (reply.call.state, owed(store)) == (S.FAILED, is_owed)


@pytest.mark.parametrize(("kind", "is_owed"), [(KeyKind.RANDOM, ["op_2"]), (KeyKind.BUSINESS, [])])
def test_a_call_is_on_record_before_its_draft_is_made(kind: KeyKind, is_owed: list[str]) -> None:
    store = journal()
    reply = store.perform(Claim(ask(kind=kind), begin=False, drafting=True))
    assert isinstance(reply, Stands)
    assert (reply.call.state, reply.call.reason, reply.call.attempts) == (S.NOT_DONE, DRAFTING, ())
    assert (reply.call.created, reply.call.n, reply.call.changed) == (NOW, 1, NOW)
    assert [(row.event, row.detail, row.at) for row in store.log("op_2")] == [(Event.ABSENT, DRAFTING, NOW.wall)]
    assert (store.get("op_2"), owed(store)) == (reply.call, is_owed)


def test_for_a_draft_a_call_that_was_not_done_stands_as_it_is() -> None:
    undone, alike = call(S.NOT_DONE, attempt(1, NONE)), of_run(S.NOT_DONE, attempt(1, NONE))
    assert journal(undone).perform(Claim(ask(), begin=False, drafting=True)) == Stands(undone)
    assert entered(alike).perform(Claim(in_run(), begin=False, drafting=True)) == Stands(alike, like=True)
    assert journal(undone).perform(Claim(ask(), begin=False)) == WouldRun(undone)


@pytest.mark.parametrize(
    ("changes", "is_owed"),
    [({}, ["op_1"]), ({"terms": {"drafted": True}}, []), ({"leave": GIVEN}, [])],
    ids=["in doubt before", "with a draft", "with leave"],
)
def test_once_begun_a_call_owes_its_asker_no_word_of_leave_or_draft(changes: Any, is_owed: list[str]) -> None:
    undone = call(S.NOT_DONE, kind=KeyKind.BUSINESS, **changes)
    store = journal(undone)
    store.books.put_owed(undone)
    assert isinstance(store.perform(Claim(ask(terms={"version": "v1"}))), Begun)
    assert owed(store) == is_owed


# --- what holds it up ---------------------------------------------------------------------


def test_of_a_paused_tool_no_call_is_begun_anew_and_none_is_drafted() -> None:
    undone = call(S.NOT_DONE, attempt(1, NONE))
    store = journal(undone)
    store.perform(Pause("pay", "eva", "odd answers", resume=False, nonce="n1"))
    for claim in (Claim(ask()), Claim(ask(), begin=False), Claim(ask(), begin=False, drafting=True)):
        assert store.perform(claim) == Paused("eva", "odd answers")
        assert store.perform(replace(claim, ask=ask(key="new"))) == Paused("eva", "odd answers")
    assert store.books.rows == []
    assert store.perform(Claim(ask(), begin=False, forgo=True)).call.state is S.FAILED


IRREVERSIBLE = {"terms": {"irreversible": True}}
DOUBTS = {"operation_id": "op_d", "key": "d", "tool": "book"}


@pytest.mark.parametrize(
    ("wish", "doubt", "held_up"),
    [
        (IRREVERSIBLE, {}, True),
        (IRREVERSIBLE, {"state": S.PROCESSING}, True),
        (IRREVERSIBLE, {"state": S.FAILED}, False),
        (IRREVERSIBLE, {"terms": {"effect": Effect.READ}}, False),
        (IRREVERSIBLE, {"scope": "run:0::other"}, False),
        ({}, {}, False),
        (IRREVERSIBLE | {"around": frozenset({"op_d"})}, {}, False),
        (IRREVERSIBLE | {"despite": frozenset({"op_d"})}, {}, False),
    ],
    ids=["in doubt", "at work", "settled", "a read", "of another run", "may be undone", "made inside", "despite"],
)
@pytest.mark.parametrize("known", [True, False], ids=["again", "new"])
def test_what_cannot_be_undone_begins_only_once_all_that_it_may_rest_on_is_settled(
    wish: dict[str, Any], doubt: dict[str, Any], *, held_up: bool, known: bool
) -> None:
    state = doubt.get("state", S.UNKNOWN)
    more = {name: value for name, value in doubt.items() if name != "state"}
    earlier = of_run(state, attempt(1, MAYBE), **({"lease": at(99)} | DOUBTS | more))
    undone = of_run(S.NOT_DONE, attempt(1, NONE), operation_id="op_1")
    reply = entered(earlier, *[undone] * known).perform(Claim(in_run(**wish)))
    assert reply == Unsettled((earlier,)) if held_up else isinstance(reply, Begun)


def test_its_own_doubt_does_not_hold_a_call_up_that_may_be_repeated() -> None:
    terms = {"irreversible": True, "effect": Effect.IDEMPOTENT}
    own = of_run(S.UNKNOWN, attempt(1, MAYBE), terms=terms, kind=KeyKind.BUSINESS)
    wish = in_run(terms=terms, kind=KeyKind.BUSINESS, key="key-1")
    assert isinstance(entered(own).perform(Claim(wish, repeat=True)), Begun)
    other = of_run(S.UNKNOWN, attempt(1, MAYBE), **DOUBTS)
    assert entered(own, other).perform(Claim(wish, repeat=True)) == Unsettled((other,))


def test_a_person_too_is_asked_to_do_what_cannot_be_undone_only_once_all_is_settled() -> None:
    doubt = of_run(S.UNKNOWN, attempt(1, MAYBE), **DOUBTS)
    store = entered(doubt)
    assert store.perform(Claim(in_run(leave=BY_HAND, **IRREVERSIBLE))) == Unsettled((doubt,))
    assert (store.get("op_2"), alerts(store)) == (None, [])


def test_a_further_series_costs_its_run_a_repeat_in_the_commit_of_the_claim() -> None:
    for total, spent in ((1, {"pay": 1}), (0, {})):
        undone = of_run(S.NOT_DONE, attempt(1, NONE))
        store = entered(undone)
        reply = store.perform(Claim(in_run(), charge=Charge("r", RetryBudget(total=total, floor=0))))
        assert isinstance(reply, Begun) if total else reply == BudgetSpent("retry_budget:run")
        assert store.run("", "r").spent == spent  # type: ignore[union-attr]  # it was entered
        assert (store.get("op_1") == undone) is not bool(total)


# --- whose it is --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wish", "begun_in"),
    [
        ({"scope": RUN, "run_id": "r", "run_entry": 2}, {RUN: ["op_1"], "run:0::other": []}),
        ({"scope": "run:0::other", "run_id": "other", "run_entry": 1}, {RUN: [], "run:0::other": ["op_1"]}),
        ({}, {RUN: ["op_1"], "": []}),
    ],
    ids=["the same run", "another run", "no run"],
)
def test_what_is_begun_anew_in_another_run_is_that_runs_to_undo(
    wish: dict[str, Any], begun_in: dict[str, list[str]]
) -> None:
    store = entered(of_run(S.NOT_DONE, attempt(1, NONE), kind=KeyKind.BUSINESS))
    store.perform(EnterRun("other", ""))
    assert isinstance(store.perform(Claim(ask(**wish))), Begun)
    for scope, calls in begun_in.items():
        assert [step.call.operation_id for step in store.books.begun_in(scope)] == calls
    assert (store.books.moved == {}) is (wish.get("run_id") != "other")


def test_who_waited_for_a_series_under_a_key_shares_its_answer_in_an_entry_too() -> None:
    undone = call(S.NOT_DONE, attempt(1, NONE), series=1)
    assert journal(undone).perform(Claim(ask(entry=Entry(2, (1,))), joined="op_1")) == Stands(undone)


@pytest.mark.parametrize("rewound", [0, 2])
def test_only_a_declared_key_is_sent_under_another_name_once_its_run_was_rewound(rewound: int) -> None:
    store = entered()
    store.books.put_run(replace(store.run("", "r"), rewound=rewound))  # type: ignore[type-var]  # it was entered
    in_it, outside = {"scope": RUN, "run_id": "r", "run_entry": 2}, {}
    for no, (kind, wish, sent) in enumerate(
        [(KeyKind.BUSINESS, in_it, True), (KeyKind.SCOPED, in_it, False), (KeyKind.BUSINESS, outside, False)]
    ):
        own = {"operation_id": f"op {no}", "key": f"k{no}", "identity": f"1:{no}", "fingerprint": f"1:{no}"}
        reply = store.perform(Claim(ask(kind=kind, **own, **wish)))
        assert reply.call.sent_key == (f"k{no}~2" if sent and rewound else "")
