"""The faults between the agents and the shop: drawn from a seed for each request, and logged on disk.

What befalls a request hangs on the intention it bears and on how often that was asked for, not on time. So two agents
with the same plan meet the same weather, however each of them repeats.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from settled.demo.shop import BUSY, STALL, UPSTREAM_TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from settled.demo.script import RunPlan

Moment = Literal["after_effect", "before_effect", "answered"]
"""When the agent is killed: its request was executed and not answered; it is executed after the death; the answer has
just left."""
MOMENTS: tuple[Moment, ...] = ("after_effect", "answered", "before_effect")
CALLS_PER_KILL = 50
MAY_BE_BARRED = frozenset({"post_note"})
"""While one is unknown, others are not sent: a kill planned for one of them might never come."""
CLOSED_FOR = 0.12
"""Seconds for which connections are refused."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to one request."""

    kind: str
    handled: bool
    """The shop does what it was asked for."""
    doubt: bool
    """From what it sees, the client cannot know whether the effect happened."""
    answer: Literal["own", "none", "reset"] | int = "own"
    code: str = ""
    """Error code inside of the body."""
    retry_after: int | None = None
    before: float = 0.0
    """Seconds between arrival and effect."""
    after: float = 0.0
    """Seconds between effect and answer."""
    refuse: bool = False
    """Once it is answered, the shop takes no connections for a moment."""


CALM = Fault("", handled=True, doubt=False)
_WEATHER: tuple[tuple[float, Fault], ...] = (
    (0.017, Fault("answer_reset", handled=True, doubt=True, answer="reset")),
    (0.017, Fault("answer_dropped", handled=True, doubt=True, answer="none")),
    (0.020, Fault("502_after_effect", handled=True, doubt=True, answer=502)),
    (0.015, Fault("504_after_effect", handled=True, doubt=True, answer=504)),
    (0.018, Fault("late_answer", handled=True, doubt=True, after=STALL)),
    (0.015, Fault("late_effect", handled=True, doubt=True, before=STALL)),
    (0.012, Fault("upstream_timeout", handled=True, doubt=True, answer=200, code=UPSTREAM_TIMEOUT)),
    (0.008, Fault("request_dropped", handled=False, doubt=True, answer="none")),
    (0.008, Fault("502_before_effect", handled=False, doubt=True, answer=502)),
    (0.004, Fault("stalled_in_vain", handled=False, doubt=True, answer="none", before=STALL)),
    (0.020, Fault("throttled", handled=False, doubt=False, answer=429, retry_after=1)),
    (0.015, Fault("unavailable", handled=False, doubt=False, answer=503, retry_after=1)),
    (0.012, Fault("busy_inside_200", handled=False, doubt=False, answer=200, code=BUSY)),
    (0.012, Fault("then_refused", handled=True, doubt=False, refuse=True)),
)
KINDS: dict[str, Fault] = {fault.kind: fault for _, fault in _WEATHER}
_FAULTS = (*KINDS.values(), CALM)
_BOUNDS = tuple(itertools.accumulate(weight for weight, _ in _WEATHER))


def draw(seed: int, name: str, no: int) -> Fault:
    """Return what befalls request ``no`` (from 0) that bears ``name``."""
    return random.Random(f"{seed}/{name}/{no}").choices(_FAULTS, cum_weights=(*_BOUNDS, 1.0))[0]  # noqa: S311 - a plan that can be repeated, no secret


def plan_kills(plan: Sequence[RunPlan], seed: int, calls: int) -> dict[str, Moment]:
    """Return at which intentions' first requests the agent is killed: two times at least, spread over the plan."""
    wishes = [wish for run in plan for wish in run.wishes if wish.effect and wish.tool not in MAY_BE_BARRED]
    marks = list(dict.fromkeys(wish.mark for wish in wishes))
    count = min(len(marks), max(2, calls // CALLS_PER_KILL))
    dice = random.Random(f"{seed}/kills")  # noqa: S311 - as above
    size = len(marks) / count
    chosen = [marks[int((place + dice.random() * 0.9) * size)] for place in range(count)]
    return {mark: MOMENTS[place % len(MOMENTS)] for place, mark in enumerate(chosen)}


class FaultLog:
    """One line of JSON for each fault, on disk before it takes effect."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._lock = threading.Lock()

    def write(self, kind: str, **facts: Any) -> None:
        """Log one fault."""
        line = json.dumps({"at": time.time(), "kind": kind, **facts}) + "\n"
        with self._lock:
            os.write(self._file, line.encode())
            os.fsync(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
