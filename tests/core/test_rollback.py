"""The machine that undoes a run, played command by command against a journal in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from settled.core.ask import Superseded
from settled.core.attempts.progress import Begin, End
from settled.core.books import RunState
from settled.core.commands import Transact
from settled.core.matching.claim import Claim
from settled.core.model import Effect, Terms
from settled.core.runs.entering import EnterRun, Held, Undone
from settled.core.runs.rollback import Compensate, Compensated, rollback, worth_another
from settled.core.runs.saga import EndRollback, LookThrough, StartRollback, StepUndone
from settled.core.states import State
from settled.testing.records import LOST, OTHER, OWNER, REFUSED, begun, ended, entered, scoped
from tests.core.rolling import BACK, World

if TYPE_CHECKING:
    from settled.core.call import Call


@pytest.fixture
def world() -> World:
    return World()


def test_the_last_begun_is_undone_first(world: World) -> None:
    steps = [world.step() for _ in range(3)]
    world.step(Terms(Effect.READ))
    world.step(Terms(waived=True))
    assert world.play().state is RunState.COMPENSATED
    assert list(world.undone()) == [step.operation_id for step in steps[::-1]]
    assert [world.of(step).state for step in steps] == [State.COMPENSATED] * 3
    assert (world.run.reason, world.run.entry, world.run.owner) == ("late", 2, None)


AGAIN = Terms(Effect.IDEMPOTENT, compensate="refund", lifetime=3.0)


def made_again(world: World, terms: Terms = AGAIN, *, over: bool = True) -> Call:
    """Return a step whose first request got no answer, and whose second one was answered."""
    ask = scoped("r", world.entry, terms=terms)
    call = begun(world.journal, ask)
    world.journal.perform(End(call.operation_id, 1, 1, LOST, go_on=True, over=over))
    world.clock.advance(1.0)
    world.journal.perform(Begin(call.operation_id, 1, 2, ask))
    world.journal.perform(End(call.operation_id, 1, 2, None))
    return world.of(call)


def test_a_request_that_may_still_arrive_is_outwaited_before_its_step_is_undone(world: World) -> None:
    step, last = made_again(world), world.step()
    seen: list[tuple[str, float]] = []
    compensated = world.compensated
    world.compensated = lambda call: (seen.append((call.operation_id, world.clock.mono)), compensated(call))[1]  # type: ignore[method-assign]  # to listen
    sent = step.attempts[0].over
    assert sent is not None
    assert world.play().state is RunState.COMPENSATED
    assert [operation_id for operation_id, _ in seen] == [last.operation_id, step.operation_id]
    assert seen[1][1] >= sent.mono + 3.0


@pytest.mark.parametrize(
    "terms",
    [
        Terms(Effect.IDEMPOTENT, compensate="refund"),
        Terms(Effect.DEDUPLICATED, compensate="refund", lifetime=3.0, remote_retention=1e6),
    ],
    ids=["no lifetime is declared", "the other side knows the key"],
)
def test_what_cannot_be_waited_for_or_need_not_is_undone_at_once(world: World, terms: Terms) -> None:
    made_again(world, terms)
    before = world.clock.mono
    assert (world.play().state, world.clock.mono) == (RunState.COMPENSATED, before)


@pytest.mark.parametrize("over", [True, False])
def test_a_step_that_cannot_be_outwaited_is_queued_and_undone_later(world: World, *, over: bool) -> None:
    step = made_again(world, over=over)
    assert world.play(wait=0.5).state is RunState.PARTLY_COMPENSATED
    assert (world.of(step).reason, "Compensate" in world.commands) == ("may_arrive", False)

    def worth() -> bool:
        seen = world.journal.perform(LookThrough("r", "acme"))
        return worth_another(world.run, seen, {}, {"refund"}, world.clock())

    assert worth() is not over  # whether its process lives another one may see
    world.clock.advance(10.0)
    assert worth() is True
    world.alive = False  # who sent it is seen dead; its request may still be on its way
    assert world.play(claim="c2", entry=None, wait=9.0).state is RunState.COMPENSATED
    assert world.of(step).state is State.COMPENSATED


def test_a_step_that_was_known_late_keeps_its_place(world: World) -> None:
    first = world.step(fault=LOST)
    second = world.step()
    world.probes[first.operation_id] = True
    assert world.play().state is RunState.COMPENSATED
    assert list(world.undone()) == [second.operation_id, first.operation_id]


def test_what_was_made_anew_stands_where_that_was_begun(world: World) -> None:
    first = world.step(fault=REFUSED)
    second = world.step()
    again = entered(world.journal, "r", owner=OWNER, claim="e2", dead="e1")
    ask = scoped("r", again, terms=BACK, identity=first.identity, words=first.words)
    world.journal.perform(Claim(ask))
    ended(world.journal, world.of(first))
    assert world.play(entry=2).state is RunState.COMPENSATED
    assert list(world.undone()) == [first.operation_id, second.operation_id]


def test_what_proves_not_done_is_not_undone(world: World) -> None:
    doubt = world.step(fault=LOST)
    world.probes[doubt.operation_id] = False
    assert world.play().state is RunState.COMPENSATED
    assert "Compensate" not in world.commands


def test_what_stays_unknown_leaves_the_run_undone_in_part(world: World) -> None:
    step, doubt = world.step(), world.step(fault=LOST)
    assert world.play().state is RunState.PARTLY_COMPENSATED
    assert (world.of(step).state, world.of(doubt).state) == (State.COMPENSATED, State.UNKNOWN)


def test_a_call_at_work_is_waited_for_and_no_longer_than_patience_lasts(world: World) -> None:
    at_work = begun(world.journal, scoped("r", world.entry, terms=BACK))
    before = world.clock.mono
    assert world.play(wait=5.0).state is RunState.PARTLY_COMPENSATED
    assert 5.0 <= world.clock.mono - before < 7.0
    assert world.of(at_work).state is State.PROCESSING


def test_a_call_of_a_dead_process_is_taken_from_it(world: World) -> None:
    at_work = begun(world.journal, scoped("r", world.entry, terms=BACK))
    world.alive, world.probes[at_work.operation_id] = False, True
    assert world.play().state is RunState.COMPENSATED
    assert world.of(at_work).state is State.COMPENSATED


@pytest.mark.parametrize(
    ("outcomes", "reason", "note"),
    [
        (["failed"], "undo_failed", "failed"),
        (["unknown"], "undo_unknown", "unknown"),
        (["stuck"], "tool_missing", "no such tool"),
        (["not_done"] * 9, "undo_not_done", "not_done"),
        (["rejected"] * 9, "undo_rejected", "rejected"),
    ],
)
def test_why_a_step_is_not_undone_is_on_record_and_the_others_go_on(
    world: World, outcomes: list[str], reason: str, note: str
) -> None:
    first, second, third = (world.step() for _ in range(3))
    world.outcomes[second.operation_id] = outcomes
    assert world.play().state is RunState.PARTLY_COMPENSATED
    left = world.of(second)
    assert (left.state, left.reason, left.note) == (State.COMPENSATING, reason, note)
    assert [world.of(step).state for step in (first, third)] == [State.COMPENSATED] * 2


def test_a_compensation_that_may_be_tried_again_is(world: World) -> None:
    step = world.step()
    world.outcomes[step.operation_id] = ["not_done", "rejected", "in_progress"]
    assert world.play(wait=60.0).state is RunState.COMPENSATED
    assert world.commands.count("Compensate") == 4


@pytest.mark.parametrize(
    ("terms", "reason"), [(Terms(irreversible=True), "irreversible"), (Terms(), "no_compensation")]
)
def test_what_nothing_undoes_is_told(world: World, terms: Terms, reason: str) -> None:
    step = world.step(terms)
    assert world.play().state is RunState.PARTLY_COMPENSATED
    assert (world.of(step).reason, "Compensate" in world.commands) == (reason, False)


def test_who_does_not_hold_the_run_waits_and_is_told(world: World) -> None:
    world.step()
    told = world.play(entry=None, owner=OTHER, claim="c2")
    assert isinstance(told, Held)
    assert (told.run.claim, world.commands[-1]) == ("e1", "CheckOwners")
    world.alive = False
    assert world.play(entry=None, owner=OTHER, claim="c2").state is RunState.COMPENSATED


def test_an_entry_that_was_taken_over_undoes_nothing(world: World) -> None:
    world.step()
    entered(world.journal, "r", owner=OTHER, claim="e2", dead="e1")
    told = world.play(wait=0.0)
    assert isinstance(told, Held)
    assert "Compensate" not in world.commands


def test_a_rollback_that_was_taken_over_stops(world: World) -> None:
    step = world.step()
    flow = rollback(world.order(), world.clock.mono)
    command = next(flow)
    while not (isinstance(command, Transact) and type(command.transition).__name__ == "Undo"):
        command = flow.send(world.answer(command))
    world.journal.perform(StartRollback("r", "acme", "mine", "c2", OTHER, 30.0, dead="c1"))
    told = world.to_its_end(flow, command)
    assert isinstance(told, Held)
    assert (world.of(step).state, world.run.claim) == (State.SUCCEEDED, "c2")


def test_there_is_nothing_to_undo_in_a_run_that_is_not_there(world: World) -> None:
    assert world.play(run_id="nobody") is None


def test_an_inner_run_is_undone_as_one_step(world: World) -> None:
    first = world.step()
    inner = entered(world.journal, "inner", owner=OWNER, claim="i1", parent="r", parent_entry=1)
    second = world.step(run="inner", entry=inner)
    world.journal.perform(StartRollback("inner", "acme", "", "x", OWNER, 0.0, entry=1))  # a dead process's
    third = world.step()
    assert world.play().state is RunState.COMPENSATED
    assert list(world.undone()) == [step.operation_id for step in (third, second, first)]
    found = world.journal.run("acme", "inner")
    assert found is not None
    assert found.state is RunState.COMPENSATED


def test_calls_inside_of_what_was_not_done_are_undone_by_themselves(world: World) -> None:
    outer = world.step(fault=REFUSED)
    inside = world.step(scope=f"call:{outer.operation_id}")
    whole = world.step()
    covered = world.step(scope=f"call:{whole.operation_id}")
    assert world.play().state is RunState.COMPENSATED
    assert list(world.undone()) == [whole.operation_id, inside.operation_id]
    assert world.of(covered).state is State.SUCCEEDED


def test_a_step_is_undone_only_by_its_compensations_record(world: World) -> None:
    step = world.step()
    world.journal.perform(StartRollback("r", "acme", "", "c1", OWNER, 30.0, entry=1))
    assert world.journal.perform(StepUndone("r", "acme", "c1", step.operation_id, "op_none")) == step
    assert world.journal.perform(EndRollback("r", "acme", "c9")) is None
    ended_run = world.journal.perform(EndRollback("r", "acme", "c1"))
    assert ended_run is not None
    assert ended_run.state is RunState.PARTLY_COMPENSATED


def test_a_rollback_that_was_won_back_goes_on_with_the_step_that_it_was_lost_at(world: World) -> None:
    """What had become of the step was not on record: the other one died before it could say so."""
    first, second = world.step(), world.step()
    world.clock.advance(40.0)
    flow = rollback(world.order(entry=None), world.clock.mono)
    command = next(flow)
    while not isinstance(command, Compensate):
        command = flow.send(world.answer(command))
    world.clock.advance(40.0)  # it hung
    world.journal.perform(StartRollback("r", "acme", "late", "c2", OTHER, 30.0))
    world.clock.advance(40.0)
    command = flow.send(Compensated("in_progress", "", "", world.clock.mono))
    ended_as = world.to_its_end(flow, command)
    assert ended_as.state is RunState.COMPENSATED
    assert [world.of(step).state for step in (first, second)] == [State.COMPENSATED] * 2


def test_a_run_inside_is_taken_from_whoever_works_on_it(world: World) -> None:
    """Nothing begins in it any more, since the run around it is undone: its lease need not be waited out."""
    inner = entered(world.journal, "inner", owner=OTHER, claim="i1", parent="r", parent_entry=1)
    step = world.step(run="inner", entry=inner)
    late = scoped("inner", inner, terms=BACK)
    before = world.clock.mono
    assert world.play().state is RunState.COMPENSATED
    assert world.clock.mono - before < 1.0
    assert world.of(step).state is State.COMPENSATED
    assert world.journal.perform(Claim(late)) == Superseded("inner", "rolled_back")


def test_a_run_inside_is_not_entered_while_the_one_around_it_is_undone(world: World) -> None:
    entered(world.journal, "inner", parent="r", parent_entry=1)
    world.journal.perform(StartRollback("r", "acme", "late", "c2", OTHER, 30.0, 1))
    refused = world.journal.perform(EnterRun("inner", "acme", claim="i2", owner=OWNER))
    assert isinstance(refused, Undone)
    assert refused.run.run_id == "r"
