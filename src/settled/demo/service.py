"""The shop as a process of its own: HTTP on loopback, books and fault log in a folder, orders on standard input.

Started with a folder that holds ``service.json``. Writes a line of JSON to standard output for its port and for each
moment at which the agent is to be killed. Reads ``killed <pid>``, ``calm`` and ``finish``; the end of the input ends
it at once, so it never outlives whoever started it.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import sys
import threading
import time
from collections import Counter
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

from settled.demo.books import Books
from settled.demo.desk import Desk, Reply, Request, refusal
from settled.demo.faults import CALM, CLOSED_FOR, Fault, FaultLog, draw
from settled.demo.shop import SENT_AT, TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from settled.demo.faults import Moment

_POLL = 0.05
_LONGEST_HOLD = 5.0
_LONGEST_GOODBYE = 5.0


class Dropped(Exception):  # noqa: N818 - no error: the connection is closed on purpose
    """Close this connection without an answer."""


class Kills:
    """Has the agent killed in the midst of chosen requests."""

    def __init__(self, planned: dict[str, Moment], tell: Callable[[dict[str, Any]], None]) -> None:
        self._planned, self._tell = dict(planned), tell
        self._lock = threading.Lock()
        self.killed = threading.Event()

    def take(self, mark: str) -> Moment | None:
        """Return the moment planned for this intention's request, once."""
        with self._lock:
            return self._planned.pop(mark, None)

    def hold(self, mark: str) -> None:
        """Have the agent killed, and go on when it is dead."""
        self.killed.clear()
        self._tell({"kill": mark})
        self.killed.wait(_LONGEST_HOLD)


class Front:
    """Everything between the socket and the desk: counts, faults, kills."""

    def __init__(
        self, weather: Callable[[str, int], Fault], desk: Desk, log: FaultLog, kills: Kills, requests: Path
    ) -> None:
        self.weather, self.desk, self.log, self.kills = weather, desk, log, kills
        self.calm = False
        self.refuse = threading.Event()
        self._seen: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._requests = requests.open("a", buffering=1)

    def fault_of(self, request: Request) -> Fault:
        """Return what befalls a request, and log it before it does."""
        name = request.mark or request.target
        with self._lock:
            no = self._seen[name]
            self._seen[name] += 1
        fault = CALM if self.calm else self.weather(name, no)
        self._requests.write(json.dumps({"method": request.method, "path": request.path, "mark": request.mark}) + "\n")
        return fault

    def note(self, request: Request, kind: str, *, doubt: bool) -> None:
        """Log a fault of a request."""
        self.log.write(kind, mark=request.mark, path=request.path, doubt=doubt and request.effect)

    def answer(self, request: Request, reply: Callable[[Reply], None]) -> None:
        """Let a request meet its fate. Raises ``Dropped`` where it gets no answer."""
        fault, moment = self.fault_of(request), self.kills.take(request.mark)
        if moment is not None:
            return self._to_be_killed(request, moment, reply)
        if fault.kind:
            self.note(request, fault.kind, doubt=fault.doubt)
        own = self.desk.act(request, lambda: time.sleep(fault.before)) if fault.handled else None
        time.sleep(fault.after if fault.handled else fault.before)
        answer = own if fault.answer == "own" else _broken(fault)
        if answer is None:
            raise Dropped(fault.answer)
        reply(answer)
        if fault.refuse:
            self.refuse.set()
        return None

    def _to_be_killed(self, request: Request, moment: Moment, reply: Callable[[Reply], None]) -> None:
        hold: Callable[[], None] = partial(self.kills.hold, request.mark)
        own = self.desk.act(request, hold if moment == "before_effect" else lambda: None)
        if moment == "after_effect":
            hold()
        reply(own)
        if moment == "answered":
            hold()

    def close(self) -> None:
        """Close the list of requests."""
        self._requests.close()


def _broken(fault: Fault) -> Reply | None:
    if not isinstance(fault.answer, int):
        return None
    wait = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
    return refusal(fault.answer, fault.code or fault.kind, **wait)


