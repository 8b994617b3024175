"""The contract of journals on batches done in part, drafts, and runs that are rewound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.approval.drafts import DRAFTING, DropDrafts, LookAtDraft, scope_of_draft
from settled.core.ask import Begun, BudgetSpent, Stands
from settled.core.attempts.budget import RetryBudget
from settled.core.attempts.charge import Charge
from settled.core.attempts.progress import End
from settled.core.books import RunState
from settled.core.call import Call
from settled.core.doubt.late import Evidence
from settled.core.instead.fallback import GiveWay
from settled.core.matching.claim import Claim
from settled.core.model import BatchItem, Fault, FaultClass, KeyKind, Part, Terms
from settled.core.model import Evidence as Proof
from settled.core.parts import Fold, LookAtItems, part_key
from settled.core.runs.entering import EnterRun, Held, LeaveRun
from settled.core.runs.rewind import HoldRun, LookFrom, Refused, SetAside, UndoOne
from settled.core.states import State
from settled.core.values import replace
from settled.testing.records import AWKWARD, OTHER, OWNER, Timed, begun, ended, entered, make_ask, scoped

if TYPE_CHECKING:
    from settled.ports import Journal

ITEMS = (
    BatchItem("k-done", Part.DONE),
    BatchItem("k-again", Part.NOT_DONE, "busy"),
    BatchItem("k-doubt", Part.UNKNOWN, AWKWARD, b'{"item": "\x00"}'),
)


def some(number: str, items: tuple[BatchItem, ...] = ITEMS) -> Fault:
    """Return what an answer said of a batch, under keys of its own."""
    own = tuple(replace(item, key=f"{item.key}-{number}") for item in items)
    return Fault(FaultClass.PARTIAL, Proof.SOME, "bulk", items=own)


class PartContract(Timed):
    """What becomes of single items, of drafts, and of calls that are set aside."""

    def test_an_item_in_doubt_has_a_record_of_its_own(self, journal: Journal) -> None:
        """In the commit of the answer; the answer's own record keeps none of its arguments."""
        call = begun(journal, make_ask())
        end = End(call.operation_id, 1, 1, some(call.operation_id), b"answer")
        done = journal.perform(end)
        assert isinstance(done, Call)
        assert journal.perform(end) == done  # its answer was lost
        assert done.state is State.PARTIAL
        assert done.fault is not None
        assert [item.arguments for item in done.fault.items] == [b"", b"", b""]
        assert journal.get(call.operation_id) == done
        _, items, records = journal.perform(LookAtItems(call.operation_id))
        assert [item.part for item in items] == [Part.DONE, Part.NOT_DONE, Part.UNKNOWN]
        [doubt] = records
        assert (doubt.state, doubt.arguments, doubt.key) == (
            State.UNKNOWN,
            ITEMS[2].arguments,
            f"k-doubt-{call.operation_id}",
        )
        assert journal.get(doubt.operation_id) == doubt
        assert [alert.operation_id for alert in journal.alerts(10_000)].count(doubt.operation_id) == 1

    def test_an_answer_that_comes_late_is_read_by_item(self, journal: Journal) -> None:
        """And once: evidence may be brought twice."""
        call = begun(journal, make_ask(terms=Terms(timeout=1.0)))
        journal.perform(End(call.operation_id, 1, 1, Fault(FaultClass.UNKNOWN, Proof.MAYBE, "cut"), over=False))
        for _ in range(2):
            heard = journal.perform(Evidence(call.operation_id, 1, some(call.operation_id), b"answer"))
            assert heard is not None
            assert (heard.state, heard.result) == (State.PARTIAL, b"answer")
        assert len(journal.perform(LookAtItems(call.operation_id))[2]) == 1

    def test_items_end_by_the_records_that_went_on_with_them(self, journal: Journal) -> None:
        """All done: the call has succeeded. None done, for good: it has failed. Else it stays as it is."""
        call = begun(journal, make_ask())
        done = journal.perform(End(call.operation_id, 1, 1, some(call.operation_id, ITEMS[:2]), b"answer"))
        assert isinstance(done, Call)
        assert journal.perform(Fold(call.operation_id, b"all")) == done
        again = begun(journal, make_ask(key=part_key(done), fingerprint="1:part"))
        journal.perform(End(again.operation_id, 1, 1, None, b"more"))
        whole = journal.perform(Fold(call.operation_id, b"all", AWKWARD))
        assert whole is not None
        assert (whole.state, whole.result, whole.note, whole.fault) == (State.SUCCEEDED, b"all", AWKWARD, None)
        assert journal.perform(Fold(call.operation_id, b"other")) == whole
        assert journal.get(call.operation_id) == whole

    def test_what_goes_on_with_items_is_charged_as_a_repeat(self, journal: Journal) -> None:
        """In the commit of its intent."""
        entered(journal, "charged")
        ask = make_ask(run_id="charged", run_entry=1)
        charge = Charge("charged", RetryBudget(total=1))
        assert isinstance(journal.perform(Claim(ask, charge=charge)), Begun)
        assert isinstance(journal.perform(Claim(ask, charge=charge)), Begun)  # its answer was lost
        run = journal.run("acme", "charged")
        assert run is not None
        assert run.spent == {"pay": 1}
        other = make_ask(run_id="charged", run_entry=1)
        assert isinstance(journal.perform(Claim(other, charge=charge)), BudgetSpent)
        assert journal.get(other.operation_id) is None

    def test_a_call_is_on_record_before_its_draft(self, journal: Journal) -> None:
        """And goes on with it; one that is given up drops it."""
        ask = make_ask(terms=Terms(drafted=True))
        reserving = Claim(ask, begin=False, drafting=True)
        reply = journal.perform(reserving)
        assert isinstance(reply, Stands)
        assert (reply.call.state, reply.call.reason, reply.call.attempts) == (State.NOT_DONE, DRAFTING, ())
        assert journal.perform(reserving) == reply
        op = reply.call.operation_id
        assert journal.perform(LookAtDraft(op)) == (reply.call, None, 1)
        draft = begun(journal, make_ask(scope=scope_of_draft(op), terms=Terms(compensate="discard")))
        ended(journal, draft, result=b"draft")
        _, live, no = journal.perform(LookAtDraft(op))
        assert live is not None
        assert (live.operation_id, live.result, no) == (draft.operation_id, b"draft", 1)
        assert list(journal.perform(DropDrafts(op))) == []  # it may still be confirmed
        journal.perform(GiveWay(op))
        [dropped] = journal.perform(DropDrafts(op))
        assert dropped.state is State.COMPENSATING
        assert journal.perform(LookAtDraft(op))[1:] == (None, 2)

    def test_a_call_that_is_set_aside_gives_up_its_key(self, journal: Journal) -> None:
        """It keeps its record and its log; another call may have its key then."""
        entry = entered(journal, "back")
        ask = scoped("back", entry)
        keyed = replace(ask, kind=KeyKind.BUSINESS, key=f"named:{ask.operation_id}", step="")
        call = begun(journal, keyed)
        ended(journal, call, result=b"done")
        seen = journal.perform(LookFrom("back", "acme", call.operation_id))
        assert seen is not None
        assert [each.operation_id for each in (*seen.calls, *seen.standing)] == [call.operation_id] * 2
        hold = HoldRun("back", "acme", "c-rewind", OTHER, 30.0)
        journal.perform(LeaveRun("back", "acme", 1, RunState.COMPLETED))
        run = journal.perform(hold)
        assert run == journal.perform(hold)
        assert isinstance(journal.perform(replace(hold, claim="c-else")), Held)
        assert isinstance(journal.perform(replace(hold, run_id="none")), Refused)
        expected = (call.operation_id,)
        aside = SetAside("back", "acme", "c-rewind", call.operation_id, expected, keep=False, by="eva", reason=AWKWARD)
        assert isinstance(journal.perform(aside), Refused)
        assert isinstance(journal.perform(replace(aside, keep=True, expected=())), Refused)
        assert isinstance(journal.perform(replace(aside, keep=True, claim="c-else")), Refused)
        reply = journal.perform(replace(aside, keep=True))
        assert not isinstance(reply, Refused)
        [old] = reply
        assert journal.perform(replace(aside, keep=True)) == ()  # its answer was lost
        assert journal.get(call.operation_id) == old
        assert (old.state, old.key) == (State.SUCCEEDED, f"{keyed.key}~{call.operation_id}")
        assert journal.log(call.operation_id)[-1].detail == f"rewound by eva: {AWKWARD}"
        assert journal.perform(LookFrom("back", "acme", call.operation_id)) is None
        again = journal.perform(EnterRun("back", "acme", claim="c2", owner=OWNER))
        assert not isinstance(again, Held)
        fresh = replace(keyed, operation_id=f"{call.operation_id}.2", fingerprint="1:else", run_entry=3)
        begins = journal.perform(Claim(fresh))
        assert isinstance(begins, Begun)
        assert (begins.call.operation_id, begins.call.key) == (fresh.operation_id, keyed.key)

    def test_a_call_is_undone_by_itself_only_by_who_holds_its_run(self, journal: Journal) -> None:
        """Before it is set aside."""
        entry = entered(journal, "held back")
        call = begun(journal, scoped("held back", entry))
        ended(journal, call)
        undo = UndoOne("held back", "acme", "c-rewind", call.operation_id)
        assert journal.perform(undo) is None
        journal.perform(LeaveRun("held back", "acme", 1, RunState.KEPT))
        journal.perform(HoldRun("held back", "acme", "c-rewind", OTHER, 30.0))
        undone = journal.perform(undo)
        assert undone is not None
        assert undone.state is State.COMPENSATING
        assert journal.perform(undo) == undone
