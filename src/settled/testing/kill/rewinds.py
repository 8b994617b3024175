"""A run whose plan was wrong: an operator rewinds it from one call on, by a command that is repeated until it is done.

The books show each booking, by which plan, and what was cancelled. Whatever was booked by the first plan from that call
on is cancelled once before the second plan books it, or was kept by the operator's choice; nothing else is done twice.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import settled
from settled.api.people.queue import waiting
from settled.api.runs import sagas as runs
from settled.core.runs.rewind import is_set_aside
from settled.core.states import State
from settled.errors import DeclarationError
from settled.ports import CallQuery
from settled.testing.kill.aftermath import TENANT, arguments_of, dead, in_time, order_of
from settled.testing.kill.ledger import Effect, append
from settled.testing.kill.plan import RUN
from settled.testing.kill.script import Script, asked
from settled.testing.kill.service import Action, either

if TYPE_CHECKING:
    from pathlib import Path

    from settled.testing.kill.script import Flow
    from settled.testing.kill.stage import Stage

PLAN = (Action("hire", "guide"), Action("hire", "cook"), Action("rent", "tent"), Action("hire", "porter"))
FROM = 1
"""The place of the first action that the second plan does otherwise."""
UNDONE_BY = {"hire": "fire", "rent": "give_back"}
BLIND = ("rent", "give_back")


# --- what a process does --------------------------------------------------------------------------


def declare(stage: Stage) -> None:
    """Declare bookings with a key of their own, and what cancels them."""
    probed: dict[str, Any] = {"probe": _finding(stage), "max_request_lifetime": 0.02, "max_attempt_lifetime": 600.0}
    for name in ("fire", "give_back", "hire", "rent"):
        more: dict[str, Any] = {} if name in BLIND else dict(probed)
        if name in UNDONE_BY:
            more |= {"key": "{order}", "compensate": UNDONE_BY[name]}
        function = either(_tool(stage, name), is_async=stage.plan.is_async)
        stage.guard.tool(name=name, effect="write", breaker=None, **more)(function)


def _tool(stage: Stage, name: str) -> Any:
    def act(order: str, size: int) -> str:
        value = f"{order}-{size}-{token_hex(4)}"
        return stage.service.happen(Effect(name, order, settled.current_call().key, value))

    return act


def _finding(stage: Stage) -> Any:
    """Return a probe that looks by key alone: what is made anew has been sent another one than what was set aside."""

    def find(call: settled.Call) -> settled.Happened | settled.NotHappened:
        found = next((each for each in stage.ledger.of(call.arguments["order"]) if each.key == call.key), None)
        return settled.NotHappened() if found is None else settled.Happened(found.value)

    return find


def given(stage: Stage, action: Action) -> dict[str, Any]:
    """Return an action's arguments by the plan that is known by now."""
    second = _rewound(stage).exists() and action in PLAN[FROM:]
    return {"order": action.order, "size": 2 if second else 1}


def _rewound(stage: Stage) -> Path:
    """Where the operator notes that the command is through."""
    return stage.plan.home / "rewound"


def booking(stage: Stage, actions: tuple[Action, ...]) -> Flow:
    """Book what the plan says."""
    for action in actions:
        yield from asked(stage, action)


def undoing_first(stage: Stage, actions: tuple[Action, ...]) -> Flow:
    """Rewind, and let what was done be undone first."""
    del actions
    _operate(stage, "undo")
    yield from ()


def keeping(stage: Stage, actions: tuple[Action, ...]) -> Flow:
    """Rewind, and let what was done stand."""
    del actions
    _operate(stage, "keep")
    yield from ()


def _operate(stage: Stage, effects: Any) -> None:
    """Settle what nobody can look up, and rewind the run unless that is done: the same command each time."""
    operation_id = _first(stage)
    if not operation_id or _rewound(stage).exists():
        return
    with suppress(DeclarationError):  # the run is at work, or a call is in doubt: another time
        if not _is_aside(stage, operation_id):
            _settle(stage)
            _rewind(stage, operation_id, effects)
    if _is_aside(stage, operation_id):
        _rewound(stage).touch()
    stage.fuse.cross("the command was given")


def _first(stage: Stage) -> str:
    """Return the call that the command names; it is noted when it is found, so that each command is the same."""
    place = stage.plan.home / "from"
    if not place.exists():
        calls = stage.journal.find(CallQuery(tool=PLAN[FROM].tool, limit=100))
        found = [call.operation_id for call in calls if order_of(call) == PLAN[FROM].order]
        if not found:
            return ""
        append(place, found[0])
    return place.read_text().split()[0]


def _is_aside(stage: Stage, operation_id: str) -> bool:
    call = stage.journal.get(operation_id)
    return call is not None and is_set_aside(call)


