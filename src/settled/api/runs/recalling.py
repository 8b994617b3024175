"""Answering a call of a run that is entered again from memory, where it is plainly on record."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from settled.api.calls.asking import digests, place_of
from settled.api.calls.bound import ORDINARY
from settled.api.tools.schema import BadArguments
from settled.api.tools.undoing import demand_undoing
from settled.core.answer import Answer, from_record
from settled.drivers.loops import aside
from settled.transaction import lent

if TYPE_CHECKING:
    from settled.api.calls.bound import BoundCall
    from settled.api.guard import Guard
    from settled.api.runs.recollection import Recollection
    from settled.api.runs.run import Run
    from settled.core.ask import Ask


def known(guard: Guard, run: Run, bound: BoundCall[Any]) -> Answer | None:
    """Return the answer that is plainly on record; ``None``: the claim is to decide."""
    recollection = _that_may_answer(guard, run, bound)
    if recollection is None:
        return None
    if not recollection.is_read:
        recollection.read(run)
    return _answer(run, recollection, bound)


async def aknown(guard: Guard, run: Run, bound: BoundCall[Any]) -> Answer | None:
    """Like ``known``, without blocking the loop."""
    recollection = _that_may_answer(guard, run, bound)
    if recollection is None:
        return None
    if not recollection.is_read:
        await aside(recollection.read, run)
    return _answer(run, recollection, bound)


def to_be_claimed(run: Run, ask: Ask) -> None:
    """The journal decides on this call: from here on it alone answers its like."""
    recollection = run.recollection
    if recollection is not None and recollection.pid == os.getpid():
        recollection.leave(ask.tool, ask.identity)


def _that_may_answer(guard: Guard, run: Run, bound: BoundCall[Any]) -> Recollection | None:
    """Return what the run remembers, for a call that is found by its place in the run and by nothing else.

    In a forked child nothing: the run is its parent's, and the lock may be held by a thread that is not here.
    """
    found, checked = run.recollection, bound.tool.checked
    declared = checked.options
    if found is None or found.pid != os.getpid() or run.guard is not guard or bound.options is not ORDINARY:
        return None
    if declared.key is not None or declared.approve is not None or checked.is_model or lent.get() is not None:
        return None
    return found if place_of(guard).inside is None else None


def _answer(run: Run, recollection: Recollection, bound: BoundCall[Any]) -> Answer | None:
    tool = bound.tool
    if run.on_error == "compensate":
        demand_undoing(tool)
    try:
        mark, words = digests(tool, tool.schema.bind(bound.args, bound.kwargs))
    except (BadArguments, ValueError, RecursionError):
        return None  # what is wrong with them is told where the call is made
    call = recollection.take(run, tool.name, mark, words)
    return None if call is None else from_record(call, like=True)
