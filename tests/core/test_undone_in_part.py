"""A run that is undone in part: what a person may say of its steps, what is heeded, and whether to try again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from settled.core.attempts.progress import End
from settled.core.books import RunState
from settled.core.doubt.settling import Refused, Resolve
from settled.core.model import Effect, Terms
from settled.core.runs.rollback import worth_another
from settled.core.runs.saga import Conclude, Heed, LookThrough, Outline, StartRollback, Undo
from settled.core.states import State
from settled.core.values import replace
from settled.testing.records import LOST, OWNER, REFUSED, begun, ended, make_ask
from tests.core.rolling import World

if TYPE_CHECKING:
    from settled.core.call import Call


@pytest.fixture
def world() -> World:
    return World()


def test_a_doubt_about_an_undo_that_is_settled_is_heeded(world: World) -> None:
    first, second = world.step(), world.step()
    for step in (first, second):
        world.outcomes[step.operation_id] = ["unknown"]
    world.play(wait=0.0)
    by_step = {call.scope.removeprefix("undo:"): call for call in world.journal.books.calls.values()}
    done, not_done = by_step[first.operation_id], by_step[second.operation_id]
    ended(world.journal, done)
    world.journal.perform(End(not_done.operation_id, 1, 1, REFUSED))
    for undoing in (done, not_done):
        world.journal.perform(Heed(undoing.operation_id))
    assert (world.of(first).state, world.of(second).state) == (State.COMPENSATED, State.COMPENSATING)
    assert (world.of(first).reason, world.of(second).reason) == ("", "undo_not_done")
    assert (world.of(first).note, world.of(second).note) == ("", "")
    last = [world.journal.log(step.operation_id)[-1].detail for step in (first, second)]
    assert last == [f"by {done.operation_id}", "undo_not_done"]


def test_a_run_whose_last_step_is_undone_is_concluded(world: World) -> None:
    step = world.step()
    world.outcomes[step.operation_id] = ["stuck"]
    partly = world.play(wait=0.0)
    assert world.journal.perform(Conclude("r", "acme")) == partly, "its step still stands"
    assert world.journal.perform(Conclude("never", "acme")) is None
    world.journal.perform(Resolve(step.operation_id, "undone", "eva", "called the hotel"))
    world.clock.advance(5.0)
    concluded = world.journal.perform(Conclude("r", "acme"))
    assert concluded == replace(partly, state=RunState.COMPENSATED, changed=world.clock().wall) == world.run
    world.clock.advance(5.0)
    assert world.journal.perform(Conclude("r", "acme")) == concluded


def test_a_person_says_that_a_step_is_undone_or_is_to_stay(world: World) -> None:
    first, second = world.step(), world.step()
    for step in (first, second):
        world.outcomes[step.operation_id] = ["stuck"]
    world.play(wait=0.0)
    undone = world.journal.perform(Resolve(first.operation_id, "undone", "eva", "called the hotel"))
    held = world.journal.perform(Resolve(second.operation_id, "hold", "eva", "the customer keeps it"))
    assert (undone.state, undone.asserted, undone.held, undone.decided) == (
        State.COMPENSATED,
        True,
        False,
        "person:eva",
    )
    assert (held.state, held.asserted, held.held) == (State.COMPENSATING, False, True)
    assert (undone.decided, held.decided) == ("person:eva", second.decided)
    assert (undone.epoch, held.epoch) == (first.epoch + 1, second.epoch + 1), "an older look decides nothing"
    said = [world.journal.log(step.operation_id)[-1].detail for step in (first, second)]
    assert said == ["undone by eva: called the hotel", "hold by eva: the customer keeps it"]


@pytest.mark.parametrize("verdict", ["happened", "did_not_happen"])
def test_of_a_step_that_is_not_undone_nobody_says_whether_it_happened(world: World, verdict: Any) -> None:
    step = world.step()
    world.outcomes[step.operation_id] = ["stuck"]
    world.play(wait=0.0)
    before = world.of(step)
    told = world.journal.perform(Resolve(step.operation_id, verdict, "eva", "why"))
    assert told == Refused("the call is being undone: undone or hold", before)
    assert world.of(step) == before


def test_a_step_whose_compensation_is_under_way_is_left_to_it(world: World) -> None:
    step = world.step()
    world.journal.perform(StartRollback("r", "acme", "", "c1", OWNER, 30.0, entry=1))
    world.journal.perform(Undo("r", "acme", "c1", step.operation_id))
    before = world.of(step)
    assert (before.state, before.reason) == (State.COMPENSATING, "")
    told = world.journal.perform(Resolve(step.operation_id, "undone", "eva", "why"))
    assert told == Refused("its compensation is under way", before)


def test_what_is_not_being_undone_is_not_said_to_be_undone(world: World) -> None:
    lost = world.step(fault=LOST)
    told = world.journal.perform(Resolve(lost.operation_id, "undone", "eva", "why"))
    assert told == Refused("what is not being undone cannot be said to be undone", lost)


# --- what another try may bring ---


@pytest.mark.parametrize(
    ("outcome", "then", "worth"),
    [
        ("failed", None, False),
        ("unknown", None, False),
        ("stuck", None, True),
        ("not_done", None, True),
    ],
)
def test_whether_another_try_is_worth_it(world: World, outcome: str, then: None, worth: bool) -> None:
    del then
    step = world.step()
    world.outcomes[step.operation_id] = [outcome]
    run = world.play(wait=0.0)
    undoing: Call | None = None
    if outcome != "stuck":
        fault = {"failed": replace(REFUSED, kind="permanent"), "unknown": LOST, "not_done": REFUSED}[outcome]
        [made] = [call for call in world.journal.books.calls.values() if call.scope.startswith("undo:")]
        world.journal.perform(End(made.operation_id, 1, 1, fault))
        undoing = world.of(made)
    seen = world.journal.perform(LookThrough("r", "acme"))
    undoings = {step.operation_id: undoing}
    assert worth_another(run, seen, undoings, {"refund"}, world.clock()) is worth
    assert worth_another(run, seen, undoings, set(), world.clock()) is False


def is_worth(world: World, step: Any, undoing: Any = None, tools: Any = ("refund",)) -> bool:
    """Whether another try may bring on a run of which this step is left."""
    run, seen = replace(world.run, state=RunState.PARTLY_COMPENSATED), Outline(undo=(step,))
    return worth_another(run, seen, {getattr(step, "operation_id", ""): undoing}, tools, world.clock())


def left_step(world: World, reason: str = "undo_not_done", **changes: Any) -> Call:
    return replace(world.step(), state=State.COMPENSATING, reason=reason, **changes)


def test_a_rollback_that_somebody_is_at_is_not_worth_another_try(world: World) -> None:
    world.step()
    world.journal.perform(StartRollback("r", "acme", "", "c1", OWNER, 30.0, entry=1))
    seen = world.journal.perform(LookThrough("r", "acme"))
    assert not worth_another(world.run, seen, {}, {"refund"}, world.clock())
    world.clock.advance(31.0)
    assert worth_another(world.run, seen, {}, {"refund"}, world.clock())


@pytest.mark.parametrize("state", list(RunState))
def test_an_inner_run_is_worth_another_try_until_it_is_undone(world: World, state: RunState) -> None:
    undone = state in (RunState.COMPENSATED, RunState.PARTLY_COMPENSATED)
    assert is_worth(world, replace(world.run, state=state)) is not undone


def test_a_step_that_is_to_stay_or_that_nothing_undoes_is_not_worth_another_try(world: World) -> None:
    assert is_worth(world, left_step(world))
    assert not is_worth(world, left_step(world, held=True))
    assert not is_worth(world, left_step(world, terms=Terms()))
    assert is_worth(world, replace(world.step(), terms=Terms())), "it is not looked at so far"
    assert is_worth(world, left_step(world, reason="")), "its compensation was cut off"
    assert not is_worth(world, left_step(world, held=True, reason=""))


@pytest.mark.parametrize(
    ("reason", "changes", "worth"),
    [
        ("undo_unknown", {"state": State.PROCESSING}, False),
        ("undo_unknown", {"state": State.PROCESSING, "lease": None}, True),
        ("undo_unknown", {"state": State.UNKNOWN}, False),
        ("undo_unknown", {"state": State.UNKNOWN, "terms": Terms(probed=True)}, True),
        ("undo_unknown", {"state": State.UNKNOWN, "terms": Terms(effect=Effect.IDEMPOTENT)}, True),
        ("undo_unknown", {"state": State.UNKNOWN, "terms": Terms(probed=True), "held": True}, False),
        ("undo_failed", {"state": State.UNKNOWN}, True),
        ("undo_failed", {"state": State.FAILED}, False),
        ("undo_unknown", {"state": State.FAILED}, True),
    ],
)
def test_what_its_compensation_stands_at_says_whether_to_try_again(
    world: World, reason: str, changes: dict[str, Any], worth: bool
) -> None:
    undoing = replace(begun(world.journal, make_ask(tool="refund")), **changes)
    if changes.get("lease", undoing.lease) is None:
        undoing = replace(undoing, lease=world.clock().plus(-1.0))
    assert is_worth(world, left_step(world, reason), undoing) is worth
