"""A file that was emptied, replaced or restored is refused: else every call in it would be made once more."""

import json
import os
import shutil
from pathlib import Path

import pytest

from settled.errors import JournalError
from settled.journals.sqlite import SqliteJournal, accept, open_sqlite
from settled.ports import CallQuery
from settled.testing.records import FakeClock, begun, ended, make_ask


@pytest.fixture
def path(tmp_path):
    return tmp_path / "agent.db"


def opened(path, **options):
    return SqliteJournal(path, clock=FakeClock(), **options)


def used(path):
    """A journal that was in use, closed; returns its identity."""
    journal = opened(path)
    ended(journal, begun(journal, make_ask()))
    journal.close()
    return journal.journal_id


def remove(path):
    for name in (path, f"{path}-wal", f"{path}-shm"):
        Path(name).unlink(missing_ok=True)


def test_an_identity_is_given_once(path):
    first = used(path)
    again = opened(path, journal_id=first, must_exist=True)
    assert again.journal_id == first
    assert again.count() == {"succeeded": 1}
    again.close()
    assert used(path.with_name("other.db")) != first


def test_the_mark_tells_how_far_it_came(path):
    journal_id = used(path)
    mark = json.loads(Path(f"{path}-mark").read_text())
    assert mark == {"journal_id": journal_id, "commits": 2}


def test_a_seal_moves_the_mark_on(path):
    journal = opened(path)
    begun(journal, make_ask())
    journal.seal()
    assert json.loads(Path(f"{path}-mark").read_text())["commits"] == 2
    journal.close()


@pytest.mark.parametrize("what", ["deleted", "emptied"])
def test_a_file_that_is_gone_is_not_made_anew(path, what):
    used(path)
    remove(path)
    if what == "emptied":
        path.touch()
    with pytest.raises(JournalError, match=r"was in use here.*journal accept"):
        opened(path)
    assert not path.exists() or path.stat().st_size == 0


def test_another_file_in_its_place_is_refused(path):
    used(path)
    other = path.with_name("other.db")
    used(other)
    remove(path)
    shutil.copy(other, path)
    with pytest.raises(JournalError, match="was replaced"):
        opened(path)


def test_an_older_copy_is_refused(path):
    used(path)
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    used(path)
    remove(path)
    shutil.copy(copy, path)
    with pytest.raises(JournalError, match=r"commit 2, and commit 4 was seen.*older copy"):
        opened(path)


def test_accepting_lets_it_count(path):
    used(path)
    remove(path)
    assert accept(path) is None
    fresh = used(path)
    assert fresh == used(path)
    other = path.with_name("other.db")
    theirs = used(other)
    remove(path)
    shutil.copy(other, path)
    assert accept(path) == theirs
    assert used(path) == theirs


def test_what_is_no_journal_is_not_accepted(path):
    path.write_bytes(b"not a database, but long enough to be taken for one by its size" * 40)
    with pytest.raises(JournalError, match="not an SQLite database"):
        accept(path)


@pytest.mark.parametrize("options", [{"must_exist": True}, {"journal_id": "jn_1"}])
def test_none_is_created_where_one_must_exist(path, options):
    with pytest.raises(JournalError, match="must exist"):
        opened(path, **options)
    assert list(path.parent.iterdir()) == []


def test_the_expected_identity_is_checked(path):
    used(path)
    with pytest.raises(JournalError, match="journal_id= asks for jn_1"):
        opened(path, journal_id="jn_1")


def test_a_mark_that_cannot_be_read_is_no_mark_to_ignore(path):
    used(path)
    Path(f"{path}-mark").write_text("{")
    with pytest.raises(JournalError, match=r"mark .* cannot be read"):
        opened(path)


def test_a_file_of_two_names_is_refused(path):
    """By the other name its write-ahead log is not found: what was done lately would be done again."""
    used(path)
    other = path.parent / "other.db"
    other.hardlink_to(path)
    for name in (path, other):
        with pytest.raises(JournalError, match="hard links"):
            opened(name)
    other.unlink()
    used(path)


