"""How many failures are too many: the arithmetic behind a breaker."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Callable

_Z = 1.64  # one-sided 95 %
_Z2 = _Z * _Z
_MARGIN = 0.25
_ALPHA = 1e-4  # chance that a healthy tool shows such a run of failures
_CALLS_KNOWN = 100  # how many calls the usual rate is taken to rest on, for its upper bound


def _wilson_lower(failures: int, calls: int) -> float:
    """Lower bound of the failure rate with 95 % confidence; 0 without a failure.

    Wilson's score interval, which is right for small samples too (Wilson 1927), with z = 1.64:
    ``(f + z²/2 - z * sqrt(f * (n - f) / n + z²/4)) / (n + z²)`` for ``f`` failures of ``n`` calls.
    """
    if failures == 0:
        return 0.0
    slack = _Z * math.sqrt(failures * (calls - failures) / calls + _Z2 / 4)
    return (failures + _Z2 / 2 - slack) / (calls + _Z2)


wilson_lower = cast("Callable[[int, int], float]", lru_cache(1024)(_wilson_lower))
"""The same, reckoned once: windows are small, and each failure looks at one."""


def longest_run(usual: float) -> int:
    """Failures in a row that are too many for a tool that fails with rate ``usual``; at least 3.

    ``ceil(ln alpha / ln p)`` with alpha = 1e-4 and ``p`` the upper bound of the usual rate.
    """
    upper = usual + _Z * math.sqrt(usual * (1 - usual) / _CALLS_KNOWN)
    upper = min(max(upper, 1e-9), 0.999)  # so that the logarithm is neither infinite nor 0
    return max(3, math.ceil(math.log(_ALPHA) / math.log(upper)))


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerPolicy:
    """When a breaker trips, and for how long. By default the thresholds follow the tool's own history.

    Adaptive: it trips when, of at least 3 calls in the window, the failure rate is with 95 % confidence above
    ``min(max(usual + 0.25, 0.30), 0.50)``, or on ``longest_run(usual)`` failures in a row. The usual rate is a
    moving average (half-life 500 calls, 0.05 at first) that learns in calm times only, so that an outage never
    becomes usual. Fixed thresholds: ``BreakerPolicy.static``.

    Attributes:
        window: calls that are looked back on.
        seconds: how old they may be.
        failures: fixed number of failures in a row that trips, if not adaptive.
        rate: fixed share of failures that trips, if not adaptive; ``None``: no rate does.
        least: calls in the window from which on a rate counts.
        adaptive: whether thresholds follow history; else ``failures`` and ``rate`` hold.
        cooldown: seconds of the first cool-down; each trip soon after the last doubles it.
        longest_cooldown: seconds, before jitter of a fifth up or down.
        lease: seconds after which a probe without result is given up and the next caller becomes the probe.

    Raises:
        ValueError: a number out of range.
    """

    window: int = 20
    seconds: float = 60.0
    failures: int | None = None
    rate: float | None = None
    least: int = 3
    adaptive: bool = True
    cooldown: float = 5.0
    longest_cooldown: float = 60.0
    lease: float = 30.0

    @classmethod
    def static(
        cls,
        *,
        failures: int | None = 5,
        rate: float | None = None,
        window: int = 20,
        seconds: float = 60.0,
        least: int = 10,
        cooldown: float = 5.0,
        longest_cooldown: float = 60.0,
        lease: float = 30.0,
    ) -> BreakerPolicy:
        """Fixed thresholds: ``failures`` in a row, or a share ``rate`` of at least ``least`` calls in the window."""
        if failures is None and rate is None:
            raise ValueError("a breaker needs failures= or rate=, else it never trips")
        return cls(
            window=window,
            seconds=seconds,
            failures=failures,
            rate=rate,
            least=least,
            adaptive=False,
            cooldown=cooldown,
            longest_cooldown=longest_cooldown,
            lease=lease,
        )

    def __post_init__(self) -> None:
        for name in ("seconds", "cooldown", "longest_cooldown", "lease"):
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name} must be a finite number of seconds above 0, not {value!r}")
        if self.window < 1 or not 1 <= self.least <= self.window:
            raise ValueError(f"least ({self.least}) must lie between 1 and window ({self.window})")
        if self.failures is not None and self.failures < 1:
            raise ValueError(f"failures must be at least 1, not {self.failures!r}")
        if self.rate is not None and not 0 < self.rate <= 1:
            raise ValueError(f"rate must lie above 0 and be at most 1, not {self.rate!r}")

    def threshold(self, usual: float) -> float:
        """The rate that the lower bound must reach, for a tool that fails with rate ``usual``."""
        return min(max(usual + _MARGIN, 0.30), 0.50)

    def trips(self, failures: int, calls: int, run: int, usual: float) -> bool:
        """Whether these numbers are too bad: failures of so many calls in the window, the last ``run`` in a row."""
        if self.adaptive:
            sure = calls >= self.least and wilson_lower(failures, calls) >= self.threshold(usual)
            return sure or run >= longest_run(usual)
        in_a_row = self.failures is not None and run >= self.failures
        return in_a_row or (self.rate is not None and calls >= self.least and failures / calls >= self.rate)

    def pause(self, trips: int, draw: float) -> float:
        """Seconds of the cool-down after the ``trips``-th trip on end (from 1); ``draw`` uniform in [0, 1)."""
        doubled = self.cooldown * 2.0 ** min(trips - 1, 64)
        return min(self.longest_cooldown, doubled) * (0.8 + 0.4 * draw)
