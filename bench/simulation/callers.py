"""How a client repeats: the naive ways, and settled's own parts put together as its drivers do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from settled.core.attempts.backoff import Backoff
from settled.core.attempts.breaker import Breaker, Rejection, Ticket
from settled.core.attempts.budget import RETRY, Pool

if TYPE_CHECKING:
    from random import Random

    from settled.core.attempts.threshold import BreakerPolicy

Wait = Callable[[int, float], float]
"""Seconds before repeat ``k``, by a draw from [0, 1)."""
BACKOFF = Backoff()


def at_once(k: int, draw: float) -> float:
    """Never wait."""
    del k, draw
    return 0.0


def doubling(k: int, draw: float) -> float:
    """Wait as long as the ceiling of settled's backoff, without jitter."""
    del draw
    return BACKOFF.ceiling(k)


def full_jitter(k: int, draw: float) -> float:
    """Wait as settled does."""
    return BACKOFF.delay(k, draw=draw)


@dataclass(frozen=True, slots=True)
class Way:
    """One way to repeat calls that fail."""

    name: str
    attempts: int = 3
    wait: Wait = full_jitter
    pool: bool = False
    breaker: BreakerPolicy | None = None


class Client:
    """One process's view of one tool: its pool and its breaker."""

    def __init__(self, way: Way, dice: Random) -> None:
        self._way, self._dice = way, dice
        self._pool = Pool() if way.pool else None
        self._breaker = Breaker("tool", way.breaker) if way.breaker else None

    def first(self) -> None:
        """A first attempt is made."""
        if self._pool is not None:
            self._pool.first_attempt()

    def admit(self, now: float) -> Ticket | None:
        """Return a ticket for an attempt, or ``None`` if the breaker is open."""
        if self._breaker is None:
            return Ticket(0)
        ticket = self._breaker.take(now)
        return None if isinstance(ticket, Rejection) else ticket

    def ended(self, ticket: Ticket, now: float, *, ok: bool) -> None:
        """An attempt has ended."""
        if self._breaker is not None:
            self._breaker.record(ticket, "success" if ok else "failure", now, self._dice.random())

    def again(self, made: int) -> float | None:
        """Return the wait before the next attempt after ``made`` failed ones; ``None`` if there is none."""
        if made >= self._way.attempts:
            return None
        if self._pool is not None:
            if not self._pool.grants(RETRY):
                return None
            self._pool.debit(RETRY)
        return self._way.wait(made - 1, self._dice.random())
