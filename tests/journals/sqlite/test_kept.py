"""A commit that goes to a file, or a write-ahead log, that was deleted under it is never called one."""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from settled.core.matching.claim import Claim
from settled.errors import JournalError
from settled.journals.sqlite import SqliteJournal
from settled.testing.records import begun, make_ask
from tests.journals.support import ENVIRONMENT


class Meanwhile:
    """Claims; then something happens to the file, before the commit."""

    def __init__(self, ask, happens):
        self.ask, self.happens = ask, happens

    def apply(self, books, now):
        reply = Claim(self.ask).apply(books, now)
        self.happens()
        return reply


OPENED_AND_CLOSED = "import sys; from settled.journals.sqlite import SqliteJournal; SqliteJournal(sys.argv[1]).close()"


def copied_from_inside(path):
    """Closing any handle of the file drops this process's locks on it; whoever closes last then deletes the log."""
    Path(path).read_bytes()
    subprocess.run([sys.executable, "-c", OPENED_AND_CLOSED, path], env=ENVIRONMENT, timeout=60, check=True)


def replaced(path):
    shutil.copy(path, f"{path}.old")
    Path(f"{path}.old").replace(path)


def log_deleted(path):
    Path(f"{path}-wal").unlink()


def files(path):
    return [Path(name).exists() and Path(name).stat().st_ino for name in (path, f"{path}-wal")]


@pytest.mark.parametrize("damage", [copied_from_inside, replaced, log_deleted, os.unlink])
def test_what_happens_to_the_file_between_a_look_and_the_commit_is_noticed(tmp_path, damage):
    path, ask = str(tmp_path / "agent.db"), make_ask()
    journal = SqliteJournal(path)
    begun(journal, make_ask())
    before = files(path)
    told = ""
    try:
        journal.perform(Meanwhile(ask, lambda: damage(path)))
    except JournalError as error:
        told = str(error)
    if damage is copied_from_inside and files(path) == before:
        assert not told, "SQLite of 2026 deletes no log that another process has open"
        return
    assert "perform again" in told
    with pytest.raises(JournalError):
        journal.perform(Claim(ask))


def test_a_child_that_nobody_told_of_says_of_no_lost_commit_that_it_was_made(tmp_path):
    """It shares what SQLite knows with its parent, and has none of its locks: the parent's end deletes the log."""
    path, ask = str(tmp_path / "agent.db"), make_ask()
    journal = SqliteJournal(path)
    begun(journal, make_ask())
    (told, tell), (waiting, go_on), (said, say) = os.pipe(), os.pipe(), os.pipe()
    pid = ctypes.CDLL(None).fork()  # as a server written in C does
    if not pid:

        def parent_ends():
            os.write(tell, b"x")
            os.read(waiting, 1)

        try:
            journal.perform(Meanwhile(ask, parent_ends))
            os.write(say, b"committed")
        except JournalError as error:
            os.write(say, str(error).encode())
        os._exit(0)
    os.read(told, 1)
    journal.close()
    os.write(go_on, b"x")
    os.waitpid(pid, 0)
    answer = os.read(said, 10_000).decode()
    again = SqliteJournal(path)
    kept = again.get(ask.operation_id) is not None
    again.close()
    assert kept or "perform again" in answer
    assert not kept, "the log was deleted: else this shows nothing"
