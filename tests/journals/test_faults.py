"""A store in trouble: a clear error, nothing half-written, and work again once the cause is gone."""

import asyncio
import contextlib
import os
import resource
import sqlite3
import tempfile
import threading
import time
from pathlib import Path

import pytest

from settled.core.ask import Begun
from settled.core.matching.claim import Claim
from settled.errors import JournalError
from settled.journals.sqlite import SqliteJournal
from settled.testing.records import FakeClock, begun, ended, make_ask, unknown_call
from tests.journals.support import in_a_child


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.db"


@pytest.fixture
def journal(path):
    journal = SqliteJournal(path, clock=FakeClock(), busy_timeout=0.2)
    yield journal
    journal.close()


@contextlib.contextmanager
def locked(path):
    """Another connection holds the write lock."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


# --- locked ---


def test_a_lock_held_too_long_is_told_and_gone_with_it(journal, path):
    ask = make_ask()
    with locked(path), pytest.raises(JournalError, match=r"lock.*busy_timeout") as caught:
        journal.perform(Claim(ask))
    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
    assert journal.get(ask.operation_id) is None
    begun(journal, ask)


@pytest.fixture
def patient(path):
    """Waits for a lock for as long as it may be held here."""
    journal = SqliteJournal(path, clock=FakeClock(), busy_timeout=60)
    yield journal
    journal.close()


def test_a_lock_held_shortly_is_waited_for(patient, path):
    with contextlib.ExitStack() as stack:
        stack.enter_context(locked(path))
        threads = [threading.Thread(target=begun, args=(patient, make_ask())) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.05)
    for thread in threads:
        thread.join(60)
    assert patient.count() == {"processing": 4}


def test_readers_do_not_wait_for_a_writer(journal, path):
    call = begun(journal, make_ask())
    with locked(path):
        assert journal.get(call.operation_id) == call


def test_the_loop_goes_on_while_the_file_is_locked(patient, path):
    async def main():
        with locked(path):
            task = asyncio.create_task(patient.aperform(Claim(make_ask())))
            for _ in range(20):
                await asyncio.sleep(0.001)
            assert not task.done()
        return await task

    assert isinstance(asyncio.run(main()), Begun)


# --- no right to write ---


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_cannot_be_written(what):
    """A user without rights; root has them all, so the child becomes somebody else."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        path = Path(folder, "journal.db")
        SqliteJournal(path, clock=FakeClock()).close()
        path.chmod(0o444 if what == "file" else 0o666)
        Path(folder).chmod(0o777 if what == "file" else 0o555)

        def work():
            if not os.geteuid():
                os.setuid(65534)
            try:
                journal = SqliteJournal(path, clock=FakeClock())
                begun(journal, make_ask())
            except JournalError as error:
                return f"{error} / {error.__cause__!r}"

        said = in_a_child(work)
        Path(folder).chmod(0o777)
    assert "owner and mode" in said or "can be written" in said
    assert "Error(" in said


# --- full ---


def test_a_full_disk_is_told_and_gone_with_it(path):
    def work():
        journal = SqliteJournal(path, clock=FakeClock())
        done = [ended(journal, begun(journal, make_ask()), result=b"x" * 1000) for _ in range(20)]
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        asks = [make_ask() for _ in range(5)]
        for ask in asks:
            with pytest.raises(JournalError, match=r"disk|room") as caught:
                begun(journal, ask)
            assert isinstance(caught.value.__cause__, sqlite3.Error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert [journal.get(call.operation_id) for call in done] == done
        assert [journal.get(ask.operation_id) for ask in asks] == [None] * 5
        for ask in asks:
            begun(journal, ask)
        assert journal.check().ok
        assert journal.verify().ok
        journal.close()

    assert in_a_child(work) == "ok"


def test_a_disk_that_is_full_from_the_start(path):
    def work():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
        with pytest.raises(JournalError):
            SqliteJournal(path, clock=FakeClock())
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        begun(SqliteJournal(path, clock=FakeClock()), make_ask())

    assert in_a_child(work) == "ok"


# --- damaged ---


def damaged(path, at, size=4096):
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"\xa5" * size)


