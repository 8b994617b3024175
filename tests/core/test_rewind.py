"""Rewinding a run: what would be set aside is seen first, and nothing else is; the run is held meanwhile."""

import pytest

from settled.core.attempts.progress import End
from settled.core.books import RunState
from settled.core.model import Effect, KeyKind, Terms
from settled.core.runs.entering import Held, LeaveRun
from settled.core.runs.rewind import HoldRun, LetGo, LookFrom, Refused, SetAside, UndoOne, is_set_aside
from settled.core.runs.saga import StartRollback
from settled.core.states import State
from settled.core.values import replace
from settled.testing.records import LOST, OTHER, OWNER, REFUSED, begun, ended, entered, make_ask, scoped


@pytest.fixture
def entry(journal):
    return entered(journal, "trip", owner=OWNER, claim="c1")


def step(journal, entry, fault=None, *, end=True, **changes):
    call = begun(journal, scoped("trip", entry, **changes))
    if end and fault is not None:
        journal.perform(End(call.operation_id, 1, 1, fault))
    elif end:
        ended(journal, call)
    return journal.get(call.operation_id)


def ids(calls):
    return [call.operation_id for call in calls]


def look(journal, call):
    return journal.perform(LookFrom("trip", "acme", call.operation_id))


def hold(journal, claim="h1", **more):
    return journal.perform(HoldRun("trip", "acme", claim, OTHER, 30.0, **more))


def aside(journal, calls, *, claim="h1", keep=True):
    ids = [call.operation_id for call in calls]
    return journal.perform(SetAside("trip", "acme", claim, ids[-1], ids, keep, "eva", "the date was wrong"))


# --- looking ---


def test_all_that_was_begun_from_a_call_on_is_seen_the_last_first(journal, entry):
    first, second, third = [step(journal, entry) for _ in range(3)]
    seen = look(journal, second)
    assert ids(seen.calls) == ids(seen.standing) == ids((third, second))
    assert (seen.open, seen.inner, seen.part_of) == ((), (), "")
    assert ids(look(journal, first).calls) == ids((third, second, first))
    assert journal.perform(LookFrom("trip", "acme", "op_none")) is None
    assert look(journal, begun(journal, make_ask())) is None, "it is no call of the run"


def test_what_is_in_doubt_or_at_work_is_told_apart_from_what_stands(journal, entry):
    refused = step(journal, entry, REFUSED)
    read = step(journal, entry, terms=Terms(Effect.READ))
    lost, at_work = step(journal, entry, LOST), step(journal, entry, end=False)
    seen = look(journal, refused)
    assert seen.calls == (at_work, lost, read, refused)
    assert (seen.open, seen.standing) == ((at_work, lost), ())


def test_what_was_called_inside_of_what_did_nothing_counts_too(journal, entry):
    outer = step(journal, entry, end=False)
    inner = ended(journal, begun(journal, make_ask(scope=f"call:{outer.operation_id}")))
    journal.perform(End(outer.operation_id, 1, 1, REFUSED))
    seen = look(journal, outer)
    assert ([call.operation_id for call in seen.calls], seen.standing) == ([outer.operation_id], (inner,))


def test_runs_inside_are_named_until_they_are_undone(journal, entry):
    call = step(journal, entry)
    entered(journal, "leg", owner=OWNER, claim="c2", parent="trip", parent_entry=1)
    assert look(journal, call).inner == ("leg",)
    journal.perform(StartRollback("leg", "acme", "late", "undo", OTHER, 30.0, 1, "c2"))
    assert look(journal, call).inner == ("leg",)


# --- holding ---


def test_a_run_is_held_so_that_nobody_works_on_it(journal, entry, clock):
    assert isinstance(hold(journal), Held), "its process is at work"
    taken = hold(journal, dead="c1")
    assert (taken.entry, taken.claim, taken.owner, taken.lease) == (2, "h1", OTHER, clock().plus(30.0))
    assert taken == journal.run("acme", "trip") == hold(journal), "the answer to this very transition was lost"
    assert isinstance(hold(journal, "h2"), Held)
    clock.advance(31.0)
    assert hold(journal, "h2").entry == 3


