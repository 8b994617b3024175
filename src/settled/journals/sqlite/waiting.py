"""Waiting for what another process holds: near the length of a commit, where SQLite's own wait grows to 100 ms."""

from __future__ import annotations

import sqlite3
import time
from random import uniform

from settled.errors import JournalError
from settled.journals.sqlite.trouble import is_busy
from settled.journals.sqlite.turn import Turn, busy


def begin(connection: sqlite3.Connection, turn: Turn, seconds: float) -> None:
    """Take the turn and the write lock, waiting up to ``seconds`` for another process to let them go.

    SQLite's own wait grows to steps of 100 ms, far longer than a commit; this one stays near it.
    """
    began = time.monotonic()
    while True:
        try:
            if not turn.take():
                raise busy()
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as fault:
            turn.give()
            waited = time.monotonic() - began
            if not is_busy(fault) or waited >= seconds:
                raise
        else:
            return
        time.sleep(uniform(0.0002, min(0.001 + waited / 50, 0.005)))  # noqa: S311 - spreads those that wait; no secret


def use_wal(connection: sqlite3.Connection, seconds: float) -> None:
    """Switch to the write-ahead log; SQLite does not wait here for another process that does the same."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as fault:
            if not is_busy(fault) or time.monotonic() >= deadline:
                raise
            time.sleep(0.005)
            continue
        if mode != "wal":
            raise JournalError(f"the journal cannot use a write-ahead log (its mode is {mode}): put it on a local disk")
        return
