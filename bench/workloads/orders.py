"""What an agent is told to do, what it reports, and the files that both stand in."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from settled.demo.agent import Lines, lines

Row = Literal["no-retry", "careful", "settled", "settled-probes"]
ROWS: tuple[Row, ...] = ("no-retry", "careful", "settled", "settled-probes")
ATTEMPTS = 4
"""Tries of one call, in every row that retries."""
PACE = 50.0
"""How much faster than a real agent's, which makes a call every second or so, the tasks are played: all times of
settled's defaults are divided by it, for every row that waits."""
BASE, THROTTLED_BASE, CAP = 0.1 / PACE, 1.0 / PACE, 20.0 / PACE
"""Seconds: scale of the first wait before a repeat, the same after a refusal, and the longest one."""

Word = Literal["done", "failed", "not_done", "rejected", "unknown", "no_answer"]
"""What an agent was told of a call: the tool did it; the tool said no; proved not done, tries are used up; not tried;
it may have been done; nobody knows, and nothing keeps it in mind."""


@dataclass(frozen=True, slots=True)
class Orders:
    """One seed of one row, in a folder of its own."""

    folder: Path
    url: str
    row: Row
    seed: int
    plan: Path
    """The world's plan, as it gave it."""
    settle: bool = False
    """Only look at the queue, and settle it."""

    def write(self) -> None:
        """Put them where the agent looks."""
        facts = asdict(self) | {"folder": str(self.folder), "plan": str(self.plan)}
        (self.folder / "orders.json").write_text(json.dumps(facts))

    @classmethod
    def read(cls, folder: Path) -> Orders:
        """Read the orders in a folder."""
        facts = json.loads((folder / "orders.json").read_text())
        return cls(**{**facts, "folder": Path(facts["folder"]), "plan": Path(facts["plan"])})

    def run(self, task: str) -> str:
        """Name a task's run as the world does."""
        return f"{self.row}/{self.seed}/{task}"


@dataclass(frozen=True, slots=True)
class Report:
    """What the agent was told of one call in one entry of its task."""

    task: str
    entry: int
    mark: int
    said: Word
    value: Any = None
    why: str = ""
    operation_id: str = ""
    asked: int = 1
    """Times that it was asked for."""
    added: float | None = None
    """Seconds beyond the call's one request; ``None`` if it was not such a plain call."""


class Reporter:
    """Keeps what outlives a kill: reports, and which tasks were begun and finished."""

    def __init__(self, folder: Path) -> None:
        self._reports = Lines(folder / "reports.jsonl")
        self._begun, self._finished = Lines(folder / "begun.jsonl"), Lines(folder / "finished.jsonl")
        self.finished = {line["task"] for line in lines(folder / "finished.jsonl")}
        self.begun = [line["task"] for line in lines(folder / "begun.jsonl")]

    def begin(self, task: str) -> int:
        """Note that a task is begun; return how often it was by now."""
        self._begun.write({"task": task})
        self.begun.append(task)
        return self.begun.count(task)

    def report(self, report: Report) -> None:
        """Report on one call."""
        self._reports.write(asdict(report))

    def finish(self, task: str) -> None:
        """Note that a task needs no more work."""
        self._finished.write({"task": task})
        self.finished.add(task)
