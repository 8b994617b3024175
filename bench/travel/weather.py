"""What befalls a request, drawn by the seed, what it asks for, and how often that was asked for."""

from __future__ import annotations

import random
from typing import Literal

Fault = Literal["", "dropped", "lost", "error_before", "error_after", "busy", "late", "slow"]
"""The request is dropped, the answer is dropped, 5xx before and after the effect, refused for the moment (429), the
effect comes when the client has given up, the answer does."""
TIMEOUT = 0.5
"""Seconds that a client waits for an answer; of what cannot be asked about: for ever."""
LIFETIME = 0.9
"""Seconds after its sending at which a request has no effect any more."""
_CHANCES: dict[Fault, float] = {
    "dropped": 0.025,
    "lost": 0.03,
    "error_before": 0.0125,
    "error_after": 0.0125,
    "busy": 0.025,
    "late": 0.01,
    "slow": 0.01,
}
IN_DOUBT = frozenset({"dropped", "lost", "error_before", "error_after", "late", "slow"})
"""Faults after which a client cannot know what happened."""


def draw(name: str, no: int, *, patient: bool) -> Fault:
    """Return what befalls request ``no`` (from 0) of what ``name`` names. A patient client is not kept waiting."""
    at, bound = random.Random(f"{name}/{no}").random(), 0.0  # noqa: S311 - weather that can be repeated
    for fault, chance in _CHANCES.items():
        bound += chance
        if at < bound:
            return "" if patient and fault in ("late", "slow") else fault
    return ""
