"""What an asker goes through before its first attempt: a person's leave, pauses, its run's doubts and budgets."""

from __future__ import annotations

from typing import Any

import pytest

from settled.core.approval.leave import Decide
from settled.core.attempts.budget import RetryBudget
from settled.core.attempts.charge import Charge
from settled.core.attempts.retry import Again
from settled.core.commands import AwaitCall, Invoke, Join, Probe, Refund, Repeat, Report, Shut
from settled.core.instead.fallback import INSTEAD
from settled.core.matching.claim import Claim
from settled.core.matching.owed import Heard
from settled.core.model import Effect, KeyKind, Leave, Standing
from settled.core.noted.pausing import Pause
from settled.core.policy import Limits
from settled.core.states import State
from settled.core.values import replace
from tests.core.build import at, attempt, call, journal
from tests.core.script import LOST, RUN, SAID_NOTHING, Script, drive, entered, in_run, life, policy, sent, told

S = State
LEAVE = Leave("more than 500", 0.0, within=100.0)
OTHER_CALL = {"identity": "1:x", "words": "1:x", "fingerprint": "1:x"}


# --- leave --------------------------------------------------------------------------------


def decides(*, give: bool, at_wait: int = 2) -> Any:
    """A person decides while the asker waits."""

    def meddle(script: Script, name: str) -> None:
        if name == "AwaitCall" and script.counts[name] == at_wait:
            script.journal.perform(Decide("op_2", give, "ann", "as agreed"))

    return meddle


def test_an_asker_waits_for_leave_as_long_as_it_waits_at_all() -> None:
    script = Script(journal())
    answer = drive(script, life(policy(), limits=Limits(wait=4.0), leave=LEAVE))
    assert (answer.status, answer.reason) == ("awaiting_approval", "more than 500")
    waits = [(c.operation_id, c.seconds) for c in sent(script, AwaitCall)]
    assert waits == [("op_2", s) for s in (0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0, pytest.approx(0.74))]
    assert sent(script, AwaitCall)[0].local == 4.0  # it is woken by whoever decides in this process
    assert {(c.begin, c.pinned) for c in sent(script, Claim)[1:]} == {(False, "op_2")}
    assert "Invoke" not in script.counts


@pytest.mark.parametrize(("limits", "waits"), [(Limits(wait=0.0), 0), (Limits(wait=0.02), 1), (Limits(0.02), 1)])
def test_without_time_an_asker_waits_for_no_leave(limits: Limits, waits: int) -> None:
    script = Script(journal())
    assert drive(script, life(policy(), limits=limits, leave=LEAVE)).status == "awaiting_approval"
    assert len(sent(script, AwaitCall)) == waits


def test_what_a_person_gives_leave_for_meanwhile_is_made_once_for_who_waits() -> None:
    script = Script(journal(), ["value"], meddle=decides(give=True))
    answer = drive(script, life(policy(), leave=LEAVE))
    assert (answer.status, answer.value, script.counts["Invoke"]) == ("succeeded", "value", 1)
    assert answer.call is not None
    assert answer.call.leave is not None
    assert (answer.call.leave.by, answer.call.leave.used) == (("ann",), True)
    last = sent(script, Claim)[-1]
    assert (last.begin, last.pinned) == (True, "op_2")


def test_what_a_person_refuses_meanwhile_is_told_and_not_made() -> None:
    script = Script(journal(), ["value"], meddle=decides(give=False))
    assert told(drive(script, life(policy(), leave=LEAVE))) == ("refused", "as agreed")
    assert len(sent(script, AwaitCall)) == 2
    assert "Invoke" not in script.counts


def test_an_asker_that_has_gone_waits_for_no_leave() -> None:
    made = life(policy(), leave=LEAVE)
    script = Script(journal(), meddle=lambda _, name: made.abandon() if name == "AwaitCall" else None)
    assert drive(script, made).status == "awaiting_approval"
    assert len(sent(script, AwaitCall)) == 1


# --- what is in the way -------------------------------------------------------------------


def test_of_a_paused_tool_nothing_begins_and_the_asker_hears_why() -> None:
    store = journal()
    store.perform(Pause("pay", "ann", "the bank is away", resume=False, nonce="n1"))
    script = Script(store, ["value"])
    answer = drive(script, life(policy()))
    assert (told(answer), answer.note) == (("rejected", "paused"), "the bank is away")
    assert (store.count(), "Invoke" in script.counts) == ({}, False)


@pytest.mark.parametrize(("state", "standing"), [(S.UNKNOWN, Standing.MAYBE), (S.PROCESSING, Standing.OPEN)])
def test_what_cannot_be_undone_is_refused_while_an_earlier_step_is_in_doubt_or_at_work(
    state: State, standing: Standing
) -> None:
    store = entered()
    earlier = call(state, attempt(1, standing), kind=KeyKind.SCOPED, scope=RUN, tool="book", lease=at(99))
    store.books._add(earlier)
    made = in_run()
    made.ask = replace(made.ask, terms=replace(made.ask.terms, irreversible=True))
    script = Script(store, ["value"])
    answer = drive(script, made)
    assert (told(answer), answer.earlier) == (("rejected", "unsettled_before"), (earlier,))
    assert "Invoke" not in script.counts


def test_an_open_breaker_lets_nothing_begin_but_shows_what_is_on_record() -> None:
    script = Script(journal(), shut={1: Shut("tool:pay", 7.0, 0.0)})
    drive(script, life(policy()))
    assert [c.begin for c in sent(script, Claim)] == [False]