@pytest.mark.parametrize("header", ["zeroed", "garbled"])
def test_a_damaged_header(path, header):
    journal = SqliteJournal(path, clock=FakeClock())
    begun(journal, make_ask())
    journal.close()
    with path.open("r+b") as file:
        file.write(b"\0" * 100 if header == "zeroed" else b"\xa5" * 100)
    with pytest.raises(JournalError, match=r"restore a backup|was in use") as caught:
        SqliteJournal(path, clock=FakeClock())
    assert caught.value.__cause__ is None or isinstance(caught.value.__cause__, sqlite3.DatabaseError)


def test_a_damaged_page_harms_no_other_record(path):
    journal = SqliteJournal(path, clock=FakeClock())
    calls = [ended(journal, begun(journal, make_ask()), result=os.urandom(600)) for _ in range(60)]
    with journal._file.reader() as connection:
        [(page,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'calls'")
    journal.close()
    leaf = child_page(path, page)
    damaged(path, (leaf - 1) * 4096)
    journal = SqliteJournal(path, clock=FakeClock())
    outcomes = [read(journal, call.operation_id) for call in calls]
    assert any(isinstance(outcome, JournalError) for outcome in outcomes)
    assert sum(outcome == call for outcome, call in zip(outcomes, calls, strict=True)) > 40
    report = journal.check()
    assert not report.ok
    assert "restore a backup" in report.problems[0]
    begun(journal, make_ask())
    journal.close()


def child_page(path, page):
    """Return the first child of an interior page of a table."""
    content = path.read_bytes()[(page - 1) * 4096 : page * 4096]
    assert content[0] == 5, "the table is too small to have children"
    cell = int.from_bytes(content[12:14], "big")
    return int.from_bytes(content[cell : cell + 4], "big")


def read(journal, operation_id):
    try:
        return journal.get(operation_id)
    except JournalError as error:
        return error


def test_a_write_that_meets_the_damage_fails_alone(path):
    """Others in the same commit are recorded."""
    journal = SqliteJournal(path, clock=FakeClock())
    asks = [make_ask() for _ in range(60)]
    for ask in asks:
        ended(journal, begun(journal, ask), result=os.urandom(600))
    with journal._file.reader() as connection:
        [(page,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'calls'")
    journal.close()
    damaged(path, (child_page(path, page) - 1) * 4096)
    journal = SqliteJournal(path, clock=FakeClock())

    async def main():
        work = [journal.aperform(Claim(ask)) for ask in (asks[0], make_ask(), asks[-1])]
        return await asyncio.gather(*work, return_exceptions=True)

    first, new, last = asyncio.run(main())
    assert isinstance(first, JournalError)
    assert type(new).__name__ == "Begun"
    assert type(last).__name__ == "Begun"
    journal.close()


# --- a commit whose answer is not certain ---


class LosesAnswers:
    """A connection that commits, then fails: as if the last sync had not been answered."""

    def __init__(self, connection, *, commits):
        self.connection, self.commits = connection, commits

    def __getattr__(self, name):
        return getattr(self.connection, name)

    def execute(self, statement, *values):
        if statement.startswith("COMMIT"):
            if self.commits:
                self.connection.execute("COMMIT")
            raise sqlite3.OperationalError("disk I/O error")
        return self.connection.execute(statement, *values)


def test_a_commit_that_took_effect_is_looked_up(journal):
    ask = make_ask()
    journal._file._writer = LosesAnswers(journal._file.writer(), commits=True)
    call = begun(journal, ask)
    assert journal.get(ask.operation_id) == call
    begun(journal, make_ask())


def test_a_commit_that_took_none_can_be_repeated(journal):
    ask = make_ask()
    journal._file._writer = LosesAnswers(journal._file.writer(), commits=False)
    with pytest.raises(JournalError, match="disk I/O"):
        begun(journal, ask)
    assert journal.get(ask.operation_id) is None
    call = begun(journal, ask)
    assert begun(journal, ask) == call


def test_an_older_copy_written_over_the_file_in_use_is_noticed(journal):
    """In place, so that not even its inode tells."""
    begun(journal, make_ask())
    with sqlite3.connect(journal.path) as other:
        other.execute("UPDATE meta SET commits = 0")
    other.close()
    with pytest.raises(JournalError, match="older copy"):
        unknown_call(journal)
