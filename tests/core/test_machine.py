"""The life of one call, driven by hand: which commands go out for which events, and what is answered."""

from __future__ import annotations

from typing import Any

import pytest

from settled.core.attempts.budget import RetryBudget
from settled.core.attempts.progress import Begin, Charge, Close, End
from settled.core.commands import (
    AwaitCall,
    Ended,
    Invoke,
    Refund,
    Repeat,
    Report,
    Shut,
    Spill,
    Tell,
    Transact,
)
from settled.core.encoding import codec
from settled.core.matching.claim import Claim
from settled.core.model import Effect, Evidence, Fault, FaultClass, Standing
from settled.core.policy import Limits
from settled.core.runs.entering import EnterRun
from settled.core.states import State
from settled.core.values import replace
from settled.errors import JournalError, NotExecuted, PartlyDone
from tests.core.build import at, attempt, call, journal
from tests.core.script import BUSY, LOST, REFUSED, SAID_NO, SAID_NOTHING, SAID_YES, Script, drive, life, policy

# --- one attempt --------------------------------------------------------------------------


def test_the_commands_of_a_success_in_order() -> None:
    script = Script(journal(), ["value"])
    answer = drive(script, life(policy()))
    assert (answer.status, answer.value, answer.fresh, answer.recorded, answer.attempts) == (
        "succeeded",
        "value",
        True,
        True,
        1,
    )
    assert script.names() == ["Admit", "Claim", "Invoke", "Report", "End", "Tell"]
    assert [c.verdict for c in script.sent if isinstance(c, Report)] == ["success"]
    assert answer.call is not None
    assert answer.call.result == codec.dumps("value")


def test_a_call_that_needs_no_record_touches_no_journal() -> None:
    script = Script(journal(), ["value"])
    answer = drive(script, life(policy(effect=Effect.READ), record=False))
    assert (answer.status, answer.value, answer.recorded) == ("succeeded", "value", False)
    assert script.names() == ["Invoke"]


def test_an_attempt_is_invoked_with_its_time_and_deadline() -> None:
    for declared, deadline, interruptible, expected in (
        (None, None, False, None),
        (10.0, None, True, 10.0),
        (10.0, 4.0, True, 4.0),
        (2.0, 4.0, True, 2.0),
        (None, 4.0, True, 4.0),
        (None, 4.0, False, None),
    ):
        script = Script(journal(), ["value"])
        drive(script, life(policy(timeout=declared, interruptible=interruptible), limits=Limits(deadline)))
        invoked = next(c for c in script.sent if isinstance(c, Invoke))
        assert (invoked.timeout, invoked.deadline, invoked.no, invoked.first) == (expected, deadline, 1, True)


@pytest.mark.parametrize("deadline", [0.0, -5.0, 0.0005])
def test_without_time_nothing_is_begun_and_a_record_still_answers(deadline: float) -> None:
    script = Script(journal(), ["value"])
    answer = drive(script, life(policy(), limits=Limits(deadline)))
    assert (answer.status, answer.reason) == ("rejected", "deadline")
    assert script.names() == ["Claim"]
    kept = replace(call(State.SUCCEEDED, attempt(standing=Standing.DONE)), key="new", result=codec.dumps(1))
    answer = drive(Script(journal(kept)), life(policy(), limits=Limits(deadline)))
    assert (answer.status, answer.fresh) == ("succeeded", False)


def test_an_open_breaker_makes_no_attempt_and_says_when() -> None:
    script = Script(journal(), ["value"], shut={1: Shut("tool:pay", 7.0, 0.0)})
    answer = drive(script, life(policy()))
    assert (answer.status, answer.reason, answer.retry_after) == ("rejected", "breaker_open", 7.0)
    assert script.names() == ["Admit", "Claim"]
    assert script.journal.count() == {}


def test_a_replay_gives_the_breakers_place_back() -> None:
    kept = replace(call(State.SUCCEEDED, attempt(standing=Standing.DONE)), key="new", result=codec.dumps(1))
    script = Script(journal(kept))
    assert drive(script, life(policy())).status == "succeeded"
    assert script.names() == ["Admit", "Claim", "Report"]
    assert [c.verdict for c in script.sent if isinstance(c, Report)] == ["neutral"]


