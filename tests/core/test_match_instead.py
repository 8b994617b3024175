"""What was done in the place of a call that is proved to have done nothing: whom it answers, and what it bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from settled.core.ask import Barred, Suspect, Untold
from settled.core.instead.by_hand import NO_END
from settled.core.instead.fallback import INSTEAD
from settled.core.matching.entry import Entry
from settled.core.matching.match import Match, find
from settled.core.model import Effect, KeyKind, Leave, Standing
from settled.core.states import State
from tests.core.build import ME, OTHER, ask, at, attempt, call, journal

if TYPE_CHECKING:
    from settled.core.ask import Ask
    from settled.core.call import Call
    from settled.core.matching.match import Found

S = State
RUN = "run:0::r"
OTHER_CALL = {"identity": "1:other", "words": "1:other", "fingerprint": "1:other"}
BY_HAND = Leave("all else failed", NO_END, by_hand="take cash")
BY_LEAVE = Leave("more than 500", 1_000_500.0)
DONE_LATE = {"decided": "probe"}
OPEN = [S.SUCCEEDED, S.UNKNOWN, S.PROCESSING, S.PARTIAL, S.AWAITING_APPROVAL]
DID_NOTHING = [S.FAILED, S.NOT_DONE, S.PARKED]


def failed(operation_id: str = "op_1", state: State = S.FAILED, **changes: Any) -> Call:
    """A call of the run's first entry that did nothing, for good."""
    of_run = {"kind": KeyKind.SCOPED, "scope": RUN, "entry": 1, "series": 1}
    named = {"operation_id": operation_id, "key": f"key of {operation_id}", "claim": operation_id}
    return call(state, **(of_run | named | changes))


def instead(state: State = S.SUCCEEDED, operation_id: str = "op_i", **changes: Any) -> Call:
    """What was done in its place, by another tool."""
    like_none = {"kind": KeyKind.BUSINESS, "tool": "mail", "identity": INSTEAD, "words": "1:m", "fingerprint": "1:m"}
    return failed(operation_id, state, **({"lease": at(99)} | like_none | changes))


def asked(entry: Entry | None = None, **changes: Any) -> Ask:
    """An ask in the run's second entry, of a tool that falls back on ``mail`` and on a person."""
    in_run = {"kind": KeyKind.SCOPED, "scope": RUN, "key": "", "entry": entry or Entry(2, (1,))}
    return ask(**(in_run | {"falls_to": ("mail", "pay")} | changes))


def by_model(entry: Entry | None = None, **changes: Any) -> Ask:
    return asked(entry, by_model=True, **changes)


def outside(**changes: Any) -> Ask:
    """An ask outside of any run."""
    return ask(**({"kind": KeyKind.RANDOM, "key": "fresh", "falls_to": ("mail", "pay")} | changes))


def found(
    wish: Ask, *calls: Call, steps: dict[str, list[str]] | None = None, owed: str = "", seconds: float = 2.0
) -> Found | None:
    """What answers the ask; ``steps``: by operation id, what was done in its place, one after the other."""
    store = journal(*calls)
    for operation_id, places in (steps or {}).items():
        for no, step in enumerate(places):
            store.books.put_step(f"instead:{operation_id}", str(no), step)
    if owed:
        store.books.put_owed(store.books.calls[owed])
    return find(store.books, wish, None, at(seconds))


def like(call: Call) -> Match:
    return Match(call, like=True)


# --- in a run -----------------------------------------------------------------------------


@pytest.mark.parametrize("state", OPEN)
def test_of_like_calls_the_one_that_something_stands_for_answers_as_if_it_had_been_done(state: State) -> None:
    first, second = failed("op_1", n=1), failed("op_2", n=2)
    steps = {"op_2": ["op_i"]}
    assert found(asked(), first, second, instead(state), steps=steps) == like(second)
    assert found(asked(falls_to=()), first, second, instead(state), steps=steps) == like(first)
    undone = failed("op_2", S.NOT_DONE, n=2)
    assert found(asked(), first, undone, instead(state), steps=steps) == like(first)


@pytest.mark.parametrize("state", [*DID_NOTHING, S.REFUSED])
def test_what_did_nothing_in_a_calls_place_puts_it_before_no_other(state: State) -> None:
    first, second = failed("op_1", n=1), failed("op_2", n=2)
    assert found(asked(), first, second, instead(state), steps={"op_2": ["op_i"]}) == like(first)
    assert found(asked(), first, second, steps={"op_2": ["op_gone"]}) == like(first)


