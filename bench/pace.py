"""Loads that are played faster than in earnest."""

from dataclasses import replace

import settled


def breaker_at(pace: float) -> settled.BreakerPolicy:
    """Return the usual breaker with all its times divided by ``pace``."""
    usual = settled.BreakerPolicy()
    return replace(
        usual,
        seconds=usual.seconds / pace,
        cooldown=usual.cooldown / pace,
        longest_cooldown=usual.longest_cooldown / pace,
        lease=usual.lease / pace,
    )
