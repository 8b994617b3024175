"""Joining a run: by the entry that gave the token, before it expires, one process in a lane at a time."""

import pytest

from settled.core.ask import Superseded
from settled.core.books import RunState
from settled.core.matching.claim import Claim
from settled.core.matching.entry import Entry
from settled.core.model import Moment, Owner
from settled.core.runs.entering import EnterRun, Held, LeaveRun, scope_of_run
from settled.core.runs.joins import JoinRun, LanesAtWork, LeaveJoined, LookAtLanes, NotJoined
from settled.core.runs.lanes import lane_id, lane_of
from settled.core.runs.saga import LookThrough, StartRollback
from settled.core.values import replace
from settled.journals.memory import MemoryJournal
from tests.core.build import ask

OWNER, GUEST = Owner("here", "boot", "space", 1, 1.0), Owner("there", "boot", "space", 2, 2.0)


class Now:
    at = 1000.0

    def __call__(self):
        return Moment(self.at, "boot", self.at)


@pytest.fixture
def now():
    return Now()


@pytest.fixture
def journal(now):
    return MemoryJournal(now)


def enter(journal, run_id="trip", **more):
    return journal.perform(EnterRun(run_id, "", claim=f"host {more}", owner=OWNER, **more))


def join(lane="a", entry=1, until=2000.0, claim="join", **more):
    return JoinRun("trip", "", lane, entry, until, claim=claim, owner=GUEST, **more)


def joined_ask(lane="a", lane_entry=1, run_entry=1, **more):
    return ask(
        scope=scope_of_run("", "trip"),
        run_id="trip",
        run_entry=run_entry,
        lane=lane,
        lane_entry=lane_entry,
        entry=Entry(lane_entry),
        **more,
    )


def test_a_lanes_record_stands_beside_the_runs(journal):
    enter(journal)
    assert journal.perform(join()) == Entry(1, range(1, 1))
    record = journal.run("", lane_id("trip", "a"))
    assert (lane_of(record), record.parent, record.owner) == ("a", "trip", GUEST)
    assert journal.perform(LookAtLanes("trip", "")) == (record,)
    assert journal.perform(LookThrough("trip", "")).is_undone  # what a lane did is the run's


@pytest.mark.parametrize(
    ("more", "why"),
    [({"entry": 2}, "superseded"), ({"until": 1000.0}, "expired"), ({"entry": 0}, "superseded")],
)
def test_a_token_counts_for_one_entry_and_a_time(journal, more, why):
    enter(journal)
    assert journal.perform(join(**more)).why == why


def test_a_run_that_nobody_began_is_not_joined(journal):
    assert journal.perform(join()) == NotJoined("unknown_run")


def test_a_lane_is_held_for_the_lease_that_was_asked_for(journal, now):
    enter(journal)
    journal.perform(join(lease=7.0))
    assert journal.run("", lane_id("trip", "a")).lease == now().plus(7.0)


def test_who_is_not_joined_hears_how_the_run_stands(journal):
    enter(journal)
    journal.perform(StartRollback("trip", "", "why", "undo", OWNER, 30.0, 1))
    assert journal.perform(join()) == NotJoined("rolled_back", journal.run("", "trip"))


@pytest.mark.parametrize("state", [RunState.COMPLETED, RunState.KEPT])
def test_a_run_that_has_ended_is_not_joined(journal, state):
    enter(journal)
    journal.perform(LeaveRun("trip", "", 1, state))
    assert journal.perform(join()).why == "run_ended"


def test_a_run_that_is_undone_is_not_joined(journal):
    enter(journal)
    journal.perform(StartRollback("trip", "", "why", "undo", OWNER, 30.0, 1))
    assert journal.perform(join()).why == "rolled_back"


def test_one_process_works_in_a_lane(journal, now):
    enter(journal)
    journal.perform(join())
    assert isinstance(journal.perform(join(claim="other")), Held)
    assert journal.perform(join(claim="join")).no == 1  # the answer to this very transition was lost
    assert journal.perform(join(claim="other", dead="join")).no == 2
    now.at += 60.0
    assert journal.perform(join(claim="third")) == Entry(3, range(1, 3))


def claimed(journal, **more):
    return journal.perform(Claim(joined_ask(**more)))


def test_the_claim_asks_run_and_lane(journal):
    enter(journal)
    assert claimed(journal) == Superseded("trip", "superseded")  # nobody works in this lane
    journal.perform(join())
    assert claimed(journal, operation_id="op_a").call.lane == "a"
    assert claimed(journal, lane_entry=2) == Superseded("trip", "superseded")
    assert claimed(journal, run_entry=2) == Superseded("trip", "superseded")
    journal.perform(LeaveRun("trip", "", 1, RunState.COMPLETED))
    assert claimed(journal) == Superseded("trip", "run_ended")


def test_no_claim_behind_the_rollbacks_back(journal):
    enter(journal)
    journal.perform(join())
    journal.perform(StartRollback("trip", "", "why", "undo", OWNER, 30.0, 1))
    assert claimed(journal) == Superseded("trip", "rolled_back")


def leave(**more):
    return LeaveJoined("trip", "", LeaveRun("trip", "", 1, RunState.COMPLETED), **more)


def test_a_run_ends_once_nobody_is_at_work_in_a_lane(journal):
    enter(journal)
    journal.perform(join())
    assert [lane_of(lane) for lane in journal.perform(leave()).lanes] == ["a"]
    assert journal.run("", "trip").state is RunState.ACTIVE
    journal.perform(LeaveRun(lane_id("trip", "a"), "", 1, RunState.KEPT))
    assert journal.perform(leave()).state is RunState.COMPLETED


def test_the_dead_are_not_waited_for(journal, now):
    enter(journal)
    journal.perform(join())
    assert isinstance(journal.perform(leave(dead=frozenset({"other"}))), LanesAtWork)
    assert journal.perform(leave(dead=frozenset({"join"}))).state is RunState.COMPLETED


def test_a_lease_that_is_over_is_not_waited_for(journal, now):
    enter(journal)
    journal.perform(join())
    now.at += 60.0
    assert journal.perform(leave()).state is RunState.COMPLETED


def test_a_later_entry_is_not_ended(journal, now):
    enter(journal)
    now.at += 60.0
    enter(journal, lease=30.1)
    assert journal.perform(leave()).state is RunState.ACTIVE


# --- runs inside of each other ---


def test_two_runs_are_never_inside_of_each_other(journal):
    """Their records would be undone with each other for ever."""
    journal.perform(EnterRun("a", "", parent="b", parent_entry=1))
    journal.perform(EnterRun("b", "", parent="a", parent_entry=1))
    assert [run.parent for run in (journal.run("", "a"), journal.run("", "b"))] == ["b", ""]
    assert journal.perform(LookThrough("b", "")).undo == (journal.run("", "a"),)


def test_records_that_are_inside_of_each_other_are_looked_through_once(journal):
    for run_id, parent in (("a", "b"), ("b", "a")):
        journal.perform(EnterRun(run_id, ""))
        journal.books.put_run(replace(journal.run("", run_id), parent=parent))
    assert [run.run_id for run in journal.perform(LookThrough("a", "")).undo] == ["b"]
