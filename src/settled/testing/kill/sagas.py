"""Runs that fail and are undone, and what must hold after any death on the way: by the ledger, and nothing else."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import settled
from settled.api.people.queue import waiting
from settled.api.runs import carrying_on
from settled.core.runs.entering import scope_of_run
from settled.core.states import State
from settled.ports import CallQuery
from settled.testing.kill.aftermath import TENANT, counts, not_undone, order_of, state_of_run
from settled.testing.kill.ledger import append
from settled.testing.kill.plan import RUN
from settled.testing.kill.service import at_first, function_of
from settled.testing.records import Look

if TYPE_CHECKING:
    from settled.core.call import Call
    from settled.testing.kill.ledger import Effect
    from settled.testing.kill.script import Flow
    from settled.testing.kill.service import Act, Action, Service, Steps
    from settled.testing.kill.stage import Stage

UNDONE_BY = {"hire": "fire", "rent": "give_back"}
BLIND = ("rent", "give_back")
"""Nobody can ask the other side about these: killed in the middle of one, a person decides."""
LEFT_IN_DOUBT = "lodge"
"""The answer to undoing this one is lost."""


class GivenUp(Exception):  # noqa: N818 - the name says what the agent does
    """The agent has failed."""


def declare(stage: Stage) -> None:
    """Declare two tools and what undoes them."""
    guard, service, is_async = stage.guard, stage.service, stage.plan.is_async
    probed: dict[str, Any] = {"probe": service.find, "max_request_lifetime": 0.02, "max_attempt_lifetime": 600.0}
    for name in ("fire", "give_back", "hire", "rent"):
        more: dict[str, Any] = {} if name in BLIND else dict(probed)
        if name in UNDONE_BY:
            more |= {"compensate": UNDONE_BY[name], "undo": _arguments}
        function = function_of(_tool(service, name), is_async=is_async)
        guard.tool(name=name, effect="write", identity=("order",), **more)(function)


def _arguments(call: settled.Call, _: object) -> dict[str, str]:
    order = call.arguments["order"]
    return {"order": order, "trouble": "lost" if order == LEFT_IN_DOUBT else ""}


def _tool(service: Service, name: str) -> Act:
    def act(order: str, trouble: str) -> Steps:
        yield 0.0  # those that are made at once go on side by side
        if trouble == "stuck":
            yield from service.pauses(trouble)
        return service.act(name, order, at_first(trouble))

    return act


def failing(stage: Stage, actions: tuple[Action, ...]) -> Flow:
    """Ask for each action, the last two at once, then give up: the run is undone."""
    for action in actions[:-2]:
        stage.tell(action, (yield stage.bind(action)))
    results: list[Any] = yield [stage.bind(action) for action in actions[-2:]]
    for action, result in zip(actions[-2:], results, strict=True):
        stage.tell(action, result)
    raise GivenUp("no car")


def note_the_end(stage: Stage, error: BaseException) -> None:
    """Write down how the run ended for this process."""
    append(stage.plan.home / f"{stage.plan.name}.run", json.dumps([type(error).__name__, str(error)]))


# --- the judge --------------------------------------------------------------------------------


def end(stage: Stage) -> list[str]:
    """Say what is wrong with a run that was to be undone."""
    state = state_of_run(stage)
    if not_undone(state):
        return not_undone(state)
    effects, queued = stage.ledger.effects(), waiting(stage.journal)
    done = [e for e in effects if e.tool in UNDONE_BY]
    problems = [f"{tool} {order}: {n} times" for (tool, order), n in counts(effects).items() if n > 1]
    for effect in done:
        problems += _undone(effect, effects, queued, state)
    problems += _order(stage, effects)
    problems += [
        f"{call.operation_id} ({call.tool}) waits without need: {call.reason}" for call in queued if not _doubt(call)
    ]
    if state == "partly_compensated" and not queued:
        problems.append("the run is undone in part, and nothing of it stands in the queue")
    return problems


def _undone(effect: Effect, effects: list[Effect], queued: list[Call], state: str) -> list[str]:
    """Whether an effect is undone, after it was done, or stands in the queue."""
    undoing = [e for e in effects if (e.tool, e.order) == (UNDONE_BY[effect.tool], effect.order)]
    if undoing:
        early = effects.index(undoing[0]) < effects.index(effect)
        return [f"{effect.order}: undone before it was done"] if early else []
    if not any(order_of(call) == effect.order for call in queued):
        return [f"{effect.order}: neither undone nor in the queue"]
    return [f"{effect.order}: not undone, and the run is on record as undone"] if state == "compensated" else []


def _order(stage: Stage, effects: list[Effect]) -> list[str]:
    """The last begun is undone first, by the journal's order; what was in doubt on the way may be late."""
    doubted = {order_of(call) for call in stage.journal.find(CallQuery(limit=1000)) if _was_in_doubt(call)}
    steps = stage.journal.perform(Look(lambda books: books.begun_in(scope_of_run(TENANT, RUN))))
    places = {order_of(step.call): step.place for step in steps}
    undone = [places[e.order] for e in effects if e.tool in UNDONE_BY.values() and e.order not in doubted]
    if undone != sorted(undone, reverse=True):
        return [f"undone in the order {undone} of what was begun"]
    return _begun(stage, [e.order for e in effects if e.tool in UNDONE_BY and e.order not in doubted], places)


def _begun(stage: Stage, orders: list[str], places: dict[str, int]) -> list[str]:
    """Whether the journal's order is that of the books, for all that one agent did one after the other."""
    scripts = [["guide", "raft", "porter", "boat"], ["tent", "cook", "mule"], ["guide", "tent"]]
    for one in scripts if stage.plan.script == "pair" else scripts[2:]:
        begun = [places[order] for order in orders if order in one]
        if begun != sorted(begun):
            return [f"begun in the order {begun} of the journal"]
    return []


def _was_in_doubt(call: Call) -> bool:
    return call.state is State.UNKNOWN or call.decided not in ("answer", "")


def _doubt(call: Call) -> bool:
    """Whether it waits for a true doubt: nobody can ask about it."""
    return call.state is State.UNKNOWN and call.tool in BLIND


def undoing(stage: Stage, actions: tuple[Action, ...]) -> Flow:
    """Go on with what an earlier process has left; ask for nothing."""
    del actions
    with suppress(settled.JournalError):
        if stage.plan.is_async:
            asyncio.run(carrying_on.acarry_on(stage.guard, wait=2.0))
        else:
            carrying_on.carry_on(stage.guard, wait=2.0)
    yield from ()
