"""What lies beside a journal is for whoever may use the journal, and for nobody else, whatever the umask says."""

import os
import stat
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from settled.core.doubt.late import Evidence
from settled.core.matching.claim import Claim
from settled.errors import JournalError
from settled.journals.mark import Mark, read_mark, write_mark
from settled.journals.sqlite import FileSpill, SqliteJournal
from settled.testing.records import LOST, begun, make_ask
from tests.journals.support import in_a_child


@contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path):
    return stat.S_IMODE(Path(path).stat().st_mode)


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o000])
@pytest.mark.parametrize("rights", [0o600, 0o640, 0o660])
def test_marks_and_evidence_are_as_readable_as_the_journal(tmp_path, mask, rights):
    path = tmp_path / "agent.db"
    with umask(mask):
        SqliteJournal(path).close()
        path.chmod(rights)
        journal = SqliteJournal(path)
        begun(journal, make_ask())
        for number in range(2):
            journal.spill.keep(Evidence(f"op_{number}", 1, LOST, b"secret"))
        journal.close()  # writes the mark anew
        spill, left = FileSpill(f"{path}-spill"), []

        def take(piece):
            if left:
                raise JournalError("away")
            left.append(piece)

        with pytest.raises(JournalError):
            spill.drain(take)  # writes what is left of it anew
    assert spill.damaged() == 0
    assert {name: mode(f"{path}{name}") for name in ("-mark", "-spill")} == {"-mark": rights, "-spill": rights}


def test_evidence_beside_no_file_is_its_owners(tmp_path):
    with umask(0):
        FileSpill(tmp_path / "spill").keep(Evidence("op_1", 1, LOST))
    assert mode(tmp_path / "spill") == 0o600


@pytest.fixture
def shared():
    """A folder of a group's, where others may get to it, which they may not below pytest's own."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as home:
        Path(home).chmod(0o711)
        folder = Path(home) / "shared"
        folder.mkdir()
        if not os.getuid():
            os.chown(folder, 0, 4242)
        folder.chmod(0o770)
        yield folder


def test_two_users_of_one_group_share_a_journal(shared):
    """Only root can become two users; where the tests run without its rights, one user is both."""
    folder = shared

    def user(number, work):
        def as_user():
            if not os.getuid():
                os.setgroups([])
                os.setgid(4242 if number == 1001 else 4243)
                os.setgroups([4242])
                os.setuid(number)
            os.umask(0o077)
            return work()

        return in_a_child(as_user)

    def first():
        journal = SqliteJournal(folder / "agent.db")
        for name in ("", "-wal", "-shm"):
            (folder / f"agent.db{name}").chmod(0o660)
        journal.perform(Claim(make_ask()))
        journal.spill.keep(Evidence("op_1", 1, LOST))
        journal.close()

    def second():
        journal = SqliteJournal(folder / "agent.db")
        journal.perform(Claim(make_ask()))
        journal.spill.keep(Evidence("op_2", 1, LOST))
        journal.close()
        return str(sorted(evidence.operation_id for evidence in drained(journal.spill)))

    def drained(spill):
        kept = []
        spill.drain(kept.append)
        return kept

    assert user(1001, first) == "ok"
    assert user(1002, second) == "['op_1', 'op_2']"
    assert user(1001, lambda: SqliteJournal(folder / "agent.db").close()) == "ok"


def test_marks_written_at_once_are_whole(tmp_path):
    """Threads, and processes of other containers, have the same process number."""
    path, stop, torn = str(tmp_path / "agent.db"), threading.Event(), []
    write_mark(path, Mark("jn_1", 1))

    def write():
        try:
            for number in range(100):
                write_mark(path, Mark("jn_1", number))
        except OSError as error:
            torn.append(error)

    def read():
        while not stop.is_set():
            try:
                read_mark(path)
            except JournalError as error:
                torn.append(error)

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write) for _ in range(4)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join(60)
    stop.set()
    reader.join(60)
    assert torn == []
    assert [each.name for each in tmp_path.iterdir()] == ["agent.db-mark"]
