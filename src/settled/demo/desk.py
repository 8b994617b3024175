"""What the shop does with a request, faults aside: routes, idempotency keys, look-ups."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from settled.demo.books import mark_in
from settled.demo.shop import KEY_IN_USE, KEY_REUSED, LIFETIME

if TYPE_CHECKING:
    from collections.abc import Callable

    from settled.demo.books import Books

KEYED = frozenset({"/orders", "/payments"})
REFERRED = frozenset({"/refunds", "/tickets"})
PLAIN = frozenset({"/messages", "/notes"})


@dataclass(frozen=True, slots=True)
class Request:
    """One request, read whole."""

    method: str
    target: str
    body: dict[str, Any]
    key: str | None
    sent_at: float

    @property
    def path(self) -> str:
        """The target without its query."""
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        """The target's query."""
        return {name: values[0] for name, values in parse_qs(urlsplit(self.target).query).items()}

    @property
    def mark(self) -> str:
        """The intention that its text bears."""
        return mark_in(json.dumps(self.body))

    @property
    def effect(self) -> bool:
        """Whether it asks for an effect."""
        return self.method != "GET"

    @property
    def age(self) -> float:
        """Seconds since it was sent."""
        return time.time() - self.sent_at


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


def refusal(status: int, code: str, **headers: str) -> Reply:
    """Return an answer that says no."""
    return Reply(status, {"ok": False, "error": {"code": code}}, headers)


class Desk:
    """Acts on requests. Thread-safe."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._at_work: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def act(self, request: Request, wait: Callable[[], None]) -> Reply:
        """Do what is asked for; ``wait`` is called in the midst of it, before the effect."""
        path = request.path
        if request.method == "POST" and path in KEYED and request.key:
            return self._keyed(request, request.key, wait)
        wait()
        if request.method == "POST" and path in KEYED | REFERRED | PLAIN:
            return self._enter(request)
        if request.method == "PUT" and path.startswith("/customers/"):
            return self._enter(request)
        if request.method == "GET" and path in REFERRED:
            found = self._books.referring(path, request.query.get("reference", ""))
            return Reply(200, {"ok": True, "found": found})
        if request.method == "GET" and path.startswith("/customers/"):
            return self._customer(path.removeprefix("/customers/"))
        return refusal(404, "no_such_route")

    def _customer(self, customer: str) -> Reply:
        tier = self._books.tier(customer)
        return refusal(404, "no_such_customer") if tier is None else Reply(200, {"ok": True, "tier": tier})

    def _enter(self, request: Request, key: str | None = None) -> Reply:
        if request.age > LIFETIME:
            return refusal(408, "sent_too_long_ago")
        return Reply(201, {"ok": True, "id": self._books.enter(request.path, request.body, key)})

    def _keyed(self, request: Request, key: str, wait: Callable[[], None]) -> Reply:
        """Act once for each key: one at a time, the same request only, and replay what was answered."""
        claim = (request.path, key)
        with self._lock:
            if claim in self._at_work:
                return refusal(409, KEY_IN_USE, **{"Retry-After": "1"})
            self._at_work.add(claim)
        try:
            known = self._books.answered(request.path, key)
            if known is None:
                wait()
                return self._enter(request, key)
            effect, before = known
            if before != json.dumps(request.body, sort_keys=True):
                return refusal(422, KEY_REUSED)
            return Reply(201, {"ok": True, "id": effect}, {"Idempotent-Replayed": "true"})
        finally:
            with self._lock:
                self._at_work.discard(claim)
