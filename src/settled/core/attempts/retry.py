"""Whether an attempt that failed is made again: one place, one order of reasons.

What decides: what the fault proves (``faults/``; for HTTP answers ``faults/statuses.py``), what a repeat would do (the
tool's ``effect``), and what is left of attempts (``attempts=``, 3), time, budgets and breakers. So a 502 on a ``write``
is not repeated, since it may have been done; on a ``read`` it is, up to the limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from settled.core.attempts.backoff import LONGEST_WAIT, fits
from settled.core.model import Effect, Evidence, Fault, FaultClass

if TYPE_CHECKING:
    from settled.core.policy import Limits, Policy

UNCERTAIN_TRIES = 3
"""Answers that nobody can judge are worth at most this many tries, whatever the tool allows."""
REPEATABLE = frozenset({Effect.READ, Effect.IDEMPOTENT, Effect.DEDUPLICATED})
_HOPELESS = frozenset({FaultClass.PERMANENT, FaultClass.INVALID, FaultClass.PARTIAL, FaultClass.CANCELLED})
THROTTLED_COST = 0.35
"""A throttled try costs the other side less than a failed one (AWS SDKs weigh 5 against 14)."""


class Again(Struct, frozen=True):
    """Make one more attempt after ``delay`` seconds, for ``cost`` of the retry budgets."""

    delay: float
    cost: float
    refresh: bool = False
    """Get fresh credentials first."""


class Stop(Struct, frozen=True):
    """Make no further attempt. ``park``: seconds after which it may be tried again."""

    reason: str
    park: float | None = None


BY_THE_FAULT = frozenset({"attempts", "in_doubt", "uncertain", "permanent", "invalid", "partial"})
"""Reasons to stop that lie in the fault itself; its code says more."""


def why(fault: Fault | None, step: Again | Stop) -> str:
    """Return the reason to be kept and shown: the fault's code, or what stood in the way of a retry."""
    if isinstance(step, Stop) and step.reason not in BY_THE_FAULT and (fault is None or step.reason != fault.kind):
        return step.reason
    return fault.code if fault is not None else ""


class Tries(Struct, frozen=True):
    """What has been tried for this asker so far."""

    made: int
    at: float
    draw: float
    doubtful: bool = False
    """An attempt, this one included, may have had its effect."""
    refreshed: bool = False
    waited: float | None = None
    """Seconds that were waited before this attempt."""


def plan(fault: Fault, policy: Policy, limits: Limits, tries: Tries) -> Again | Stop:
    """Decide what follows a failed attempt."""
    refusal = _pointless(fault, policy, tries)
    if refusal:
        return Stop(refusal)
    throttled, refresh, asked = fault.throttled, fault.refresh, fault.retry_after
    delay = 0.0
    if not refresh:
        delay = policy.backoff.delay(
            tries.made - 1, draw=tries.draw, throttled=throttled, retry_after=asked, previous=tries.waited
        )
    if not fits(delay, tries.at, limits.deadline, max(LONGEST_WAIT, policy.backoff.cap)):
        return Stop("deadline", park=None if tries.doubtful else delay)
    if limits.tokens is not None and not limits.tokens():
        return Stop("token_window")
    if throttled:
        return Again(delay, THROTTLED_COST, refresh=refresh)
    free = tries.made == 1 and fault.evidence is Evidence.NONE and not refresh
    return Again(delay, 0.0 if free else 1.0, refresh=refresh)


def _pointless(fault: Fault, policy: Policy, tries: Tries) -> str:
    if fault.refresh and policy.refresh and not tries.refreshed:
        return "" if tries.made < policy.attempts else "attempts"
    if fault.kind in _HOPELESS:
        return fault.kind.value
    if (tries.doubtful or fault.evidence is not Evidence.NONE) and policy.terms.effect not in REPEATABLE:
        return "in_doubt"
    if fault.uncertain and tries.made >= UNCERTAIN_TRIES:
        return "uncertain"
    return "attempts" if tries.made >= policy.attempts else ""
