"""Virtual time: tasks that wait, a heap of wake-ups, and clocks that may lie.

A task is a generator. It yields seconds to sleep, or ``Until(gate, seconds)``. Whatever belongs to a
host that is paused wakes when the pause is over; whatever belongs to a dead one never does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from heapq import heappop, heappush
from typing import Any, NamedTuple, TypeVar

from settled.core.model import Moment

T = TypeVar("T")


class Gate:
    """Opens once, with a value; whoever waits goes on."""

    __slots__ = ("is_open", "value", "waiters")

    def __init__(self) -> None:
        self.is_open = False
        self.value: Any = None
        self.waiters: list[tuple[Task, int]] = []


class Until(NamedTuple):
    """Wait for a gate, at most ``seconds``."""

    gate: Gate
    seconds: float | None = None


Wait = float | Until
Steps = Generator[Wait, Any, T]


class Host:
    """What tasks run on: it can be paused, and it can die."""

    __slots__ = ("alive", "paused_until")

    def __init__(self) -> None:
        self.alive = True
        self.paused_until = 0.0


class Task:
    """A generator under way. ``done`` opens with what it returned."""

    __slots__ = ("done", "host", "steps", "turn")

    def __init__(self, steps: Steps[Any], host: Host) -> None:
        self.steps, self.host = steps, host
        self.done = Gate()
        self.turn = 0


class NeverRests(RuntimeError):  # noqa: N818 - the name says what the world does
    """The world did not come to rest within its bound of events."""


class Loop:
    """Runs tasks in the order of virtual time."""

    def __init__(self, most: int = 200_000) -> None:
        self.now = 0.0
        self.left = most
        self._heap: list[tuple[float, int, Task | Callable[[], None], int]] = []
        self._seq = 0
        self._under_way: dict[int, Task] = {}

    def at(self, when: float, action: Callable[[], None]) -> None:
        """Do something at a given time, whatever lives then."""
        self._push(when, action, 0)

    def start(self, steps: Steps[Any], host: Host, delay: float = 0.0) -> Task:
        """Start a task on a host."""
        task = Task(steps, host)
        self._under_way[id(task)] = task
        self._push(self.now + delay, task, 0)
        return task

    def open(self, gate: Gate, value: Any = None) -> None:
        """Open a gate; a gate that is open stays as it is."""
        if gate.is_open:
            return
        gate.is_open, gate.value = True, value
        for task, turn in gate.waiters:
            self._push(self.now, task, turn)
        gate.waiters.clear()

    def run(self, until: float) -> None:
        """Let everything happen that is due up to ``until``."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            when, _, what, turn = heappop(heap)
            self.now = max(self.now, when)
            self.left -= 1
            if self.left < 0:
                raise NeverRests
            if isinstance(what, Task):
                self._wake(what, turn)
            else:
                what()
        self.now = max(self.now, until)

    def close(self) -> None:
        """Let go of what never came to its end: each task from its outside in, which a collector does not heed."""
        for task in self._under_way.values():
            task.steps.close()
        self._under_way.clear()

    def _push(self, when: float, what: Task | Callable[[], None], turn: int) -> None:
        self._seq += 1
        heappush(self._heap, (when, self._seq, what, turn))

    def _wake(self, task: Task, turn: int) -> None:
        if task.turn != turn or not task.host.alive:
            return
        if self.now < task.host.paused_until:
            self._push(task.host.paused_until, task, turn)
            return
        task.turn += 1
        try:
            wait = task.steps.send(None)
        except StopIteration as stop:
            del self._under_way[id(task)]
            self.open(task.done, stop.value)
            return
        self._wait(task, wait)

    def _wait(self, task: Task, wait: Wait) -> None:
        if not isinstance(wait, Until):
            self._push(self.now + wait, task, task.turn)
            return
        if wait.gate.is_open:
            self._push(self.now, task, task.turn)
            return
        wait.gate.waiters.append((task, task.turn))
        if wait.seconds is not None:
            self._push(self.now + wait.seconds, task, task.turn)


class Clock:
    """One machine's clocks: the wall clock may jump, the one since boot does not, and each boot is new."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.skew = 0.0
        self.boots = 1
        self._booted = -1000.0

    @property
    def boot(self) -> str:
        """The id of this boot."""
        return f"boot{self.boots}"

    def __call__(self) -> Moment:
        """Read both clocks."""
        now = self._loop.now
        return Moment(1_700_000_000.0 + now + self.skew, self.boot, now - self._booted)

    def reboot(self) -> None:
        """Start a new boot, whose clock starts anew."""
        self.boots += 1
        self._booted = self._loop.now - 10.0
