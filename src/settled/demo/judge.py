"""Compares what was meant, what the shop's own books show, and what the agent told its user."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from settled.demo.agent import lines
from settled.demo.books import Books, tier_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from settled.demo.books import Effect
    from settled.demo.script import RunPlan, Wish

IDEMPOTENT = frozenset({"set_address"})
_NEVER_LEFT = frozenset({"read", "idempotent", "deduplicated"})
_CLOCK_SLACK = 0.05


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that went wrong, or is left open, with what there is to show for it."""

    mark: str
    tool: str
    what: str
    operation_ids: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    """Numbers of the rows in the shop's books."""


@dataclass(slots=True)
class Figures:
    """What became of one agent's plan."""

    calls: int = 0
    intended: int = 0
    in_books: int = 0
    doubled: list[Case] = field(default_factory=list)
    lost: list[Case] = field(default_factory=list)
    false: list[Case] = field(default_factory=list)
    missing: list[Case] = field(default_factory=list)
    """Intended effects that the books do not show, each with the reason that the agent gave."""
    left: list[Case] = field(default_factory=list)
    """Unknown in the end, left for a person, each with the fault that put it in doubt."""
    needless: list[Case] = field(default_factory=list)
    """Unknown in the end without such a fault, or though the tool's own evidence was there to be had."""
    by_probe: int = 0
    requests: int = 0
    faults: int = 0
    kills: int = 0
    added: float | None = None
    """Median of the seconds that a plain call takes beyond its one request."""
    seconds: float = 0.0

    @property
    def clean(self) -> bool:
        """Whether nothing is doubled, lost, falsely reported, or unknown without need."""
        return not (self.doubled or self.lost or self.false or self.needless)


def judge(folder: Path, plan: Sequence[RunPlan], *, seconds: float = 0.0) -> Figures:
    """Judge the agent whose files lie in ``folder``."""
    effects = read_effects(folder / "books.db")
    reports = final_reports(lines(folder / "reports.jsonl"))
    log = lines(folder / "faults.jsonl")
    wishes = [wish for run in plan for wish in run.wishes]
    figures = Figures(calls=len(wishes), seconds=seconds)
    _judge_effects(figures, [wish for wish in wishes if wish.effect], effects, reports)
    _judge_reads(figures, [wish for wish in wishes if not wish.effect], reports)
    _judge_doubts(figures, folder, log)
    figures.requests = len(lines(folder / "requests.jsonl"))
    figures.kills = sum(line["kind"] == "killed" for line in log)
    figures.faults = sum(line["kind"] not in ("killed", "slow", "client_gone") for line in log)
    added = [line["added"] for line in lines(folder / "reports.jsonl") if line["added"] is not None]
    figures.added = median(added) if added else None
    return figures


def read_effects(path: Path) -> list[Effect]:
    """Return the effects in the shop's books, once the shop is closed."""
    if not path.exists():
        raise sqlite3.OperationalError(f"there are no books at {path}")
    books = Books(path)
    try:
        return books.effects()
    finally:
        books.close()


