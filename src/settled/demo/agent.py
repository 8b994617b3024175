"""What both agents have in common: their orders, the book of what they report, and that they never outlive the demo."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from settled.demo.script import make_plan

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from settled.demo.script import RunPlan

AT_ONCE = 3
"""Runs that an agent works on side by side."""

Word = Literal["done", "not_done", "failed", "unknown", "blocked"]
"""What an agent says of a call in the end. ``blocked``: not tried, since a like one must be settled first."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What the driver gives an agent to do, in ``agent.json``."""

    folder: Path
    url: str
    seed: int
    calls: int
    entry: int
    """How often the agent was started, from 1 on."""
    settle: bool = False
    """Only settle what was left open."""

    @classmethod
    def read(cls) -> Orders:
        """Read the orders in the folder that the command line names."""
        folder = Path(sys.argv[1])
        return cls(folder, **json.loads((folder / "agent.json").read_text()))

    def plan(self) -> list[RunPlan]:
        """Return the runs that are to be worked on."""
        return make_plan(self.seed, self.calls)


@dataclass(frozen=True, slots=True)
class Report:
    """What an agent told its user of one call."""

    run_id: str
    entry: int
    mark: str
    tool: str
    said: Word
    answer: dict[str, Any] | None = None
    """The value that it passed on."""
    why: str = ""
    operation_id: str = ""
    added: float | None = None
    """Seconds that the call took beyond its one request; ``None`` if it was not such a plain call."""


class Lines:
    """Appends lines that outlive a kill."""

    def __init__(self, path: Path, *, sync: bool = False) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._sync = sync

    def write(self, facts: dict[str, Any]) -> None:
        """Append one line of JSON."""
        os.write(self._file, (json.dumps(facts) + "\n").encode())
        if self._sync:
            os.fsync(self._file)


def journal_of(folder: Path) -> str:
    """Return the address of settled's journal in an agent's folder."""
    return f"sqlite:///{folder / 'agent.db'}"


def lines(path: Path) -> list[dict[str, Any]]:
    """Read such a file; empty if there is none."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Reporter:
    """Keeps an agent's reports, and which runs it has finished; tells the driver how far it is."""

    def __init__(self, folder: Path) -> None:
        self._reports, self._finished = Lines(folder / "reports.jsonl"), Lines(folder / "finished.jsonl", sync=True)
        self.finished = {line["run_id"] for line in lines(folder / "finished.jsonl")}

    def report(self, report: Report) -> None:
        """Report on one call."""
        self._reports.write(asdict(report))
        print(json.dumps({"reported": f"{report.run_id}/{report.mark}"}), flush=True)  # noqa: T201 - its way of speaking to the driver

    def finish(self, run_id: str) -> None:
        """Note that a run needs no more work."""
        self._finished.write({"run_id": run_id})


def die_with_parent() -> None:
    """End this process once the driver's end of standard input is closed."""

    def watch() -> None:
        while os.read(0, 1024):  # not sys.stdin: a thread that waits in it would hold up the exit
            pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


async def work(plans: list[RunPlan], one: Callable[[RunPlan], Awaitable[None]]) -> None:
    """Work on runs, some at a time, in their order."""
    places = asyncio.Semaphore(AT_ONCE)

    async def placed(plan: RunPlan) -> None:
        async with places:
            await one(plan)

    async with asyncio.TaskGroup() as group:
        for plan in plans:
            group.create_task(placed(plan))
