"""The tools of the travel desk, declared as their users would: each does one thing at one service."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

import httpx

import settled
from bench.pace import breaker_at
from bench.travel.plan import PARTS, STAY, Part
from bench.travel.weather import LIFETIME, TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.travel.orders import Orders
    from bench.travel.plan import Trip

PACE = 20.0
"""How much faster than in earnest a trip is made: settled's own pauses are divided by it."""
_PACE: dict[str, Any] = {
    "retry": settled.Backoff(base=0.1 / PACE, throttled_base=1 / PACE, cap=1.0),
    "breaker": breaker_at(PACE),
}
_PROBES = 5
"""Tries of one question to a service."""
_PATIENT = 30.0


class Booked(TypedDict):
    """What a service answers."""

    booking: str


class LateChange(Exception):  # noqa: N818 - it says what the traveller does
    """The traveller does not want the trip any more, although the mail is sent."""


class Services:
    """An HTTP client for all services, sync and async."""

    def __init__(self, orders: Orders) -> None:
        self._urls = {name: f"http://127.0.0.1:{port}" for name, port in orders.ports.items()}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
        self._client = httpx.Client(limits=limits, trust_env=False, verify=False)  # noqa: S501 - loopback without TLS: no certificates to load
        self._aclient = httpx.AsyncClient(limits=limits, trust_env=False, verify=False)  # noqa: S501 - the same

    def ask(self, service: str, verb: str, body: dict[str, Any], *, asked: bool = True) -> Any:
        """Make one request. Raises what httpx raises."""
        return self._client.post(**self._given(service, verb, body, asked=asked)).raise_for_status().json()

    async def aask(self, service: str, verb: str, body: dict[str, Any], *, asked: bool = True) -> Any:
        """Make one request from async code."""
        return (await self._aclient.post(**self._given(service, verb, body, asked=asked))).raise_for_status().json()

    def _given(self, service: str, verb: str, body: dict[str, Any], *, asked: bool) -> dict[str, Any]:
        """``asked``: the service can be asked about it later, so nobody need wait for long."""
        timely = {"expires": time.monotonic() + LIFETIME} if asked else {}
        wait = TIMEOUT if asked else _PATIENT
        content = {**body, **timely, "pid": os.getpid()}
        return {"url": f"{self._urls[service]}/{verb}", "json": content, "timeout": wait}

    def find(self, service: str, key: str) -> str | None:
        """Ask what was done under a key; ``None``: there was no answer."""
        for again in range(_PROBES):
            try:
                found: str = self.ask(service, "find", {"key": key})["found"]
            except httpx.HTTPError:
                time.sleep(0.005 * again)
            else:
                return found
        return None


def open_guard(orders: Orders, *, is_async: bool = False) -> settled.Guard:
    """Open a guard with all tools."""
    guard = settled.Guard(orders.journal)
    services = Services(orders)
    for part in PARTS.values():
        if part.undoes:
            guard.tool(name=part.undoes, **_undoing(part, services))(_undo(part, services, is_async=is_async))
        guard.tool(name=part.does, **_doing(part, services))(_do(part, services, is_async=is_async))
    return guard


def _doing(part: Part, services: Services) -> dict[str, Any]:
    options: dict[str, Any] = {"effect": "write", **_PACE, **_probed(part, services, asked=part.asked, gives="booking")}
    if part.name == "room":
        options["effect"] = "idempotent"
    if part.name == "payment":
        options |= {"effect": "deduplicated", "remote_retention": 86_400.0, "remote_errors": "stored", "attempts": 5}
    if not part.undoes:
        return options | {"irreversible": True, "precheck": _has_an_address}
    undo = {"undo": lambda _, result: {"booking": result["booking"]}} if part.service == "card" else {}
    return options | {"compensate": part.undoes, **undo}


def _undoing(part: Part, services: Services) -> dict[str, Any]:
    effect = "idempotent" if part.name == "room" else "write"
    return {"effect": effect, **_PACE, **_probed(part, services, asked=part.undo_asked, gives="cancelled")}


def _probed(part: Part, services: Services, *, asked: bool, gives: str) -> dict[str, Any]:
    if not asked:
        return {}

    def probe(call: settled.Call) -> settled.Happened | settled.NotHappened | settled.Inconclusive:
        found = services.find(part.service, call.key)
        if found is None:
            return settled.Inconclusive("the service does not answer")
        return settled.Happened({gives: found}) if found else settled.NotHappened()

    return {"probe": probe, "max_request_lifetime": LIFETIME}


def _has_an_address(trip: str, to: str) -> bool:
    del trip
    return "@" in to


def _do(part: Part, services: Services, *, is_async: bool) -> Callable[..., Any]:
    def body(trip: str) -> dict[str, Any]:
        return {"trip": trip, "part": part.name, "key": settled.current_call().key}

    if not part.undoes:
        return _mail(part, services, body, is_async=is_async)

    def act(trip: str) -> Booked:
        found: Booked = services.ask(part.service, "book", body(trip), asked=part.asked)
        return found

    async def aact(trip: str) -> Booked:
        found: Booked = await services.aask(part.service, "book", body(trip), asked=part.asked)
        return found

    return aact if is_async else act


def _mail(part: Part, services: Services, body: Callable[[str], Any], *, is_async: bool) -> Callable[..., Any]:
    def act(trip: str, to: str) -> Booked:
        found: Booked = services.ask(part.service, "book", {**body(trip), "to": to})
        return found

    async def aact(trip: str, to: str) -> Booked:
        found: Booked = await services.aask(part.service, "book", {**body(trip), "to": to})
        return found

    return aact if is_async else act


def _undo(part: Part, services: Services, *, is_async: bool) -> Callable[..., Any]:
    def body(booking: str) -> dict[str, Any]:
        return {"booking": booking, "key": settled.current_call().key}

    def act(booking: str) -> dict[str, str]:
        found: dict[str, str] = services.ask(part.service, "cancel", body(booking), asked=part.undo_asked)
        return found

    async def aact(booking: str) -> dict[str, str]:
        found: dict[str, str] = await services.aask(part.service, "cancel", body(booking), asked=part.undo_asked)
        return found

    return aact if is_async else act


# --- how a trip is made: steps for whoever plays it -------------------------------------------


@dataclass(frozen=True, slots=True)
class Inside:
    """Steps that are made in a run of their own, inside of the trip's."""

    run: settled.Run
    steps: tuple[Any, ...]


def itinerary(guard: settled.Guard, trip: Trip) -> Iterator[Any]:
    """Yield what is to be done: a call, a list of calls to be made side by side, or steps in an inner run."""

    def call(part: str, **more: Any) -> Any:
        return guard.tools[PARTS[part].does].bind(trip=trip.name, **more)

    yield call("flight")
    stay = [call("room"), call("dinner")] if trip.dinner else [call("room")]
    yield Inside(guard.run(f"{trip.name}{STAY}", wait=0.0), tuple(stay))
    yield [call("car"), call("hold")]
    yield call("payment")
    yield call("mail", to="nobody" if trip.fails == "address" else "ann@example.org")
    if trip.fails == "late":
        raise LateChange