@pytest.mark.parametrize("state", DID_NOTHING)
def test_before_something_is_done_in_a_calls_place_a_model_hears_what_it_did(state: State) -> None:
    done = failed("op_2", S.SUCCEEDED, **OTHER_CALL)
    for steps in ({}, {"op_1": ["op_i"]}):
        assert found(by_model(), failed(), done, instead(state), steps=steps) == Untold((done,))
    assert found(asked(), failed(), done, instead(state), steps={"op_1": ["op_i"]}) == like(failed())
    assert found(by_model(falls_to=()), failed(), done) == like(failed())  # it is told of a failure, and no more


@pytest.mark.parametrize("state", [*OPEN, S.REFUSED])
def test_what_stands_or_is_open_in_a_calls_place_is_told_for_it_and_begins_nothing(state: State) -> None:
    done = failed("op_2", S.SUCCEEDED, **OTHER_CALL)
    assert found(by_model(), failed(), done, instead(state), steps={"op_1": ["op_i"]}) == like(failed())


@pytest.mark.parametrize("state", [S.SUCCEEDED, S.UNKNOWN, S.PROCESSING, S.PARTIAL])
def test_a_model_that_asks_for_something_else_is_told_what_was_done_in_place_of_calls_of_the_tool(state: State) -> None:
    step, seen = instead(state), {**OTHER_CALL, "alive": frozenset({"op_i"})}
    assert found(by_model(**seen), step) == Untold((step,))
    assert found(asked(**OTHER_CALL), step) is None
    assert found(by_model(**seen, falls_to=()), step) is None
    assert found(by_model(**seen, despite=frozenset({"op_i"})), step) is None
    for change in ({"lane": "aside"}, {"scope": "run:0::x"}, {"entry": 2}, {"identity": "1:m"}, {"tool": "sms"}):
        other = instead(state, **change)
        assert found(by_model(**seen, identity_declared=True), other) is None
    assert found(by_model(Entry(2, (1,), answered={"op_i": "1:m"}), **seen, while_unknown="allow"), step) is None


def test_a_model_in_its_first_entry_is_told_of_nothing_that_was_done_instead() -> None:
    assert found(by_model(Entry(1), **OTHER_CALL, while_unknown="allow"), instead(S.UNKNOWN)) is None


@pytest.mark.parametrize("state", [*DID_NOTHING, S.REFUSED])
def test_it_is_not_told_of_what_did_nothing_in_a_calls_place(state: State) -> None:
    assert found(by_model(**OTHER_CALL), instead(state)) is None


def test_a_model_is_told_what_was_left_to_a_person_and_not_what_merely_waits_for_leave() -> None:
    left = instead(S.AWAITING_APPROVAL, tool="pay", leave=BY_HAND)
    assert found(by_model(**OTHER_CALL), left) == Untold((left,))
    assert found(by_model(**OTHER_CALL), instead(S.AWAITING_APPROVAL, leave=BY_LEAVE)) is None
    assert found(by_model(**OTHER_CALL), instead(S.REFUSED, tool="pay", leave=BY_HAND)) is None
    done = instead(S.SUCCEEDED, tool="pay", leave=BY_HAND)  # as of the tool itself, once
    assert found(by_model(**OTHER_CALL), done) == Untold((done,))


def test_a_doubt_about_what_was_done_instead_bars_as_one_of_the_tools_own() -> None:
    doubt, told = instead(S.UNKNOWN), Entry(2, (1,), answered={"op_i": "1:m"})
    assert found(asked(while_unknown="any", **OTHER_CALL), doubt) == Barred((doubt,))
    assert found(by_model(told, **OTHER_CALL), doubt) == Barred((doubt,))
    assert found(asked(**OTHER_CALL), doubt) is None
    assert found(asked(while_unknown="any", falls_to=(), **OTHER_CALL), doubt) is None
    own = instead(S.UNKNOWN, identity="1:m", kind=KeyKind.SCOPED)
    assert found(asked(while_unknown="any", **OTHER_CALL), own) is None  # the other tool's own affair
    by_hand = instead(S.UNKNOWN, tool="pay", leave=BY_HAND)
    assert found(asked(while_unknown="any", **OTHER_CALL), by_hand) == Barred((by_hand,))  # and not twice


@pytest.mark.parametrize("effect", [Effect.READ, Effect.IDEMPOTENT])
def test_what_may_be_done_twice_finds_its_like_call_at_work_where_something_may_be_done_instead(effect: Effect) -> None:
    entry = Entry(no=1, open={"op_1": None}, told={"op_1": S.PROCESSING}, answered={"op_1": "1:i"})
    flight = failed("op_1", S.PROCESSING)
    assert found(asked(entry, terms={"effect": effect}), flight) == like(flight)
    assert found(asked(entry, terms={"effect": effect}, falls_to=(), leave=BY_LEAVE), flight) == like(flight)
    assert found(asked(entry, terms={"effect": effect}, falls_to=()), flight) is None


# --- outside of runs ----------------------------------------------------------------------


