"""A thousand callers that fail at the same moment, and when they come back."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from settled.core.attempts.backoff import Backoff

if TYPE_CHECKING:
    from settled.core.attempts.backoff import Jitter

CALLERS, REPEATS, SLOT = 1_000, 5, 0.1
"""``SLOT``: seconds in which arrivals are counted together."""
JITTERS: tuple[Jitter | None, ...] = (None, "proportional", "equal", "decorrelated", "full")


@dataclass(frozen=True, slots=True)
class Herd:
    """Most arrivals in one slot, and the mean of what a caller waits in all."""

    peak: int
    wait: float


def play(jitter: Jitter | None, seed: int = 1) -> Herd:
    """Let all callers fail ``REPEATS`` times with settled's backoff (base 1 s, as after throttling); ``None``: bare."""
    dice = Random(seed)  # noqa: S311 - a plan that can be repeated, no secret
    arrivals: Counter[int] = Counter()
    total = 0.0
    for _ in range(CALLERS):
        at = 0.0
        for wait in _waits(jitter, dice):
            at += wait
            arrivals[int(at / SLOT)] += 1
        total += at
    return Herd(max(arrivals.values()), total / CALLERS)


def _waits(jitter: Jitter | None, dice: Random) -> list[float]:
    backoff = Backoff(base=1.0, jitter=jitter or "full")
    waits: list[float] = []
    for k in range(REPEATS):
        if jitter is None:
            waits.append(backoff.ceiling(k))
        else:
            waits.append(backoff.delay(k, draw=dice.random(), previous=waits[-1] if waits else None))
    return waits
