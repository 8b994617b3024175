"""Calls of one message, made side by side: matched to earlier ones in their order before any of them is made."""

from __future__ import annotations

import asyncio
from concurrent.futures import wait
from functools import partial
from typing import TYPE_CHECKING, Any

from settled.core.matching.claim import Reserve
from settled.drivers.leaving import side_by_side

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.api.calls.bound import BoundCall
    from settled.api.runs.run import Run

MOST_THREADS = 32


def reservation(run: Run, calls: Sequence[BoundCall[Any]]) -> Reserve:
    """Return what matches all calls of one message of a run."""
    asks = [run.context().run(call.ask) for call in calls]
    return Reserve([ask for ask in asks if ask is not None])


def gather(run: Run, calls: Sequence[BoundCall[Any]]) -> list[Any]:
    """Make calls in threads; return what each gave, in their order."""
    run.reserve(calls)
    futures = side_by_side([partial(run.context().run, call.call) for call in calls], MOST_THREADS)
    wait(futures)  # what raises (the journal failed) must not lose what the others brought
    return [future.result() for future in futures]


async def agather(run: Run, calls: Sequence[BoundCall[Any]]) -> list[Any]:
    """Make calls in tasks; return what each gave, in their order."""
    await run.areserve(calls)
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(call.acall(), context=run.context()) for call in calls]
    await asyncio.gather(*tasks, return_exceptions=True)  # as above: one that raises must not lose the others
    return [task.result() for task in tasks]
