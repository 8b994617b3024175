"""Time limits of async attempts: one timer for a whole loop instead of one for each attempt.

Attempts are many and end in time; so each is noted in a dictionary, and the timer looks who is overdue when the first
of them would be. What cancels a task and how it is taken back is as in ``asyncio.timeout``; who only waits is woken.
"""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    import asyncio


class Bell(Struct, eq=False):
    """How long somebody waits."""

    at: float
    """Seconds on the loop's clock."""
    waiting: asyncio.Future[None]

    def ring(self) -> None:
        """Wake him."""
        if not self.waiting.done():
            self.waiting.set_result(None)


class Limit(Struct, eq=False):
    """One task's time limit."""

    at: float
    """Seconds on the loop's clock."""
    task: asyncio.Task[Any]
    cancelling: int
    """How often others had asked the task to end before."""
    expired: bool = False

    def ring(self) -> None:
        """End the task's work."""
        self.expired = True
        self.task.cancel()

    def over(self) -> bool:
        """Take the cancellation back; return whether it was the limit alone that ended the task's work."""
        return self.expired and self.task.uncancel() <= self.cancelling


class Alarm:
    """The limits of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._limits: dict[Limit | Bell, None] = {}
        self._next = math.inf

    def set(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any], seconds: float) -> Limit:
        """Cancel ``task`` after ``seconds``, unless ``off`` is called before."""
        limit = Limit(loop.time() + seconds, task, task.cancelling())
        self._add(loop, limit)
        return limit

    async def wait(self, loop: asyncio.AbstractEventLoop, waiting: asyncio.Future[None], seconds: float | None) -> None:
        """Wait for a future, ``seconds`` at the longest."""
        if seconds is None:
            return await waiting
        bell = Bell(loop.time() + seconds, waiting)
        self._add(loop, bell)
        try:
            await waiting
        finally:
            self.off(bell)

    def off(self, limit: Limit | Bell) -> None:
        """The work has ended."""
        self._limits.pop(limit, None)

    def _add(self, loop: asyncio.AbstractEventLoop, limit: Limit | Bell) -> None:
        self._limits[limit] = None
        if limit.at < self._next:
            self._arm(loop, limit.at)

    def _arm(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        self._next = at
        loop.call_at(at, self._ring, at)

    def _ring(self, at: float) -> None:
        loop = self._loop()
        if loop is None or at != self._next:
            return  # an earlier one was set since then
        now = loop.time()
        for limit in [limit for limit in self._limits if limit.at <= now]:
            del self._limits[limit]
            limit.ring()
        self._next = math.inf
        if self._limits:
            self._arm(loop, min(limit.at for limit in self._limits))


_alarms: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Alarm] = weakref.WeakKeyDictionary()


def alarm_of(loop: asyncio.AbstractEventLoop) -> Alarm:
    """Return the alarm of a running loop."""
    found = _alarms.get(loop)
    if found is None:
        found = _alarms[loop] = Alarm(loop)
    return found
