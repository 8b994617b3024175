"""What one entry of a run remembers: who waits for what, what was told, what is still open."""

from __future__ import annotations

from typing import Any

import pytest

from settled.core.matching.entry import Entry
from settled.core.runs.entering import EnterRun, scope_of_run
from settled.core.states import State
from tests.core.build import ask, call, journal
from tests.core.raised import raised

S = State


def taken(**changes: Any) -> Entry:
    entry = Entry()
    wish: dict[str, Any] = {"words": "1:i", "asker": "asker-1", "like": True, "step": "s1"} | changes
    entry.take(call(), wish.pop("words"), wish.pop("asker"), **wish)
    return entry


def test_who_takes_a_call_waits_for_it() -> None:
    entry = taken()
    assert entry.waiting == {"asker-1": ("op_1", True)}
    assert (entry.answered, entry.steps, list(entry.open), entry.told) == (
        {"op_1": "1:i"},
        {"op_1": "s1"},
        ["op_1"],
        {},
    )
    assert [entry.awaited(op) for op in ("op_1", "op_2")] == [True, False]


def test_to_take_it_twice_changes_nothing() -> None:
    entry = taken()
    entry.take(call(), "1:i", "asker-1", like=True, step="s1")
    assert entry == taken()


def test_a_call_stands_for_the_first_step_that_it_answered() -> None:
    entry = taken()
    entry.take(call(), "1:i", "asker-2", like=False, step="s2")
    assert entry.steps == {"op_1": "s1"}
    assert entry.waiting["asker-2"] == ("op_1", False)


def test_once_answered_in_its_own_words_a_call_is_used_up() -> None:
    entry = taken(words="1:new")
    assert entry.free(call(), "1:i")
    assert not entry.free(call(), "1:new")
    entry.take(call(), "1:i", "asker-2", like=True, step="")
    assert not entry.free(call(), "1:i")
    entry.take(call(), "1:new", "asker-3", like=True, step="")
    assert entry.answered == {"op_1": "1:i"}
    assert Entry().free(call(), "1:other")


@pytest.mark.parametrize("state", [S.SUCCEEDED, S.FAILED, S.REFUSED, S.EXPIRED, S.COMPENSATED, S.NOT_DONE])
def test_who_was_given_an_outcome_leaves_nothing_open(state: State) -> None:
    entry = taken()
    entry.leave("asker-1", state, heard=True)
    assert (entry.waiting, entry.open, entry.told) == ({}, {}, {"op_1": state})


@pytest.mark.parametrize("state", [S.UNKNOWN, S.PROCESSING, S.PARKED, S.AWAITING_APPROVAL, S.COMPENSATING, S.PARTIAL])
def test_who_was_given_no_outcome_leaves_it_open(state: State) -> None:
    entry = taken()
    entry.leave("asker-1", state, heard=True)
    assert (entry.waiting, list(entry.open), entry.told) == ({}, ["op_1"], {"op_1": state})


def test_who_was_cancelled_was_told_nothing() -> None:
    entry = taken()
    entry.leave("asker-1", None, heard=False)
    assert (entry.waiting, list(entry.open), entry.told) == ({}, ["op_1"], {})


def test_a_call_stays_open_while_another_asker_waits_for_it() -> None:
    entry = taken()
    entry.take(call(), "1:i", "asker-2", like=True, step="s1")
    entry.leave("asker-1", S.SUCCEEDED, heard=True)
    assert list(entry.open) == ["op_1"]
    entry.leave("asker-2", None, heard=False)
    assert not entry.open


def test_who_was_told_meanwhile_leaves_all_the_same() -> None:
    entry = taken()
    entry.tell(call(S.SUCCEEDED))
    entry.leave("asker-1", S.SUCCEEDED, heard=True)
    assert (entry.open, entry.waiting, entry.told) == ({}, {}, {"op_1": S.SUCCEEDED})


def test_who_never_waited_leaves_no_trace() -> None:
    entry = taken()
    entry.leave("stranger", S.SUCCEEDED, heard=True)
    assert entry == taken()


@pytest.mark.parametrize(("state", "is_open"), [(S.SUCCEEDED, False), (S.NOT_DONE, False), (S.UNKNOWN, True)])
def test_what_is_told_unasked_counts_as_answered(state: State, is_open: bool) -> None:
    entry = Entry()
    entry.open["op_1"] = None
    entry.tell(call(state))
    assert (entry.answered, entry.told, "op_1" in entry.open) == ({"op_1": "1:i"}, {"op_1": state}, is_open)
    never_open = Entry()
    never_open.tell(call(state))
    assert ("op_1" in never_open.open) is is_open
    assert not entry.untold(call(state))
    assert entry.untold(call(S.FAILED))


def test_only_siblings_of_the_message_that_was_told_had_not_read_it() -> None:
    entry = Entry(listed={"op_1": "m1", "op_2": ""})
    assert entry.unread(call(), "m1")
    assert not entry.unread(call(), "m2")
    assert not entry.unread(call(operation_id="op_2"), "")


def refused() -> Entry:
    entry = Entry(answered={"op_0": "1:z"}, told={"op_0": S.FAILED})
    asker = ask(operation_id="asker-1", message="m1", words="1:i")
    entry.refuse("s1", asker, (call(S.SUCCEEDED), call(S.UNKNOWN, operation_id="op_2", words="1:b")))
    return entry


