"""The SQLite journal beside the bare disk: calls a second alone and from many threads, and what they cost in CPU.

Run it on a quiet machine: `PYTHONPATH=src python bench/sqlite_journal.py [calls] [folder]`. One call is two
transitions: claim with intent, and end. The bare disk syncs as many appends of as many bytes as the journal commits.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from settled import host
from settled.core.claim import Claim
from settled.journals.memory import MemoryJournal
from settled.journals.sqlite import SqliteJournal
from settled.testing.records import begun, ended, make_ask

if TYPE_CHECKING:
    from collections.abc import Callable

    from settled.ports import Journal

THREADS = 32


def call(journal: Journal, name: str) -> None:
    """Make one call: claim with intent, and end."""
    ask = make_ask(operation_id=f"op_{name}", key=f"pay:{name}", owner=host.this_process())
    ended(journal, begun(journal, ask), result=b'{"receipt":1234567890}')


def measure(work: Callable[[str], object], calls: int, threads: int = 1) -> tuple[float, float]:
    """Return seconds and CPU seconds of ``calls`` calls by so many threads."""

    def run(thread: int) -> None:
        for i in range(calls // threads):
            work(f"{os.urandom(6).hex()}_{thread}_{i}")

    began, cpu = time.perf_counter(), time.process_time()
    if threads == 1:
        run(0)
    else:
        started = [threading.Thread(target=run, args=(thread,)) for thread in range(threads)]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()
    return time.perf_counter() - began, time.process_time() - cpu


def show(name: str, calls: int, seconds: float, cpu: float, commits: int | None = None) -> None:
    """Print one line of the result."""
    per_commit = f", {2 * calls / commits:5.1f} transitions a commit" if commits else ""
    rate = f"{calls / seconds:8.0f} calls/s, {2 * calls / seconds:8.0f} transitions/s"
    print(f"{name:34} {rate}, {cpu / calls * 1e6:6.0f} us CPU a call{per_commit}")


def commits_of(journal: Journal) -> int:
    """Return how many commits were made."""
    return int(journal.check().facts["commits"])


def journal_alone_and_crowded(folder: str, synchronous: Literal["FULL", "NORMAL"], calls: int) -> None:
    """Measure the journal with one thread and with many."""
    journal = SqliteJournal(Path(folder, f"{synchronous}.db"), synchronous=synchronous)
    measure(lambda name: call(journal, name), 100)
    for threads in (1, THREADS):
        before = commits_of(journal)
        number = calls * (1 if threads == 1 else 4)
        seconds, cpu = measure(lambda name: call(journal, name), number, threads)
        show(f"journal {synchronous}, {threads} threads", number, seconds, cpu, commits_of(journal) - before)
    ask = make_ask(owner=host.this_process())
    journal.perform(Claim(ask))
    seconds, cpu = measure(lambda _: journal.perform(Claim(ask)), 5 * calls)
    print(f"{'replay by perform':34} {seconds / calls / 5 * 1e6:6.0f} us, {cpu / calls / 5 * 1e6:6.0f} us CPU")
    journal.close()


def bare_disk(folder: str, commits: int, size: int) -> None:
    """Sync as many appends as the journal's commits, one after the other."""
    with Path(folder, "bare").open("wb", buffering=0) as file:
        began = time.perf_counter()
        for _ in range(commits):
            file.write(b"x" * size)
            os.fdatasync(file.fileno())
        seconds = time.perf_counter() - began
    print(f"{f'bare disk, appends of {size // 1024} kB':34} {commits / seconds:8.0f} syncs/s")


def bare_sqlite(folder: str, commits: int) -> None:
    """Commit as many small rows by SQLite alone."""
    connection = sqlite3.connect(Path(folder, "bare.db"), isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x)")
    began = time.perf_counter()
    for _ in range(commits):
        connection.execute("INSERT INTO t (x) VALUES (?)", (b"x" * 600,))
    print(f"{'bare SQLite FULL, one row each':34} {commits / (time.perf_counter() - began):8.0f} commits/s")
    connection.close()


def main() -> None:
    """Measure all of it."""
    given, place, *_ = (*sys.argv[1:], None, None)
    calls = int(given or 1000)
    with tempfile.TemporaryDirectory(dir=place) as folder:
        memory = MemoryJournal(host.now)
        show("memory (the rules alone)", calls, *measure(lambda name: call(memory, name), calls))
        bare_disk(folder, 2 * calls, 32 * 1024)
        bare_disk(folder, 2 * calls, 4 * 1024)
        bare_sqlite(folder, 2 * calls)
        journal_alone_and_crowded(folder, "FULL", calls)
        journal_alone_and_crowded(folder, "NORMAL", calls)


if __name__ == "__main__":
    main()
