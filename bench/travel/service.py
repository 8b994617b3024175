"""One service of the travel desk as a process of its own: HTTP on loopback, and its books in a file.

``python -m bench.travel.service NAME BOOKS SEED`` says its port on standard output and ends with its input. A request
is a POST of JSON to ``/book``, ``/cancel`` or ``/find``; every request that comes is a row of the books.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.travel import weather
from bench.travel.plan import PARTS, trip_of

if TYPE_CHECKING:
    from bench.travel.weather import Fault

_WORDS = {200: b"OK", 402: b"Payment Required", 422: b"Unprocessable", 429: b"Too Many", 500: b"Error", 504: b"Expired"}
Answer = tuple[int, dict[str, Any]]


class Books:
    """What a service has done, and every request that it was sent."""

    def __init__(self, name: str, path: Path, seed: int) -> None:
        self.name, self.seed = name, seed
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._bookings: dict[str, tuple[str, str]] = {}
        """Booking -> trip and part."""
        self._by_key: dict[str, str] = {}
        self._standing: dict[tuple[str, str], str] = {}
        self._asked: Counter[str] = Counter()

    def meets(self, request: dict[str, Any]) -> Fault:
        """Draw what befalls a request."""
        verb, what = request["verb"], request.get("booking") or request.get("trip") or request["key"]
        name = f"{self.seed}/{self.name}/{verb}/{request.get('part', '')}/{what}"
        self._asked[name] += 1
        return weather.draw(name, self._asked[name] - 1, patient="expires" not in request)

    def note(self, request: dict[str, Any], fault: Fault, word: str, booking: str = "") -> None:
        """Write a row: what was asked by whom, what befell it, and what was done."""
        trip, part = self._bookings.get(booking, (request.get("trip", ""), request.get("part", "")))
        row = {"at": time.monotonic_ns(), "verb": request["verb"], "trip": trip, "part": part, "word": word}
        row |= {"key": request["key"], "pid": request.get("pid", 0), "fault": fault, "booking": booking}
        os.write(self._file, json.dumps(row).encode() + b"\n")

    def act(self, request: dict[str, Any], fault: Fault) -> Answer:
        """Do what a request asks for, unless it is too old."""
        if time.monotonic() > request.get("expires", float("inf")):
            self.note(request, fault, "expired", request.get("booking", ""))
            return 504, {"error": "too old"}
        return {"book": self._book, "cancel": self._cancel, "find": self._find}[request["verb"]](request, fault)

    def _book(self, request: dict[str, Any], fault: Fault) -> Answer:
        trip, part = trip_of(self.seed, request["trip"]), request["part"]
        if (part, trip.fails) in (("car", "no_car"), ("payment", "declined")):
            self.note(request, fault, "refused")  # of a payment always again under the same key
            return (422, {"error": "no car is left"}) if part == "car" else (402, {"error": "declined"})
        known = self._by_key.get(request["key"]) if part == "payment" else None  # it de-duplicates on keys
        if part == "room":  # a PUT: twice is as once
            known = self._standing.get((trip.name, part))
        booking = known or f"{part}-{len(self._bookings) + 1}"
        if known is None:
            self._bookings[booking] = self._by_place(trip.name, part, booking)
            self._by_key[request["key"]] = booking
        self.note(request, fault, "booked" if known is None else "again", booking)
        return 200, {"booking": booking}

    def _by_place(self, trip: str, part: str, booking: str) -> tuple[str, str]:
        self._standing[trip, part] = booking
        return trip, part

    def _cancel(self, request: dict[str, Any], fault: Fault) -> Answer:
        booking = request["booking"]
        if booking not in self._bookings:
            self.note(request, fault, "strange")
            return 422, {"error": f"no booking {booking}"}
        trip, part = self._bookings[booking]
        if part in trip_of(self.seed, trip).for_good:
            self.note(request, fault, "refused", booking)
            return 422, {"error": "it is not refundable"}
        stands = self._standing.pop((trip, part), None) == booking
        self._by_key[request["key"]] = booking
        self.note(request, fault, "gone" if part == "room" and not stands else "cancelled", booking)
        return 200, {"cancelled": booking}

    def _find(self, request: dict[str, Any], fault: Fault) -> Answer:
        booking = self._by_key.get(request["key"], "")
        self.note(request, fault, "found" if booking else "not_found", booking)
        return 200, {"found": booking}


class Visit(asyncio.Protocol):
    """One connection, with its requests."""

    def __init__(self, books: Books) -> None:
        self._books, self._buffer = books, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        assert isinstance(transport, asyncio.Transport)
        self._out = transport

    def data_received(self, data: bytes) -> None:
        """Serve a request once it is whole."""
        self._buffer += data
        head, end, rest = self._buffer.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        if not end or len(rest) < length:
            return
        self._buffer = rest[length:]
        request = json.loads(rest[:length]) | {"verb": head.split(b" ", 2)[1].decode().strip("/")}
        self._serve(request, self._books.meets(request))

    def _serve(self, request: dict[str, Any], fault: Fault) -> None:
        match fault:
            case "dropped" | "busy" | "error_before":
                self._books.note(request, fault, "not_served", request.get("booking", ""))
                self._end({"busy": 429, "error_before": 500}.get(fault), {"error": fault})
            case "late":
                when = request["expires"] - time.monotonic() - 0.15  # after the client's patience, in time
                asyncio.get_running_loop().call_later(max(0.0, when), self._late, request, fault)
            case "slow":
                answer = self._books.act(request, fault)
                asyncio.get_running_loop().call_later(weather.TIMEOUT + 0.1, self._end, *answer)
            case _:
                status, body = self._books.act(request, fault)
                lost: dict[Fault, int | None] = {"lost": None, "error_after": 500}
                self._end(lost.get(fault, status), body)

    def _late(self, request: dict[str, Any], fault: Fault) -> None:
        self._end(*self._books.act(request, fault))

    def _end(self, status: int | None, body: dict[str, Any]) -> None:
        """Answer; ``None``: the connection is cut off."""
        if status is None or self._out.is_closing():
            self._out.abort()
            return
        data = json.dumps(body).encode()
        lines = [b"HTTP/1.1 %d %s" % (status, _WORDS[status]), b"content-type: application/json"]
        lines += [b"content-length: %d" % len(data), b"", data]
        self._out.write(b"\r\n".join(lines))


async def serve(name: str, books: Path, seed: int) -> None:
    """Serve until standard input ends."""
    assert any(part.service == name for part in PARTS.values())
    kept, loop, over = Books(name, books, seed), asyncio.get_running_loop(), asyncio.Event()
    server = await loop.create_server(lambda: Visit(kept), "127.0.0.1", 0, backlog=500)
    loop.add_reader(0, over.set)
    print(server.sockets[0].getsockname()[1], flush=True)
    await over.wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