def final_reports(every: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return what the agent said last: the reports of each run's last entry."""
    runs: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for report in every:
        runs[report["run_id"]].append(report)
    return [report for own in runs.values() for report in _final_of_run(own)]


def _final_of_run(own: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    last = max(report["entry"] for report in own)
    return [report for report in own if report["entry"] == last]


def _judge_effects(
    figures: Figures, wishes: Sequence[Wish], effects: Sequence[Effect], reports: Sequence[Mapping[str, Any]]
) -> None:
    meant = Counter(wish.mark for wish in wishes)
    tools = {wish.mark: wish.tool for wish in wishes}
    rows: dict[str, list[int]] = defaultdict(list)
    said: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for effect in effects:
        rows[effect.mark].append(effect.id)
    for report in reports:
        said[report["mark"]].append(report)
    figures.intended = len(wishes)
    for mark in meant.keys() | rows.keys():
        one = Intention(mark, tools.get(mark, "nothing that was meant"), meant[mark], rows[mark], said[mark])
        one.judge(figures)


@dataclass(frozen=True, slots=True)
class Intention:
    """One intention, how often it was meant, and all that is known of it."""

    mark: str
    tool: str
    meant: int
    rows: Sequence[int]
    said: Sequence[Mapping[str, Any]]

    def judge(self, figures: Figures) -> None:
        """Add to the figures what became of it."""
        happened = len(self.rows)
        counted = min(happened, self.meant)
        done = [report for report in self.said if report["said"] == "done"]
        no = [report for report in self.said if report["said"] in ("not_done", "failed", "blocked")]
        figures.in_books += counted
        self._add(
            figures.doubled,
            0 if self.tool in IDEMPOTENT else happened - self.meant,
            f"{happened} times in the books, meant {self.meant}",
        )
        self._add(figures.lost, len(done) - counted, "reported done, not in the books")
        self._add(figures.lost, self.meant - len(self.said), "never reported")
        self._add(figures.false, len(done) - counted, "said to be done, and is not")
        self._add(figures.false, counted + len(no) - self.meant, "said not to be done, and is")
        self._add(
            figures.false, sum(self._foreign(report) for report in done), "said to be done with another call's number"
        )
        self._miss(figures, self.meant - counted)

    def _foreign(self, report: Mapping[str, Any]) -> bool:
        answer = report["answer"] or {}
        return "id" in answer and answer["id"] not in self.rows and len(self.rows) > 0

    def _miss(self, figures: Figures, count: int) -> None:
        reasons = [f"{report['said']}: {report['why']}" for report in self.said if report["said"] != "done"]
        for place in range(count):
            reason = reasons[place] if place < len(reasons) else "no reason given"
            self._add(figures.missing, 1, reason)

    def _add(self, cases: list[Case], count: int, what: str) -> None:
        ids = tuple(report["operation_id"] for report in self.said if report["operation_id"])
        cases.extend([Case(self.mark, self.tool, what, ids, tuple(self.rows))] * max(0, count))


def _judge_reads(figures: Figures, wishes: Sequence[Wish], reports: Sequence[Mapping[str, Any]]) -> None:
    """A read that was answered must have been answered with what the books say."""
    customers = {wish.mark: str(wish.arguments["customer"]) for wish in wishes}
    for report in reports:
        customer = customers.get(report["mark"])
        if customer is None or report["said"] != "done":
            continue
        if (report["answer"] or {}).get("tier") != tier_of(int(customer.removeprefix("C"))):
            figures.false.append(
                Case(report["mark"], report["tool"], f"read another answer than the books hold for {customer}")
            )


def _judge_doubts(figures: Figures, folder: Path, log: Sequence[Mapping[str, Any]]) -> None:
    path = folder / "facts.json"
    if not path.exists():
        return
    facts = json.loads(path.read_text())
    figures.by_probe = facts["by_probe"]
    for doubt in facts["left"]:
        tie = tie_of(doubt, log)
        settleable = doubt["effect"] in _NEVER_LEFT or doubt["probed"]
        what = tie or "nothing in the fault log put it in doubt"
        case = Case(doubt["mark"], doubt["tool"], what, (doubt["operation_id"],))
        (figures.left if tie and not settleable else figures.needless).append(case)


def tie_of(doubt: Mapping[str, Any], log: Sequence[Mapping[str, Any]]) -> str:
    """Return the kind of the logged fault after which an unknown call was truly in doubt; empty if there is none."""
    for attempt in doubt["attempts"]:
        for line in log:
            if line["doubt"] and _explains(line, attempt, doubt["mark"]):
                return str(line["kind"])
    return ""


def _explains(line: Mapping[str, Any], attempt: Mapping[str, Any], mark: str) -> bool:
    if line["kind"] == "killed":
        return bool(line["pid"] == attempt["pid"] and attempt["ended"] is None)
    until = float("inf") if attempt["ended"] is None else attempt["ended"] + _CLOCK_SLACK
    return bool(line["mark"] == mark and attempt["begun"] - _CLOCK_SLACK <= line["at"] <= until)
