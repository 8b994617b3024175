"""The faults between agents and world, drawn for each request from its seed, its task and its place.

What befalls a request hangs on the intention that it bears and on how often that was asked for. So every caller meets
the same weather at the same place, however it repeats.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import Literal

Fault = Literal["", "request_lost", "answer_lost", "refused", "killed", "expired"]
AFTER_SENDING = frozenset({"request_lost", "answer_lost", "killed"})
"""Faults after which a caller cannot know what happened."""


@dataclass(frozen=True, slots=True)
class Weather:
    """Chances of each fault. ``killed``: of the first request of an intention, after its effect."""

    request_lost: float = 0.05
    answer_lost: float = 0.10
    refused: float = 0.05
    killed: float = 0.02

    def draw(self, name: str, no: int) -> Fault:
        """Return what befalls request ``no`` (from 0) of what ``name`` names."""
        kinds: tuple[Fault, ...] = ("request_lost", "answer_lost", "refused", "killed")
        chances = (self.request_lost, self.answer_lost, self.refused, self.killed if no == 0 else 0.0)
        bounds = tuple(itertools.accumulate(chances))
        at = random.Random(f"{name}/{no}").random()  # noqa: S311 - a plan that can be repeated, no secret
        return next((kind for kind, bound in zip(kinds, bounds, strict=True) if at < bound), "")
