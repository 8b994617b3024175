"""After a death in a run: somebody goes on in the dead process's place, until nothing more comes of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from settled.api.people.queue import waiting
from settled.api.runs import carrying_on
from settled.core.encoding import codec
from settled.core.states import State
from settled.core.values import replace
from settled.ports import CallQuery
from settled.testing.kill.fuse import crossed
from settled.testing.kill.plan import RUN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from settled.core.call import Call
    from settled.testing.kill.ledger import Effect
    from settled.testing.kill.plan import Plan
    from settled.testing.kill.script import Script
    from settled.testing.kill.stage import Stage

TENANT = ""
HOUR = 3600.0
"""By which the journal's clock is put forward: longer than any lease, shorter than what services remember."""
BEGUN = frozenset({f"{when} {name}" for when in ("inside", "after") for name in ("Claim", "Begin", "Reserve")})
"""Boundaries behind which a call is on its way to its tool."""
MOST = 1000
"""Calls that a journal of the suite may hold."""


def relive(plan: Plan, script: Script, open_stage: Callable[[Plan], Stage], play: Callable[[Stage], None]) -> list[str]:
    """Start again in the dead process's place, at once and once every lease is over; return what is wrong."""
    (plan.home / "go-on").touch()
    again = replace(plan, name="again", entry=plan.entry + 1, wait=0.0, at=None)
    with open_stage(again) as stage:
        before = stage.ledger.effects()
        play(stage)
        problems = [] if script.then else _at_once(plan, stage, before)
    with open_stage(replace(again, name="later", entry=plan.entry + 2, later=plan.later + HOUR)) as stage:
        stage.guard.reconcile()
        play(stage)
        stage.guard.reconcile()
        in_time(stage)
        return problems + whole(stage) + (script.end(stage) if script.end else [])


def in_time(stage: Stage) -> None:
    """Go on with what is left until nothing more comes of it."""
    carrying_on.carry_on(stage.guard, wait=5.0)
    end = time.monotonic() + 20.0
    while carrying_on.unfinished(stage.guard) and time.monotonic() < end:
        carrying_on.carry_on(stage.guard, wait=5.0)


def _at_once(plan: Plan, stage: Stage, before: list[Effect]) -> list[str]:
    """Whoever cannot see the death takes the owner for alive, and does nothing."""
    run = stage.journal.run(TENANT, RUN)
    held = run is not None and run.owner is not None and run.owner.space == "elsewhere"
    if held and plan.elsewhere and stage.ledger.effects() != before:
        return ["the run's owner may live, and something was done in its place"]
    return []


def whole(stage: Stage) -> list[str]:
    """Return what is wrong with the journal itself, and what nobody looks after."""
    problems = [*stage.journal.verify().problems, *stage.journal.check().problems]
    queued = {call.operation_id for call in waiting(stage.journal)}
    for call in stage.journal.find(CallQuery(limit=MOST)):
        who = f"{call.operation_id} ({call.tool})"
        if call.state is State.PROCESSING:
            problems.append(f"{who} is left in processing")
        if call.state is State.UNKNOWN and call.operation_id not in queued:
            problems.append(f"{who} is unknown, and not in the queue")
    return problems


def state_of_run(stage: Stage) -> str:
    """Return how the run stands; ``nowhere`` if it is not on record."""
    run = stage.journal.run(TENANT, RUN)
    return "nowhere" if run is None else str(run.state)


def not_undone(state: str) -> list[str]:
    """Say what is wrong with the state of a run that was to be undone."""
    undone = state in ("compensated", "partly_compensated")
    return [] if undone else [f"the run is {state}, neither undone nor undone in part"]


# --- of the dead ----------------------------------------------------------------------------------


def dead(plan: Plan) -> set[str]:
    """Return the names of the processes that have not come to their end."""
    names = (path.stem for path in plan.home.glob("*.trace"))
    return {name for name in names if not replace(plan, name=name).over.exists()}


def on_the_way(plan: Plan) -> bool:
    """Whether one died with a call on record as begun, that may not have come to its tool."""
    last = (crossed(replace(plan, name=name).trace, "main")[-1:] for name in dead(plan))
    return any(what in BEGUN for each in last for what in each)


# --- of books and queues --------------------------------------------------------------------------


def order_of(call: Call) -> str:
    """Return what a call is about."""
    return str(arguments_of(call).get("order", ""))


def arguments_of(call: Call) -> dict[str, Any]:
    """Return what a call was asked with; nothing of a tombstone."""
    found: dict[str, Any] = codec.loads(call.arguments) if call.arguments else {}
    return found


def counts(effects: Iterable[Effect]) -> dict[tuple[str, str], int]:
    """Return how often each thing was done."""
    found: dict[tuple[str, str], int] = {}
    for effect in effects:
        found[effect.tool, effect.order] = found.get((effect.tool, effect.order), 0) + 1
    return found
