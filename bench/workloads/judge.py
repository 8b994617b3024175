"""Compares what was meant, what the world's ledger and state show, what the agent was told, and what is on record.

Calls of one task with the same tool and arguments form a group: any of them may stand for any other. A call counts as
done in the world if the tool executed it and did not say no, or if it changed the state.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.workloads.world.contract import EXECUTED
from settled.demo.agent import lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from bench.workloads.orders import Orders

AFTER_SENDING = frozenset({"request_lost", "answer_lost", "killed"})
"""Faults after which a caller cannot know what happened."""
_GIVEN_UP = frozenset({"not_done", "parked"})
_OPEN = frozenset({"unknown", "processing"})


@dataclass(slots=True)
class Figures:
    """What became of one row. Lists hold a line of evidence for each case."""

    runs: int = 0
    calls: int = 0
    right: int = 0
    duplicates: list[str] = field(default_factory=list)
    """Effects beyond the intended ones."""
    false_done: list[str] = field(default_factory=list)
    """Told done, and not done; or done with another answer."""
    false_not: list[str] = field(default_factory=list)
    """Told not done, and done."""
    lost: list[str] = field(default_factory=list)
    """Calls of which nothing is told, and effects of which nothing is on record."""
    unexplained: list[str] = field(default_factory=list)
    """Wrong states that the calls told unknown, not done or rejected do not account for."""
    given_up: list[str] = field(default_factory=list)
    """Calls proved not done whose tries were used up, or that were settled so when the run was over."""
    rejected: list[str] = field(default_factory=list)
    asked_again: int = 0
    """Calls that the agent asked for again since it was told to wait, or what it had done."""
    no_answer: int = 0
    queued: int = 0
    """Calls in the queue when the states were compared."""
    left: list[str] = field(default_factory=list)
    """Calls in the queue after it was settled."""
    requests: int = 0
    kills: int = 0
    added: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def lies(self) -> int:
        """Times that the agent was told what is not so."""
        return len(self.false_done) + len(self.false_not)

    def take(self, other: Figures) -> None:
        """Add another seed's figures."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def as_json(self) -> dict[str, Any]:
        """Return them as plain data."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        return plain | {"lies": self.lies, "added": median(self.added) if self.added else None}


@dataclass(slots=True)
class Group:
    """All calls of one task with the same tool and arguments."""

    name: str
    changes: bool
    marks: list[int] = field(default_factory=list)
    said: list[Mapping[str, Any]] = field(default_factory=list)
    rows: list[Mapping[str, Any]] = field(default_factory=list)
    records: list[Mapping[str, Any]] = field(default_factory=list)

    def count(self, *words: str) -> int:
        """Return how many calls were told so."""
        return sum(report["said"] in words for report in self.said)

    @property
    def done_keys(self) -> set[str]:
        """Return the keys under which something was done."""
        return {row["key"] for row in self.rows if _done(row)}

    def judge(self, figures: Figures) -> None:
        """Add to the figures what became of it."""
        effects = Counter(row["key"] for row in self.rows if row["changed"])
        beyond = max(sum(effects.values()) - len(self.marks), sum(count - 1 for count in effects.values()))
        self._add(figures.duplicates, beyond, f"{dict(effects)} for {len(self.marks)} intended")
        self._judge_words(figures)
        figures.no_answer += self.count("no_answer")
        states = {record["operation_id"]: record["state"] for record in self.records}
        for report in self.said:
            settled_so = report["said"] == "unknown" and states.get(report["operation_id"]) in _GIVEN_UP
            self._add(figures.given_up, report["said"] == "not_done" or settled_so, f"{report['said']} {report['why']}")
            self._add(figures.rejected, report["said"] == "rejected", report["why"])
        self._add(figures.lost, len(self.marks) - len(self.said), "nothing was told")

    def _judge_words(self, figures: Figures) -> None:
        answers = [row["answer"] for row in self.rows if _done(row)]
        done = [report for report in self.said if report["said"] == "done"]
        foreign = sum(report["value"] not in answers for report in done)
        count = len(self.done_keys) if self.changes else len(answers)
        self._add(figures.false_done, max(len(done) - count, foreign), f"told {len(done)}, done {count}")
        if self.changes:
            told_no = self.count("failed", "not_done", "rejected")
            wrong = min(count, len(self.marks)) + told_no - len(self.marks)
            self._add(figures.false_not, wrong, f"told not done {told_no}, done {count} of {len(self.marks)}")

    def judge_record(self, figures: Figures) -> None:
        """Hold what is on record against the ledger, key by key."""
        states = {record["key"]: record["state"] for record in self.records}
        changed = {row["key"] for row in self.rows if row["changed"]}
        for key in changed - states.keys():
            self._add(figures.lost, 1, f"{key} had an effect and is not on record")
        for key, state in states.items():
            if state == "succeeded" and key not in self.done_keys:
                self._add(figures.false_done, 1, f"{key} is on record as succeeded")
            if state in ("not_done", "failed", "parked") and key in changed:
                self._add(figures.false_not, 1, f"{key} is on record as {state}")
            if state in _OPEN:
                self._add(figures.left, 1, f"{key} is {state}")

    def doubted(self) -> bool:
        """Whether a call was told unknown of which a fault after the sending is in the ledger."""
        return self.count("unknown") > 0 and any(row["fault"] in AFTER_SENDING for row in self.rows)

    def missing(self) -> list[int]:
        """Return the places of calls that were told otherwise than done, and were never executed."""
        executed = {row["key"] for row in self.rows if row["executed"]}
        open_marks = [report["mark"] for report in self.said if report["said"] not in ("done", "failed")]
        return open_marks[: max(0, len(self.marks) - len(executed))]

    def _add(self, cases: list[str], count: int, what: str) -> None:
        cases.extend([f"{self.name}: {what}"] * max(0, count))


def _done(row: Mapping[str, Any]) -> bool:
    return bool(row["status"] == EXECUTED or row["changed"])  # a tool that failed in the middle did something too


def judge(orders: Orders, plan: Mapping[str, Any], close: Callable[[str, list[int]], dict[str, Any]]) -> Figures:
    """Judge one seed. ``close`` asks the world for the state and the ledger of a run."""
    figures = Figures()
    reports = _by_task(lines(orders.folder / "reports.jsonl"))
    journal = _journal(orders)
    records, queue = _by_task(journal["calls"]), _by_task(journal["queue"])
    changes = {tool["name"]: tool["changes"] for tool in plan["tools"]}
    for task in plan["tasks"]:
        run = TaskRun(orders, task, changes, reports[task["id"]], records[task["id"]], queue[task["id"]])
        run.judge(figures, close)
    return figures


def _journal(orders: Orders) -> dict[str, Any]:
    path = orders.folder / "journal.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"calls": [], "queue": []}
    return found


def _by_task(facts: Iterable[Mapping[str, Any]]) -> defaultdict[str, list[Mapping[str, Any]]]:
    found: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for fact in facts:
        found[fact["task"]].append(fact)
    return found


@dataclass(frozen=True, slots=True)
class TaskRun:
    """One task of one seed, and all that is known of it."""

    orders: Orders
    task: Mapping[str, Any]
    changes: Mapping[str, bool]
    reports: Sequence[Mapping[str, Any]]
    records: Sequence[Mapping[str, Any]]
    queue: Sequence[Mapping[str, Any]]

    def judge(self, figures: Figures, close: Callable[[str, list[int]], dict[str, Any]]) -> None:
        """Add to the figures what became of it."""
        name = self.orders.run(self.task["id"])
        ledger = close(name, [])["rows"]
        groups = self._groups(name, ledger)
        for group in groups:
            group.judge(figures)
            if self.guarded:
                group.judge_record(figures)
        missing = sorted(mark for group in groups for mark in group.missing())
        state = close(name, missing)
        figures.runs += 1
        figures.calls += len(self.task["calls"])
        figures.requests += len(ledger)
        figures.right += state["right"]
        figures.queued += len(self.queue)
        figures.asked_again += sum(report["asked"] > 1 for report in final_of(self.reports))
        figures.added += [report["added"] for report in self.reports if report["added"] is not None]
        if not state["right"] and self.guarded:
            self._explain(figures, name, groups, explained=state["explained"])

    @property
    def guarded(self) -> bool:
        """Whether settled kept a record."""
        return self.orders.row.startswith("settled")

    def _groups(self, name: str, ledger: Sequence[Mapping[str, Any]]) -> list[Group]:
        groups: dict[str, Group] = {}

        def of(tool: str, arguments: Mapping[str, Any]) -> Group:
            text = f"{name} {tool}({json.dumps(arguments, sort_keys=True)})"
            return groups.setdefault(text, Group(text, self.changes.get(tool, True)))

        calls = self.task["calls"]
        for mark, call in enumerate(calls):
            of(call["tool"], call["arguments"]).marks.append(mark)
        for row in ledger:
            of(row["tool"], row["arguments"]).rows.append(row)
        for record in self.records:
            of(record["tool"], record["arguments"]).records.append(record)
        for report in final_of(self.reports):
            call = calls[report["mark"]]
            of(call["tool"], call["arguments"]).said.append(report)
        return list(groups.values())

    def _explain(self, figures: Figures, name: str, groups: Sequence[Group], *, explained: bool) -> None:
        """A wrong state needs a call in the queue whose fault was after the sending, or one proved not done."""
        words = {report["said"] for report in self.reports}
        queued = {(record["tool"], json.dumps(record["arguments"], sort_keys=True)) for record in self.queue}
        doubted = any(group.doubted() and _in(queued, group) for group in groups)
        given_up = bool(words & {"not_done", "rejected"}) or any(r["state"] in _GIVEN_UP for r in self.records)
        probes = self.orders.row == "settled-probes"
        if not (given_up or (doubted and explained and not probes)):
            figures.unexplained.append(f"{name}: words {sorted(words)}, explained {explained}, queue {len(self.queue)}")


def _in(queued: set[tuple[str, str]], group: Group) -> bool:
    return any(group.name.endswith(f" {tool}({arguments})") for tool, arguments in queued)


def final_of(reports: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return what was told last: the reports of a task's last entry, and of earlier ones where it came no further."""
    latest = {report["mark"]: report for report in sorted(reports, key=lambda report: report["entry"])}
    return list(latest.values())
