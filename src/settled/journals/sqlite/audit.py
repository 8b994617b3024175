"""Sealing the log, and checking all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.journals.audit import MOST_IN_SEAL, seal_over
from settled.journals.books import SELECT_HEAD, read_head
from settled.journals.sqlite.books import Reader
from settled.journals.verify import verify as verify_all

if TYPE_CHECKING:
    import sqlite3

    from settled.core.model import Moment
    from settled.journals.sqlite.books import SqliteBooks
    from settled.ports import Report


_NEXT = "SELECT max(id), count(*) FROM (SELECT id FROM log WHERE id > ? ORDER BY id LIMIT ?)"


def seal(books: SqliteBooks, now: Moment) -> int:
    """Chain the heads that are new since the last seal, ``MOST_IN_SEAL`` at the most; return how many there were."""
    upto, previous = books.look("SELECT upto, text FROM seals ORDER BY upto DESC LIMIT 1").fetchone() or (0, "")
    newest, count = books.look(_NEXT, upto, MOST_IN_SEAL).fetchone()
    if count:
        rows = books.look(f"{SELECT_HEAD} WHERE id > ? AND id <= ? ORDER BY id", upto, newest)
        books.write(
            "INSERT INTO seals (upto, at, text) VALUES (?, ?, ?)",
            newest,
            now.wall,
            seal_over(previous, map(read_head, rows)),
        )
    return int(count)


def verify(connection: sqlite3.Connection, kept: str | None) -> Report:
    """Check chains, seals and calls, all of one moment."""
    connection.execute("BEGIN")
    try:
        seals = connection.execute("SELECT upto, text FROM seals ORDER BY upto").fetchall()
        return verify_all(Reader(connection), [(int(upto), str(text)) for upto, text in seals], kept)
    finally:
        connection.execute("ROLLBACK")
