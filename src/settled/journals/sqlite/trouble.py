"""What SQLite's errors mean for a journal, in words that say what to do."""

from __future__ import annotations

import sqlite3
from typing import Final

from settled.errors import JournalError

_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_WORDS: Final = {
    sqlite3.SQLITE_READONLY: "its file or folder cannot be written: check their owner and mode, "
    "and how the disk is mounted",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: check that its folder exists and can be written",
    sqlite3.SQLITE_PERM: "the system refuses access to it: check its owner and mode",
    sqlite3.SQLITE_FULL: "the disk (or a limit on file size) is full: make room",
    sqlite3.SQLITE_IOERR: "the disk failed to read or write it, or a limit on file size was reached: check the disk",
    sqlite3.SQLITE_CORRUPT: "the file is damaged: stop, keep a copy of it, and restore a backup; "
    "`settled journal check` says how far the damage goes",
    sqlite3.SQLITE_NOTADB: "the file is not an SQLite database, or its header is damaged: keep a copy of it, "
    "and restore a backup",
    sqlite3.SQLITE_SCHEMA: "its tables changed under way: perform again",
    sqlite3.SQLITE_NOMEM: "memory ran out",
}


def code_of(fault: sqlite3.Error) -> int:
    """Return SQLite's primary result code; 0 where the error is not SQLite's own."""
    return int(getattr(fault, "sqlite_errorcode", 0)) & 0xFF


def is_busy(fault: sqlite3.Error) -> bool:
    """Whether somebody else holds the lock: worth another try."""
    return code_of(fault) in _BUSY


def explained(fault: sqlite3.Error, path: str, *, doing: str = "nothing was recorded") -> JournalError:
    """Return the error to raise in place of ``fault``, which is its cause."""
    if is_busy(fault):
        words = "another process holds its lock for longer than busy_timeout: look for one that hangs, then try again"
    else:
        words = _WORDS.get(code_of(fault), "SQLite refused")
    error = JournalError(f"the journal {path}: {doing}; {words} (SQLite: {fault})")
    error.__cause__ = fault
    return error
