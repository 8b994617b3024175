"""A program that copies its journal's folder from inside, as a backup: its process so loses what SQLite has locked."""

import contextlib
import sqlite3
import subprocess
import sys

import pytest

from settled.errors import JournalError
from settled.journals.sqlite import SqliteJournal
from settled.journals.sqlite.turn import Turn
from settled.testing.records import begun, make_ask
from tests.journals.support import ENVIRONMENT

AT_WORK = """
import contextlib, os, sys, threading
from pathlib import Path
from settled.errors import JournalError
from settled.journals.sqlite import SqliteJournal
from settled.testing.records import begun, make_ask

path = sys.argv[1]
journal = SqliteJournal(path, synchronous="NORMAL", busy_timeout=60)

def copies():
    while not over.wait(0.0005):
        for ending in ("-shm", "", "-wal"):
            with contextlib.suppress(OSError):
                Path(path + ending).read_bytes()

over = threading.Event()
threading.Thread(target=copies, daemon=True).start()
print("ready", flush=True)
sys.stdin.readline()
for _ in range(150):
    print(begun(journal, make_ask()).operation_id, flush=True)
over.set()
os._exit(0)
"""


def test_of_two_processes_neither_writes_over_the_others_commits(tmp_path):
    path = tmp_path / "agent.db"
    SqliteJournal(path).close()
    with contextlib.ExitStack() as stack:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        command = [sys.executable, "-c", AT_WORK, str(path)]
        both = [stack.enter_context(subprocess.Popen(command, env=ENVIRONMENT, text=True, **pipes)) for _ in range(2)]
        for process in both:
            process.stdout.readline()
        for process in both:
            process.stdin.write("\n")
            process.stdin.flush()
        told = [line for process in both for line in process.communicate(timeout=100)[0].split()]
    journal = SqliteJournal(path)
    assert [operation_id for operation_id in told if journal.get(operation_id) is None] == []
    assert journal.check().facts["integrity"] == "ok"
    assert len(told) == 300
    journal.close()


def test_where_no_lock_can_be_kept_beside_the_file_sqlites_are_all(tmp_path):
    path = tmp_path / "agent.db"
    (tmp_path / "agent.db-turn").mkdir(mode=0)
    journal = SqliteJournal(path)
    assert journal.get(begun(journal, make_ask()).operation_id) is not None
    journal.close()


def test_a_turn_that_does_not_come_is_told_as_a_lock_that_is_held(tmp_path):
    path = tmp_path / "agent.db"
    journal = SqliteJournal(path, busy_timeout=0.1)
    begun(journal, make_ask())
    other = Turn(str(path))
    assert other.take()
    with pytest.raises(JournalError, match="another process holds its lock"):
        begun(journal, make_ask())
    other.give()
    assert begun(journal, make_ask())
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM calls").fetchone() == (2,)
    other.leave()
    journal.close()
