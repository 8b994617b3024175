"""What a run did, line by line, as its journal tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from settled.api.people import explain, facts
from settled.api.people.queue import pages
from settled.core.instead.by_hand import is_by_hand
from settled.core.runs.entering import scope_of_run
from settled.core.runs.lanes import lane_of
from settled.core.states import Event
from settled.ports import CallQuery

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from settled.api.guard import Guard
    from settled.core.books import Books, RunRecord
    from settled.core.call import Call, LogRow
    from settled.core.model import Moment
    from settled.ports import Journal

LONGEST = 60
"""Characters of arguments that are shown."""
_PLAIN = {
    Event.SUCCEED: "is done",
    Event.FAIL: "has failed for good: nothing was done",
    Event.ABSENT: "was not done",
    Event.PARK: "was not done so far, and is to be tried later",
    Event.SPLIT: "is done in part",
    Event.DOUBT: "may have been done: nobody knows",
    Event.DISPUTE: "is disputed: evidence speaks against its record",
    Event.HOLD: "is left as it is",
    Event.ASK_LEAVE: "waits for a person's leave",
    Event.GRANT: "may be made",
    Event.REFUSE: "is refused",
    Event.UNDO: "is to be undone",
    Event.UNDONE: "is undone",
    Event.EXPIRE: "has expired: its payload is erased",
}


@dataclass(frozen=True, slots=True)
class InnerRuns:
    """Reads which runs were entered inside of one; changes nothing."""

    run_id: str
    tenant: str

    def apply(self, books: Books, now: Moment) -> Sequence[RunRecord]:
        """Return them."""
        del now
        return books.runs_within(self.tenant, self.run_id)


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened."""

    at: float
    """Seconds since 1970."""
    operation_id: str
    tool: str
    words: str
    depth: int = 0
    """1 for a call made inside of another one, or in an inner run."""


def story(guard: Guard, run: RunRecord) -> list[Line]:
    """Return what happened in a run, with what undid it, oldest first."""
    journal, lines = guard.journal, []
    for call, depth in calls_of(journal, run):
        shown = name_of(guard, call)
        lines += [_line(call, shown, row, depth) for row in journal.log(call.operation_id) if _tells(row)]
    return sorted(lines, key=lambda line: line.at)


def calls_of(journal: Journal, run: RunRecord, depth: int = 0) -> Iterator[tuple[Call, int]]:
    """Yield the calls of a run and of its inner runs, those made inside of them, and those that undid them."""
    yield from _within(journal, scope_of_run(run.tenant, run.run_id), depth)
    for inner in journal.perform(InnerRuns(run.run_id, run.tenant)):
        yield from calls_of(journal, inner, depth + 1)


def left_of(journal: Journal, run: RunRecord) -> list[Call]:
    """Return what of a run, and of its inner runs, waits for a person, oldest first."""
    now = journal.now()
    left = [call for call, _ in calls_of(journal, run) if explain.waiting(call, now)]
    return sorted(left, key=lambda call: (call.created.wall, call.operation_id))


def _within(journal: Journal, scope: str, depth: int) -> Iterator[tuple[Call, int]]:
    for call in pages(journal, CallQuery(scope=scope)):
        yield call, depth
        yield from _within(journal, f"call:{call.operation_id}", depth + 1)
        yield from ((undoing, depth) for undoing in pages(journal, CallQuery(scope=f"undo:{call.operation_id}")))


def name_of(guard: Guard, call: Call) -> str:
    """Return a call as it could have been written."""
    arguments, _ = facts.arguments_of(guard, call)
    given = ", ".join(f"{name}={value!r}" for name, value in arguments.items()) if isinstance(arguments, dict) else "…"
    short = given if len(given) <= LONGEST else f"{given[: LONGEST - 1]}…"
    return f"{call.tool}({short})" + (f" by {call.lane}" if call.lane else "")


def left_words(guard: Guard, call: Call) -> str:
    """Tell in a line what waits for a person, and why; of a compensation also what it undoes."""
    step = guard.journal.get(facts.undone_by(call) or "")
    undoes = "" if step is None else f", which undoes {name_of(guard, step)},"
    why = explain.brief(call, guard.journal.now())
    return f"{name_of(guard, call)}{undoes} is {call.state}: {why}"


def _tells(row: LogRow) -> bool:
    return row.event is not Event.NOTE or bool(row.detail)


def _line(call: Call, shown: str, row: LogRow, depth: int) -> Line:
    return Line(row.at, call.operation_id, call.tool, f"{shown} {_words(call, row)}", depth)


def _words(call: Call, row: LogRow) -> str:
    match row.event:
        case Event.CLAIM | Event.BEGIN:
            return "begins" if row.attempt == 1 else f"begins once more, attempt {row.attempt}"
        case Event.ENDED:
            return f"was not answered well: {row.detail}"
        case Event.NOTE:
            return f"is noted: {row.detail}"
        case Event.ASK_LEAVE if is_by_hand(call):
            return f"is left to a person ({row.detail})"
        case Event.UNDO:
            return f"is to be undone by {call.terms.compensate}" if call.terms.compensate else "cannot be undone"
        case _:
            because = f" ({row.detail})" if row.detail else ""
            return f"{_PLAIN[row.event]}{because}"


def of_run(run: RunRecord) -> dict[str, Any]:
    """Return a run's record as plain data with stable names."""
    return {
        "run": run.parent if lane_of(run) else run.run_id,
        "lane": lane_of(run) or None,
        "tenant": run.tenant,
        "state": str(run.state),
        "on_error": run.on_error,
        "reason": run.reason,
        "entries": run.entry,
        "turn": run.turn,
        "inside": run.parent or None,
        "process": None if run.owner is None else {"host": run.owner.host, "pid": run.owner.pid},
        "begun": facts.when(run.begun or None),
        "changed": facts.when(run.changed or None),
        "retries": dict(run.spent),
    }
