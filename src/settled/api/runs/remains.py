"""What a rollback has left, told in the error that has caused it."""

from __future__ import annotations

import shlex
from contextlib import suppress
from typing import TYPE_CHECKING

from settled.api.people import explain
from settled.core.books import RunRecord, RunState
from settled.core.runs.saga import LookThrough
from settled.core.states import State

if TYPE_CHECKING:
    from settled.api.guard import Guard
    from settled.core.call import Call
    from settled.core.model import Moment
    from settled.core.runs.entering import Held
    from settled.core.runs.saga import Outline

MOST_NAMED = 5
"""Steps that the note names; the queue shows all."""


def look_of(rolled: RunRecord | Held | None) -> LookThrough | None:
    """Return what tells what is left, where anything is."""
    partly = isinstance(rolled, RunRecord) and rolled.state is RunState.PARTLY_COMPENSATED
    return LookThrough(rolled.run_id, rolled.tenant) if isinstance(rolled, RunRecord) and partly else None


def note(error: BaseException, run_id: str, seen: Outline, now: Moment) -> None:
    """Say in the error what of its run is left, and where to look."""
    left = [_step(step, now) for step in (*seen.open, *seen.undo, *seen.lost)]
    named = "; ".join(left[:MOST_NAMED]) + (f"; and {len(left) - MOST_NAMED} more" if len(left) > MOST_NAMED else "")
    what = f" What is left: {named}." if left else ""
    with suppress(Exception):
        error.add_note(
            f"The run {run_id!r} was undone only in part.{what} "
            f"`settled queue list --run {shlex.quote(run_id)}` lists what waits for a person"
        )


def tell(guard: Guard, error: BaseException | None, rolled: RunRecord | Held | None) -> None:
    """Say in the error what a rollback has left. Whatever goes wrong here, the error stays the one to be raised."""
    look = look_of(rolled)
    if error is not None and look is not None:
        with suppress(Exception):
            note(error, look.run_id, guard.journal.perform(look), guard.journal.now())


async def atell(guard: Guard, error: BaseException | None, rolled: RunRecord | Held | None) -> None:
    """Like ``tell``, without blocking the loop."""
    look = look_of(rolled)
    if error is not None and look is not None:
        with suppress(Exception):
            note(error, look.run_id, await guard.journal.aperform(look), guard.journal.now())


def _step(step: Call | RunRecord, now: Moment) -> str:
    if isinstance(step, RunRecord):
        return f"the run {step.run_id!r} inside of it is {step.state}"
    if step.state is State.EXPIRED:
        return f"the record of {step.tool} {step.operation_id} has expired"
    if step.state is State.COMPENSATING:
        return f"{step.tool} {step.operation_id} is not undone: {explain.not_undone(step)}"
    why = explain.brief(step, now)
    return f"{step.tool} {step.operation_id} is {step.state}" + (f" ({why})" if why else "")