def test_a_permanent_refusal_is_final() -> None:
    script = Script(journal(), [REFUSED])
    answer = drive(script, life(policy()))
    assert (answer.status, answer.reason) == ("failed", "not_executed")
    assert script.counts["Invoke"] == 1


def test_a_lost_answer_of_a_write_is_unknown_and_not_repeated() -> None:
    script = Script(journal(), [LOST])
    answer = drive(script, life(policy()))
    assert answer.status == "unknown"
    assert script.counts["Invoke"] == 1
    assert answer.call is not None
    assert answer.call.attempts[0].standing is Standing.MAYBE


def test_done_in_part_is_partial() -> None:
    script = Script(journal(), [PartlyDone(["a"], ["b"])])
    answer = drive(script, life(policy()))
    assert answer.status == "partial"
    assert answer.call is not None
    assert answer.call.result == b"part"


# --- repeats ------------------------------------------------------------------------------


def test_the_commands_of_a_repeat_in_order() -> None:
    script = Script(journal(), [BUSY, BUSY, "value"])
    answer = drive(script, life(policy()))
    assert (answer.status, answer.value, answer.attempts) == ("succeeded", "value", 3)
    again = ["Repeat", "Begin", "Invoke", "Report", "End"]
    assert script.names() == ["Admit", "Claim", "Invoke", "Report", "End", *again, *again, "Tell"]
    assert [c.seconds for c in script.sent if isinstance(c, Repeat)] == [0.5, 1.0]
    assert [c.cost for c in script.sent if isinstance(c, Repeat)] == [0.0, 1.0]  # the first proved-not-sent is free
    assert [c.first for c in script.sent if isinstance(c, Invoke)] == [True, False, False]


def test_attempts_are_spent() -> None:
    script = Script(journal(), [BUSY])
    answer = drive(script, life(policy(attempts=2)))
    assert (answer.status, answer.reason, answer.attempts) == ("not_done", "not_executed", 2)
    assert script.counts["Invoke"] == 2


@pytest.mark.parametrize("effect", [Effect.READ, Effect.IDEMPOTENT, Effect.DEDUPLICATED])
def test_what_may_be_repeated_in_doubt_is(effect: Effect) -> None:
    script = Script(journal(), [LOST, "value"])
    answer = drive(script, life(policy(effect=effect, remote_retention=1000.0)))
    assert (answer.status, answer.value) == ("succeeded", "value")


@pytest.mark.parametrize(
    ("effect", "status"), [(Effect.READ, "not_done"), (Effect.IDEMPOTENT, "unknown"), (Effect.DEDUPLICATED, "unknown")]
)
def test_what_stays_in_doubt_is_said(effect: Effect, status: str) -> None:
    script = Script(journal(), [LOST])
    answer = drive(script, life(policy(effect=effect, remote_retention=1000.0)))
    assert answer.status == status
    assert script.counts["Invoke"] == 3


def test_a_definite_refusal_after_a_doubt_clears_nothing() -> None:
    script = Script(journal(), [LOST, REFUSED])
    answer = drive(script, life(policy(effect=Effect.IDEMPOTENT)))
    assert answer.status == "unknown"


def test_no_repeat_is_slept_for_that_does_not_fit() -> None:
    script = Script(journal(), [NotExecuted("later", retryable=True, retry_after=60.0)])
    answer = drive(script, life(policy(), limits=Limits(30.0)))
    assert (answer.status, answer.reason) == ("not_done", "deadline")
    assert "Repeat" not in script.counts
    assert answer.call is not None
    assert answer.call.state is State.PARKED
    assert answer.call.not_before == pytest.approx(script.journal.now().wall + 63.0)


def test_a_pool_that_does_not_grant_ends_the_series() -> None:
    script = Script(journal(), [BUSY], refusals={1: "retry_budget:process"})
    answer = drive(script, life(policy()))
    assert (answer.status, answer.reason) == ("not_done", "retry_budget:process")
    assert script.names()[-3:] == ["Repeat", "Tell", "Close"]
    told = [c for c in script.sent if isinstance(c, Tell)]
    assert [(t.event, t.facts) for t in told] == [("retry_not_made", {"reason": "retry_budget:process"})]
    assert "Refund" not in script.counts