def test_a_doubt_about_what_another_tool_did_instead_is_not_put_to_this_tools_probe() -> None:
    instead = {"identity": INSTEAD, "words": INSTEAD, "fingerprint": INSTEAD, "scope": RUN, "tool": "mail"}
    doubt = call(S.UNKNOWN, attempt(1, Standing.MAYBE), **instead)
    own = call(S.UNKNOWN, attempt(1, Standing.MAYBE), operation_id="op_3", key="3", **OTHER_CALL)
    own = replace(own, kind=KeyKind.SCOPED, scope=RUN)
    for falls_to, barring, asked_after in ((("mail",), (doubt,), []), ((), (own,), [own])):
        store = entered()
        for each in barring:
            store.books._add(each)
        script = Script(store, ["value"], [SAID_NOTHING])
        declared = {"lifetime": 0.0, "probe": True}
        made = in_run(declared, kind=KeyKind.SCOPED, while_unknown="any", falls_to=falls_to)
        answer = drive(script, made)
        assert (told(answer), answer.earlier) == (("rejected", "unknown_before"), barring)
        assert [c.call for c in sent(script, Probe)] == asked_after


def test_a_dead_owners_call_is_asked_about_by_its_id_once_it_was_taken() -> None:
    kept = call(S.PROCESSING, attempt(), key="new", lease=at(1000))
    script = Script(journal(kept), alive=False)
    assert told(drive(script, life(policy()))) == ("unknown", "owner_lost")
    assert [c.pinned for c in sent(script, Claim)][:2] == ["", "op_1"]


@pytest.mark.parametrize(("wait", "heard"), [(4.0, [4.0, 3.98]), (60.0, [5.0, 5.0])])
def test_a_call_whose_end_is_heard_of_is_looked_at_seldom(wait: float, heard: list[float]) -> None:
    kept = call(S.PROCESSING, attempt(), key="new", lease=at(1000))
    script = Script(journal(kept))
    drive(script, life(policy(), limits=Limits(wait=wait)))
    assert [c.heard for c in sent(script, AwaitCall)][:2] == heard


def test_who_has_gone_has_not_heard_what_was_owed() -> None:
    done = call(S.SUCCEEDED, attempt(1, Standing.DONE), kind=KeyKind.RANDOM, key="old", decided="probe")
    store = journal(done)
    store.books.put_owed(done)
    made = life(policy(), kind=KeyKind.RANDOM)
    script = Script(store, meddle=lambda _, name: made.abandon() if name == "Report" else None)
    drive(script, made)
    assert sent(script, Heard) == []
    assert list(store.books.owed("", "pay", "1:i")) == ["op_1"]


# --- what another call has left is gone on with -------------------------------------------


def going_on(cost: float, budget: RetryBudget | None = None) -> Any:
    """An asker that goes on with what another call has left: its first attempt is a repeat."""
    made = in_run()
    made.again, made.budget = Again(0.5, cost), Charge("r", budget or RetryBudget(total=2, floor=0))
    return made


def test_what_goes_on_with_another_call_waits_and_asks_as_a_repeat_does() -> None:
    script = Script(entered(), ["value"])
    assert drive(script, going_on(1.0)).value == "value"
    assert script.names()[:3] == ["Repeat", "Claim", "Invoke"]
    assert [(c.cost, c.seconds) for c in sent(script, Repeat)] == [(1.0, 0.5)]
    assert "Admit" not in script.counts


@pytest.mark.parametrize(("cost", "spent"), [(0.0, {}), (0.35, {"pay": 1}), (1.0, {"pay": 1})])
def test_what_goes_on_costs_its_run_a_whole_repeat_unless_it_is_free(cost: float, spent: dict[str, int]) -> None:
    script = Script(entered(), ["value"])
    assert drive(script, going_on(cost)).status == "succeeded"
    assert script.journal.run("", "r").spent == spent  # type: ignore[union-attr]  # it was entered


def test_what_goes_on_is_not_begun_where_a_pool_does_not_grant_it() -> None:
    of_process = Script(entered(), ["value"], refusals={1: "retry_budget:process"})
    assert told(drive(of_process, going_on(1.0))) == ("rejected", "retry_budget:process")
    of_run = Script(entered(), ["value"])
    assert told(drive(of_run, going_on(1.0, RetryBudget(total=0, floor=0)))) == ("rejected", "retry_budget:run")
    for script in (of_process, of_run):
        assert (script.journal.count(), "Invoke" in script.counts) == ({}, False)
    shut = Script(entered(), ["value"], shut={1: Shut("tool:pay", 7.0, 0.0)})
    assert told(drive(shut, going_on(1.0))) == ("rejected", "breaker_open")
    assert [c.cost for c in sent(shut, Refund)] == [1.0]


# --- in one transaction with its record -----------------------------------------------------


def test_rows_in_the_journals_own_transaction_are_made_with_their_record_in_one_commit() -> None:
    script = Script(journal(), ["value"])
    answer = drive(script, life(policy(effect=Effect.TRANSACTIONAL)))
    assert (answer.status, answer.value, answer.attempts) == ("succeeded", "value", 1)
    assert script.names() == ["Admit", "Join", "Report", "Tell"]
    assert sent(script, Join)[0].start is True
    assert sent(script, Invoke) == []


def test_with_an_open_breaker_no_transaction_is_begun() -> None:
    script = Script(journal(), ["value"], shut={1: Shut("tool:pay", 7.0, 0.0)})
    assert told(drive(script, life(policy(effect=Effect.TRANSACTIONAL)))) == ("rejected", "breaker_open")
    assert script.names() == ["Admit", "Claim"]
    lost = Script(journal(), [LOST, "value"])
    answer = drive(lost, life(policy(effect=Effect.TRANSACTIONAL)))
    assert (answer.value, answer.call.attempts[0].standing) == ("value", Standing.NONE)  # type: ignore[union-attr]
    assert [c.verdict for c in sent(lost, Report)] == ["failure", "success"]