def given_up(operation_id: str = "op_1", **changes: Any) -> Call:
    """A call outside of runs that gave way to something else."""
    return failed(operation_id, **({"kind": KeyKind.RANDOM, "scope": ""} | changes))


GAVE_WAY: dict[str, Any] = {"steps": {"op_1": ["op_i"]}, "owed": "op_1"}


@pytest.mark.parametrize(
    ("step", "answers"),
    [
        (instead(S.UNKNOWN), True),
        (instead(S.AWAITING_APPROVAL, leave=BY_HAND), True),
        (instead(S.REFUSED), True),
        (instead(S.SUCCEEDED, **DONE_LATE), True),
        (instead(S.PARTIAL, **DONE_LATE), True),
        (instead(S.SUCCEEDED, decided="answer"), False),  # its asker was there, and has it
        (instead(S.FAILED), False),
        (instead(S.NOT_DONE), False),
        (instead(S.PROCESSING, lease=at(1)), True),
    ],
    ids=lambda value: f"{value.state}-{value.decided}" if hasattr(value, "state") else str(value),
)
def test_a_call_that_gave_way_answers_a_like_one_while_what_was_done_instead_is_open_or_told_to_nobody(
    step: Call, answers: bool
) -> None:
    assert found(outside(), given_up(), step, **GAVE_WAY) == (like(given_up()) if answers else None)


def test_it_answers_only_like_asks_of_a_tool_that_falls_back_and_not_despite() -> None:
    doubt = instead(S.UNKNOWN)
    for change in ({"fingerprint": "1:x"}, {"tenant": "acme"}, {"falls_to": ()}, {"despite": frozenset({"op_1"})}):
        assert found(outside(**change), given_up(), doubt, **GAVE_WAY) is None
    assert found(outside(), given_up(), doubt, owed="op_1") is None  # nothing was done in its place
    assert found(outside(), given_up(state=S.NOT_DONE), doubt, **GAVE_WAY) is None
    assert found(outside(), given_up(), doubt, steps=GAVE_WAY["steps"]) is None  # nobody is owed it
    assert found(outside(while_unknown="allow"), given_up(), doubt, **GAVE_WAY) == like(given_up())


def test_what_another_process_does_instead_is_suspect_until_its_owner_is_seen() -> None:
    at_work = instead(S.PROCESSING, owner=ME)
    assert found(outside(), given_up(), at_work, **GAVE_WAY) == Suspect((at_work,))
    assert found(outside(alive=frozenset({"op_i"})), given_up(), at_work, **GAVE_WAY) is None
    mine = instead(S.PROCESSING, owner=OTHER)
    assert found(outside(here=frozenset({"op_i"})), given_up(), mine, **GAVE_WAY) is None  # its asker waits here
    assert found(outside(), given_up(), mine, **GAVE_WAY) == like(given_up())  # nobody waits for it any more


def test_what_is_open_instead_is_found_behind_others() -> None:
    store = journal(
        given_up("op_0", state=S.SUCCEEDED),
        given_up("op_a"),
        given_up("op_1"),
        given_up("op_2"),
        instead(S.PROCESSING, "op_w", owner=ME),
        instead(S.UNKNOWN, "op_j"),
    )
    for operation_id in ("op_0", "op_a", "op_1", "op_2"):
        store.books.put_owed(store.books.calls[operation_id])
    for operation_id, step in (("op_0", "op_j"), ("op_1", "op_w"), ("op_2", "op_j")):
        store.books.put_step(f"instead:{operation_id}", "0", step)
    assert find(store.books, outside(), None, at(2)) == like(given_up("op_2"))


@pytest.mark.parametrize("effect", [Effect.READ, Effect.IDEMPOTENT])
def test_what_may_be_done_twice_answers_outside_of_runs_only_where_a_person_was_asked(effect: Effect) -> None:
    waits = given_up(state=S.AWAITING_APPROVAL, leave=BY_LEAVE)
    wish = {"terms": {"effect": effect}, "falls_to": ()}
    assert found(outside(**wish, leave=BY_LEAVE), waits, owed="op_1") == like(waits)
    assert found(outside(**wish, leave=BY_LEAVE), waits) is None
    assert found(outside(**wish), waits, owed="op_1") is None
    assert found(outside(falls_to=(), while_unknown="allow", leave=BY_LEAVE), waits, owed="op_1") == like(waits)


def test_a_doubt_whose_attempt_was_answered_late_is_told_to_the_next_like_ask() -> None:
    once_in_doubt = instead(S.SUCCEEDED, "op_i", attempts=(attempt(1, Standing.MAYBE), attempt(2, Standing.DONE)))
    assert found(outside(), given_up(), once_in_doubt, **GAVE_WAY) == like(given_up())
