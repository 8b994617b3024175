"""A service that stalls for a while, and the clients that keep it down, or let it come back.

20 workers take 0.1 s for each request (200/s) and work on abandoned requests too, in order of arrival. 160 calls/s are
offered, each given up after 1 s. From 60 s on nothing moves for 15 s.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from bench.simulation.callers import Client, Way, at_once, doubling
from settled.core.attempts.threshold import BreakerPolicy

if TYPE_CHECKING:
    from settled.core.attempts.breaker import Ticket

WORKERS, SERVICE, OFFERED, TIMEOUT = 20, 0.1, 160.0, 1.0
STALL, STALLED, END = 60.0, 15.0, 300.0
WELL, STEADY = 0.9, 10
"""Recovered: in so many seconds on end, this share of the calls succeeds."""
BREAKER = BreakerPolicy()
WAYS = (
    Way("no retries", attempts=1),
    Way("3 attempts, no wait", wait=at_once),
    Way("3 attempts, exponential", wait=doubling),
    Way("3 attempts, full jitter"),
    Way("full jitter, settled's pool", pool=True),
    Way("full jitter, settled's breaker", breaker=BREAKER),
    Way("settled: all three", pool=True, breaker=BREAKER),
)


class Service:
    """Workers in front of one queue. Requests must be sent in the order of time."""

    def __init__(self) -> None:
        self._free = [0.0] * WORKERS

    def send(self, at: float) -> float:
        """Return when a request that is sent now is answered."""
        start = max(at, heapq.heappop(self._free))
        if STALL <= start < STALL + STALLED:
            start = STALL + STALLED
        stalled = start < STALL < start + SERVICE
        end = start + SERVICE + (STALLED if stalled else 0.0)
        heapq.heappush(self._free, end)
        return end


@dataclass(slots=True)
class Call:
    """One call, from its first attempt to its end."""

    client: Client
    began: float
    made: int = 0
    ok: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a way under the stall."""

    recovery: float | None
    """Seconds from the end of the stall; ``None``: never."""
    succeeded: float
    """Share of the calls that began once the service stalled."""
    attempts: float
    """Requests for each call that began once the service stalled."""


def play(way: Way, clients: int, seed: int) -> Outcome:
    """Play one way with so many clients."""
    dice = Random(f"{seed}/{clients}")  # noqa: S311 - a plan that can be repeated, no secret
    own = [Client(way, dice) for _ in range(clients)]
    calls: list[Call] = []
    at = 0.0
    while (at := at + dice.expovariate(OFFERED)) < END:
        calls.append(Call(dice.choice(own), at))
    _run(calls)
    return _outcome(calls)


def _run(calls: list[Call]) -> None:
    service = Service()
    events: list[tuple[float, int, Call, Ticket | None, bool]] = [
        (call.began, number, call, None, False) for number, call in enumerate(calls)
    ]
    number = len(events)
    while events:
        now, _, call, ticket, ok = heapq.heappop(events)
        following = _attempt(service, call, now) if ticket is None else _end(call, ticket, now, ok=ok)
        if following is not None:
            number += 1
            at, next_ticket, next_ok = following
            heapq.heappush(events, (at, number, call, next_ticket, next_ok))


def _attempt(service: Service, call: Call, now: float) -> tuple[float, Ticket, bool] | None:
    if call.made == 0:
        call.client.first()
    ticket = call.client.admit(now)
    if ticket is None:
        return None
    call.made += 1
    answered = service.send(now)
    ok = answered <= now + TIMEOUT
    return (answered if ok else now + TIMEOUT), ticket, ok


def _end(call: Call, ticket: Ticket, now: float, *, ok: bool) -> tuple[float, None, bool] | None:
    call.client.ended(ticket, now, ok=ok)
    call.ok = ok
    wait = None if ok else call.client.again(call.made)
    return None if wait is None else (now + wait, None, False)


def _outcome(calls: list[Call]) -> Outcome:
    late = [call for call in calls if call.began >= STALL]
    good, every = [0] * int(END), [0] * int(END)
    for call in calls:
        every[int(call.began)] += 1
        good[int(call.began)] += call.ok
    well = [ok >= WELL * count for ok, count in zip(good, every, strict=True)]
    first = int(STALL + STALLED)
    back = next((s for s in range(first, int(END) - STEADY) if all(well[s : s + STEADY])), None)
    return Outcome(
        None if back is None else float(back - first),
        sum(call.ok for call in late) / len(late),
        sum(call.made for call in late) / len(late),
    )
