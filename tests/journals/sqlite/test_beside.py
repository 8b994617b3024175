"""What SQLite keeps beside the file (``-wal``, ``-shm``): who has another one than others shares no lock with them."""

import contextlib
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from settled.errors import JournalError
from settled.journals.sqlite import SqliteJournal, same_file
from settled.ports import CallQuery
from settled.testing.records import begun, make_ask
from tests.journals.support import ENVIRONMENT

LOST = ("-shm", "-wal -shm")
"""By endings. (Where the log alone is gone, others cannot open the file while its index is there.)"""

ANOTHER = """
import os, sys
from settled.journals.sqlite import SqliteJournal
from settled.testing.records import begun, make_ask
journal = SqliteJournal(sys.argv[1])
for _ in range(5):
    print(begun(journal, make_ask()).operation_id, flush=True)
os._exit(0)  # killed: what it was told of is in the log
"""

ENDS = """
import sys
from pathlib import Path
from settled.errors import JournalError
from settled.journals.sqlite import SqliteJournal
from settled.ports import CallQuery
from settled.testing.records import begun, make_ask
path, lost, end = sys.argv[1:]
journal = SqliteJournal(path)
begun(journal, make_ask())
list(journal.find(CallQuery()))
journal.compact()
for ending in lost.split():
    Path(path + ending).unlink()
print("lost", flush=True)
input()
try:
    begun(journal, make_ask())
except JournalError as error:
    print("refused", flush=True)
if end == "closed":
    journal.close()
"""


def by_another(path):
    """Let another process put calls on record; return their ids."""
    command = [sys.executable, "-c", ANOTHER, str(path)]
    done = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    return done.stdout.split()


def lose(path, lost):
    """Let another program delete what it takes for rubbish; the file itself is whole."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    for ending in lost.split():
        Path(f"{path}{ending}").unlink()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "agent.db"


@pytest.mark.parametrize("lost", [*LOST, "-wal"])
def test_who_has_lost_it_commits_nothing_beside_others(path, lost):
    journal = SqliteJournal(path)
    begun(journal, make_ask())
    lose(path, lost)
    with pytest.raises(JournalError, match=f"ending in {lost[:4]}"):
        begun(journal, make_ask())
    if lost != "-wal":
        by_another(path)
    with pytest.raises(JournalError, match=f"ending in {lost[:4]}"):
        begun(journal, make_ask())
    with pytest.raises(JournalError, match=f"ending in {lost[:4]}"):
        journal.find(CallQuery())
    journal.close()


@pytest.mark.parametrize("end", ["closed", "left"])
@pytest.mark.parametrize("lost", LOST)
def test_who_has_lost_it_and_ends_takes_nothing_of_others_along(path, lost, end):
    """The last thing that a process does is to free what it has, and SQLite tidies up around what is freed."""
    command = [sys.executable, "-c", ENDS, str(path), lost, end]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=ENVIRONMENT, text=True, **pipes) as process:
        process.stdout.readline()
        told = by_another(path)
        assert process.communicate("\n", timeout=60)[0] == "refused\n"
    again = SqliteJournal(path)
    assert [again.get(operation_id) is not None for operation_id in told] == [True] * 5
    assert again.check().facts["integrity"] == "ok"
    again.close()


@pytest.mark.parametrize("first", ["open", "refused", "closed"])
@pytest.mark.parametrize("lost", LOST)
def test_it_is_not_opened_again_by_a_process_that_has_lost_it(path, lost, first):
    """SQLite lets all connections of a process share what one of them has open, also one that is never used again."""
    journal = SqliteJournal(path)
    begun(journal, make_ask())
    lose(path, lost)
    by_another(path)
    if first != "open":
        with pytest.raises(JournalError):
            begun(journal, make_ask())
    if first == "closed":
        journal.close()
    with pytest.raises(JournalError, match=f"ending in {lost[:4]}"):
        SqliteJournal(path)
    assert len(by_another(path)) == 5


def test_a_new_file_in_the_place_is_no_concern_of_one_that_was_lost(path):
    journal = SqliteJournal(path)
    begun(journal, make_ask())
    lose(path, "-shm")
    with pytest.raises(JournalError):
        begun(journal, make_ask())
    for ending in ("", "-wal", "-mark"):
        Path(f"{path}{ending}").unlink(missing_ok=True)
    fresh = SqliteJournal(path)
    begun(fresh, make_ask())
    fresh.close()


def test_journals_that_are_opened_and_closed_at_once_do_not_mistake_each_other(path):
    SqliteJournal(path).close()
    troubles = []

    def work():
        for _ in range(40):
            try:
                journal = SqliteJournal(path)
                begun(journal, make_ask())
                journal.close()
            except JournalError as error:
                troubles.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert troubles == []


def test_who_looks_as_another_thread_learns_what_lies_beside_is_not_disturbed(path, monkeypatch):
    for ending in ("", "-wal", "-shm"):
        Path(f"{path}{ending}").write_text("x")
    same = same_file.SameFile(str(path))
    same.remember()
    same._beside.pop("-shm")
    look = same_file._inode_of

    def meanwhile(asked):
        monkeypatch.setattr(same_file, "_inode_of", look)
        same.log_is_there()
        return look(asked)

    monkeypatch.setattr(same_file, "_inode_of", meanwhile)
    same.check()
    assert set(same._beside) == {"-wal", "-shm"}
