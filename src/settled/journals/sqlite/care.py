"""Health of a journal's file: its check, its migration, the acceptance of another file in its place."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from settled.errors import JournalError
from settled.journals import lists
from settled.journals.mark import Mark, write_mark
from settled.journals.sqlite import schema
from settled.journals.sqlite.books import Reader
from settled.ports import Report

if TYPE_CHECKING:
    from settled.journals.sqlite.file import JournalFile


def check(connection: sqlite3.Connection, file: JournalFile, spill: str) -> Report:
    """Look at settings, size, and integrity of the file; say what is wrong and what to do."""
    facts: dict[str, Any] = {
        "journal": file.path,
        "journal_id": file.journal_id,
        "schema": schema.version_of(connection),
        "synchronous": file.synchronous,
        "sqlite": sqlite3.sqlite_version,
        "bytes": _size(file.path),
        "wal_bytes": _size(f"{file.path}-wal"),
        "spill_bytes": _size(spill),
        "commits": connection.execute("SELECT commits FROM meta").fetchone()[0],
    }
    problems = _damage(connection)
    facts["integrity"] = "damaged" if problems else "ok"
    with suppress(sqlite3.DatabaseError):
        facts["calls"] = {state.value: number for state, number in lists.count(Reader(connection)).items()}
    if file.synchronous == "NORMAL":
        facts["durability"] = "a power cut may lose the last commits (synchronous=NORMAL)"
    if facts["spill_bytes"]:
        problems.append(f"evidence waits in {spill}: it is taken over when a guard opens or reconciles")
    return Report(ok=not problems, facts=facts, problems=problems)


def _damage(connection: sqlite3.Connection) -> list[str]:
    try:
        found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)")]
    except sqlite3.DatabaseError as fault:
        found = [str(fault)]
    if found == ["ok"]:
        return []
    advice = "stop every process that uses it, keep a copy of the file, and restore a backup"
    return [f"the file is damaged: {line}; {advice}" for line in found]


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def compact(connection: sqlite3.Connection, *, vacuum: bool) -> None:
    """Empty the write-ahead log into the file; with ``vacuum``, write the file anew first.

    Raises:
        JournalError: Somebody reads what is in the log: SQLite then leaves it as it is, and calls that no error.
    """
    if vacuum:
        connection.execute("VACUUM")
    busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise JournalError(
            "the write-ahead log could not be emptied, since another connection reads or writes the journal for longer "
            "than busy_timeout: what was erased may still be in it. Look for one that hangs, then try again"
        )


def migrate(file: JournalFile) -> tuple[int, int]:
    """Take every step to this release's schema; return the version before and after."""
    before = file.open(journal_id=None, must_exist=True, any_step=True)
    file.drop_writer()
    return before, schema.newest()


def accept(file: JournalFile) -> str:
    """Let the file that is there count; return its identity. Where it is no journal, the former mark stays."""
    file.open(journal_id=None, must_exist=True, heed_mark=False)
    file.drop_writer()
    write_mark(file.path, Mark(file.journal_id, file.commits))
    return file.journal_id
