"""The loop on which async functions run that plain code asks for: one for all, since their clients are bound to it.

A fresh loop for each call, as ``asyncio.run`` makes it, leaves connections of a closed loop in the pools of HTTP and
database clients; the next call meets them and fails, at worst when it has had its effect ("Event loop is closed").
For the same reason the guards of a process share the loop, one after another too: they may share a client.
"""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from settled.drivers.leaving import in_thread, side_by_side
from settled.drivers.waiting import asked_from, held_up, running, while_blocked

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Collection, Coroutine

T = TypeVar("T")

_GOODBYE = 10.0
"""Seconds that what a guard has begun on the loop has to take its cancellation."""
_LOOK = 1.0
"""Seconds between looks whether a loop that was asked is still there."""


class Home:
    """What one guard has run for plain code."""

    def __init__(self) -> None:
        self._asked: set[asyncio.Task[Any]] = set()
        """On the loop that is kept."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the caller's context, and wait for it; raises what it raises.

        Where a loop waits for the caller it is run there, elsewhere on the loop that is kept; where that loop itself is
        blocked by the caller, on one of its own. When the wait is interrupted (Ctrl-C), the coroutine is cancelled.
        """
        inside, loop = while_blocked(), asked_from.get(None)
        stuck = inside.get(held_up, frozenset())
        if loop is None or loop in stuck or running() is not None or not loop.is_running():
            loop = _kept_loop()
            work = self._noted(work)
        if loop in stuck:
            return _apart(inside, work)
        inside.run(asked_from.set, loop)
        future = inside.run(asyncio.run_coroutine_threadsafe, work, loop)
        try:
            return _result(future, loop)
        except CancelledError:
            raise asyncio.CancelledError from None
        except BaseException:
            future.cancel()
            raise

    def close(self, under_way: Collection[asyncio.Task[Any]] = ()) -> None:
        """Cancel what still runs on the loop that is kept, tasks ``under_way`` too, and wait for its end a while."""
        loop = _kept.loop
        if loop is None or not (self._asked or under_way) or loop.is_closed():
            return
        ending = asyncio.run_coroutine_threadsafe(self._end(under_way), loop)
        if running() is not loop:
            with suppress(TimeoutError, CancelledError):
                ending.result(_GOODBYE + _LOOK)

    def forked(self) -> None:
        """In a forked child: the thread is not here."""
        self._asked = set()

    async def _noted(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - for the type checker: code that is awaited runs in a task
        self._asked.add(task)
        try:
            return await work
        finally:
            self._asked.discard(task)

    async def _end(self, under_way: Collection[asyncio.Task[Any]]) -> None:
        loop = asyncio.get_running_loop()
        left = {task for task in [*self._asked, *under_way] if task.get_loop() is loop and not task.done()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=_GOODBYE)


class _Kept:
    """The loop of this process."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a signal handler may come in between
        self.loop: asyncio.AbstractEventLoop | None = None


_kept = _Kept()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_kept.__init__)  # type: ignore[misc]  # anew: the thread is the parent's


def _kept_loop() -> asyncio.AbstractEventLoop:
    with _kept.lock:
        if _kept.loop is None or _kept.loop.is_closed():
            _kept.loop = loop = asyncio.new_event_loop()
            in_thread(lambda: _go_on(loop), "settled-loop")
        return _kept.loop


def _go_on(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop as long as the process lives. ``SystemExit`` of one task is for whoever asked for it alone."""
    asyncio.set_event_loop(loop)
    while not loop.is_closed():
        with suppress(SystemExit, KeyboardInterrupt):
            loop.run_forever()


def _apart(inside: contextvars.Context, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop of its own."""
    inside.run(asked_from.set, None)
    [future] = side_by_side([partial(inside.run, asyncio.run, work)], 1)
    return future.result()


def _result(future: Future[T], loop: asyncio.AbstractEventLoop) -> T:
    """Wait for what runs on a loop, as long as that is there. Raises what it raises."""
    while True:
        try:
            return future.result(_LOOK)
        except TimeoutError:
            if future.done():
                return future.result()
            if loop.is_closed():
                raise asyncio.CancelledError from None