def test_a_breaker_that_opened_meanwhile_ends_the_series_and_costs_nothing() -> None:
    script = Script(journal(), [LOST], shut={2: Shut("tool:pay", 7.0, 0.0)})
    answer = drive(script, life(policy(effect=Effect.IDEMPOTENT)))
    assert (answer.status, answer.reason) == ("unknown", "breaker_open")
    assert [c.cost for c in script.sent if isinstance(c, Refund)] == [1.0]


def test_the_runs_budget_is_asked_in_the_commit_of_the_intent() -> None:
    store = journal()
    store.perform(EnterRun("r", ""))
    script = Script(store, [LOST])
    made = life(policy(effect=Effect.IDEMPOTENT, attempts=9), run_id="r", run_entry=1)
    made.budget = Charge("r", RetryBudget(total=2, floor=0))
    answer = drive(script, made)
    assert (answer.status, answer.reason) == ("unknown", "retry_budget:run")
    assert script.counts["Invoke"] == 3
    assert script.counts["Refund"] == 1
    assert [c.verdict for c in script.sent if isinstance(c, Report)][-1] == "neutral"


def test_credentials_are_refreshed_once() -> None:
    stale = Fault(FaultClass.PERMANENT, Evidence.NONE, "http_401", refresh=True)
    declared = policy(refresh=True, classify=lambda outcome: stale if outcome == "401" else None)
    script = Script(journal(), ["401", "value"])
    assert drive(script, life(declared)).value == "value"
    assert [c.refresh for c in script.sent if isinstance(c, Repeat)] == [True]
    twice = Script(journal(), ["401"])
    answer = drive(twice, life(declared))
    assert (answer.status, twice.counts["Invoke"], twice.counts["Repeat"]) == ("not_done", 2, 1)
    without = Script(journal(), ["401"])
    assert drive(without, life(replace(declared, refresh=False))).status == "not_done"
    assert without.counts["Invoke"] == 1


def test_an_unrecorded_read_is_repeated_too() -> None:
    script = Script(journal(), [LOST, LOST, "value"])
    answer = drive(script, life(policy(effect=Effect.READ), record=False))
    assert (answer.status, answer.attempts) == ("succeeded", 3)
    assert script.names() == [*["Invoke", "Repeat"] * 2, "Invoke"]
    assert [c.first for c in script.sent if isinstance(c, Invoke)] == [True, False, False]
    spent = Script(journal(), [LOST], refusals={2: "retry_budget:process"})
    answer = drive(spent, life(policy(effect=Effect.READ, attempts=9), record=False))
    assert (answer.status, answer.reason, answer.attempts) == ("not_done", "retry_budget:process", 2)
    final = drive(Script(journal(), [REFUSED]), life(policy(effect=Effect.READ), record=False))
    assert (final.status, final.reason) == ("failed", "not_executed")
    parked = Script(journal(), [NotExecuted("x", retryable=True, retry_after=60.0)])
    answer = drive(parked, life(policy(effect=Effect.READ), record=False, limits=Limits(30.0)))
    assert (answer.status, answer.reason) == ("not_done", "deadline")
    assert answer.retry_after == pytest.approx(63.0)


# --- settling -----------------------------------------------------------------------------


def test_a_doubt_is_settled_by_the_probe_while_the_asker_waits() -> None:
    script = Script(journal(), [LOST], [SAID_YES])
    answer = drive(script, life(policy(lifetime=3.0, probe=True)))
    assert (answer.status, answer.fresh) == ("succeeded", False)
    assert answer.call is not None
    assert answer.call.result == codec.dumps("found")
    assert answer.reason == ""


def test_a_negative_probe_is_waited_for_until_it_is_proof_and_the_call_made_again() -> None:
    script = Script(journal(), [LOST, "value"], [SAID_NO])
    answer = drive(script, life(policy(lifetime=3.0, probe=True)))
    assert (answer.status, answer.value) == ("succeeded", "value")
    assert script.counts["Probe"] == 2
    assert [c.seconds for c in script.sent if isinstance(c, AwaitCall)] == [pytest.approx(3.0, abs=0.01)]


