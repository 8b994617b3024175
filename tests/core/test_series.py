"""The attempts of one asker: what is put on record, given back, told and answered around each."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from settled.core.attempts.budget import RetryBudget
from settled.core.attempts.outcome import NEVER_SENT
from settled.core.attempts.progress import Begin, Charge, Close, End
from settled.core.commands import (
    Admitted,
    Ended,
    Invoke,
    Refund,
    Repeat,
    Report,
    Returned,
    Sleep,
    Spill,
    Tell,
    Woke,
)
from settled.core.doubt.late import Evidence
from settled.core.doubt.settling import Settle
from settled.core.model import Effect, Fault, FaultClass, Standing
from settled.core.model import Evidence as Proof
from settled.core.policy import Limits
from settled.core.runs.entering import EnterRun
from settled.core.states import State
from settled.core.values import replace
from settled.core.wire import Wire
from settled.errors import JournalError, NotExecuted
from tests.core.build import OTHER, at, attempt, call, journal
from tests.core.script import BUSY, LOST, REFUSED, SAID_NO, SAID_NOTHING, Script, drive, life, policy, sent

S = State
STALE = Fault(FaultClass.PERMANENT, Proof.NONE, "http_401", refresh=True)


def by_value(**faults: Fault) -> Any:
    """A look at values: those that are names of faults are these."""
    return lambda outcome: faults.get(outcome) if isinstance(outcome, str) else None


# --- one attempt --------------------------------------------------------------------------


def test_an_attempt_is_invoked_with_its_record_and_its_number_over_all_owners() -> None:
    kept = replace(call(S.NOT_DONE, attempt(1, Standing.NONE), attempt(2, Standing.NONE)), key="new")
    script = Script(journal(kept), [BUSY, "value"])
    answer = drive(script, life(policy()))
    invoked = sent(script, Invoke)
    assert [(i.no, i.first, i.call.operation_id) for i in invoked] == [(3, True, "op_1"), (4, False, "op_1")]
    assert [len(i.call.attempts) for i in invoked] == [3, 4]
    assert answer.attempts == 4


def test_without_a_record_attempts_are_counted_by_the_asker() -> None:
    script = Script(journal(), [LOST, "value"])
    drive(script, life(policy(effect=Effect.READ), record=False))
    assert [(i.no, i.call, i.first) for i in sent(script, Invoke)] == [(1, None, True), (2, None, False)]


@pytest.mark.parametrize(("left", "made"), [(0.0009, False), (0.001, True)])
def test_no_attempt_starts_that_cannot_end_in_time(left: float, made: bool) -> None:
    script = Script(journal(), ["value"], now=0.0)
    answer = drive(script, life(policy(), limits=Limits(left)))
    assert (answer.status == "succeeded") is made
    asker = life(policy(interruptible=True), limits=Limits(10.0))
    asker.at = 9.995
    assert drive(Script(journal(), ["value"], now=9.995), asker).status == "succeeded"


def test_a_deadline_that_has_passed_begins_nothing() -> None:
    asker = life(policy(), limits=Limits(10.0))
    asker.at = 20.0
    answer = drive(Script(journal(), ["value"], now=20.0), asker)
    assert (answer.status, answer.reason) == ("rejected", "deadline")


def test_an_exception_is_read_by_its_number_over_all_owners() -> None:
    no_name = socket.gaierror(socket.EAI_NONAME, "no such name")
    first, later, taken = (
        Script(journal(*kept), outcomes)
        for kept, outcomes in (
            ([], [no_name]),
            ([], [BUSY, no_name]),
            ([replace(call(S.NOT_DONE, attempt(1, Standing.NONE)), key="new")], [no_name]),
        )
    )
    for script in (first, later, taken):
        drive(script, life(policy(attempts=2)))
    ends = [sent(script, End)[no].fault for script, no in ((first, 0), (later, 1), (taken, 0))]
    assert ends[1] == ends[2] != ends[0]


def test_the_time_of_an_attempt_is_what_is_left_now() -> None:
    script = Script(journal(), [LOST, "value"])
    drive(script, life(policy(effect=Effect.READ, interruptible=True), limits=Limits(10.0)))
    assert [i.timeout for i in sent(script, Invoke)] == [10.0, 9.5]


def test_breakers_are_told_how_each_attempt_went() -> None:
    script = Script(journal(), [LOST, REFUSED])
    drive(script, life(policy(effect=Effect.READ)))
    assert [r.verdict for r in sent(script, Report)] == ["failure", "neutral"]


def test_the_outcome_is_told_with_its_reason() -> None:
    for outcome, limits, reason in (
        ("value", None, ""),
        (REFUSED, None, "permanent"),
        (NotExecuted("x", retryable=True, retry_after=60.0), Limits(30.0), "deadline"),
    ):
        script = Script(journal(), [outcome])
        answer = drive(script, life(policy(), limits=limits))
        assert sent(script, Tell) == [Tell("outcome", answer.call, {"reason": reason})]


def test_a_success_holds_no_fault_of_a_former_attempt() -> None:
    answer = drive(Script(journal(), [BUSY, "value"]), life(policy()))
    assert (answer.status, answer.fault, answer.reason) == ("succeeded", None, "")


def test_done_without_a_usable_answer_is_a_success_without_value() -> None:
    broken = Fault(FaultClass.UNKNOWN, Proof.DONE, "broken_answer")
    script = Script(journal(), [ValueError("x")])
    answer = drive(script, life(policy(classify=lambda _: broken)))
    assert (answer.status, answer.value, answer.fresh, answer.fault) == ("succeeded", None, False, None)


def test_a_failure_is_answered_with_its_fault() -> None:
    answer = drive(Script(journal(), [REFUSED]), life(policy()))
    assert answer.fault is not None
    assert (answer.fault.code, answer.fault.message) == ("not_executed", "no")
    unrecorded = drive(Script(journal(), [REFUSED]), life(policy(effect=Effect.READ), record=False))
    assert unrecorded.fault == answer.fault
    assert (unrecorded.recorded, unrecorded.call, unrecorded.retry_after) == (False, None, None)


def test_notes_of_a_result_are_put_on_record() -> None:
    class Noted(Script):
        def _invoke(self, nth: int) -> Ended:
            return replace(super()._invoke(nth), outcome=Returned("x" * 9, None, "too large"))

    script = Noted(journal(), ["value"])
    answer = drive(script, life(policy()))
    assert answer.call is not None
    assert (answer.status, answer.value, answer.call.result, answer.call.note) == (
        "succeeded",
        "x" * 9,
        None,
        "too large",
    )
    assert answer.note == "too large"


# --- doubt --------------------------------------------------------------------------------


def test_a_doubt_of_an_earlier_attempt_keeps_a_later_refusal_from_being_parked() -> None:
    later = NotExecuted("later", retryable=True, retry_after=60.0)
    script = Script(journal(), [LOST, later])
    answer = drive(script, life(policy(effect=Effect.IDEMPOTENT), limits=Limits(30.0)))
    assert (answer.status, answer.reason) == ("unknown", "deadline")
    assert [end.park for end in sent(script, End)] == [None, None]


@pytest.mark.parametrize("evidence", [Proof.MAYBE, Proof.DONE])
def test_an_attempt_that_may_have_had_its_effect_is_not_parked(evidence: Proof) -> None:
    slow = Fault(FaultClass.UNKNOWN, evidence, "x", retry_after=60.0)
    script = Script(journal(), ["slow"])
    declared = policy(effect=Effect.READ, classify=by_value(slow=slow))
    drive(script, life(declared, limits=Limits(30.0)))
    assert [end.park for end in sent(script, End)] == [None]


def test_what_the_other_side_may_have_forgotten_is_not_sent_again() -> None:
    script = Script(journal(), [LOST, "value"], [SAID_NOTHING])
    answer = drive(script, life(policy(effect=Effect.DEDUPLICATED, lifetime=0.0, probe=True)))
    assert (answer.status, script.counts["Invoke"], script.counts["Probe"]) == ("unknown", 1, 1)
    assert sent(script, Tell) == [Tell("outcome", answer.call, {"reason": ""})]
    assert "Repeat" not in script.counts


def test_a_refusal_after_a_doubt_is_read_as_the_refusal_of_a_repeat() -> None:
    exists = FileExistsError("x")
    script = Script(journal(), [LOST, exists])
    drive(script, life(policy(effect=Effect.IDEMPOTENT)))
    first = Script(journal(), [exists])
    drive(first, life(policy(effect=Effect.IDEMPOTENT)))
    assert sent(script, End)[-1].fault != sent(first, End)[-1].fault


def test_credentials_are_refreshed_once_per_asker_though_other_faults_come_between() -> None:
    declared = policy(effect=Effect.READ, refresh=True, attempts=9, classify=by_value(stale=STALE))
    script = Script(journal(), ["stale", LOST, "stale"])
    assert drive(script, life(declared)).status == "not_done"
    assert script.counts["Invoke"] == 3
    assert [c.refresh for c in sent(script, Repeat)] == [True, False]


def test_nothing_is_waited_for_when_the_asker_has_gone() -> None:
    script = Script(journal(), [LOST], [SAID_NO], abandon_at="Invoke")
    asker = life(policy(lifetime=3.0, probe=True, attempts=2))
    script.meddle = lambda _, name: asker.abandon() if name == "Invoke" else None
    assert drive(script, asker).status == "unknown"
    assert (script.counts["Probe"], script.counts.get("AwaitCall", 0)) == (1, 0)


def test_a_short_wait_is_too_long_for_an_asker_that_has_gone() -> None:
    script = Script(journal(), [LOST], [SAID_NO])
    asker = life(policy(lifetime=0.5, probe=True))
    script.meddle = lambda _, name: asker.abandon() if name == "Invoke" else None
    assert drive(script, asker).status == "unknown"
    assert "AwaitCall" not in script.counts


def test_a_probe_may_take_what_is_left_of_the_time() -> None:
    for limits, seconds in ((Limits(), 30.0), (Limits(10.0), 10.0), (Limits(99.0), 30.0)):
        script = Script(journal(), [LOST], [SAID_NOTHING])
        drive(script, life(policy(lifetime=3.0, probe=True), limits=limits))
        [probe] = [c for c in script.sent if type(c).__name__ == "Probe"]
        assert (probe.seconds, probe.call.state) == (seconds, S.UNKNOWN)


def test_after_proof_of_absence_the_next_attempt_follows_at_once_for_one_retry() -> None:
    script = Script(journal(), [LOST, "value"], [SAID_NO])
    drive(script, life(policy(lifetime=0.0, probe=True)))
    assert [(c.seconds, c.cost) for c in sent(script, Repeat)] == [(0.0, 1.0)]


def test_after_proof_of_absence_without_a_retry_left_in_the_pool_it_was_not_done() -> None:
    script = Script(journal(), [LOST], [SAID_NO], refusals={1: "retry_budget:process"})
    answer = drive(script, life(policy(lifetime=0.0, probe=True)))
    assert (answer.status, answer.reason) == ("not_done", "retry_budget:process")
    assert "Close" not in script.names()
    told = sent(script, Tell)[-1]
    assert (told.event, told.call.state, told.facts) == (
        "retry_not_made",
        S.NOT_DONE,
        {"reason": "retry_budget:process"},
    )


# --- the next attempt ---------------------------------------------------------------------


def test_an_intent_carries_who_makes_it() -> None:
    script = Script(journal(), [BUSY, "value"])
    answer = drive(script, life(policy()))
    [begin] = sent(script, Begin)
    assert (begin.ask.owner, begin.ask.lease, begin.no) == (OTHER, 30.0, 2)
    assert answer.call is not None
    assert answer.call.attempts[1].owner == OTHER


def test_a_repeat_that_is_free_costs_its_run_nothing() -> None:
    store = journal()
    store.perform(EnterRun("r", ""))
    script = Script(store, [BUSY, BUSY, "value"])
    asker = life(policy(), run_id="r", run_entry=1)
    asker.budget = charge = Charge("r", RetryBudget(total=5))
    drive(script, asker)
    assert [begin.charge for begin in sent(script, Begin)] == [None, charge]


def test_a_run_that_grants_nothing_gives_the_pool_its_retry_back() -> None:
    store = journal()
    store.perform(EnterRun("r", ""))
    script = Script(store, [LOST])
    asker = life(policy(effect=Effect.IDEMPOTENT), run_id="r", run_entry=1)
    asker.budget = Charge("r", RetryBudget(total=0, floor=0))
    answer = drive(script, asker)
    assert (answer.status, answer.reason) == ("unknown", "retry_budget:run")
    assert answer.fault is not None
    assert answer.fault.code == "connection_reset"
    assert [c.cost for c in sent(script, Refund)] == [1.0]
    assert [c.reason for c in sent(script, Close)] == ["retry_budget:run"]
    assert answer.call is not None
    assert answer.call.reason == "retry_budget:run"


def test_an_asker_that_goes_while_it_waits_gives_its_retry_back() -> None:
    script = Script(journal(), [LOST], abandon_at="Repeat")
    drive(script, life(policy(effect=Effect.IDEMPOTENT)))
    assert [c.cost for c in sent(script, Refund)] == [1.0]


def test_a_journal_that_fails_before_the_next_intent_sends_nothing_more() -> None:
    for outcome, status in ((BUSY, "not_done"), (LOST, "unknown")):
        script = Script(journal(), [outcome], broken={"Begin"})
        answer = drive(script, life(policy(effect=Effect.IDEMPOTENT)))
        assert (answer.status, answer.reason, answer.recorded, answer.attempts) == (status, "journal_failed", False, 1)
        assert (script.counts["Invoke"], script.counts["Refund"]) == (1, 1)
        assert answer.fault is not None
        assert answer.call is not None
        assert answer.call.state is S.PROCESSING
        [spilled] = sent(script, Spill)
        assert spilled == Spill(Evidence("op_2", 2, NEVER_SENT, claim="op_2"))


def test_a_journal_that_fails_after_a_settled_doubt_answers_from_the_record() -> None:
    script = Script(journal(), [LOST], [SAID_NO], broken={"Begin"})
    answer = drive(script, life(policy(lifetime=0.0, probe=True)))
    assert (answer.status, answer.reason, answer.recorded) == ("not_done", "journal_failed", True)
    assert answer.call is not None
    assert (answer.call.state, script.counts["Invoke"]) == (S.NOT_DONE, 1)


def taken_over(script: Script, name: str, when: str) -> None:
    """Another owner takes the call just before a transition of that name."""
    if name == when:
        for key, each in script.journal.books.calls.items():
            script.journal.books.calls[key] = replace(each, epoch=each.epoch + 5, fault=None)


def test_a_call_that_was_taken_meanwhile_answers_as_it_stands() -> None:
    script = Script(journal(), [LOST], meddle=lambda s, name: taken_over(s, name, "Begin"))
    answer = drive(script, life(policy(effect=Effect.IDEMPOTENT)))
    assert (answer.status, script.counts["Invoke"], script.counts["Refund"]) == ("in_progress", 1, 1)
    assert answer.call is not None
    assert answer.call.epoch == 6
    shut = Script(journal(), [BUSY], refusals={1: "pool"}, meddle=lambda s, name: taken_over(s, name, "Close"))
    answer = drive(shut, life(policy()))
    assert (answer.status, answer.reason) == ("in_progress", "pool")
    assert answer.fault is not None
    assert answer.fault.code == "not_executed"  # why this asker stopped, whatever the other owner has found since


def gone(script: Script, name: str, when: str) -> None:
    """The record is removed just before a transition of that name."""
    if name == when:
        script.journal.books.calls.clear()


def test_a_record_that_is_gone_loses_no_answer() -> None:
    script = Script(journal(), ["value"], meddle=lambda s, name: gone(s, name, "End"))
    answer = drive(script, life(policy()))
    assert (answer.status, answer.value, answer.recorded) == ("succeeded", "value", False)
    lost = Script(journal(), [LOST], meddle=lambda s, name: gone(s, name, "End"))
    answer = drive(lost, life(policy()))
    assert (answer.status, answer.recorded) == ("unknown", False)
    assert answer.fault is not None
    begin = Script(journal(), [LOST], meddle=lambda s, name: gone(s, name, "Begin"))
    assert drive(begin, life(policy(effect=Effect.IDEMPOTENT))).status == "in_progress"
    close = Script(journal(), [BUSY], refusals={1: "pool"}, meddle=lambda s, name: gone(s, name, "Close"))
    assert drive(close, life(policy())).reason == "pool"


# --- the journal fails --------------------------------------------------------------------


@pytest.mark.parametrize("over", [True, False])
def test_what_could_not_be_recorded_is_kept_whole_outside(over: bool) -> None:
    script = Script(journal(), [LOST], broken={"End"}, over=over)
    answer = drive(script, life(policy()))
    [spill] = sent(script, Spill)
    assert answer.fault is not None
    assert spill.evidence == Evidence("op_2", 1, answer.fault, None, "", over=over)
    assert (answer.attempts, answer.value, answer.fresh) == (1, None, False)
    assert answer.call is not None
    assert answer.call.state is S.PROCESSING


def test_notes_are_kept_outside_too() -> None:
    class Noted(Script):
        def _invoke(self, nth: int) -> Ended:
            return replace(super()._invoke(nth), outcome=Returned("x", None, "too large"))

    script = Noted(journal(), ["value"], broken={"End"})
    drive(script, life(policy()))
    assert sent(script, Spill)[0].evidence.note == "too large"


def test_a_refusal_after_a_doubt_is_no_proof_though_the_journal_fails() -> None:
    class Broken(Script):
        def perform(self, command: Any) -> Any:
            if self.counts.get("Invoke", 0) == 2:
                self.broken.add("End")
            return super().perform(command)

    script = Broken(journal(), [LOST, REFUSED])
    assert drive(script, life(policy(effect=Effect.IDEMPOTENT))).status == "unknown"


def test_an_unrecorded_close_is_answered_by_what_was_seen() -> None:
    script = Script(journal(), [BUSY], refusals={1: "pool"}, broken={"Close"})
    answer = drive(script, life(policy()))
    assert answer.fault is not None
    assert (answer.fault.code, answer.reason, answer.attempts) == ("not_executed", "journal_failed", 1)


# --- the lease ----------------------------------------------------------------------------


@pytest.mark.parametrize(("seconds", "sent_twice"), [(29.0, True), (30.0, False), (31.0, False)])
def test_nothing_is_sent_when_the_intent_took_longer_than_the_lease(seconds: float, sent_twice: bool) -> None:
    script = Script(journal(), [BUSY, "value"], slow={"Begin": seconds})
    answer = drive(script, life(policy(attempts=2)))
    assert script.counts["Invoke"] == (2 if sent_twice else 1)
    assert answer.status == ("succeeded" if sent_twice else "not_done")


def test_what_was_not_sent_in_time_may_be_sent_by_the_next_attempt() -> None:
    script = Script(journal(), ["value"], slow={"Claim": 30.0})
    answer = drive(script, life(policy()))
    assert (answer.status, answer.attempts, script.counts["Invoke"]) == ("succeeded", 2, 1)
    [first, _] = sent(script, End)
    assert (first.fault.evidence, first.fault.message, first.over) == (
        Proof.NONE,
        "the lease was over before the attempt could start",
        True,
    )
    assert [c.seconds for c in sent(script, Repeat)] == [0.5]


@pytest.mark.parametrize(("seconds", "is_sent"), [(9.0, True), (10.0, False)])
@pytest.mark.parametrize(("intent", "reason"), [("Claim", "deadline"), ("Begin", "never_sent")])
def test_nothing_is_sent_when_the_intent_outlasted_the_askers_time(
    intent: str, reason: str, seconds: float, is_sent: bool
) -> None:
    outcomes = ["value"] if intent == "Claim" else [BUSY, "value"]
    script = Script(journal(), outcomes, slow={intent: seconds})
    answer = drive(script, life(policy(attempts=2), limits=Limits(deadline=10.0)))
    assert script.counts.get("Invoke", 0) == len(outcomes) - (not is_sent)
    assert (answer.status, answer.reason) == (("succeeded", "") if is_sent else ("not_done", reason))
    if not is_sent:
        fault = sent(script, End)[-1].fault
        assert (fault.code, fault.evidence, fault.local) == ("never_sent", Proof.NONE, True)
        assert fault.message == "the asker's time was over before the attempt could start"
        assert [c.verdict for c in sent(script, Report)][-1] == "neutral"


def test_a_late_clock_is_no_late_lease() -> None:
    script = Script(journal(), [BUSY, "value"], now=500.0)
    asker = life(policy())
    asker.at = 500.0
    assert drive(script, asker).status == "succeeded"
    assert script.counts["Invoke"] == 2


# --- wire ---------------------------------------------------------------------------------


def test_time_is_cut_by_what_is_left_and_never_below_nothing() -> None:
    wire = Wire(Limits(10.0), 4.0)
    assert (wire.cut(3.0), wire.cut(9.0)) == (3.0, 6.0)
    wire.at = 10.5
    assert (wire.cut(3.0), wire.out_of_time) == (0.0, True)
    wire.at = 9.9
    assert (wire.out_of_time, Wire(Limits(), 99.0).cut(3.0), Wire(Limits(), 99.0).out_of_time) == (False, 3.0, False)
    wire.abandoned = True
    assert wire.out_of_time is True


def test_what_goes_wrong_inside_another_flow_reaches_it() -> None:
    def inner() -> Any:
        try:
            yield Sleep(1.0)
        except JournalError:
            event = yield Sleep(2.0)
            return event

    wire = Wire(Limits(), 0.0)
    flow = wire.through(inner())
    assert next(flow) == Sleep(1.0)
    assert flow.throw(JournalError("x")) == Sleep(2.0)
    with pytest.raises(StopIteration) as ended:
        flow.send(Woke(7.0))
    assert (ended.value.value, wire.at) == (Woke(7.0), 7.0)


def test_a_wrong_event_is_refused() -> None:
    flow = Wire(Limits(), 0.0).transact(Settle("op_1", 1, happened=True, began=at(0)))
    next(flow)
    with pytest.raises(TypeError):
        flow.send(Admitted(1.0))