def _settle(stage: Stage) -> None:
    """Look into the books for what is unknown, as a person does."""
    stage.guard.reconcile()
    for call in waiting(stage.journal):
        if call.state is not State.UNKNOWN:
            continue
        found = [effect for effect in stage.ledger.of(order_of(call)) if effect.key == call.key]
        found = [effect for effect in found if effect.value.split("-")[1] == str(arguments_of(call)["size"])]
        with suppress(DeclarationError):
            if found:
                stage.guard.resolve(call.operation_id, "happened", result=found[0].value, by="Ada", reason="seen")
            else:
                more: dict[str, Any] = {"then": "rerun", "force": True}
                stage.guard.resolve(call.operation_id, "did_not_happen", by="Ada", reason="not in the books", **more)


def _rewind(stage: Stage, operation_id: str, effects: Any) -> None:
    command: dict[str, Any] = {"from_call": operation_id, "by": "Ada", "reason": "too small", "effects": effects}
    if stage.plan.is_async:
        asyncio.run(stage.guard.arewind(RUN, **command))
    else:
        stage.guard.rewind(RUN, **command)


# --- the judge ------------------------------------------------------------------------------------


def end(stage: Stage) -> list[str]:
    """Say what is wrong with a run that was rewound, what was done being undone first."""
    return _end(stage, kept=False)


def end_kept(stage: Stage) -> list[str]:
    """Say what is wrong with a run that was rewound, what was done being kept."""
    return _end(stage, kept=True)


def _end(stage: Stage, *, kept: bool) -> list[str]:
    problems = [f"{action.order}: {what}" for action in PLAN for what in _booked(stage, action, kept=kept)]
    if not _rewound(stage).exists() and not waiting(stage.journal):
        problems.append("the command was never through, and nothing waits for anybody")
    order = runs.order_for(stage.guard, RUN, tenant=TENANT, reason="the trip is off")
    runs.roll_back(stage.guard, order)
    in_time(stage)
    return problems + [f"{action.order}: {what}" for action in PLAN for what in _cancelled(stage, action)]


def _booked(stage: Stage, action: Action, *, kept: bool) -> list[str]:
    """Whether each booking of the second plan follows the end, or the keeping, of the first plan's."""
    books, later = stage.ledger.of(action.order), action in PLAN[FROM:]
    problems, standing = [], 0
    for effect in books:
        standing += 1 if effect.tool == action.tool else -1
        if standing > (2 if kept and later else 1):
            problems.append(f"done while it stood: {[e.value for e in books]}")
        if standing < 0:
            problems.append("undone though it did not stand")
    # An operator who dies right behind the command leaves an agent that still goes by the first plan.
    done = [effect.value.split("-")[1] for effect in books if effect.tool == action.tool]
    if done not in ([], ["1"], ["2"], ["1", "2"], ["1", "1"]) or (not later and "2" in done):
        problems.append(f"done by the plans {done}")
    if kept and len(done) != len(books):
        problems.append("undone, and it was to be kept")
    last = [each for each in stage.told_by("later") if each.order == action.order][-1:]
    if last and last[0].status == "succeeded" and (standing < 1 or last[0].value != _last(books, action)):
        problems.append(f"told {last[0].value}, and that does not stand")
    return problems


def _last(books: list[Effect], action: Action) -> str:
    return [effect.value for effect in books if effect.tool == action.tool][-1]


def _cancelled(stage: Stage, action: Action) -> list[str]:
    """Whether nothing stands once the whole run is undone, but what a person has in the queue."""
    books = stage.ledger.of(action.order)
    done = sum(effect.tool == action.tool for effect in books)
    undone = len(books) - done
    queued = [call for call in waiting(stage.journal) if order_of(call) == action.order]
    found = [
        (undone > done, f"undone {undone} times, done {done}"),
        (undone < done and not queued, f"done {done} times, undone {undone}, and not in the queue"),
        (bool(queued) and not dead(stage.plan), "in the queue, and nobody died"),
    ]
    return [what for wrong, what in found if wrong]


def _script(flow: Any, end: Any, **more: Any) -> Script:
    return Script(PLAN, flow, in_run=True, saga=True, declare=declare, end=end, given=given, **more)


SCRIPTS = {
    "rewind": _script(booking, end, then=("rewinder", "booking")),
    "rewinder": _script(undoing_first, end, outside=True, again="rewind"),
    "booking": _script(booking, end, again="rewind"),
    "kept rewind": _script(booking, end_kept, then=("keeper", "kept booking")),
    "keeper": _script(keeping, end_kept, outside=True, again="kept rewind"),
    "kept booking": _script(booking, end_kept, again="kept rewind"),
}
