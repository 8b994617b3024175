"""Sealing the log, and checking all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.journals.audit import seal_over
from settled.journals.books import SELECT_HEAD, read_head
from settled.journals.sqlite.books import Reader
from settled.journals.verify import verify as verify_all

if TYPE_CHECKING:
    import sqlite3

    from settled.core.model import Moment
    from settled.journals.sqlite.books import SqliteBooks
    from settled.ports import Report


def seal(books: SqliteBooks, now: Moment) -> bool:
    """Chain the heads that are new since the last seal; return whether there were any."""
    upto, previous = books.look("SELECT upto, text FROM seals ORDER BY upto DESC LIMIT 1").fetchone() or (0, "")
    newest = books.look("SELECT max(id) FROM log").fetchone()[0] or 0
    if newest <= upto:
        return False
    rows = books.look(f"{SELECT_HEAD} WHERE id > ? ORDER BY id", upto)
    books.write(
        "INSERT INTO seals (upto, at, text) VALUES (?, ?, ?)",
        newest,
        now.wall,
        seal_over(previous, map(read_head, rows)),
    )
    return True


def verify(connection: sqlite3.Connection, kept: str | None) -> Report:
    """Check chains, seals and calls, all of one moment."""
    connection.execute("BEGIN")
    try:
        seals = connection.execute("SELECT upto, text FROM seals ORDER BY upto").fetchall()
        return verify_all(Reader(connection), [(int(upto), str(text)) for upto, text in seals], kept)
    finally:
        connection.execute("ROLLBACK")
