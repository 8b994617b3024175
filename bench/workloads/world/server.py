"""The world behind HTTP on loopback: one connection, one thread.

``POST /runs/<run>/<tool>`` executes, as far as the weather lets it; a run is named ``<row>/<seed>/<task>``.
``GET /effects/<row>/<seed>?key=…`` tells what was done under a key: the probe of all tools, in the same weather. For
the driver alone, in no weather: ``GET /plan``, and ``POST /runs/<run>/close``, which gives state and ledger.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from bench.workloads.world import contract
from bench.workloads.world.stage import Row, Stage, without_faults

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.workloads.world.rehearsal import Rehearsal
    from bench.workloads.world.weather import Weather

_PARTS = 5  # of the path of a request to a run


class Dropped(Exception):  # noqa: N818 - it says what became of the connection
    """The connection is closed without an answer."""


class World:
    """All runs that are being played."""

    def __init__(self, rehearsal: Rehearsal, weather: Weather) -> None:
        self.rehearsal, self.weather = rehearsal, weather
        self.plan = json.dumps(rehearsal.plan()).encode()
        self._stages: dict[str, Stage] = {}
        self._keys: dict[tuple[str, str], Stage] = {}
        """Row with seed, and a key -> where it was seen."""
        self._asked: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def stage(self, run: str) -> Stage:
        """Return a run's stage, a fresh one at its first request."""
        task = self.rehearsal.tasks[run.rpartition("/")[2]]
        with self._lock:
            found = self._stages.get(run)
            if found is None:
                found = self._stages[run] = Stage(task)
        return found

    def call(self, run: str, row: Row, expires: float) -> tuple[Row, bool]:
        """Take a request through the weather; return its row, and whether its caller is killed by the answer.

        Raises ``Dropped``.
        """
        stage = self.stage(run)
        with self._lock:
            self._keys[run.rpartition("/")[0], row.key] = stage
        with stage.lock:
            fault = self.weather.draw(f"{run.partition('/')[2]}/{row.mark}", stage.asked(str(row.mark)))
            if fault != "refused" and time.monotonic() >= expires:
                fault = "expired"
            seen = Row(row.mark, row.key, row.tool, row.arguments, fault)
            if fault in ("request_lost", "refused", "expired"):
                stage.ledger.append(seen)
            if fault == "request_lost":
                raise Dropped
            if fault in ("refused", "expired"):
                status = contract.REFUSED if fault == "refused" else contract.EXPIRED
                return Row(row.mark, row.key, row.tool, row.arguments, fault, status=status), False
            done = stage.execute(seen)
        if fault == "answer_lost":
            raise Dropped
        return done, fault == "killed"

    def effects(self, caller: str, key: str) -> tuple[int, Any]:
        """Tell what one row in one seed has done under a key. Raises ``Dropped``."""
        with self._lock:
            stage, no = self._keys.get((caller, key)), 1 + self._asked[caller, key]
            self._asked[caller, key] += 1
        fault = self.weather.draw(f"{caller.partition('/')[2]}/effects/{key}", no)
        if fault in ("request_lost", "answer_lost"):
            raise Dropped
        if fault == "refused":
            return contract.REFUSED, None
        if stage is None:
            return contract.EXECUTED, {"found": []}
        with stage.lock:
            return contract.EXECUTED, {"found": stage.found(key)}

    def close(self, run: str, but: list[int]) -> dict[str, Any]:
        """Return a run's state beside the expected one, and its ledger.

        ``explained``: the state is that of a run without faults in which the calls at the places ``but`` are left out.
        """
        stage = self.stage(run)
        with stage.lock:
            right = stage.state == self.rehearsal.states[stage.task.id]
            explained = right or stage.state == without_faults(stage.task, but).state
            return {"right": right, "explained": explained, "rows": stage.rows()}


class Visit(BaseHTTPRequestHandler):
    """One connection, with its requests."""

    protocol_version = "HTTP/1.1"
    world: World

    def do_GET(self) -> None:
        """Serve the plan, or look effects up."""
        url = urlsplit(self.path)
        if url.path == "/plan":
            self._answer(contract.EXECUTED, self.world.plan)
            return
        caller, key = url.path.removeprefix("/effects/"), parse_qs(url.query)["key"][0]
        self._in_weather(lambda: self.world.effects(caller, key))

    def do_POST(self) -> None:
        """Execute a call, or close a run."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        run, what = self._run_of(self.path)
        if what == "close":
            self._answer(contract.EXECUTED, json.dumps(self.world.close(run, body["but"])).encode())
            return
        row = Row(int(self.headers[contract.MARK]), self.headers[contract.KEY], what, body)
        expires = float(self.headers[contract.EXPIRES])

        def execute() -> tuple[int, Any]:
            done, dies = self.world.call(run, row, expires)
            self._dies = dies
            return done.status, done.answer

        self._in_weather(execute)

    _dies = False

    def _in_weather(self, serve: Any) -> None:
        self._dies = False
        try:
            status, answer = serve()
        except Dropped:
            self.close_connection = True
            return
        more = {contract.DIE: "1"} if self._dies else {}
        self._answer(status, json.dumps(answer).encode(), more)

    def _run_of(self, path: str) -> tuple[str, str]:
        parts = path.split("/", _PARTS)
        return "/".join(parts[2:_PARTS]), parts[_PARTS]

    def _answer(self, status: int, body: bytes, more: Mapping[str, str] | None = None) -> None:
        self.send_response_only(status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **(more or {}),
        }.items():
            self.send_header(name, value)
        self._headers_buffer.append(b"\r\n" + body)  # type: ignore[attr-defined]  # head and body in one packet
        self.flush_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Keep quiet."""


def serve(world: World) -> None:
    """Serve until standard input is closed, by which the driver ends. Says its port on standard output."""
    kind = type("WorldVisit", (Visit,), {"world": world})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()
    server.shutdown()
    server.server_close()
