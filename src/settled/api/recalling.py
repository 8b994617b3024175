"""Answering a call of a run that is entered again from memory, where it is plainly on record."""

from __future__ import annotations

import asyncio
import os
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from settled.api.asking import digests, place_of
from settled.api.bound import ORDINARY
from settled.api.run import current_run
from settled.api.schema import BadArguments
from settled.api.undoing import demand_undoing
from settled.core.answer import Answer, from_record
from settled.transaction import lent

if TYPE_CHECKING:
    from settled.api.bound import BoundCall
    from settled.api.guard import Guard
    from settled.api.recollection import Recollection
    from settled.api.run import Run

_NOTHING = nullcontext()


def known(guard: Guard, bound: BoundCall[Any]) -> Answer | None:
    """Return the answer that is plainly on record; ``None``: the claim is to decide."""
    run, recollection = _run_of(guard, bound)
    if run is None or recollection is None:
        return None
    if not recollection.is_read:
        recollection.read(run)
    return _answer(run, recollection, bound)


async def aknown(guard: Guard, bound: BoundCall[Any]) -> Answer | None:
    """Like ``known``, without blocking the loop."""
    run, recollection = _run_of(guard, bound)
    if run is None or recollection is None:
        return None
    if not recollection.is_read:
        await asyncio.to_thread(recollection.read, run)
    return _answer(run, recollection, bound)


def deciding() -> Recollection | nullcontext[None]:
    """Return what to hold while a claim decides: meanwhile nothing is answered from memory."""
    run = current_run.get()
    return (_own(run) if run is not None else None) or _NOTHING


def _own(run: Run) -> Recollection | None:
    """Return what a run remembers; in a forked child nothing: the run is its parent's, and so may be the lock."""
    found = run.recollection
    return found if found is None or found.pid == os.getpid() else None


def _run_of(guard: Guard, bound: BoundCall[Any]) -> tuple[Run | None, Recollection | None]:
    """Return the run of a call that is found by its place in it, and by nothing else; and what that remembers."""
    run = current_run.get()
    if run is None or run.recollection is None or run.guard is not guard or bound.options is not ORDINARY:
        return None, None
    declared = bound.tool.checked.options
    if declared.key is not None or declared.approve is not None or lent.get() is not None:
        return None, None
    return (run, _own(run)) if place_of(guard).inside is None else (None, None)


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
