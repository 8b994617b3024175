"""Time limits of async attempts: one timer for a whole loop instead of one for each attempt.

Attempts are many and end in time; so each is noted in a dictionary, and the timer looks who is overdue when the first
of them would be. What cancels a task and how it is taken back is as in ``asyncio.timeout``.
"""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    import asyncio


class Limit(Struct, eq=False):
    """One task's time limit."""

    task: asyncio.Task[Any]
    at: float
    """Seconds on the loop's clock."""
    cancelling: int
    """How often others had asked the task to end before."""
    expired: bool = False

    def over(self) -> bool:
        """Take the cancellation back; return whether it was the limit alone that ended the task's work."""
        return self.expired and self.task.uncancel() <= self.cancelling


class Alarm:
    """The limits of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._limits: dict[Limit, None] = {}
        self._next = math.inf

    def set(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any], seconds: float) -> Limit:
        """Cancel ``task`` after ``seconds``, unless ``off`` is called before."""
        limit = Limit(task, loop.time() + seconds, task.cancelling())
        self._limits[limit] = None
        if limit.at < self._next:
            self._arm(loop, limit.at)
        return limit

    def off(self, limit: Limit) -> None:
        """The work has ended."""
        self._limits.pop(limit, None)

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
            limit.expired = True
            limit.task.cancel()
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