def test_a_run_that_is_not_there_or_is_undone_is_not_held(journal, entry):
    assert journal.perform(HoldRun("never", "acme", "h1", OTHER, 30.0)) == Refused("there is no such run")
    journal.perform(StartRollback("trip", "acme", "late", "undo", OTHER, 30.0, 1, "c1"))
    assert hold(journal, dead="undo") == Refused("it is rolling_back: nothing of it is done any more")


def test_a_run_is_let_go_as_it_was_by_who_holds_it(journal, entry, clock):
    hold(journal, dead="c1")
    held = journal.run("acme", "trip")
    journal.perform(LetGo("trip", "acme", "h2", RunState.KEPT))
    journal.perform(LetGo("never", "acme", "h1", RunState.KEPT))
    assert journal.run("acme", "trip") == held
    clock.advance(3.0)
    journal.perform(LetGo("trip", "acme", "h1", RunState.COMPLETED))
    left = replace(held, state=RunState.COMPLETED, owner=None, lease=None, changed=clock().wall)
    assert journal.run("acme", "trip") == left


# --- setting aside ---


def test_what_is_set_aside_keeps_its_record_and_gives_up_its_key(journal, entry, clock):
    first, second = step(journal, entry), step(journal, entry)
    hold(journal, dead="c1")
    clock.advance(3.0)
    gone = aside(journal, [second, first])
    assert [call.operation_id for call in gone] == [second.operation_id, first.operation_id]
    for before in (first, second):
        after = journal.get(before.operation_id)
        assert (after.state, after.result, after.sent_key) == (before.state, before.result, before.key)
        assert is_set_aside(after)
        assert not is_set_aside(before)
        assert journal.log(before.operation_id)[-1].detail == "rewound by eva: the date was wrong"
    run = journal.run("acme", "trip")
    assert (run.state, run.reason, run.rewound) == (RunState.KEPT, "rewound by eva: the date was wrong", 1)
    assert (run.owner, run.lease, run.changed) == (None, None, clock().wall)
    assert look(journal, first) is None, "it answers nobody any more"
    assert aside(journal, [second, first]) == (), "the answer to this very transition was lost"


def test_the_next_entry_makes_anew_what_was_set_aside(journal, entry):
    ask = scoped("trip", entry, kind=KeyKind.BUSINESS, key="seat 7")
    ended(journal, begun(journal, ask))
    before = journal.get(ask.operation_id)
    hold(journal, dead="c1")
    aside(journal, [before])
    again = entered(journal, "trip", owner=OWNER, claim="c2")
    anew = begun(journal, scoped("trip", again, kind=KeyKind.BUSINESS, key="seat 7"))
    assert (anew.key, anew.outward) == ("seat 7", "seat 7~1")
    assert journal.get(before.operation_id).state is State.SUCCEEDED


@pytest.mark.parametrize("changed", ["another call", "doubt", "an effect"])
def test_nothing_is_set_aside_but_what_was_looked_at(journal, entry, changed):
    call = step(journal, entry, LOST if changed == "doubt" else None if changed == "an effect" else REFUSED)
    hold(journal, dead="c1")
    expected = [call] if changed != "another call" else [begun(journal, make_ask()), call]
    told = aside(journal, expected, keep=changed != "an effect")
    assert told == Refused("its calls have changed since they were looked at")
    assert (journal.get(call.operation_id), journal.run("acme", "trip").rewound) == (call, 0)


def test_who_does_not_hold_the_run_sets_nothing_aside_and_undoes_nothing(journal, entry):
    call = step(journal, entry, terms=Terms(compensate="refund"))
    told = aside(journal, [call], claim="h1")
    assert told == Refused("another process works on the run by now")
    assert journal.perform(UndoOne("trip", "acme", "h1", call.operation_id)) is None
    assert journal.perform(UndoOne("never", "acme", "h1", call.operation_id)) is None
    assert journal.get(call.operation_id) == call


def test_one_call_is_put_on_record_as_being_undone(journal, entry):
    call = step(journal, entry, terms=Terms(compensate="refund"))
    journal.perform(LeaveRun("trip", "acme", 1, RunState.KEPT))
    hold(journal)
    undoing = journal.perform(UndoOne("trip", "acme", "h1", call.operation_id))
    assert (undoing.state, journal.log(call.operation_id)[-1].event) == (State.COMPENSATING, "undo")
