"""A file that could not be accepted leaves everything as it was: nothing may begin anew in its place."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from settled.errors import JournalError
from settled.journals.mark import read_mark
from settled.journals.sqlite import SqliteJournal, accept
from settled.testing.records import begun, make_ask


def garbage(path):
    path.write_bytes(b"no database, but long enough to be taken for one by its size" * 40)


def foreign(path):
    path.unlink()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE t (x)")


def cut_off(path):
    path.write_bytes(path.read_bytes()[:5000])


def later(path):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE meta SET schema = 999")


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "agent.db"
    journal = SqliteJournal(path)
    begun(journal, make_ask())
    journal.close()
    return path


@pytest.mark.parametrize("damage", [garbage, foreign, cut_off, later])
def test_what_was_not_accepted_is_not_forgotten(path, damage):
    """Its mark was removed first: once the file was moved away, the next guard made a new journal, and every call."""
    before = read_mark(str(path))
    damage(path)
    with pytest.raises(JournalError):
        accept(path)
    assert read_mark(str(path)) == before
    path.unlink()
    with pytest.raises(JournalError, match="was in use here"):
        SqliteJournal(path)


def test_a_mark_that_cannot_be_read_is_replaced_by_accepting(path):
    Path(f"{path}-mark").write_text("{")
    accept(path)
    SqliteJournal(path).close()


def test_an_older_copy_counts_from_its_own_last_commit_on(path):
    copy = path.read_bytes()
    journal = SqliteJournal(path)
    begun(journal, make_ask())
    journal.close()
    path.write_bytes(copy)
    with pytest.raises(JournalError, match="older copy"):
        SqliteJournal(path)
    accept(path)
    assert read_mark(str(path)).commits == 1
    SqliteJournal(path).close()


@pytest.mark.parametrize("options", [{"must_exist": True}, {"journal_id": "jn_1"}])
def test_a_look_changes_nothing_of_another_programs_database(path, options):
    """To switch to a write-ahead log is for good, and a rollback journal's file may be copied alone."""
    Path(f"{path}-mark").unlink()
    Path(f"{path}-turn").unlink()
    foreign(path)
    before = path.read_bytes()
    for attempt in (lambda: SqliteJournal(path, **options), lambda: accept(path)):
        with pytest.raises(JournalError, match="no journal"):
            attempt()
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]
