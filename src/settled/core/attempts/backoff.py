"""How long to wait before a repeat, and whether the wait fits."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never, get_args

Jitter: TypeAlias = Literal["full", "equal", "decorrelated", "proportional"]
"""How a draw spreads the waits of callers that failed at the same moment. A wait without jitter is not offered."""

LONGEST_WAIT = 120.0
"""Seconds that are waited at the most where no deadline says otherwise."""

_HINT_JITTER = 0.1
_LEAST_SPREAD = 0.05
_LARGEST = sys.float_info.max


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Exponential backoff with jitter: the wait before repeat ``k`` grows with ``2**k`` up to ``cap``.

    Attributes:
        base: seconds, the scale of the first wait after a passing fault.
        throttled_base: the same after the other side asked for a slower pace.
        cap: seconds, never exceeded except by a ``Retry-After``; the jitter stays below it too, so that waits do
            not gather there.
        jitter: with ``c = min(cap, base * 2**k)`` and ``U`` uniform: ``"full"`` is ``U(0, c)``, the default, since it
            gave the lowest peak and the shortest wait of a simulated herd; ``"equal"`` is ``c/2 + U(0, c/2)``;
            ``"decorrelated"`` is ``U(base, min(cap, 3 * previous))``; ``"proportional"`` is ``c * U(1-s, 1+s)`` with
            ``s = spread``, the middle kept so low that the cap holds.
        spread: share of the wait by which ``"proportional"`` varies, 0.05 to 1.

    Raises:
        ValueError: a number that is not finite and positive, a spread out of range, an unknown jitter.
    """

    base: float = 0.1
    throttled_base: float = 1.0
    cap: float = 20.0
    jitter: Jitter = "full"
    spread: float = 0.2

    def __post_init__(self) -> None:
        for name in ("base", "throttled_base", "cap", "spread"):
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name} must be a finite number above 0, not {value!r}")
        if not _LEAST_SPREAD <= self.spread <= 1:
            raise ValueError(f"spread must lie between {_LEAST_SPREAD} and 1, not {self.spread!r}")
        if self.jitter not in get_args(Jitter):
            raise ValueError(f"jitter must be one of {', '.join(get_args(Jitter))}, not {self.jitter!r}")

    def ceiling(self, k: int, *, throttled: bool = False) -> float:
        """``min(cap, base * 2**k)`` in seconds, for any ``k`` from 0 on."""
        return self._doubled(k, self.throttled_base if throttled else self.base, self.cap)

    def delay(
        self,
        k: int,
        *,
        draw: float,
        throttled: bool = False,
        retry_after: float | None = None,
        previous: float | None = None,
    ) -> float:
        """Seconds to wait before repeat ``k`` (0 is the first repeat).

        Args:
            k: repeats already made in this series.
            draw: uniform in [0, 1).
            throttled: the other side asked for a slower pace.
            retry_after: seconds that it asked for: a floor, with up to a tenth of it as jitter on top. One
                that is not above 0 is no hint; one beyond the largest float counts as that.
            previous: the wait before the last repeat, for ``"decorrelated"``.

        Raises:
            ValueError: ``k`` below 0 or ``draw`` outside of [0, 1).
        """
        if not 0 <= draw < 1:
            raise ValueError(f"draw must lie in [0, 1), not {draw!r}")
        jittered = self._jittered(k, draw, throttled=throttled, previous=previous)
        if retry_after is None or not retry_after > 0:  # so that NaN is no hint
            return jittered
        hint = min(retry_after, _LARGEST)  # a header can hold an integer that is no float
        return max(jittered, hint * (1 + draw * _HINT_JITTER))

    def _jittered(self, k: int, draw: float, *, throttled: bool, previous: float | None) -> float:
        ceiling = self._doubled(k, self.throttled_base if throttled else self.base, self.cap)
        match self.jitter:
            case "full":
                return draw * ceiling
            case "equal":
                return ceiling / 2 + draw * ceiling / 2
            case "decorrelated":
                return self._decorrelated(draw, throttled=throttled, previous=previous)
            case "proportional":
                base = self.throttled_base if throttled else self.base
                middle = self._doubled(k, base, self.cap / (1 + self.spread))
                return min(self.cap, middle * (1 - self.spread + 2 * self.spread * draw))  # where rounding exceeds it
            case _:
                assert_never(self.jitter)

    def _decorrelated(self, draw: float, *, throttled: bool, previous: float | None) -> float:
        low = min(self.ceiling(0, throttled=throttled), self.cap / 3)  # a base at the cap would leave no band
        before = low if previous is None else max(low, previous)
        high = min(self.cap, 3 * before)
        return low + draw * (high - low)

    @staticmethod
    def _doubled(k: int, base: float, most: float) -> float:
        if k < 0:
            raise ValueError(f"k counts repeats from 0, not {k!r}")
        try:
            return min(most, math.ldexp(base, k))
        except OverflowError:  # it is no float any more
            return most


def fits(delay: float, now: float, deadline: float | None, longest: float = LONGEST_WAIT) -> bool:
    """Whether an attempt can follow a wait: what does not fit is not slept, the call is parked instead.

    Args:
        delay: seconds to wait.
        now: the present, monotonic seconds.
        deadline: end of the asker's time on the same clock.
        longest: seconds that are waited at the most where there is none.
    """
    return delay <= longest if deadline is None else now + delay < deadline
