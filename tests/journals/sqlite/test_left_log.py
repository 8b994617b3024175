"""A write-ahead log that a killed process has left is joined to no other file than the one that it was written for."""

import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest

from settled.errors import JournalError
from settled.journals.sqlite import SqliteJournal, accept
from settled.journals.sqlite.left_log import check_log
from settled.testing.records import begun, make_ask
from tests.journals.support import ENVIRONMENT

KILLED = """
import os, shutil, sys
from settled.journals.sqlite import SqliteJournal
from settled.testing.records import begun, make_ask

path, copy, before, after = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
journal = SqliteJournal(path)
begun(journal, make_ask(operation_id="op_first", key="first"))
journal.compact()
shutil.copy(path, copy)
for number in range(before):
    begun(journal, make_ask(operation_id=f"op_before_{number}", key=f"before:{number}", arguments=b"x" * 3000))
journal.seal()  # leaves the mark
journal.compact()
for number in range(after):
    begun(journal, make_ask(operation_id=f"op_after_{number}", key=f"after:{number}"))
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def killed(tmp_path):
    """Return a journal whose process was killed with some commits in its log, and an older copy of its file."""

    def run(before, after, name="agent.db"):
        path, copy = tmp_path / name, tmp_path / f"{name}.older"
        command = [sys.executable, "-c", KILLED, str(path), str(copy), str(before), str(after)]
        ended = subprocess.run(command, env=ENVIRONMENT, timeout=60, check=False)
        assert ended.returncode == -signal.SIGKILL
        assert Path(f"{path}-wal").stat().st_size > 0
        return path, copy

    return run


def test_what_was_killed_is_whole(killed):
    path, _ = killed(5, 3)
    journal = SqliteJournal(path)
    assert journal.count() == {"processing": 9}
    journal.close()


@pytest.mark.parametrize("in_place", [True, False])
def test_an_older_copy_does_not_become_the_newest_by_a_log_that_was_left(killed, in_place):
    """It stood at the newest commit then, by its mark too, and lacked all calls between."""
    path, copy = killed(40, 3)
    (shutil.copyfile if in_place else shutil.move)(copy, path)
    older = path.read_bytes()
    for attempt in (SqliteJournal, accept):
        with pytest.raises(JournalError, match="another copy was put in the place"):
            attempt(path)
    assert path.read_bytes() == older, "it was not joined by looking"
    for name in ("-wal", "-shm"):
        Path(f"{path}{name}").unlink()
    with pytest.raises(JournalError, match="older copy"):
        SqliteJournal(path)
    accept(path)
    journal = SqliteJournal(path)
    assert journal.count() == {"processing": 1}
    journal.close()


def test_a_newer_copy_is_not_joined_with_an_older_log(killed, tmp_path):
    path, _ = killed(5, 3)
    newer = tmp_path / "newer.db"
    for name in ("", "-wal", "-mark"):
        shutil.copy(f"{path}{name}", f"{newer}{name}")
    journal = SqliteJournal(newer)
    for _ in range(10):
        begun(journal, make_ask())
    journal.close()
    shutil.copy(newer, path)
    with pytest.raises(JournalError, match="another copy was put in the place"):
        SqliteJournal(path)


def test_the_log_of_another_journal_is_not_joined(killed):
    path, _ = killed(5, 3)
    other, _ = killed(5, 3, "other.db")
    shutil.copy(f"{other}-wal", f"{path}-wal")
    with pytest.raises(JournalError, match="another copy was put in the place"):
        SqliteJournal(path)


def test_a_journal_that_opens_its_file_again_looks_too(killed, tmp_path):
    path, copy = killed(40, 3, "killed.db")
    mine = tmp_path / "agent.db"
    shutil.copy(copy, mine)
    journal = SqliteJournal(mine)
    journal.before_fork()  # closes its connections
    shutil.copy(f"{path}-wal", f"{mine}-wal")
    journal.after_fork_in_parent()
    with pytest.raises(JournalError, match="another copy was put in the place"):
        begun(journal, make_ask())
    Path(f"{mine}-wal").unlink()
    begun(journal, make_ask())
    journal.close()


@pytest.mark.parametrize("seed", range(6))
def test_wherever_a_process_is_killed_nothing_is_refused(tmp_path, seed):
    """Folded into the file in part, or as a whole, or not at all; begun anew, with old frames behind the new ones."""
    draw = random.Random(seed)
    journal = SqliteJournal(tmp_path / "agent.db")
    with closing(sqlite3.connect(tmp_path / "agent.db", isolation_level=None)) as other:
        for _ in range(60):
            for _ in range(draw.randrange(4)):
                begun(journal, make_ask(arguments=b"x" * draw.choice([10, 5000])))
            if draw.random() < 0.1 and not other.in_transaction:
                other.execute("BEGIN")
                other.execute("SELECT count(*) FROM calls").fetchone()  # so that the next is folded in in part only
            kind = draw.choice(["PASSIVE", "FULL", "RESTART", "TRUNCATE", ""])
            if kind and not other.in_transaction:
                other.execute(f"PRAGMA wal_checkpoint({kind})")
            elif kind:
                with closing(sqlite3.connect(tmp_path / "agent.db", timeout=0)) as third:
                    third.execute("PRAGMA wal_checkpoint(PASSIVE)")
            if other.in_transaction and draw.random() < 0.5:
                other.execute("ROLLBACK")
            as_killed = tmp_path / "killed.db"
            for name in ("", "-wal"):
                shutil.copy(f"{tmp_path / 'agent.db'}{name}", f"{as_killed}{name}")
            check_log(str(as_killed))
    journal.close()


def test_whatever_a_log_holds_it_is_left_to_sqlite(killed):
    path, _ = killed(3, 3)
    log = Path(f"{path}-wal")
    whole = log.read_bytes()
    draw = random.Random(1)
    for _ in range(300):
        torn = bytearray(whole[: draw.randrange(len(whole) + 1)])
        for _ in range(draw.randrange(6)):
            if torn:
                torn[draw.randrange(min(len(torn), 9000))] = draw.randrange(256)
        log.write_bytes(torn)
        with suppress(JournalError):
            check_log(str(path))


WRITER = """
import sys
from settled.journals.sqlite import SqliteJournal
from settled.testing.records import begun, make_ask

journal = SqliteJournal(sys.argv[1], synchronous="NORMAL")
print("ready", flush=True)
for number in range(10**6):
    begun(journal, make_ask(operation_id=f"op_{number}", key=f"k:{number}"))
    if number % 7 == 0:
        with journal._file.reader() as connection:
            connection.execute("PRAGMA wal_checkpoint(RESTART)")
"""


def test_beside_a_process_at_work_that_begins_its_log_anew_all_the_time_nothing_is_refused(tmp_path):
    path = str(tmp_path / "agent.db")
    with subprocess.Popen([sys.executable, "-c", WRITER, path], env=ENVIRONMENT, stdout=subprocess.PIPE) as writer:
        writer.stdout.readline()
        for _ in range(400):
            check_log(path)
        assert writer.poll() is None
        writer.kill()
