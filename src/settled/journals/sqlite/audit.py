"""Sealing the log, and checking all of it."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from settled.core.states import Event
from settled.journals.audit import broken_chains, broken_seals, missing_head, off_its_log, seal_over
from settled.journals.sqlite.books import SELECT_CALL, SELECT_LOG, execute, plain, read_call, read_log
from settled.ports import Report

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from settled.core.call import LogRow
    from settled.core.model import Moment
    from settled.journals.sqlite.books import SqliteBooks

_MOST_PROBLEMS: Final = 100


def seal(books: SqliteBooks, now: Moment) -> bool:
    """Chain the heads that are new since the last seal; return whether there were any."""
    upto, previous = books.look("SELECT upto, text FROM seals ORDER BY upto DESC LIMIT 1").fetchone() or (0, "")
    newest = books.look("SELECT max(id) FROM log").fetchone()[0] or 0
    if newest <= upto:
        return False
    rows = books.look(f"{SELECT_LOG} WHERE id > ? ORDER BY id", upto)
    books.write(
        "INSERT INTO seals (upto, at, text) VALUES (?, ?, ?)",
        newest,
        now.wall,
        seal_over(previous, map(read_log, rows)),
    )
    return True


def head(connection: sqlite3.Connection) -> str:
    """Return the newest seal; empty before the first."""
    row = connection.execute("SELECT text FROM seals ORDER BY upto DESC LIMIT 1").fetchone()
    return str(row[0]) if row else ""


def verify(connection: sqlite3.Connection, kept: str | None) -> Report:
    """Check chains, seals and calls, all of one moment."""
    connection.execute("BEGIN")
    try:
        seals = [
            (int(upto), str(text)) for upto, text in connection.execute("SELECT upto, text FROM seals ORDER BY upto")
        ]
        problems = [*_problems(connection, seals)]
        absent = missing_head(kept, {text for _, text in seals})
        rows = connection.execute("SELECT count(*) FROM log").fetchone()[0]
    finally:
        connection.execute("ROLLBACK")
    problems += [absent] if absent else []
    return Report(ok=not problems, facts={"rows": rows, "seals": len(seals)}, problems=_shortened(problems))


def _problems(connection: sqlite3.Connection, seals: list[tuple[int, str]]) -> Iterator[str]:
    yield from broken_chains(map(read_log, connection.execute(f"{SELECT_LOG} ORDER BY operation_id, no")))
    yield from broken_seals(map(read_log, connection.execute(f"{SELECT_LOG} ORDER BY id")), seals)
    yield from _calls_off_their_logs(connection)


def _calls_off_their_logs(connection: sqlite3.Connection) -> Iterator[str]:
    rows = map(read_log, connection.execute(f"{SELECT_LOG} ORDER BY operation_id, no"))
    logged = set()
    for operation_id, group in groupby(rows, key=attrgetter("operation_id")):
        problem = _call_off_its_log(connection, operation_id, list(group))
        logged.add(operation_id)
        if problem:
            yield problem
    for (stored,) in connection.execute("SELECT operation_id FROM calls"):
        if plain(stored) not in logged:
            yield f"{plain(stored)}: the call has no log"


def _call_off_its_log(connection: sqlite3.Connection, operation_id: str, group: list[LogRow]) -> str | None:
    row = execute(connection, f"{SELECT_CALL} WHERE operation_id = ?", (operation_id,)).fetchone()
    if row is not None:
        return off_its_log(read_call(row), group)
    gone = execute(connection, "SELECT 1 FROM forgotten WHERE operation_id = ?", (operation_id,)).fetchone()
    if gone and group[-1].event is Event.EXPIRE:
        return None
    return f"{operation_id}: the call was deleted; its log ends at {group[-1].state}, row {group[-1].no}"


def _shortened(problems: list[str]) -> list[str]:
    more = len(problems) - _MOST_PROBLEMS
    return [*problems[:_MOST_PROBLEMS], f"and {more} more"] if more > 0 else problems
