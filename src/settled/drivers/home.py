"""The loop on which async functions run that plain code asks for: one for all, since their clients are bound to it.

A fresh loop for each call, as ``asyncio.run`` makes it, leaves connections of a closed loop in the pools of HTTP and
database clients; the next call meets them and fails, at worst when it has had its effect ("Event loop is closed").
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

_GOODBYE = 10.0
"""Seconds that the tasks left on the loop have to take their cancellation."""
asked_from: contextvars.ContextVar[asyncio.AbstractEventLoop | None] = contextvars.ContextVar("settled_asked_from")
"""In a thread that a loop has lent to a sync function, and waits for: that loop."""
_at_home: contextvars.ContextVar[bool] = contextvars.ContextVar("settled_at_home", default=False)


class Home:
    """A loop in a thread of its own, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: Live | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the caller's context, and wait for it; raises what it raises.

        Where a loop waits for the caller it is run there. When the wait is interrupted (Ctrl-C), the coroutine is
        cancelled. Work that was itself begun here gets a loop of its own: this one may be waiting for it.
        """
        loop = asked_from.get(None)
        if loop is not None and loop.is_running() and not in_loop():
            return asyncio.run_coroutine_threadsafe(work, loop).result()
        if _at_home.get():
            with ThreadPoolExecutor(1, "settled-apart") as thread:
                return thread.submit(contextvars.copy_context().run, asyncio.run, work).result()
        inside, live = contextvars.copy_context(), self._started()
        inside.run(_at_home.set, True)  # noqa: FBT003 - by place: what is set
        future = live.begin(inside, work)
        try:
            return future.result()
        except CancelledError:
            raise live.failed or asyncio.CancelledError from None
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel what still runs, and stop the thread."""
        with self._lock:
            live, self._live = self._live, None
        if live is not None:
            live.stop()

    def forked(self) -> None:
        """In a forked child: the thread is not here."""
        self._lock, self._live = threading.Lock(), None

    def _started(self) -> Live:
        with self._lock:
            if self._live is None or self._live.failed:
                self._live = Live()
            return self._live


def in_loop() -> bool:
    """Whether the calling code runs on an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Live:
    """A loop that runs until it is stopped, or until what it runs asks the whole process to end."""

    loop: asyncio.AbstractEventLoop
    failed: BaseException | None = None
    """``SystemExit`` or ``KeyboardInterrupt``, which no loop survives."""

    def __init__(self) -> None:
        self._over, self._begun = asyncio.Event(), threading.Event()
        self._lock, self._asked = threading.Lock(), set[Future[Any]]()
        self._thread = threading.Thread(target=self._work, name="settled-loop", daemon=True)
        self._thread.start()
        self._begun.wait()

    def begin(self, inside: contextvars.Context, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin a coroutine in a context. Raises ``RuntimeError`` where the loop has ended meanwhile."""
        with self._lock:
            future = inside.run(asyncio.run_coroutine_threadsafe, work, self.loop)
            self._asked.add(future)
        future.add_done_callback(self._asked.discard)
        return future

    def stop(self) -> None:
        """Cancel what still runs, and wait until it has ended, for some time."""
        with suppress(RuntimeError):  # it has ended by itself
            self.loop.call_soon_threadsafe(self._over.set)
        if self._thread is not threading.current_thread():
            self._thread.join(_GOODBYE)

    def _work(self) -> None:
        with asyncio.Runner() as runner:
            try:
                runner.run(self._until_over())
            except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
                self.failed = error
        with self._lock:  # who came too late to be cancelled by the loop
            for future in list(self._asked):
                future.cancel()

    async def _until_over(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._begun.set()
        await self._over.wait()
