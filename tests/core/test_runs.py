"""A run's record: how an entry ends, what a keeper's round prolongs, and what a later entry is safe from."""

import pytest

from settled.core.attempts.progress import End
from settled.core.books import Change, RunState
from settled.core.matching.entry import Entry
from settled.core.runs.entering import LeaveRun, ReadState, RenewRuns, SaveState, of_a_run_undone, run_of, scope_of_run
from settled.core.runs.saga import StartRollback
from settled.testing.records import OTHER, OWNER, Look, begun, entered, make_ask, scoped


class Within:
    """Look up the runs that are parts of one."""

    def __init__(self, run_id):
        self.run_id = run_id

    def apply(self, books, _):
        return books.runs_within("acme", self.run_id)


def enter(journal, claim="c1", run_id="trip", **more):
    return entered(journal, run_id, owner=OWNER, claim=claim, **more)


def trip(journal):
    return journal.run("acme", "trip")


# --- turns that look alike ---


def turn(journal, *after, name="t", **more):
    """Enter the run at a turn; ``after``: what was answered last before it, and the steps that this may be."""
    return list(entered(journal, "trip", turn=name, after=after, **more).earlier)


def made(journal, step):
    """Make a call for a step in the entry that is at work."""
    no = trip(journal).entry
    begun(journal, scoped("trip", Entry(no), step=step))


def test_an_entry_that_made_what_was_answered_before_a_turn_was_at_another_one_of_the_same_name(journal):
    assert turn(journal, "a", "step a") == []
    made(journal, "step b")
    assert turn(journal, "b", "another", "step b") == [], "the second turn begins after b, which the first has made"
    assert turn(journal, "b", "step b") == [2]
    assert turn(journal, "b", "step b") == [2, 3]
    assert turn(journal, "z", "step z") == [1, 2, 3, 4], "nobody has made what it comes after"


def test_an_id_that_comes_again_within_a_turn_does_not_end_it(journal):
    assert turn(journal, "b", "step b") == []
    made(journal, "step b")
    assert turn(journal, "b", "step b") == [1]
    assert turn(journal, "b", "as it is named now", "step b") == [1, 2]


def test_a_turn_whose_history_was_shortened_is_known_by_its_former_name(journal):
    assert turn(journal, name="long") == []
    assert turn(journal, name="short", turn_was="long") == [1]
    assert turn(journal, name="short") == [1, 2]
    assert turn(journal, name="long") == [1]


# --- leaving ---


def test_the_end_of_an_entry_is_on_record(journal, clock):
    enter(journal)
    clock.advance(7.0)
    left = journal.perform(LeaveRun("trip", "acme", 1, RunState.KEPT, "no car", tokens=5))
    assert left == trip(journal)
    assert (left.state, left.reason, left.tokens, left.changed) == (RunState.KEPT, "no car", 5, clock().wall)
    assert (left.owner, left.lease) == (None, None), "nobody works on it"


def test_tokens_only_grow_when_a_run_is_left(journal):
    enter(journal)
    journal.perform(SaveState("trip", "acme", 1, (), 9))
    assert journal.perform(LeaveRun("trip", "acme", 1, RunState.COMPLETED, tokens=5)).tokens == 9


def test_an_older_entry_does_not_end_a_later_one(journal):
    enter(journal)
    enter(journal, "c2", dead="c1")
    before = trip(journal)
    assert journal.perform(LeaveRun("trip", "acme", 1, RunState.KEPT)) == before == trip(journal)


def test_a_run_that_is_undone_is_not_completed_by_its_entry(journal):
    enter(journal)
    journal.perform(StartRollback("trip", "acme", "late", "undo", OTHER, 30.0, 1, "c1"))
    before = trip(journal)
    assert before.state is RunState.ROLLING_BACK
    assert journal.perform(LeaveRun("trip", "acme", before.entry, RunState.COMPLETED)) == before == trip(journal)


# --- renewing ---


def test_a_round_of_the_keeper_prolongs_the_runs_that_are_held(journal, clock):
    enter(journal)
    clock.advance(10.0)
    assert journal.perform(RenewRuns([("acme", "trip", "c1")], 25.0)) == ()
    assert (trip(journal).lease, trip(journal).tokens) == (clock().plus(25.0), 0)
    assert journal.perform(RenewRuns([("acme", "trip", "c1")], 25.0, {"c1": 3})) == ()
    assert trip(journal).tokens == 3
    assert journal.perform(RenewRuns([("acme", "trip", "c1")], 20.0)) == ()
    assert trip(journal).tokens == 3, "a round without a count takes nothing back"


def test_a_round_of_the_keeper_hears_which_runs_are_lost(journal):
    enter(journal)
    before = trip(journal)
    held = [("acme", "trip", "c0"), ("acme", "never", "c1"), ("acme", "trip", "c1")]
    assert journal.perform(RenewRuns(held[:2], 60.0)) == ("c0", "c1")
    assert trip(journal) == before
    journal.perform(LeaveRun("trip", "acme", 1, RunState.COMPLETED))
    left = trip(journal)
    assert journal.perform(RenewRuns(held[2:], 60.0)) == ("c1",), "a run that was left is held by nobody"
    assert trip(journal) == left


# --- state ---


