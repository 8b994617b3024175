"""What is measured on a SQLite file: settled and its peers, in sequence and with 32 in flight."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING, Any

from bench import makers
from bench.makers import Run, apay, one_by_one, pay

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

IN_FLIGHT = 32
APPENDED = 4096
"""Bytes of one append of the bare disk: a page, the least that a database writes."""

# Each takes a folder of its own, and returns what makes n calls.


def bare_disk(folder: Path) -> Run:
    """Two synced appends a call."""
    file = (folder / "bare").open("wb", buffering=0)
    sync = getattr(os, "fdatasync", os.fsync)

    def run(n: int) -> None:
        for _ in range(2 * n):
            file.write(b"x" * APPENDED)
            sync(file.fileno())

    return run


def bare_sqlite(folder: Path) -> Run:
    """Two commits of one row a call, by SQLite alone: its write-ahead log, synced at each commit."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x)")

    def run(n: int) -> None:
        for _ in range(2 * n):
            connection.execute("INSERT INTO t (x) VALUES (?)", (b"x" * 600,))

    return run


def guard_in(folder: Path) -> Any:
    """Return a guard on the journal in a folder."""
    import settled

    return settled.Guard(f"sqlite:///{folder / 'journal.db'}")


def _writes(folder: Path, function: Callable[..., Any]) -> Any:
    return guard_in(folder).tool(effect="write", name="pay")(function)


def settled_sync(folder: Path) -> Run:
    """Writes of a sync tool, one after the other."""
    return one_by_one(_writes(folder, pay))


def settled_async(folder: Path) -> Run:
    """Writes of an async tool, one after the other."""
    return makers.in_tasks(_writes(folder, apay), 1)


def settled_threads(folder: Path) -> Run:
    """Writes of a sync tool from 32 threads."""
    return makers.tool_in_threads(_writes(folder, pay), IN_FLIGHT)


def settled_tasks(folder: Path) -> Run:
    """Writes of an async tool from 32 tasks."""
    return makers.in_tasks(_writes(folder, apay), IN_FLIGHT)


def settled_transactional(folder: Path) -> Run:
    """A transactional tool that writes one row, one after the other."""
    from settled import Transaction

    guard = guard_in(folder)
    _orders(folder)

    def book(number: int, tx: Any) -> dict[str, int]:
        tx.execute("INSERT INTO orders VALUES (?)", (number,))
        return {"number": number}

    book.__annotations__["tx"] = Transaction
    return one_by_one(guard.tool(effect="transactional")(book))


def settled_row(folder: Path) -> Run:
    """A write whose tool commits the same row on a connection of its own, one after the other."""
    guard, connection = guard_in(folder), _orders(folder)

    def book(number: int) -> dict[str, int]:
        connection.execute("INSERT INTO orders VALUES (?)", (number,))
        return {"number": number}

    return one_by_one(guard.tool(effect="write")(book))


def _orders(folder: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(folder / "journal.db", isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS orders (number)")
    return connection


def settled_replay(folder: Path) -> Run:
    """The same call of a run over and over: each entry of the run answers it from its record."""
    guard = guard_in(folder)
    tool = guard.tool(effect="write", name="pay")(pay)
    answered = 200

    def run(n: int) -> None:
        for _ in range(-(-n // answered)):
            with guard.run("trip"):
                for number in range(answered):
                    tool(number=number)

    return run


def _dbos_file(folder: Path) -> str:
    return f"sqlite:///{folder / 'dbos.db'}"


def dbos_steps(folder: Path) -> Run:
    """One workflow of n steps."""
    return makers.dbos_steps(_dbos_file(folder))


def dbos_workflows(folder: Path) -> Run:
    """N workflows of one step, from 32 threads."""
    return makers.dbos_workflows(_dbos_file(folder), IN_FLIGHT)


def _saver(folder: Path) -> Any:
    from langgraph.checkpoint.sqlite import SqliteSaver

    return SqliteSaver(sqlite3.connect(folder / "langgraph.db", check_same_thread=False))


def graph_steps(folder: Path) -> Run:
    """One graph of LangGraph that goes n times through its node."""
    return makers.graph_steps(_saver(folder))


def graphs(folder: Path) -> Run:
    """N graphs of one node, from 32 threads."""
    return makers.graphs(_saver(folder), IN_FLIGHT)


SEQUENCE: dict[str, Callable[[Path], Run]] = {
    "bare disk": bare_disk,
    "bare SQLite": bare_sqlite,
    "settled, sync": settled_sync,
    "settled, async": settled_async,
    "settled, transactional": settled_transactional,
    "settled, a row by itself": settled_row,
    "DBOS": dbos_steps,
    "LangGraph": graph_steps,
}
CROWD: dict[str, Callable[[Path], Run]] = {
    "settled, 32 threads": settled_threads,
    "settled, 32 tasks": settled_tasks,
    "DBOS, 32 threads": dbos_workflows,
    "LangGraph, 32 threads": graphs,
}
SLOW = ("DBOS, 32 threads", "LangGraph, 32 threads")
REPLAY: dict[str, Callable[[Path], Run]] = {"settled, replay": settled_replay}
FULL: dict[str, Callable[[Path], Run]] = {
    "settled, sync, full file": settled_sync,
    "settled, 32 threads, full file": settled_threads,
}
