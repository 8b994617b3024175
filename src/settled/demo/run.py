"""Runs the demo: starts shop and agent, kills the agent where planned, starts it again, has all of it judged."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, cast

import settled
from settled.demo.faults import plan_kills
from settled.demo.judge import Figures, judge
from settled.demo.script import make_plan

if TYPE_CHECKING:
    from collections.abc import Callable

Kind = Literal["guarded", "careful"]
LONGEST = 300.0
"""Seconds after which a demo that hangs is given up."""
_STARTS = 100
_GOODBYE = 15.0


class DemoFailed(Exception):  # noqa: N818 - it says what happened to the demo
    """A process of the demo ended as it should not; the text holds what it wrote."""


class Process:
    """A module of the demo as a process of its own. It ends when its standard input is closed, at the latest."""

    def __init__(self, module: str, folder: Path) -> None:
        self._errors = folder / f"{module}.log"
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(  # noqa: S603 - our own module, by this very Python
                [sys.executable, "-m", f"settled.demo.{module}", str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=_environment(),
                text=True,
                start_new_session=True,  # Ctrl-C is for the driver, which then stops all it started
            )
        self.pid = self._process.pid
        with (folder / "pids").open("a") as pids:
            pids.write(f"{self.pid}\n")
        self._orders, self._words = cast("IO[str]", self._process.stdin), cast("IO[str]", self._process.stdout)

    def order(self, line: str) -> None:
        """Write one line to its standard input."""
        with contextlib.suppress(BrokenPipeError):
            self._orders.write(line + "\n")
            self._orders.flush()

    def hear(self, tell: Callable[[dict[str, Any]], None]) -> threading.Thread:
        """Pass on each line of JSON that it writes, in a thread."""
        thread = threading.Thread(target=self._hear, args=(tell,), daemon=True)
        thread.start()
        return thread

    def _hear(self, tell: Callable[[dict[str, Any]], None]) -> None:
        for line in self._words:
            with contextlib.suppress(ValueError):  # a line cut off by a kill
                tell(json.loads(line))
        tell({"ended": self.pid})

    def kill(self) -> None:
        """Send SIGKILL, and return when it is dead."""
        self._process.kill()
        self._process.wait()

    def wait(self) -> int:
        """Return its exit code when it has ended."""
        return self._process.wait(_GOODBYE)

    def complain(self) -> str:
        """Return the end of what it wrote to standard error."""
        return self._errors.read_text(errors="replace")[-2000:]

    def stop(self) -> None:
        """End it if it has not ended yet. Harmless when repeated."""
        if self._process.poll() is None:
            self.kill()
        for stream in (self._orders, self._words):
            with contextlib.suppress(OSError):
                stream.close()


def _environment() -> dict[str, str]:
    """Let the children import this very package, wherever it lies."""
    package = str(Path(settled.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))}


@dataclass(slots=True)
class Session:
    """One agent with a shop of its own, from start to judgement."""

    kind: Kind
    folder: Path
    calls: int
    seed: int
    progress: Callable[[], None] = lambda: None
    entry: int = 0
    _events: queue.SimpleQueue[dict[str, Any]] = field(default_factory=queue.SimpleQueue)
    _running: list[Process] = field(default_factory=list)
    _reported: set[str] = field(default_factory=set)
    _until: float = 0.0

    def run(self) -> Figures:
        """Run it, and return the figures. Stops all it started, whatever happens."""
        began = time.monotonic()
        self._until = began + LONGEST
        try:
            self._play()
        finally:
            self.stop()
        return judge(self.folder, make_plan(self.seed, self.calls), seconds=time.monotonic() - began)

    def stop(self) -> None:
        """Stop whatever still runs."""
        for process in reversed(self._running):
            process.stop()

    def _play(self) -> None:
        kills = plan_kills(make_plan(self.seed, self.calls), self.seed, self.calls)
        self.folder.mkdir(parents=True)
        (self.folder / "service.json").write_text(json.dumps({"seed": self.seed, "kills": kills}))
        shop = self._start("service")
        url = f"http://127.0.0.1:{self._next('port')['port']}"
        while not self._let_work(shop, url):
            if self.entry > _STARTS:
                raise DemoFailed(f"{self.kind} was started {_STARTS} times without an end")
        if self.kind == "guarded":
            shop.order("calm")  # so that the tools' evidence can be had
            while not self._let_work(shop, url, settle=True):
                pass
        shop.order("finish")
        if shop.wait() != 0:
            raise DemoFailed(shop.complain())

    def _start(self, module: str) -> Process:
        process = Process(module, self.folder)
        self._running.append(process)
        process.hear(self._events.put)
        return process

    def _let_work(self, shop: Process, url: str, *, settle: bool = False) -> bool:
        """Start the agent; return whether it came to its end, or was killed."""
        self.entry += 1
        orders = {"url": url, "seed": self.seed, "calls": self.calls, "entry": self.entry, "settle": settle}
        (self.folder / "agent.json").write_text(json.dumps(orders))
        agent = self._start(self.kind)
        while True:
            event = self._next()
            if "kill" in event:
                agent.kill()
                shop.order(f"killed {agent.pid}")
                agent.stop()
                return False
            if event.get("ended") == shop.pid:
                raise DemoFailed(shop.complain())
            if event.get("ended") == agent.pid:
                code = agent.wait()
                agent.stop()
                if code != 0:
                    raise DemoFailed(agent.complain())
                return True
            self._count(event)

    def _count(self, event: dict[str, Any]) -> None:
        reported = event.get("reported")
        if reported is not None and reported not in self._reported:
            self._reported.add(reported)
            self.progress()

    def _next(self, wanted: str | None = None) -> dict[str, Any]:
        while True:
            try:
                event = self._events.get(timeout=max(0.0, self._until - time.monotonic()))
            except queue.Empty:
                raise DemoFailed(f"{self.kind} did not come to an end within {LONGEST:.0f} s") from None
            if wanted is None or wanted in event:
                return event
            if "ended" in event:
                raise DemoFailed(self._running[0].complain())