def test_proof_that_takes_longer_than_the_asker_waits_leaves_it_unknown() -> None:
    script = Script(journal(), [LOST], [SAID_NO])
    answer = drive(script, life(policy(lifetime=30.0, probe=True)))
    assert answer.status == "unknown"
    assert script.counts["Probe"] == 1
    assert "AwaitCall" not in script.counts
    cut = Script(journal(), [LOST], [SAID_NO])
    assert drive(cut, life(policy(lifetime=3.0, probe=True), limits=Limits(2.0, wait=60.0))).status == "unknown"


def test_a_probe_that_cannot_tell_settles_nothing() -> None:
    script = Script(journal(), [LOST], [SAID_NOTHING])
    assert drive(script, life(policy(lifetime=0.0, probe=True))).status == "unknown"
    assert script.counts["Probe"] == 1


def test_an_attempt_that_still_runs_is_no_ground_for_proof() -> None:
    script = Script(journal(), [LOST], [SAID_NO], over=False)
    assert drive(script, life(policy(lifetime=0.0, probe=True))).status == "unknown"
    dead = Script(journal(), [LOST, "value"], [SAID_NO], over=False, alive=False)
    assert drive(dead, life(policy(lifetime=0.0, probe=True))).status == "succeeded"


def test_proved_absent_with_all_attempts_made_is_not_done() -> None:
    script = Script(journal(), [LOST], [SAID_NO])
    answer = drive(script, life(policy(lifetime=0.0, probe=True, attempts=1)))
    assert (answer.status, script.counts["Invoke"]) == ("not_done", 1)


def test_another_askers_doubt_is_settled_first() -> None:
    doubt = replace(call(State.UNKNOWN, attempt(standing=Standing.MAYBE)), key="new")
    declared = policy(lifetime=0.0, probe=True)
    kept = replace(doubt, terms=replace(declared.terms))
    yes = Script(journal(kept), [], [SAID_YES])
    assert drive(yes, life(declared)).status == "succeeded"
    no = Script(journal(kept), ["value"], [SAID_NO])
    answer = drive(no, life(declared))
    assert (answer.status, answer.value) == ("succeeded", "value")
    nothing = Script(journal(kept), [], [SAID_NOTHING])
    answer = drive(nothing, life(declared))
    assert (answer.status, nothing.counts["Probe"]) == ("unknown", 1)
    unprobed = Script(journal(kept))
    assert drive(unprobed, life(policy())).status == "unknown"


def test_a_doubt_that_may_be_repeated_is_repeated_for_an_asker_who_is_there() -> None:
    declared = policy(effect=Effect.IDEMPOTENT)
    kept = replace(call(State.UNKNOWN, attempt(standing=Standing.MAYBE)), key="new", terms=declared.terms)
    script = Script(journal(kept), ["value"])
    answer = drive(script, life(declared))
    assert (answer.status, answer.value) == ("succeeded", "value")


# --- other owners -------------------------------------------------------------------------


def test_a_live_owner_is_waited_for_and_then_told_of() -> None:
    kept = replace(call(State.PROCESSING, attempt(), lease=at(1000)), key="new")
    script = Script(journal(kept))
    answer = drive(script, life(policy(), limits=Limits(wait=2.0)))
    assert answer.status == "in_progress"
    waits = [c.seconds for c in script.sent if isinstance(c, AwaitCall)]
    assert waits[0] == 0.02
    assert max(waits) <= 1.0
    assert 1.99 <= sum(waits) <= 3.1


def test_waiting_ends_with_the_deadline() -> None:
    kept = replace(call(State.PROCESSING, attempt(), lease=at(1000)), key="new")
    script = Script(journal(kept))
    assert drive(script, life(policy(), limits=Limits(1.0, wait=60.0))).status == "in_progress"
    assert sum(c.seconds for c in script.sent if isinstance(c, AwaitCall)) <= 1.01


def test_other_arguments_are_a_conflict() -> None:
    kept = replace(call(State.SUCCEEDED, attempt(standing=Standing.DONE)), key="new", fingerprint="1:x")
    answer = drive(Script(journal(kept)), life(policy()))
    assert (answer.status, answer.reason, answer.call, answer.earlier) == ("conflict", "other_arguments", kept, (kept,))


