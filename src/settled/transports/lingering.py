"""Answers to requests whose asker was cancelled: once all of a request was written, its answer is still taken down."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from settled.core.faults.exchanges import READING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from settled.recorder import Request

LINGER: Final = 30.0
"""Seconds that such an answer is waited for."""

_lingering: set[asyncio.Task[Any]] = set()


async def leavable(
    sending: Coroutine[Any, Any, Any],
    asked: Callable[[], Request | None],
    take: Callable[[Any, Request], Coroutine[Any, Any, None]],
) -> Any:
    """Await an answer in a task of its own, which goes on when the asker is cancelled after all was written.

    Args:
        sending: sends the request, and returns its answer.
        asked: returns the request that is under way.
        take: takes down an answer that nobody else will read.

    Cancelled earlier it sends nothing more: it is over before this raises.
    """
    task = asyncio.get_running_loop().create_task(sending)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        seen = asked()
        if task.cancelled() or seen is None:
            task.cancel()
        elif seen.written and seen.method not in READING:
            seen.lingers = True
            _keep(asyncio.get_running_loop().create_task(_wait(task, seen, take)))
        else:
            await _stopped(task)
        raise


def on_asyncio() -> bool:
    """Whether asyncio runs here: elsewhere nothing can be left to go on."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _stopped(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait({task})
    with suppress(asyncio.CancelledError):
        task.exception()  # looked at, so that nobody is told that it was not


def _keep(task: asyncio.Task[Any]) -> None:
    _lingering.add(task)
    task.add_done_callback(_lingering.discard)


async def _wait(
    task: asyncio.Task[Any], seen: Request, take: Callable[[Any, Request], Coroutine[Any, Any, None]]
) -> None:
    try:
        async with asyncio.timeout(LINGER):
            await take(await task, seen)
    except BaseException as error:
        seen.failed(error)
        if not isinstance(error, Exception):
            raise
