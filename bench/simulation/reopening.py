"""A service that is dead for two minutes, and what two hundred clients with breakers of their own send it meanwhile.

Each client makes five calls at once each second; those to the dead service fail after 0.1 s.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Protocol

from settled.core.attempts.breaker import Breaker, Rejection
from settled.core.attempts.threshold import BreakerPolicy

if TYPE_CHECKING:
    from collections.abc import Callable

    from settled.core.attempts.breaker import Ticket

CLIENTS, AT_ONCE, TOOK = 200, 5, 0.1
OUTAGE, END = 120, 300
SETTLED_IN = 20
"""Seconds of the outage after which the peak is looked for: all breakers have tripped by then."""
FIXED = 30.0


class Gate(Protocol):
    """What lets calls through."""

    def take(self, now: float) -> Ticket | Rejection | int:
        """Admit a call, or not."""

    def record(self, ticket: Ticket, *, ok: bool, now: float, draw: float) -> None:
        """Count a call's end."""


class Open:
    """No breaker."""

    def take(self, now: float) -> int:
        """Admit everything."""
        del now
        return 0

    def record(self, ticket: int, *, ok: bool, now: float, draw: float) -> None:
        """Learn nothing."""


class Naive:
    """Trips on five failures in a row for a fixed time; then lets everybody through until the next result."""

    def __init__(self) -> None:
        self._run, self._until = 0, 0.0

    def take(self, now: float) -> int | Rejection:
        """Admit whoever comes after the cool-down."""
        return Rejection(self._until - now, "naive") if now < self._until else 0

    def record(self, ticket: int, *, ok: bool, now: float, draw: float) -> None:
        """Count failures in a row."""
        del ticket, draw
        self._run = 0 if ok else self._run + 1
        if self._run >= AT_ONCE:
            self._until = now + FIXED


class Ours:
    """A breaker of settled."""

    def __init__(self, policy: BreakerPolicy, *, jitter: bool = True) -> None:
        self._breaker, self._jitter = Breaker("tool", policy), jitter

    def take(self, now: float) -> Ticket | Rejection:
        """Admit all while closed, one as the probe after the cool-down."""
        return self._breaker.take(now)

    def record(self, ticket: Ticket, *, ok: bool, now: float, draw: float) -> None:
        """Count a call's end."""
        self._breaker.record(ticket, "success" if ok else "failure", now, draw if self._jitter else 0.5)


WAYS: dict[str, Callable[[], Gate]] = {
    "no breaker": Open,
    "fixed 30 s, all through after it": Naive,
    "fixed 30 s, one probe, no jitter": lambda: Ours(BreakerPolicy(cooldown=30.0, longest_cooldown=30.0), jitter=False),
    "settled (5 s doubling to 60 s)": lambda: Ours(BreakerPolicy()),
    "settled, longest_cooldown=30": lambda: Ours(BreakerPolicy(longest_cooldown=30.0)),
}


@dataclass(frozen=True, slots=True)
class Reopened:
    """Calls that reached the dead service, their peak in one second, and the seconds until clients were back."""

    wasted: int
    peak: int
    mean: float
    last: float


def play(make: Callable[[], Gate], seed: int = 1) -> Reopened:
    """Play one kind of breaker."""
    dice = Random(seed)  # noqa: S311 - a plan that can be repeated, no secret
    arrivals: Counter[int] = Counter()
    back = [_client(make(), dice, arrivals) for _ in range(CLIENTS)]
    peak = max((count for second, count in arrivals.items() if second >= SETTLED_IN), default=0)
    return Reopened(arrivals.total(), peak, sum(back) / CLIENTS, max(back))


def _client(gate: Gate, dice: Random, arrivals: Counter[int]) -> float:
    """Play one client; return how long after the outage its first call succeeded."""
    offset = dice.random()
    for second in range(END):
        now = second + offset
        dead = now < OUTAGE
        tickets = [ticket for _ in range(AT_ONCE) if not isinstance(ticket := gate.take(now), Rejection)]
        if dead:
            arrivals[second] += len(tickets)
        elif tickets:
            return now - OUTAGE
        for ticket in tickets:
            gate.record(ticket, ok=not dead, now=now + TOOK, draw=dice.random())  # type: ignore[arg-type]  # its own kind
    return float(END - OUTAGE)
