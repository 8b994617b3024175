"""One life of an agent: it makes its trips, many at once, until all are at their end, or until it is killed."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import settled
from bench.travel.desk import Inside, LateChange, itinerary, open_guard
from bench.travel.orders import Orders, append, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.travel.plan import Trip
    from settled.testing.kill.plan import Plan

AT_ONCE = 16
"""Trips that one agent makes at the same time."""
UNDO_WITHIN = 20.0
STRANGERS = 0.03
"""Share of the trips that an agent of another slot tries too, and of those that are entered again when over."""
OVER = frozenset({"completed", "compensated", "partly_compensated"})
AGAIN = "again.json"
"""Names the trips that are to be entered once more: whoever worked on them was killed when all else was over."""
_PAUSE = 0.05


class Agent:
    """An agent with a slot: every so-many-th trip is its own."""

    def __init__(self, slot: int, slots: int) -> None:
        self.orders, self.slot = Orders.read(), slot
        self.told = Path(self.orders.folder, f"told-{slot}.jsonl")
        self.guard = open_guard(self.orders, is_async=self.is_async)
        finished = {row["trip"] for row in rows(self.told) if row["said"] in OVER}
        every = self.orders.trips
        draw = random.Random(os.getpid())  # noqa: S311 - whom it disturbs is no secret
        again = Path(self.orders.folder, AGAIN)
        left = set(json.loads(again.read_text())) if again.exists() else {trip.name for trip in every} - finished
        own = [trip for trip in every[slot::slots] if trip.name in left]
        others = [trip for trip in every if draw.random() < STRANGERS]
        self.own = deque(own)
        self._own = {trip.name for trip in own}
        self._others = deque(() if again.exists() else others[: len(own) // 10])
        self._draw, self._helped = draw, again.exists()

    @property
    def is_async(self) -> bool:
        """Whether it works on a loop, or in threads."""
        return self.slot % 2 == 1

    def next(self) -> Iterator[Trip]:
        """Yield trips to make, until all own ones are over. For several hands at once."""
        while True:
            try:
                stranger = self._others and (not self.own or self._draw.random() < STRANGERS)
                yield (self._others if stranger else self.own).popleft()
            except IndexError:
                if not self._help():
                    return

    def _help(self) -> bool:
        """Take up trips of agents that are not through yet, if there are any; once."""
        if self._helped:
            return False
        self._helped = True
        told = (row for path in self.told.parent.glob("told-*.jsonl") for row in rows(path))
        over = {row["trip"] for row in told if row["said"] in OVER}
        left = [trip for trip in self.orders.trips if trip.name not in over]
        self._draw.shuffle(left)
        self._others.extend(left)
        return bool(left)

    def tell(self, trip: Trip, said: str, why: str) -> float:
        """Note what it was told of a trip; one of its own that is not over has its turn again. Return a pause."""
        append(
            self.told,
            {"trip": trip.name, "said": said, "why": why[:200], "pid": os.getpid(), "at": time.monotonic_ns()},
        )
        if trip.name not in self._own:
            return 0.0
        if said not in OVER or (self._others and self._draw.random() < STRANGERS):
            self.own.append(trip)
        return 0.0 if said in OVER else _PAUSE

    def run(self, trip: Trip) -> settled.Run:
        """Return the run of a trip."""
        return self.guard.run(trip.name, on_error="compensate", wait=0.0, undo_within=UNDO_WITHIN)


def said_of(run: settled.Run, error: BaseException | None) -> tuple[str, str]:
    """Return how a run stands by what its program was told, and why."""
    match error:
        case None:
            return "completed", ""
        case settled.RunUndone():
            return error.status, "entered again"
        case settled.RunInProgress():
            return "elsewhere", str(error)
        case settled.JournalError():
            return "trouble", f"{type(error).__name__}: {error}"
        case _:
            return run.status, f"{type(error).__name__}: {error}"


def make(agent: Agent, trip: Trip) -> tuple[str, str]:
    """Make a trip in the calling thread; return how it stands then, and why."""
    run = agent.run(trip)
    try:
        with run:
            for step in itinerary(agent.guard, trip):
                _do(run, step)
    except (settled.SettledError, LateChange) as error:
        return said_of(run, error)
    return said_of(run, None)


def _do(run: settled.Run, step: Any) -> None:
    if isinstance(step, Inside):
        with step.run as inner:
            for each in step.steps:
                _do(inner, each)
    elif isinstance(step, list):
        for result in run.gather(*step):
            result.unwrap()
    else:
        step()


async def amake(agent: Agent, trip: Trip) -> tuple[str, str]:
    """Make a trip on the loop; return how it stands then, and why."""
    run = agent.run(trip)
    try:
        async with run:
            for step in itinerary(agent.guard, trip):
                await _ado(run, step)
    except (settled.SettledError, LateChange) as error:
        return await asyncio.to_thread(said_of, run, error)
    return said_of(run, None)


async def _ado(run: settled.Run, step: Any) -> None:
    if isinstance(step, Inside):
        async with step.run as inner:
            for each in step.steps:
                await _ado(inner, each)
    elif isinstance(step, list):
        for result in await run.gather(*step):
            result.unwrap()
    else:
        await step


def work(agent: Agent) -> None:
    """Make trips in threads until all are over."""

    def hand(_: int) -> None:
        for trip in agent.next():
            time.sleep(agent.tell(trip, *make(agent, trip)))

    with ThreadPoolExecutor(AT_ONCE) as hands:
        list(hands.map(hand, range(AT_ONCE)))


async def awork(agent: Agent) -> None:
    """Make trips in tasks until all are over."""

    async def hand() -> None:
        for trip in agent.next():
            await asyncio.sleep(agent.tell(trip, *await amake(agent, trip)))

    async with asyncio.TaskGroup() as hands:
        for _ in range(AT_ONCE):
            hands.create_task(hand())


def live(plan: Plan) -> None:
    """Be the agent of a slot; the plan's script names it as ``slot/slots``."""
    slot, _, slots = plan.script.partition("/")
    agent = Agent(int(slot), int(slots))
    with agent.guard:
        if agent.is_async:
            asyncio.run(awork(agent))
        else:
            work(agent)