def test_a_lost_claim_is_answered_from_the_record() -> None:
    store = journal()

    class Stolen(Script):
        def _invoke(self, nth: int) -> Ended:
            taken = self.journal.find_all()[0] if hasattr(self.journal, "find_all") else None
            made = next(iter(self.journal.books.calls.values())) if taken is None else taken
            self.journal.books.calls[made.operation_id] = replace(made, epoch=made.epoch + 5)
            return super()._invoke(nth)

    script = Stolen(store, [LOST])
    answer = drive(script, life(policy()))
    assert answer.status == "in_progress"  # the later owner's affair
    assert script.counts["Invoke"] == 1


# --- the journal fails --------------------------------------------------------------------


def test_a_journal_that_fails_before_closes() -> None:
    script = Script(journal(), ["value"], broken={"Claim"})
    with pytest.raises(JournalError):
        drive(script, life(policy()))
    assert "Invoke" not in script.counts
    spilled = next(c.evidence for c in script.sent if isinstance(c, Spill))
    assert (spilled.fault.code, spilled.no) == ("never_sent", 1)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("outcome", "effect", "status"),
    [
        ("value", Effect.WRITE, "succeeded"),
        (REFUSED, Effect.WRITE, "not_done"),
        (LOST, Effect.WRITE, "unknown"),
        (LOST, Effect.READ, "not_done"),
    ],
)
def test_a_journal_that_fails_after_the_effect_loses_nothing(outcome: Any, effect: Effect, status: str) -> None:
    script = Script(journal(), [outcome], broken={"End"})
    answer = drive(script, life(policy(effect=effect)))
    assert (answer.status, answer.recorded, answer.reason) == (status, False, "journal_failed")
    assert (answer.value, answer.fresh) == (("value", True) if status == "succeeded" else (None, False))
    spilled = next(c.evidence for c in script.sent if isinstance(c, Spill))
    assert spilled.no == 1
    assert spilled.result == (codec.dumps("value") if status == "succeeded" else None)


def test_a_journal_that_fails_while_settling_leaves_it_in_the_queue() -> None:
    script = Script(journal(), [LOST], [SAID_YES], broken={"Settle"})
    assert drive(script, life(policy(lifetime=0.0, probe=True))).status == "unknown"


def test_a_journal_that_fails_to_close_still_answers() -> None:
    script = Script(journal(), [BUSY], refusals={1: "retry_budget:process"}, broken={"Close"})
    answer = drive(script, life(policy()))
    assert (answer.status, answer.recorded) == ("not_done", False)


# --- time and cancellation ----------------------------------------------------------------


def test_nothing_is_sent_when_the_claim_took_longer_than_the_lease() -> None:
    script = Script(journal(), ["value"], took=31.0)
    answer = drive(script, life(policy(attempts=1)))
    assert answer.status == "not_done"
    assert "Invoke" not in script.counts
    assert answer.call is not None
    assert answer.call.attempts[0].standing is Standing.NONE


def test_an_asker_that_has_gone_begins_nothing_more() -> None:
    script = Script(journal(), [BUSY, "value"], abandon_at="Invoke")
    answer = drive(script, life(policy()))
    assert (answer.status, answer.reason, script.counts["Invoke"]) == ("not_done", "cancelled", 1)
    asleep = Script(journal(), [BUSY, "value"], abandon_at="Repeat")
    answer = drive(asleep, life(policy()))
    assert (answer.status, answer.reason, asleep.counts["Invoke"]) == ("not_done", "cancelled", 1)


def test_the_transitions_carry_what_the_machine_knows() -> None:
    script = Script(journal(), [BUSY, "value"])
    drive(script, life(policy()))
    sent = [c.transition for c in script.sent if isinstance(c, Transact)]
    claim, end, begin, last = sent
    assert isinstance(claim, Claim)
    assert claim.begin is True
    assert isinstance(end, End)
    assert (end.no, end.epoch, end.go_on, end.over, end.reason) == (1, 1, True, True, "not_executed")
    assert isinstance(begin, Begin)
    assert (begin.no, begin.epoch, begin.ask, begin.charge) == (2, 1, claim.ask, None)
    assert isinstance(last, End)
    assert (last.no, last.go_on, last.fault, last.result) == (2, False, None, codec.dumps("value"))
    assert not [t for t in sent if isinstance(t, Close)]
