"""The contract of journals on calls: claims, attempts, evidence, verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.ask import Begun, BudgetSpent, Busy, Conflict, Doubtful, Stands, Superseded
from settled.core.attempts.budget import RetryBudget
from settled.core.attempts.charge import Charge
from settled.core.attempts.progress import Begin, Close, End, FencedOut, Renew
from settled.core.call import Call
from settled.core.doubt.late import Evidence
from settled.core.doubt.settling import Adopt, Over, Refused, Resolve, Settle
from settled.core.doubt.tending import AdoptLost, LayDown, TakeUp
from settled.core.matching.claim import Claim
from settled.core.matching.owed import Heard
from settled.core.model import KeyKind, Terms
from settled.core.runs.entering import EnterRun
from settled.core.states import State
from settled.core.values import replace
from settled.testing.records import (
    AWKWARD,
    LOST,
    OTHER,
    REFUSED,
    Look,
    Timed,
    begun,
    ended,
    entered,
    ids,
    make_ask,
    scoped,
    unknown,
    unknown_call,
)

if TYPE_CHECKING:
    from settled.core.ask import Ask
    from settled.ports import Journal


class CallContract(Timed):
    """Claims, attempts, evidence, verdicts, runs."""

    # --- claims ---

    def test_a_claim_puts_call_and_intent_on_record(self, journal: Journal) -> None:
        """One commit holds both, and it reads back as it was returned."""
        call = begun(journal, make_ask())
        assert (call.state, call.epoch, len(call.attempts), call.log_no) == (State.PROCESSING, 1, 1, 1)
        assert journal.get(call.operation_id) == call

    def test_the_same_key_finds_the_same_call(self, journal: Journal) -> None:
        """While it runs it is busy, afterwards it stands; other arguments are a conflict."""
        ask = make_ask()
        call = begun(journal, ask)
        again = replace(ask, operation_id="op_other")
        assert journal.perform(Claim(again)) == Busy(call)
        done = ended(journal, call, result=b"receipt")
        assert journal.perform(Claim(again)) == Stands(done)
        assert journal.perform(Claim(replace(again, fingerprint="1:other"))) == Conflict(done)

    def test_a_claim_recognises_itself_when_its_answer_was_lost(self, journal: Journal) -> None:
        """Performed again it begins once, not twice."""
        ask = make_ask()
        call = begun(journal, ask)
        assert journal.perform(Claim(ask)) == Begun(call)
        assert len(journal.log(call.operation_id)) == 1

    def test_a_lease_that_is_over_is_no_licence(self, journal: Journal) -> None:
        """A write of a lost owner is in doubt, is told of, and the old owner is fenced out."""
        ask = make_ask()
        call = begun(journal, ask)
        self.pass_time(31.0)
        reply = journal.perform(Claim(replace(ask, operation_id="op_late", owner=OTHER)))
        assert isinstance(reply, Doubtful)
        assert (reply.call.state, reply.call.epoch, reply.call.reason) == (State.UNKNOWN, 2, "owner_lost")
        assert [alert.kind for alert in journal.alerts() if alert.operation_id == call.operation_id] == ["unknown"]
        assert isinstance(journal.perform(Begin(call.operation_id, 1, 2, ask)), FencedOut)

    def test_a_lease_of_zero_is_over_at_once(self, journal: Journal) -> None:
        """Zero is a number of seconds, not "none given"."""
        call = begun(journal, make_ask(lease=0.0))
        assert unknown(journal, call.operation_id).state is State.UNKNOWN

    def test_a_lease_is_judged_by_the_clock_that_never_jumps(self, journal: Journal) -> None:
        """The wall clock may be set; a live owner keeps its call."""
        call = begun(journal, make_ask())
        assert call.lease.since(call.created) == 30.0
        self.pass_time(29.0)
        assert journal.perform(Adopt(call.operation_id)) == call
        assert call.operation_id not in ids(journal, lease_over=True)
        self.pass_time(2.0)
        assert call.operation_id in ids(journal, lease_over=True)

    def test_leases_are_prolonged_and_never_shortened(self, journal: Journal) -> None:
        """And not at all once the call was taken over."""
        call = begun(journal, make_ask())
        assert journal.perform(Renew([(call.operation_id, 1, 60.0)])) == ()
        renewed = journal.get(call.operation_id)
        assert renewed is not None
        assert renewed.lease.since(call.lease) == 30.0
        assert replace(renewed, lease=call.lease) == call
        assert journal.perform(Renew([(call.operation_id, 1, 1.0)])) == ()
        assert journal.get(call.operation_id) == renewed
        assert journal.perform(Renew([(call.operation_id, 7, 90.0), ("op_none", 1, 9.0)])) == (
            call.operation_id,
            "op_none",
        )

    def test_workers_share_what_is_in_doubt(self, journal: Journal) -> None:
        """Each call is taken up by one of them, until it is laid down and that time has passed."""
        calls = [unknown_call(journal, lease=1.0) for _ in range(3)]
        names = [call.operation_id for call in calls]
        assert journal.perform(TakeUp("acme", ["pay"], 9, 60.0)) == (), "its own owner may still be at it"
        self.pass_time(1.0)
        assert journal.perform(TakeUp("acme", [], 9, 60.0)) == ()
        assert journal.perform(TakeUp("other", ["pay"], 9, 60.0)) == ()
        assert [c.operation_id for c in journal.perform(TakeUp("acme", ["pay"], 2, 60.0))] == names[:2]
        assert [c.operation_id for c in journal.perform(TakeUp("acme", ["mail", "pay"], 2, 60.0))] == names[2:]
        journal.perform(LayDown(names[1], calls[1].epoch, 5.0))
        journal.perform(LayDown(names[2], calls[2].epoch + 1, 0.0))
        self.pass_time(5.0)
        assert [c.operation_id for c in journal.perform(TakeUp("acme", ["pay"], 9, 60.0))] == names[1:2]
        self.pass_time(55.0)
        assert [c.operation_id for c in journal.perform(TakeUp("acme", ["pay"], 9, 60.0))] == [names[0], names[2]]

    def test_what_lost_owners_left_is_taken_in(self, journal: Journal) -> None:
        """The oldest first; a live owner keeps what is its own."""
        lost = [begun(journal, make_ask(lease=1.0)).operation_id for _ in range(3)]
        kept = begun(journal, make_ask(lease=30.0))
        self.pass_time(1.0)
        assert journal.perform(AdoptLost("other", 9)) == 0
        assert journal.perform(AdoptLost("acme", 2)) == 2
        assert [journal.get(op).state for op in lost] == ["unknown", "unknown", "processing"]  # type: ignore[union-attr]  # they are there
        assert journal.perform(AdoptLost("acme", 2)) == 1
        assert journal.get(kept.operation_id) == kept

    # --- attempts ---

    def test_attempts_end_on_record(self, journal: Journal) -> None:
        """A failure, a further intent, and the answer; each repetition of a transition changes nothing."""
        ask = make_ask()
        call = begun(journal, ask)
        failed = journal.perform(End(call.operation_id, 1, 1, REFUSED, go_on=True))
        second = journal.perform(Begin(call.operation_id, 1, 2, ask))
        assert isinstance(second, Call)
        assert journal.perform(Begin(call.operation_id, 1, 2, ask)) == second
        done = journal.perform(End(call.operation_id, 1, 2, None, result=b"\x00\xff"))
        assert journal.perform(End(call.operation_id, 1, 2, None, result=b"\x00\xff")) == done
        assert isinstance(failed, Call)
        assert isinstance(done, Call)
        assert (failed.state, done.state, done.result) == (State.PROCESSING, State.SUCCEEDED, b"\x00\xff")
        assert journal.get(call.operation_id) == done
        assert [row.event.value for row in journal.log(call.operation_id)] == ["claim", "ended", "begin", "succeed"]

    def test_what_was_not_answered_is_unknown(self, journal: Journal) -> None:
        """A lost answer of a write ends in doubt, with an alert in the same commit."""
        call = unknown_call(journal)
        assert call.state is State.UNKNOWN
        assert call.operation_id in ids(journal, states=[State.UNKNOWN])
        assert [alert.kind for alert in journal.alerts(10_000) if alert.operation_id == call.operation_id] == [
            "unknown"
        ]

    def test_a_close_ends_what_was_not_repeated(self, journal: Journal) -> None:
        """By what the attempts have shown: here, proved not done."""
        call = begun(journal, make_ask())
        journal.perform(End(call.operation_id, 1, 1, REFUSED, go_on=True))
        closed = journal.perform(Close(call.operation_id, 1, "deadline"))
        assert isinstance(closed, Call)
        assert (closed.state, closed.reason) == (State.NOT_DONE, "deadline")

    def test_a_parked_call_waits(self, journal: Journal) -> None:
        """Until its time has come it is answered as it stands, then the next asker begins anew."""
        ask = make_ask()
        call = begun(journal, ask)
        parked = journal.perform(End(call.operation_id, 1, 1, REFUSED, park=60.0))
        assert isinstance(parked, Call)
        assert parked.state is State.PARKED
        again = replace(ask, operation_id="op_later_" + call.operation_id)
        assert journal.perform(Claim(again)) == Stands(parked)
        self.pass_time(61.0)
        reply = journal.perform(Claim(again))
        assert isinstance(reply, Begun)
        assert (reply.call.epoch, len(reply.call.attempts)) == (2, 2)

    # --- evidence and verdicts ---

    def test_a_late_answer_settles(self, journal: Journal) -> None:
        """Whoever brings it; it raises the epoch, and a second one changes nothing."""
        call = unknown_call(journal)
        settled = journal.perform(Evidence(call.operation_id, 1, None, b"late"))
        assert settled is not None
        assert (settled.state, settled.result, settled.epoch) == (State.SUCCEEDED, b"late", call.epoch + 1)
        assert journal.perform(Evidence(call.operation_id, 1, None, b"late")) == settled

    def test_evidence_against_a_final_state_disputes_it(self, journal: Journal) -> None:
        """The state stays; a person is told."""
        call = begun(journal, make_ask())
        journal.perform(End(call.operation_id, 1, 1, REFUSED, go_on=True, over=False))
        failed = journal.perform(Resolve(call.operation_id, "hold", "eva", "wait"))
        assert isinstance(failed, Refused)
        journal.perform(End(call.operation_id, 1, 1, REFUSED))
        journal.perform(Close(call.operation_id, 1, "deadline"))
        late = journal.perform(Evidence(call.operation_id, 1, None, b"after all"))
        assert late is not None
        assert (late.state, late.disputed) == (State.SUCCEEDED, True)
        assert call.operation_id in ids(journal, disputed=True)
        assert call.operation_id not in ids(journal, disputed=False)

    def test_a_probe_settles_only_by_proof(self, journal: Journal) -> None:
        """A negative answer counts once the request can no longer take effect."""
        call = unknown_call(journal, terms=Terms(lifetime=60.0))
        early = journal.perform(Settle(call.operation_id, call.epoch, happened=False, began=journal.now()))
        assert early == call
        self.pass_time(61.0)
        settled = journal.perform(Settle(call.operation_id, call.epoch, happened=False, began=journal.now()))
        assert settled is not None
        assert (settled.state, settled.decided) == (State.NOT_DONE, "probe")

    def test_a_person_settles_under_a_lock(self, journal: Journal) -> None:
        """A verdict on what has changed meanwhile is refused; any text of hers is kept as it is."""
        call = unknown_call(journal)
        assert isinstance(journal.perform(Resolve(call.operation_id, "happened", "eva", "seen", epoch=99)), Refused)
        settled = journal.perform(Resolve(call.operation_id, "happened", "eva", AWKWARD, result=b"", epoch=call.epoch))
        assert isinstance(settled, Call)
        assert (settled.decided, settled.reason, settled.result, settled.asserted) == ("person:eva", AWKWARD, b"", True)
        assert journal.get(call.operation_id) == settled
        assert journal.log(call.operation_id)[-1].detail == f"happened by eva: {AWKWARD}"

    def test_attempts_can_be_said_to_be_over(self, journal: Journal) -> None:
        """Their process was seen dead."""
        call = unknown_call(journal, over=False)
        told = journal.perform(Over(call.operation_id, [1]))
        assert told is not None
        assert told.attempts[0].over == journal.now()
        assert journal.perform(Over(call.operation_id, [1])) == told

    # --- runs and steps ---

    def test_a_run_is_entered_again(self, journal: Journal) -> None:
        """A new entry answers from the earlier one, by step and by likeness, and fences it out."""
        first = entered(journal, "trip")
        ask = scoped("trip", first, step="m1/0")
        call = ended(journal, begun(journal, ask), result=b"1")
        twin = begun(journal, replace(ask, operation_id=ask.operation_id + "b", step="m1/1", entry=first))
        assert (call.n, twin.n) == (1, 2)
        second = entered(journal, "trip")
        assert (second.no, list(second.earlier)) == (2, [1])
        played = scoped("trip", second, step="m1/0", identity=ask.identity)
        assert journal.perform(Claim(played)) == Stands(call)
        reply = journal.perform(Claim(replace(played, step="m9/0", operation_id="op_minted")))
        assert reply == Busy(twin, like=True)
        assert isinstance(journal.perform(Claim(scoped("trip", first))), Superseded)

    def test_a_turn_that_is_delivered_again_answers_from_its_own_entries(self, journal: Journal) -> None:
        """And not from those of the turns that came between."""

        def mail(turn: str) -> Ask:
            return scoped("thread", entered(journal, "thread", turn=turn), identity="mail")

        first = ended(journal, begun(journal, mail("t1")), result=b"1")
        ended(journal, begun(journal, mail("t2")), result=b"2")
        again = mail("t1")
        assert journal.perform(Claim(again)) == Stands(first, like=True)
        twin = begun(journal, replace(again, operation_id=again.operation_id + "b"))
        assert twin.n == 3

    def test_an_outcome_that_nobody_was_given_is_owed_to_a_like_ask(self, journal: Journal) -> None:
        """Once, outside of runs, when a call in doubt was settled behind its asker's back."""
        first = make_ask(kind=KeyKind.RANDOM, identity="owed")
        call = begun(journal, first)
        journal.perform(End(call.operation_id, 1, 1, LOST))
        done = journal.perform(Resolve(call.operation_id, "happened", "ann", "seen", result=b"1"))
        later = [replace(first, operation_id=f"{first.operation_id}{n}", key=f"{first.key}{n}") for n in range(3)]
        assert isinstance(done, Call)
        assert journal.perform(Claim(later[0])) == Stands(done, like=True)
        journal.perform(Heard(call.operation_id))
        journal.perform(Heard(call.operation_id))
        assert isinstance(journal.perform(Claim(later[1])), Begun)

    def test_runs_are_listed_newest_first(self, journal: Journal) -> None:
        """With what they have spent."""
        for name in ("r1", "r2", "r1"):
            journal.perform(EnterRun(name, "listed", turn="t1"))
        found = [run for run in journal.runs(10_000) if run.tenant == "listed"]
        assert [(run.run_id, run.entry, run.since, run.turn) for run in found] == [
            ("r2", 1, 1, "t1"),
            ("r1", 2, 1, "t1"),
        ]

    def test_runs_of_one_id_are_found_over_all_tenants(self, journal: Journal) -> None:
        """The newest first; one whose id only ends alike is none of them."""
        for tenant, run_id in (("one", "named"), ("two", "named"), ("two", "x 5:named"), ("two", "unnamed")):
            journal.perform(EnterRun(run_id, tenant))
        assert [(run.tenant, run.run_id) for run in journal.runs(named="named")] == [("two", "named"), ("one", "named")]
        assert [run.tenant for run in journal.runs(1, named="named")] == ["two"]
        assert list(journal.runs(named="never")) == []

    def test_a_retry_is_debited_in_the_commit_of_its_intent(self, journal: Journal) -> None:
        """And refused, with nothing recorded, when the run has nothing left."""
        entry = entered(journal, "thrifty")
        ask = scoped("thrifty", entry)
        call = begun(journal, ask)
        journal.perform(End(call.operation_id, 1, 1, REFUSED, go_on=True))
        charge = Charge("thrifty", RetryBudget(total=1))
        journal.perform(Begin(call.operation_id, 1, 2, ask, charge))
        before = journal.perform(End(call.operation_id, 1, 2, REFUSED, go_on=True))
        reply = journal.perform(Begin(call.operation_id, 1, 3, ask, charge))
        assert isinstance(reply, BudgetSpent)
        assert journal.get(call.operation_id) == before
        run = next(run for run in journal.runs(10_000) if run.run_id == "thrifty")
        assert dict(run.spent) == {"pay": 1}

    def test_what_is_unknown_is_found_by_tool_and_scope(self, journal: Journal) -> None:
        """In order of creation, whichever came into doubt first."""
        calls = [begun(journal, make_ask(tool="bar", tenant="doubt")) for _ in range(3)]
        for call in reversed(calls):
            journal.perform(End(call.operation_id, 1, 1, LOST))
        journal.perform(Evidence(calls[1].operation_id, 1, None))
        found = journal.perform(Look(lambda books: books.unsettled("doubt", "", "bar")))
        assert [call.operation_id for call in found] == [calls[0].operation_id, calls[2].operation_id]

    def test_the_first_step_wins(self, journal: Journal) -> None:
        """A step stands for one call for ever, whatever its name."""
        name = f"{AWKWARD}/0"
        journal.perform(Look(lambda books: books.put_step(AWKWARD, name, "op_first")))
        journal.perform(Look(lambda books: books.put_step(AWKWARD, name, "op_second")))
        assert journal.perform(Look(lambda books: books.by_step(AWKWARD, name))) == "op_first"
        assert journal.perform(Look(lambda books: books.by_step(AWKWARD, "m1/0"))) is None
