"""The contract of journals on runs: their state, undoing them, and leave for single calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.approval.leave import Decide
from settled.core.ask import Begun, Stands, Superseded, Unsettled
from settled.core.attempts.metering import LookAtTokens
from settled.core.attempts.progress import End
from settled.core.books import Change, RunRecord, RunState
from settled.core.call import Call
from settled.core.doubt.settling import Refused, Resolve
from settled.core.expiry import Expire
from settled.core.instead.fallback import INSTEAD, ChainHeard, GiveWay, instead_key
from settled.core.matching.claim import Claim
from settled.core.matching.entry import Entry
from settled.core.model import Effect, KeyKind, Leave, Terms
from settled.core.runs.entering import (
    Checkpoint,
    EnterRun,
    Held,
    LeaveRun,
    ReadState,
    RenewRuns,
    SaveState,
    Undone,
    scope_of_run,
)
from settled.core.runs.saga import Ended, EndRollback, LookThrough, Rolling, StartRollback, StepUndone, Stuck, Undo
from settled.core.states import State
from settled.core.values import replace
from settled.testing.records import (
    AWKWARD,
    OTHER,
    OWNER,
    REFUSED,
    Timed,
    begun,
    ended,
    entered,
    make_ask,
    scoped,
)

if TYPE_CHECKING:
    from settled.ports import Journal


class RunContract(Timed):
    """Runs as a whole, and leave for single calls."""

    def test_one_entry_works_on_a_run_at_a_time(self, journal: Journal) -> None:
        """The other is told, until the lease is over, the owner is seen dead, or the run is left."""
        first = EnterRun("held", "acme", claim="c1", owner=OWNER, parent="outer", on_error="compensate")
        assert entered(journal, "outer").no == 1
        first = replace(first, parent_entry=1)
        entry = journal.perform(first)
        assert isinstance(entry, Entry)
        assert journal.perform(first) == entry  # its answer was lost
        record = journal.run("acme", "held")
        assert record is not None
        assert (record.claim, record.owner, record.parent, record.state) == ("c1", OWNER, "outer", RunState.ACTIVE)
        second = replace(first, claim="c2", owner=OTHER)
        assert journal.perform(second) == Held(record)
        assert journal.perform(RenewRuns([("acme", "held", "c1"), ("acme", "held", "c9")], 60.0)) == ("c9",)
        self.pass_time(31.0)
        assert isinstance(journal.perform(second), Held)
        assert isinstance(journal.perform(replace(second, dead="c1")), Entry)
        left = journal.perform(LeaveRun("held", "acme", 1, RunState.COMPLETED))
        assert left is not None
        assert left.state is RunState.ACTIVE  # a later entry's run is left alone
        left = journal.perform(LeaveRun("held", "acme", 2, RunState.KEPT, AWKWARD))
        assert left == journal.run("acme", "held")
        assert left is not None
        assert (left.state, left.reason, left.owner) == (RunState.KEPT, AWKWARD, None)

    def test_what_a_run_has_sent_only_grows_and_is_kept_with_what_is_recorded_anyway(self, journal: Journal) -> None:
        """With an intent, an end, the state, and the end of the entry; an older entry's is left alone."""
        entry = entered(journal, "sent", owner=OWNER, claim="e1")

        def sent() -> int:
            run = journal.run("acme", "sent")
            assert run is not None
            return run.tokens

        assert sent() == 0
        claim = Claim(scoped("sent", entry), checkpoint=Checkpoint("sent", 1, (), 2**40))
        call = journal.perform(claim)
        assert isinstance(call, Begun)
        assert isinstance(journal.perform(claim), Begun)  # its answer was lost
        assert sent() == 2**40
        done = End(call.call.operation_id, 1, 1, None, checkpoint=Checkpoint("sent", 1, (), 3))
        assert isinstance(journal.perform(done), Call)
        assert journal.perform(RenewRuns([("acme", "sent", "e1")], 30.0, {"e1": 2**40 + 1})) == ()
        assert sent() == 2**40 + 1
        assert journal.perform(SaveState("sent", "acme", 1, (), 2**40 + 1))
        left = journal.perform(LeaveRun("sent", "acme", 1, RunState.KEPT, tokens=2**40 + 2))
        assert left == journal.run("acme", "sent")
        assert entered(journal, "sent").no == 2
        assert not journal.perform(SaveState("sent", "acme", 1, (), 2**50))
        assert sent() == 2**40 + 2
        assert journal.perform(LookAtTokens("sent", "acme", "sent")) == (2**40 + 2, 0)
        assert journal.perform(LookAtTokens("sent", "acme", "elsewhere")) == (0, 2**40 + 2)

    def test_a_rollback_bars_a_run_and_undoes_the_last_begun_first(self, journal: Journal) -> None:
        """Whoever holds it puts each step on record; others are told."""
        entry = entered(journal, "undo", owner=OWNER, claim="e1")
        terms = Terms(compensate="refund")
        calls = [begun(journal, scoped("undo", entry, terms=terms)) for _ in range(3)]
        for call in (calls[1], calls[0], calls[2]):
            ended(journal, call)
        read = ended(journal, begun(journal, scoped("undo", entry, terms=Terms(Effect.READ))))
        start = StartRollback("undo", "acme", "late", "r1", OWNER, 30.0, entry=1)
        assert isinstance(journal.perform(replace(start, claim="r0", entry=None, owner=OTHER)), Held)
        rolling = journal.perform(start)
        assert isinstance(rolling, Rolling)
        assert journal.perform(start) == rolling
        assert [run.run_id for run in journal.undoing(10_000) if run.tenant == "acme"].count("undo") == 1
        barred = journal.perform(Claim(scoped("undo", entry)))
        assert barred == Superseded("undo", "rolled_back")
        seen = journal.perform(LookThrough("undo", "acme"))
        assert [step.operation_id for step in seen.undo if isinstance(step, Call)] == [
            call.operation_id for call in calls[::-1]
        ]
        assert journal.get(read.operation_id) == read
        fence = ("undo", "acme", "r1")
        for call in calls:
            assert journal.perform(Undo("undo", "acme", "r9", call.operation_id)) is None
            undone = journal.perform(Undo(*fence, call.operation_id))
            assert isinstance(undone, Call)
            assert journal.perform(Undo(*fence, call.operation_id)) == undone
            assert undone.state is State.COMPENSATING
        refund = ended(journal, begun(journal, make_ask(tool="refund", scope=f"undo:{calls[0].operation_id}")))
        done = journal.perform(StepUndone(*fence, calls[0].operation_id, refund.operation_id))
        assert done is not None
        assert done.state is State.COMPENSATED
        waits = journal.perform(StepUndone(*fence, calls[1].operation_id, calls[1].operation_id))
        assert waits is not None
        assert waits.state is State.COMPENSATING  # its compensation is not on record as done
        stuck = journal.perform(Stuck(*fence, calls[1].operation_id, "undo_failed", AWKWARD))
        assert journal.perform(Stuck(*fence, calls[1].operation_id, "undo_failed", AWKWARD)) == stuck
        kinds = [alert.kind for alert in journal.alerts(10_000) if alert.operation_id == calls[1].operation_id]
        assert kinds == ["undo"]
        over = journal.perform(EndRollback(*fence))
        assert over is not None
        assert (over.state, over.reason, over.owner) == (RunState.PARTLY_COMPENSATED, "late", None)
        assert journal.perform(EndRollback(*fence)) == over
        assert isinstance(journal.perform(EnterRun("undo", "acme")), Undone)

    def test_a_call_that_is_begun_anew_in_another_run_is_that_ones_to_undo(self, journal: Journal) -> None:
        """A business key is anybody's; what was not done in one run may be done in the next."""
        here, there = (entered(journal, name) for name in ("here", "there"))
        terms = Terms(compensate="refund")
        ask = scoped("here", here, kind=KeyKind.BUSINESS, key="here and there", terms=terms)
        call = begun(journal, ask)
        journal.perform(End(call.operation_id, 1, 1, REFUSED))
        more = {
            "scope": scope_of_run("acme", "there"),
            "run_id": "there",
            "entry": there,
            "operation_id": "op_there_" + call.operation_id,
        }
        again = journal.perform(Claim(replace(ask, **more)))
        assert isinstance(again, Begun)
        ended(journal, again.call)
        seen = {name: journal.perform(LookThrough(name, "acme")).undo for name in ("here", "there")}
        assert seen["here"] == ()
        assert [step.operation_id for step in seen["there"] if isinstance(step, Call)] == [call.operation_id]

    def test_a_runs_state_is_kept_name_by_name(self, journal: Journal) -> None:
        """With the end of a call; a later turn goes on from it, the same turn begins as it began."""
        first = entered(journal, "state", turn="t1")
        call = begun(journal, scoped("state", first))
        changes = (Change("a", b"1", 1), Change(AWKWARD, b"\x00", 1))
        journal.perform(End(call.operation_id, 1, 1, None, checkpoint=Checkpoint("state", 1, changes)))
        journal.perform(SaveState("state", "acme", 1, (Change("a", b"old", 0), Change("b", b"2", 2))))
        assert dict(journal.perform(ReadState("state", "acme", 2))) == {"a": b"1", AWKWARD: b"\x00", "b": b"2"}
        entered(journal, "state", turn="t1")
        assert journal.perform(SaveState("state", "acme", 1, (Change("a", b"late", 9),))) is False
        assert dict(journal.perform(ReadState("state", "acme", 1))) == {}
        entered(journal, "state", turn="t2")
        journal.perform(SaveState("state", "acme", 3, (Change("a", None, 1),)))
        assert dict(journal.perform(ReadState("state", "acme", 4))) == {AWKWARD: b"\x00", "b": b"2"}
        assert dict(journal.perform(ReadState("state", "acme", 3))) == {"a": b"1", AWKWARD: b"\x00", "b": b"2"}

    def test_a_turn_goes_on_under_another_name(self, journal: Journal) -> None:
        """Its history was shortened: what was done before, by either name, is done in it."""
        for name, was in (("t1", ""), ("other", ""), ("t2", "t1"), ("t2", "t1"), ("t2", ""), ("t3", "t2")):
            last = entered(journal, "shortened", turn=name, turn_was=was)
        assert list(last.earlier) == [1, 3, 4, 5]
        assert list(entered(journal, "shortened", turn="t1").earlier) == [1]

    def test_turns_of_one_name_are_told_apart_by_what_was_answered_before_them(self, journal: Journal) -> None:
        """Where an id comes again, or nothing is told of it, all that was done under the name may be this turn's."""

        def earlier(*after: str) -> list[int]:
            return list(entered(journal, "window", turn="t", after=after).earlier)

        first = entered(journal, "window", turn="t", after=("a", "t:a"))
        journal.perform(Claim(scoped("window", first, step="t:b", operation_id="op_b")))
        assert earlier("a", "t:a") == [1]  # the same turn once more
        assert earlier("b", "t:b") == [2]  # the one after it; the second entry may have made something else
        assert earlier("b", "t:b") == [2, 3]
        assert earlier("a", "t:b") == [1, 2, 3, 4]  # its own calls are answered by that id, too
        assert earlier() == [1, 2, 3, 4, 5]

    def test_an_irreversible_call_waits_for_what_is_open(self, journal: Journal) -> None:
        """Whatever its tool; a read is no matter."""
        entry = entered(journal, "final")
        begun(journal, scoped("final", entry, tool="look", terms=Terms(Effect.READ)))
        other = begun(journal, scoped("final", entry, tool="mail"))
        ask = scoped("final", entry, terms=Terms(irreversible=True))
        assert journal.perform(Claim(ask)) == Unsettled((other,))
        ended(journal, other)
        assert isinstance(journal.perform(Claim(ask)), Begun)

    # --- leave ---

    def test_a_call_waits_for_leave_that_is_used_once(self, journal: Journal) -> None:
        """Bound to the version of its tool; it ends; each person counts once."""
        wanted = Leave(AWKWARD, 0.0, "1", 2, 60.0)
        ask = make_ask(leave=wanted, terms=Terms(version="1"))
        asked = journal.perform(Claim(ask))
        assert journal.perform(Claim(ask)) == asked  # its answer was lost
        found = journal.get(ask.operation_id)
        assert found is not None
        assert (found.state, found.attempts, found.reason) == (State.AWAITING_APPROVAL, (), AWKWARD)
        assert found.leave == replace(wanted, until=found.created.wall + 60.0)
        assert isinstance(journal.perform(Decide(ask.operation_id, give=True, by="eva", log_no=9)), Refused)
        first = journal.perform(Decide(ask.operation_id, give=True, by="eva", reason=AWKWARD))
        assert isinstance(journal.perform(Decide(ask.operation_id, give=True, by="eva")), Refused)
        given = journal.perform(Decide(ask.operation_id, give=True, by="bob"))
        assert isinstance(first, Call)
        assert isinstance(given, Call)
        assert given.leave is not None
        assert (first.state, given.state, given.leave.by) == (State.AWAITING_APPROVAL, State.NOT_DONE, ("eva", "bob"))
        assert journal.get(ask.operation_id) == given
        other = replace(ask, operation_id=f"{ask.operation_id}b")
        reply = journal.perform(Claim(other))
        assert isinstance(reply, Begun)
        assert reply.call.leave is not None
        assert (reply.call.leave.used, len(reply.call.attempts)) == (True, 1)

    def test_leave_that_was_not_used_in_time_is_asked_for_anew(self, journal: Journal) -> None:
        """And so is one that nobody has decided on."""
        ask = make_ask(leave=Leave("large", 0.0, within=60.0))
        journal.perform(Claim(ask))
        self.pass_time(61.0)
        assert isinstance(journal.perform(Decide(ask.operation_id, give=True, by="eva")), Refused)
        again = replace(ask, operation_id=f"{ask.operation_id}b")
        journal.perform(Claim(again))
        assert isinstance(journal.perform(Decide(ask.operation_id, give=True, by="eva")), Call)
        self.pass_time(61.0)
        journal.perform(Claim(again))
        found = journal.get(ask.operation_id)
        assert found is not None
        assert found.state is State.AWAITING_APPROVAL
        refused = journal.perform(Decide(ask.operation_id, give=False, by="eva", reason="no"))
        assert isinstance(refused, Call)
        assert (refused.state, refused.decided, refused.reason) == (State.REFUSED, "person:eva", "no")
        kinds = [alert.kind for alert in journal.alerts(10_000) if alert.operation_id == ask.operation_id]
        assert kinds == ["approval"] * 3

    # --- what is left to a person ---

    def test_what_is_left_to_a_person_is_found_by_what_it_replaces_until_it_is_done(self, journal: Journal) -> None:
        """It does not expire, no leave can be given for it, and it is on record once."""
        first = make_ask(kind=KeyKind.RANDOM, falls_to=("pay",))
        primary = begun(journal, first)
        journal.perform(End(primary.operation_id, 1, 1, REFUSED))
        given_up = journal.perform(GiveWay(primary.operation_id))
        assert given_up is not None
        assert given_up.state is State.FAILED
        wanted = Leave(AWKWARD, 0.0, by_hand=f"before: {AWKWARD}")
        ask = make_ask(leave=wanted, kind=KeyKind.BUSINESS, key=instead_key("acme", "pay", primary.operation_id, 0))
        ask = replace(ask, identity=INSTEAD, terms=Terms(retention=0.0), instead=(primary.operation_id, 0))
        asked = journal.perform(Claim(ask, begin=False))
        assert journal.perform(Claim(replace(ask, operation_id=f"{ask.operation_id}b"))) == asked
        self.pass_time(61.0)
        assert journal.perform(Claim(ask)) == asked
        found = journal.get(ask.operation_id)
        assert found is not None
        assert found.leave is not None
        assert (found.state, found.leave.by_hand) == (State.AWAITING_APPROVAL, f"before: {AWKWARD}")
        assert not journal.perform(Expire(ask.operation_id))
        assert isinstance(journal.perform(Decide(ask.operation_id, give=True, by="eva")), Refused)
        done = journal.perform(Resolve(ask.operation_id, "happened", by="eva", reason=AWKWARD, result=b"by hand"))
        assert isinstance(done, Call)
        assert (done.state, done.result, done.asserted) == (State.SUCCEEDED, b"by hand", True)
        assert journal.get(ask.operation_id) == done
        like = replace(first, operation_id=f"{first.operation_id}b", key=f"{first.key}b")
        told = journal.perform(Claim(like))
        assert isinstance(told, Stands)
        assert (told.call.operation_id, told.like) == (primary.operation_id, True)
        journal.perform(ChainHeard(primary.operation_id))
        assert isinstance(journal.perform(Claim(like)), Begun)

    def test_what_is_left_to_a_person_is_closed_with_its_run(self, journal: Journal) -> None:
        """What is done by hand all the same is disputed then."""
        entry = entered(journal, "left")
        ask = replace(scoped("left", entry), kind=KeyKind.BUSINESS, step="")
        ask = replace(ask, key=f"left:{ask.operation_id}", leave=Leave("", 0.0, by_hand="refused before"))
        journal.perform(Claim(ask))
        assert isinstance(journal.perform(StartRollback("left", "acme", "", "c-left", OTHER, 30.0, entry.no)), Rolling)
        closed = journal.get(ask.operation_id)
        assert closed is not None
        assert (closed.state, closed.decided) == (State.REFUSED, "rollback")
        late = journal.perform(Resolve(ask.operation_id, "happened", by="eva", reason="paid"))
        assert isinstance(late, Call)
        assert (late.state, late.disputed) == (State.REFUSED, True)

    def test_a_rollback_refuses_what_waits_for_leave(self, journal: Journal) -> None:
        """In the commit that begins it; once, whoever goes on with it; and also within a call."""
        entry = entered(journal, "waits", owner=OWNER, claim="e1")
        around = begun(journal, scoped("waits", entry))
        wanted = Leave("asks", 0.0, within=60.0)
        asks = [replace(scoped("waits", entry, tool="ask"), leave=wanted), make_ask(leave=wanted)]
        asks[1] = replace(asks[1], scope=f"call:{around.operation_id}", kind=KeyKind.SCOPED, key="", entry=Entry())
        for ask in asks:
            assert isinstance(journal.perform(Claim(ask)), Stands)
        closed = tuple(sorted(ask.operation_id for ask in asks))
        start = StartRollback("waits", "acme", "late", "r1", OWNER, 30.0, entry=1)
        rolling = journal.perform(start)
        assert isinstance(rolling, Rolling)
        assert tuple(sorted(rolling.closed)) == closed
        assert isinstance(journal.perform(start), Rolling)  # its answer was lost
        self.pass_time(31.0)
        other = journal.perform(StartRollback("waits", "acme", "", "r2", OTHER, 30.0))
        assert isinstance(other, Rolling)
        assert (other.closed, other.run.reason) == ((), "late")
        assert isinstance(journal.perform(EndRollback("waits", "acme", "r2")), RunRecord)
        third = journal.perform(StartRollback("waits", "acme", "another reason", "r3", OTHER, 30.0))
        assert isinstance(third, Rolling | Ended)
        assert third.run is not None
        assert third.run.reason == "late"  # why it is undone was said
        for ask in asks:
            found = journal.get(ask.operation_id)
            assert found is not None
            assert (found.state, found.decided, found.log_no) == (State.REFUSED, "rollback", 2)
            assert isinstance(journal.perform(Decide(ask.operation_id, give=True, by="eva")), Refused)