def test_a_list_of_untold_calls_tells_them() -> None:
    entry = refused()
    assert entry.told == {"op_0": S.FAILED, "op_1": S.SUCCEEDED, "op_2": S.UNKNOWN}
    assert entry.answered == {"op_0": "1:z", "op_1": "1:i", "op_2": ""}  # asked for by its own words, or by others
    assert entry.listed == {"op_1": "m1", "op_2": "m1"}
    assert [c.operation_id for c in entry.refused["s1"]] == ["op_1", "op_2"]
    heard = refused()
    heard.leave("asker-1", None, heard=True)
    assert (heard.told, heard.listed, heard.refused) == (entry.told, entry.listed, entry.refused)
    heard.leave("asker-1", None, heard=False)  # who has heard it cannot unhear it
    assert heard.refused == entry.refused
    other = refused()
    other.leave("asker-2", None, heard=False)
    assert other.refused == entry.refused


def test_who_never_heard_the_list_was_not_told() -> None:
    entry = refused()
    entry.answered.pop("op_2")  # forgotten meanwhile
    entry.leave("asker-1", None, heard=False)
    assert (entry.answered, entry.told, entry.listed, entry.refused) == ({"op_0": "1:z"}, {"op_0": S.FAILED}, {}, {})


def test_who_was_told_first_had_read_it_first() -> None:
    entry = Entry(listed={"op_1": "m0"})
    entry.refuse("s1", ask(message="m1"), (call(S.SUCCEEDED),))
    assert entry.listed == {"op_1": "m0"}


def test_a_call_is_kept_for_a_sibling_loosely_or_surely() -> None:
    entry = Entry()
    entry.reserve(call(), "m1\x1f0", loose=True)
    assert (entry.reserved, entry.loose) == ({"op_1": "m1\x1f0"}, {"op_1"})
    entry.reserve(call(), "m2\x1f0", loose=False)  # a later message says it in the same words
    assert (entry.reserved, entry.loose) == ({"op_1": "m2\x1f0"}, set())


# --- entering a run -----------------------------------------------------------------------


def test_an_entry_without_turns_sees_all_that_went_before() -> None:
    store = journal()
    first, second, third = (store.perform(EnterRun("r", "acme")) for _ in range(3))
    assert [(e.no, list(e.earlier)) for e in (first, second, third)] == [(1, []), (2, [1]), (3, [1, 2])]
    other = store.perform(EnterRun("r", "other tenant"))
    assert (other.no, list(other.earlier)) == (1, [])


def test_only_calls_of_the_open_turn_are_candidates() -> None:
    store = journal()
    turns = ["a", "a", "b", "b", "c"]
    entries = [store.perform(EnterRun("r", "", turn)) for turn in turns]
    assert [(e.no, list(e.earlier)) for e in entries] == [(1, []), (2, [1]), (3, []), (4, [3]), (5, [])]
    run = store.books.run("", "r")
    assert run is not None
    assert (run.entry, run.turn, run.since) == (5, "c", 5)


def test_a_turn_that_is_worked_on_again_after_a_later_one_answers_from_its_own_entries() -> None:
    store = journal()
    turns = ["a", "b", "a", "b", "a"]
    entries = [store.perform(EnterRun("r", "", turn)) for turn in turns]
    assert [list(e.earlier) for e in entries] == [[], [], [1], [2], [1, 3]]
    assert list(store.perform(EnterRun("other run", "", "a")).earlier) == []
    assert list(store.perform(EnterRun("r", "other tenant", "a")).earlier) == []


def test_what_the_history_holds_counts_as_answered() -> None:
    store = journal(call(S.SUCCEEDED), call(S.UNKNOWN, operation_id="op_2", key="2", words="1:b"))
    scope = scope_of_run("acme", "r")
    store.books.put_step(scope, "s1", "op_1")
    store.books.put_step(scope, "s2", "op_2")
    store.books.put_step(scope, "s3", "op_gone")
    entry = store.perform(EnterRun("r", "acme", answered=["s0", "s1", "s2", "s3"]))
    assert entry.answered == {"op_1": "1:i", "op_2": "1:b"}
    assert entry.told == {"op_1": S.SUCCEEDED, "op_2": S.UNKNOWN}
    assert list(entry.open) == ["op_2"]


def test_two_tenants_never_share_a_scope() -> None:
    assert scope_of_run("a", "b:c") != scope_of_run("a:b", "c")
    assert scope_of_run("acme", "r") == "run:4:acme:r"


def test_nobody_who_leaves_and_nothing_that_is_told_has_to_be_known() -> None:
    leaving = [(state, heard) for state in (None, S.SUCCEEDED, S.UNKNOWN) for heard in (True, False)]
    assert [one for one in leaving if raised(Entry().leave, "stranger", one[0], heard=one[1])] == []
    assert [one for one in leaving if raised(taken().leave, "asker-1", one[0], heard=one[1])] == []
    assert [state for state in State if raised(Entry().tell, call(state))] == []
    told = taken()
    told.tell(call(S.SUCCEEDED))
    assert raised(told.leave, "asker-1", S.SUCCEEDED, heard=True) is None


def test_who_was_refused_and_never_heard_it_leaves_what_was_forgotten_meanwhile() -> None:
    entry = Entry()
    entry.refuse("k", ask(operation_id="op_2"), (call(),))
    entry.told.clear()
    assert raised(entry.leave, "op_2", None, heard=False) is None
    assert (entry.answered, entry.told, entry.listed) == ({}, {}, {})
