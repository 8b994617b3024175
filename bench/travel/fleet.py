"""All processes of one play: services, agents, settled's own workers and commands, and whoever kills them."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self, cast

from bench.travel.agent import AGAIN, OVER, live
from bench.travel.orders import Orders, append, rows
from bench.travel.plan import SERVICES, trip_name
from settled.testing.kill.life import fork
from settled.testing.kill.nursery import KILLED
from settled.testing.kill.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
APP = "bench.travel.app:guard"
_LOOK = 0.02
_GOODBYE = 60.0
_WORKERS = 2
_PROGRESS = 1000
"""Bytes that agents note between two kills at the least: some ten trips."""
_SETTLINGS = 10
"""Times that settled's commands go on with what is left, at the most."""
_COMMAND = 120.0
"""Seconds that one command of settled may take."""


class PlayFailed(Exception):  # noqa: N818 - it says what happened
    """A process ended as it should not; the text holds what it wrote."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How many agents there are, and how often who is killed; seconds between, on average."""

    agents: int = 3
    agent: float = 2.5
    worker: float = 10.0
    resume: float = 20.0
    """Between two uses of ``settled runs resume``; each third of them is killed."""


@dataclass(slots=True)
class Due:
    """Something that happens at random moments, so often on average."""

    every: float
    draw: random.Random
    at: float = field(init=False)

    def __post_init__(self) -> None:
        self.at = time.monotonic() + self.draw.uniform(0.3, 1.7) * self.every

    def now(self) -> bool:
        """Whether it is time; if so, the next time is drawn."""
        if time.monotonic() < self.at:
            return False
        self.__post_init__()
        return True