class Visit(BaseHTTPRequestHandler):
    """One connection with one request."""

    server: Front  # type: ignore[assignment]  # the base only keeps what it is given
    timeout = 5

    def do_GET(self) -> None:
        """Take any method alike."""
        length = int(self.headers.get("Content-Length") or 0)
        content = self.rfile.read(length)
        if len(content) < length:
            raise Dropped("none")  # the client died in the midst of its request
        body = json.loads(content or b"{}")
        sent_at = float(self.headers.get(SENT_AT) or time.time())
        request = Request(self.command, self.path, body, self.headers.get("Idempotency-Key"), sent_at)
        try:
            self.server.answer(request, self._reply)
        except OSError:
            self.server.note(request, "client_gone", doubt=True)
        if request.age > TIMEOUT / 2:  # not by plan: this machine was slow
            self.server.note(request, "slow", doubt=True)

    do_POST = do_PUT = do_GET  # noqa: N815 - the base calls them by these names

    def _reply(self, reply: Reply) -> None:
        content = json.dumps(reply.body).encode()
        self.send_response(reply.status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(content)),
            **reply.headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Keep quiet."""


class Door:
    """The listening socket. It is closed for a moment where the plan says so, and opened again on the same port."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._socket = _listen(0)
        self.port: int = self._socket.getsockname()[1]
        self._visits: set[threading.Thread] = set()
        self._open = True
        self._thread = threading.Thread(target=self._welcome, daemon=True)
        self._thread.start()

    def _welcome(self) -> None:
        while self._open:
            self._take()
            if self._front.refuse.is_set():
                self._front.refuse.clear()
                self._close_for_a_moment()
        self._socket.close()

    def _take(self) -> bool:
        try:
            connection, _ = self._socket.accept()
        except (TimeoutError, BlockingIOError):
            return False
        connection.settimeout(None)
        thread = threading.Thread(target=self._visit, args=(connection,), daemon=True)
        self._visits.add(thread)
        thread.start()
        return True

    def _close_for_a_moment(self) -> None:
        self._socket.setblocking(False)  # noqa: FBT003 - the socket's own signature
        while self._take():  # whoever is connected already is served
            pass
        self._socket.close()
        self._front.log.write("refused", mark="", doubt=False, seconds=CLOSED_FOR)
        time.sleep(CLOSED_FOR)
        self._socket = _listen(self.port)

    def _visit(self, connection: socket.socket) -> None:
        try:
            Visit(connection, ("127.0.0.1", 0), self._front)  # type: ignore[arg-type]  # see Visit.server
            connection.shutdown(socket.SHUT_WR)
        except Dropped as dropped:
            if str(dropped) == "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except (OSError, ValueError):
            pass  # the client has gone, or sent no request
        finally:
            connection.close()
            self._visits.discard(threading.current_thread())

    def close(self) -> None:
        """Take no more visits, and let the present ones end."""
        self._open = False
        self._thread.join(_LONGEST_GOODBYE)
        until = time.monotonic() + _LONGEST_GOODBYE
        for visit in list(self._visits):
            visit.join(max(0.0, until - time.monotonic()))


def _listen(port: int) -> socket.socket:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen(128)
    listening.settimeout(_POLL)
    return listening


def obey(orders: TextIO, front: Front) -> None:
    """Follow what the driver says until it says ``finish``; leave at once if it is gone."""
    for line in orders:
        match line.split():
            case ["killed", pid]:
                front.log.write("killed", mark="", doubt=True, pid=int(pid))
                front.kills.killed.set()
            case ["calm"]:
                front.calm = True
            case ["finish"]:
                return
            case other:
                raise ValueError(f"no such order: {other}")
    os._exit(1)


def main(folder: Path) -> None:
    """Serve until told to finish."""
    config = json.loads((folder / "service.json").read_text())
    lock = threading.Lock()

    def tell(event: dict[str, Any]) -> None:
        with lock, contextlib.suppress(BrokenPipeError):
            print(json.dumps(event), flush=True)  # noqa: T201 - its way of speaking to the driver

    books, log = Books(folder / "books.db"), FaultLog(folder / "faults.jsonl")
    weather = partial(draw, config["seed"])
    front = Front(weather, Desk(books), log, Kills(config["kills"], tell), folder / "requests.jsonl")
    door = Door(front)
    tell({"port": door.port})
    obey(sys.stdin, front)
    door.close()
    front.close()
    log.close()
    books.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
