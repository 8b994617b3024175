"""Checking the whole log of a journal in tables: chains, seals, and the calls against it."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from settled.core.states import Event
from settled.errors import JournalError
from settled.journals.audit import broken_chains, broken_seals, missing_head, off_its_log
from settled.journals.books import BY_ID, SELECT_LOG, read_call, read_log
from settled.journals.rows import plain
from settled.journals.runs import SELECT_RUN, read_run
from settled.ports import Report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from settled.core.call import LogRow
    from settled.journals.books import Look

_MOST_PROBLEMS: Final = 100


def head(look: Look) -> str:
    """Return the newest seal; empty before the first."""
    row = look.execute("SELECT text FROM seals ORDER BY upto DESC LIMIT 1").fetchone()
    return str(row[0]) if row else ""


def verify(look: Look, seals: list[tuple[int, str]], kept: str | None) -> Report:
    """Check chains, seals and calls; ``look`` shows all of them as of one moment.

    Each seal is given as the number of log rows that it covers, and its text.
    """
    problems = [*_problems(look, seals)]
    absent = missing_head(kept, {text for _, text in seals})
    rows = look.execute("SELECT count(*) FROM log").fetchone()[0]
    problems += [absent] if absent else []
    return Report(ok=not problems, facts={"rows": rows, "seals": len(seals)}, problems=_shortened(problems))


def _problems(look: Look, seals: list[tuple[int, str]]) -> Iterator[str]:
    yield from broken_chains(map(read_log, look.execute(f"{SELECT_LOG} ORDER BY operation_id, no")))
    yield from broken_seals(map(read_log, look.execute(f"{SELECT_LOG} ORDER BY id")), seals)
    yield from _calls_off_their_logs(look)
    yield from _unreadable_runs(look)


def _calls_off_their_logs(look: Look) -> Iterator[str]:
    rows = map(read_log, look.execute(f"{SELECT_LOG} ORDER BY operation_id, no"))
    logged = set()
    for operation_id, group in groupby(rows, key=attrgetter("operation_id")):
        problem = _call_off_its_log(look, operation_id, list(group))
        logged.add(operation_id)
        if problem:
            yield problem
    for (stored,) in look.execute("SELECT operation_id FROM calls"):
        if plain(stored) not in logged:
            yield f"{plain(stored)}: the call has no log"


def _call_off_its_log(look: Look, operation_id: str, group: list[LogRow]) -> str | None:
    row = look.execute(BY_ID, (operation_id,)).fetchone()
    if row is not None:
        try:
            return off_its_log(read_call(row), group)
        except JournalError as unread:
            return str(unread)
    gone = look.execute("SELECT 1 FROM forgotten WHERE operation_id = ?", (operation_id,)).fetchone()
    if gone and group[-1].event is Event.EXPIRE:
        return None
    return f"{operation_id}: the call was deleted; its log ends at {group[-1].state}, row {group[-1].no}"


def _unreadable_runs(look: Look) -> Iterator[str]:
    for row in look.execute(SELECT_RUN):
        try:
            read_run(row)
        except JournalError as unread:
            yield str(unread)


def _shortened(problems: list[str]) -> list[str]:
    more = len(problems) - _MOST_PROBLEMS
    return [*problems[:_MOST_PROBLEMS], f"and {more} more"] if more > 0 else problems