class Fleet:
    """A context manager: at its end whatever still runs is stopped by its process id."""

    def __init__(self, folder: Path, journal: str, *, seed: int, runs: int, pace: Pace) -> None:
        self.folder, self.pace = folder, pace
        self.kills: Counter[str] = Counter()
        self._draw = random.Random(seed)  # noqa: S311 - whom it kills is no secret
        self._stack = ExitStack()
        self._agents: dict[int, int] = {}
        """Slot -> process id."""
        self._lives: Counter[int] = Counter()
        self._told = 0
        """Bytes of what agents had been told at the last kill."""
        self._commands: dict[str, subprocess.Popen[bytes]] = {}
        try:
            ports = {name: self._service(name, seed) for name in SERVICES}
            self.orders = Orders(str(folder), journal, ports, seed, runs)
            self.orders.write()
        except BaseException:
            self.__exit__()
            raise

    def _service(self, name: str, seed: int) -> int:
        books = self.folder / f"{name}.jsonl"
        process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "bench.travel.service", name, str(books), str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_environment(),
            start_new_session=True,  # Ctrl-C is for the driver, which then ends them
        )
        self._stack.callback(_end, process)
        port = cast("IO[bytes]", process.stdout).readline().strip()
        if not port:
            raise PlayFailed(f"the service {name} did not start: see above")
        return int(port)

    # --- playing ---

    def play(self, tell: Callable[[str], object], longest: float) -> None:
        """Let all trips be made. Raises ``PlayFailed``, also after ``longest`` seconds."""
        began, draw = time.monotonic(), self._draw
        for slot in range(self.pace.agents):
            self._start_agent(slot)
        for number in range(_WORKERS):
            self._start_worker(f"worker-{number}")
        agent, worker = Due(self.pace.agent, draw), Due(self.pace.worker, draw)
        resume, news = Due(self.pace.resume, draw), Due(5.0, draw)
        while self._agents:
            self._look_at_agents()
            if agent.now() and (slot := draw.randrange(self.pace.agents)) in self._agents and self._has_come_on():
                self._kill("agent", self._agents[slot])
            if worker.now():
                self._kill("worker", self._commands[f"worker-{draw.randrange(_WORKERS)}"].pid)
            self._look_at_commands(resume=resume.now())
            if news.now():
                tell(f"{self.over} of {self.orders.runs} trips over, {dict(self.kills)} killed")
            if time.monotonic() - began > longest:
                raise PlayFailed(f"{self.over} of {self.orders.runs} trips are over after {longest:.0f} s")
            time.sleep(_LOOK)
        self._enter_again()
        for process in self._commands.values():
            process.send_signal(signal.SIGTERM)
        for process in self._commands.values():
            process.wait(_GOODBYE)
        self._commands.clear()

    def _enter_again(self) -> None:
        """Let whoever starts the agents see to runs that a killed one has left, as it would at its next start."""
        listed = json.loads(self.command("runs", "list", "--state", "active", "--limit", "1000000", "--json"))["runs"]
        left = sorted({trip_name(run["run"]) for run in listed})
        (self.folder / AGAIN).write_text(json.dumps(left))
        for slot in range(self.pace.agents if left else 0):
            self._start_agent(slot)
        end = time.monotonic() + _COMMAND
        while self._agents:
            self._look_at_agents()
            if time.monotonic() > end:
                raise PlayFailed(f"{left} do not come to an end")
            time.sleep(_LOOK)

    def _has_come_on(self) -> bool:
        """Whether something was brought to its end since the last kill: on a busy machine kills are rarer, too."""
        size = sum(path.stat().st_size for path in self.folder.glob("told-*.jsonl"))
        come_on = size - self._told >= _PROGRESS
        self._told = size if come_on else self._told
        return come_on

    @property
    def over(self) -> int:
        """How many trips are over, by what the agents wrote down."""
        told = (row for path in self.folder.glob("told-*.jsonl") for row in rows(path))
        return len({row["trip"] for row in told if row["said"] in OVER})

    def _start_agent(self, slot: int) -> None:
        self._lives[slot] += 1
        life = self._lives[slot]
        plan = Plan(str(self.folder), f"{slot}/{self.pace.agents}", name=f"agent-{slot}-{life}")
        self._agents[slot] = fork(plan, live)

    def _look_at_agents(self) -> None:
        for slot, pid in list(self._agents.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            if not done:
                continue
            del self._agents[slot]
            code = os.waitstatus_to_exitcode(status)
            if code == KILLED:
                self._start_agent(slot)
            elif code:
                error = self.folder / f"agent-{slot}-{self._lives[slot]}.error"
                raise PlayFailed(error.read_text() if error.exists() else f"an agent ended with {code}")

    def _start_worker(self, name: str) -> None:
        words = ["worker", "--every", "3", "--no-prune", "--json"]
        self._commands[name] = self._settled(name, *words)

    def _look_at_commands(self, *, resume: bool) -> None:
        for name, process in list(self._commands.items()):
            if process.poll() is None:
                continue
            if process.returncode not in (0, 1, 3, 5, KILLED):  # 3: the journal was busy, and the schedule comes again
                raise PlayFailed(f"{name} ended with {process.returncode}: {self._words(name)}")
            del self._commands[name]
            if name.startswith("worker"):
                self._start_worker(name)
        running = self._commands.get("resume")
        if resume and running is None:
            self._commands["resume"] = self._settled("resume", "runs", "resume", "--wait", "2")
        elif running is not None and self._draw.random() < _LOOK / 3:
            self._kill("resume", running.pid)

    def _settled(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.out").open("ab") as out:
            return subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-m", "settled", *words, "--app", APP],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=_environment(),
                cwd=ROOT,
                start_new_session=True,
            )

    def _words(self, name: str) -> str:
        return (self.folder / f"{name}.out").read_text()[-2000:]

    def _kill(self, what: str, pid: int) -> None:
        """Kill a process, and write down that it was killed before it is."""
        append(self.folder / "killed.jsonl", {"what": what, "pid": pid, "at": time.monotonic_ns()})
        self.kills[what] += 1
        os.kill(pid, signal.SIGKILL)

    # --- when all agents are gone ---

    def settle(self, tell: Callable[[str], object]) -> None:
        """Let settled's commands go on with what is left, as a schedule would, until nothing more comes of it."""
        before = ""
        for no in range(_SETTLINGS):
            self.command("reconcile", "--limit", "100000", codes=(0, 1))
            self.command("runs", "resume", "--wait", "10", codes=(0, 1, 5))
            now = self.command("queue", "list", "--limit", "1000000", "--json")
            waits = sorted(call["operation_id"] for call in json.loads(now)["calls"])
            tell(f"settled for the {no + 1}. time, {len(waits)} in the queue")
            if str(waits) == before:
                return
            before = str(waits)
            time.sleep(1.0)

    def command(self, *words: str, codes: tuple[int, ...] = (0,)) -> str:
        """Use one of settled's commands; return what it printed. Raises ``PlayFailed``."""
        done = subprocess.run(  # noqa: S603 - our own module
            [sys.executable, "-m", "settled", *words, "--app", APP],
            capture_output=True,
            text=True,
            env=_environment(),
            cwd=ROOT,
            timeout=_COMMAND + self.orders.runs / 50,
            check=False,
        )
        if done.returncode not in codes:
            raise PlayFailed(f"settled {' '.join(words)} ended with {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pid in self._agents.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        self._agents.clear()
        for process in self._commands.values():
            process.kill()
            process.wait(_GOODBYE)
        self._stack.close()


def _environment() -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    ours = {name: value for name, value in os.environ.items() if name not in ("SETTLED_JOURNAL", "SETTLED_APP")}
    return {**ours, "PYTHONPATH": path}


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.communicate(b"", timeout=_GOODBYE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