def test_a_journal_from_before_the_mark_gets_one(path):
    journal_id = used(path)
    Path(f"{path}-mark").unlink()
    assert used(path) == journal_id
    assert json.loads(Path(f"{path}-mark").read_text())["journal_id"] == journal_id


# --- while it is open ---


@pytest.fixture
def journal(path):
    journal = opened(path)
    begun(journal, make_ask())
    yield journal
    journal.close()


def refused(journal, match):
    """Nothing is executed and nothing created, by whatever verb."""
    before = sorted(Path(journal.path).parent.iterdir())
    for _ in range(2):
        with pytest.raises(JournalError, match=match):
            begun(journal, make_ask())
        with pytest.raises(JournalError, match=match):
            journal.find(CallQuery())
    assert sorted(Path(journal.path).parent.iterdir()) == before


def test_a_file_deleted_in_use_is_noticed_and_welcome_back(journal, path):
    away = path.with_name("away")
    path.rename(away)
    refused(journal, "is gone")
    away.rename(path)
    begun(journal, make_ask())
    assert journal.count() == {"processing": 2}


def test_a_file_replaced_in_use_is_noticed(journal, path):
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)
    refused(journal, "was replaced")


def test_a_file_emptied_in_use_is_noticed(journal, path):
    os.truncate(path, 0)
    refused(journal, "was emptied")


def test_a_file_cut_off_in_use_is_noticed(journal, path):
    for _ in range(100):
        begun(journal, make_ask())
    journal.compact()
    begun(journal, make_ask())
    os.truncate(path, path.stat().st_size // 2 // 4096 * 4096)
    refused(journal, "was cut off")


def test_a_write_ahead_log_deleted_in_use_is_noticed(journal, path):
    Path(f"{path}-wal").unlink()
    refused(journal, "write-ahead log")


def test_a_vacuum_by_another_process_is_no_damage(journal, path):
    for _ in range(100):
        begun(journal, make_ask())
    journal.compact()
    begun(journal, make_ask())
    size = path.stat().st_size
    with journal._file.reader() as connection:
        connection.execute("CREATE TABLE ballast AS SELECT zeroblob(1000000) AS x")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    begun(journal, make_ask())
    with journal._file.reader() as connection:
        connection.execute("DROP TABLE ballast")
    journal.compact(vacuum=True)
    assert path.stat().st_size <= size + 4096 * 4
    begun(journal, make_ask())


# --- addresses ---


def test_addresses(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    relative, spill = open_sqlite("sqlite:///agent.db?synchronous=normal&busy_timeout=0.5", clock=FakeClock())
    assert relative.path == str(tmp_path / "agent.db")
    assert relative.check().facts["synchronous"] == "NORMAL"
    assert spill.path == str(tmp_path / "agent.db-spill")
    assert relative.url == f"sqlite:///{tmp_path}/agent.db"
    relative.close()
    absolute, _ = open_sqlite(f"sqlite:///{tmp_path}/with%20space%3F.db")
    assert absolute.path == str(tmp_path / "with space?.db")
    absolute.close()
    again, _ = open_sqlite(f"sqlite:///agent.db?must_exist=true&journal_id={relative.journal_id}")
    again.close()


@pytest.mark.parametrize(
    "url",
    [
        *("sqlite://agent.db", "sqlite:///", "sqlite:agent", "postgres:///agent.db"),
        *("sqlite:///a.db?sync=FULL", "sqlite:///a.db?busy_timeout=long", "sqlite:///a.db?must_exist=perhaps"),
        *("sqlite:///a.db?synchronous=OFF", "sqlite:///a.db?synchronous"),
    ],
)
def test_addresses_that_are_none(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(JournalError):
        open_sqlite(url)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(JournalError, match="folder does not exist"):
        opened(tmp_path / "none" / "agent.db")