def test_state_is_kept_for_the_entry_at_work_alone(journal):
    enter(journal)
    assert journal.perform(SaveState("trip", "acme", 1, (Change("seat", b"1", 1),), 4)) is True
    assert (journal.perform(ReadState("trip", "acme", 9)), trip(journal).tokens) == ({"seat": b"1"}, 4)
    enter(journal, "c2", dead="c1")
    assert journal.perform(SaveState("trip", "acme", 1, (Change("seat", b"2", 2),), 8)) is False
    assert journal.perform(SaveState("never", "acme", 1, ())) is False
    assert (journal.perform(ReadState("trip", "acme", 9)), trip(journal).tokens) == ({"seat": b"1"}, 4)


def test_an_older_count_of_tokens_takes_nothing_back(journal):
    enter(journal)
    for count in (6, 5, 0):
        assert journal.perform(SaveState("trip", "acme", 1, (), count)) is True
    assert trip(journal).tokens == 6


# --- which run a call is of ---


@pytest.mark.parametrize(
    ("tenant", "run_id"), [("", "trip"), ("acme", "trip"), ("a:b", "x:y"), ("7:7", ""), ("acme", "7:trip")]
)
def test_a_scope_names_its_run(tenant, run_id):
    assert run_of(scope_of_run(tenant, run_id)) == run_id


@pytest.mark.parametrize("scope", ["", "call:op_1", "undo:op_1", "run", "run:", "run:x:trip", "RUN:0::trip"])
def test_another_scope_names_none(scope):
    assert run_of(scope) is None


def is_of_a_run_undone(journal, call):
    return journal.perform(Look(lambda books: of_a_run_undone(books, call)))


def test_what_was_called_inside_of_a_call_is_of_its_run(journal):
    entry = enter(journal)
    outer = begun(journal, scoped("trip", entry))
    inner = begun(journal, make_ask(scope=f"call:{outer.operation_id}"))
    innermost = begun(journal, make_ask(scope=f"call:{inner.operation_id}"))
    alone, orphan = begun(journal, make_ask()), begun(journal, make_ask(scope="call:op_gone"))
    calls = (outer, inner, innermost)
    assert not any(is_of_a_run_undone(journal, call) for call in (*calls, alone, orphan))
    journal.perform(End(outer.operation_id, 1, 1, None))
    journal.perform(StartRollback("trip", "acme", "late", "undo", OTHER, 30.0, 1, "c1"))
    assert all(is_of_a_run_undone(journal, call) for call in calls)
    assert not any(is_of_a_run_undone(journal, call) for call in (alone, orphan))


def test_a_run_inside_of_one_that_is_undone_counts_as_undone(journal):
    enter(journal)
    entry = enter(journal, "c2", "leg", parent="trip", parent_entry=1)
    call = begun(journal, scoped("leg", entry))
    assert not is_of_a_run_undone(journal, call)
    journal.perform(StartRollback("trip", "acme", "late", "undo", OTHER, 30.0, 1, "c1"))
    assert journal.run("acme", "leg").state is RunState.ACTIVE
    assert is_of_a_run_undone(journal, call)


# --- turns that were cut off ---


def past(journal, name, claim, **more):
    """Enter the run at a turn; return the entries of turns before it that nobody saw the end of."""
    return list(enter(journal, claim, turn=name, dead=trip(journal).claim if trip(journal) else "", **more).past)


def test_turns_that_were_cut_off_are_known_in_every_entry_of_the_next_one_until_one_ends(journal):
    assert past(journal, "1", "a") == []
    assert [past(journal, "2", "b") for _ in range(2)] == [[1], [1]], "also where the answer to entering was lost"
    assert past(journal, "2", "c") == [1]
    assert past(journal, "3", "d") == [1, 2, 3]
    journal.perform(LeaveRun("trip", "acme", 4, RunState.COMPLETED))
    assert past(journal, "4", "e") == []


def test_who_knows_which_turns_were_cut_off_names_them(journal):
    for claim, name in enumerate("123"):
        past(journal, name, f"c{claim}", cut_off=())
    assert past(journal, "4", "d", cut_off=("1", "2")) == [1, 2]
    assert past(journal, "5", "e", cut_off=("by another name",)) == [1, 2, 4], "then it is the last one"


def test_turns_that_were_given_up_for_another_one_after_the_same_are_known_in_it(journal):
    """The user has edited a message: what was done for it is told of; what was done before and after it is not."""
    for claim, (name, follows) in enumerate([("1", ""), ("2", "1"), ("3", "2")]):
        assert past(journal, name, f"c{claim}", cut_off=(), follows=follows) == []
    assert past(journal, "edited", "d", cut_off=(), follows="1") == [2]
    assert past(journal, "edited", "e", cut_off=(), follows="1") == [2], "and in its next entry"
    assert past(journal, "2", "f", cut_off=(), follows="1") == [4, 5], "the user goes back to the first one"


def test_a_run_is_known_by_its_parts_before_it_is_entered_itself(journal):
    """So it can be undone where all that was done in it was done by agents that it has handed tasks to."""
    enter(journal, "a", "trip/flights", parent="trip")
    assert (trip(journal).entry, trip(journal).state) == (0, RunState.ACTIVE)
    assert [run.run_id for run in journal.perform(Within("trip"))] == ["trip/flights"]
    assert list(enter(journal, "b", turn="1").earlier) == []
    assert trip(journal).entry == 1
