"""Playing seeds to their end: agents are forked, die, and are forked again, as many at once as there are jobs."""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bench.workloads.agent import live
from settled.testing.kill.life import fork
from settled.testing.kill.nursery import KILLED
from settled.testing.kill.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.workloads.orders import Orders

LONGEST = 900.0
"""Seconds after which a seed that hangs is given up."""
_LOOK = 0.005


class PlayFailed(Exception):  # noqa: N818 - it says what happened
    """An agent ended as it should not; the text holds what it wrote."""


@dataclass(slots=True)
class Seed:
    """One seed of one row: what it is told, and its present agent."""

    orders: Orders
    kills: int = 0
    began: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    pid: int = 0
    _lives: int = 0

    def start(self) -> None:
        """Fork an agent."""
        self._lives += 1
        self.orders.write()
        self.pid = fork(self._plan(), live)

    def _plan(self) -> Plan:
        return Plan(str(self.orders.folder), self.orders.row, name=f"agent-{self._lives}", entry=self._lives)

    def look(self) -> bool:
        """Whether the seed is played to its end; starts the next agent where one is due. Raises ``PlayFailed``."""
        done, status = os.waitpid(self.pid, os.WNOHANG)
        if not done:
            if time.monotonic() - self.began > LONGEST:
                raise PlayFailed(f"{self.orders.folder} did not come to an end within {LONGEST:.0f} s")
            return False
        self.pid = 0
        code = os.waitstatus_to_exitcode(status)
        if code == KILLED:
            self.kills += 1
            self.start()
            return False
        if code != 0:
            raise PlayFailed((self.orders.folder / f"agent-{self._lives}.error").read_text())
        return self._ended()

    def _ended(self) -> bool:
        if not self.orders.settle:
            self.seconds = time.monotonic() - self.began
        if self.orders.settle or not self.orders.row.startswith("settled"):
            return True
        self.orders = replace(self.orders, settle=True)
        self.start()
        return False

    def stop(self) -> None:
        """Kill its agent if one lives."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0


def play(orders: Sequence[Orders], jobs: int, rest: Callable[[], None] = lambda: None) -> Iterator[Seed]:
    """Play seeds, ``jobs`` of them at a time; yield each as it comes to its end. ``rest`` is called in between."""
    waiting, playing = deque(orders), list[Seed]()
    try:
        while waiting or playing:
            while waiting and len(playing) < jobs:
                playing.append(Seed(waiting.popleft()))
                playing[-1].start()
            for seed in [seed for seed in playing if seed.look()]:
                playing.remove(seed)
                yield seed
            rest()
            time.sleep(_LOOK)
    finally:
        for seed in playing:
            seed.stop()
