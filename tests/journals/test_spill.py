"""Evidence that the journal could not take is kept beside it, whole, until it can."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from settled.core.doubt.late import Evidence
from settled.core.model import Exchange, Fault, Phase
from settled.core.values import replace
from settled.errors import JournalError
from settled.journals.mark import place_of
from settled.journals.postgres import PostgresJournal
from settled.journals.redis import RedisJournal
from settled.journals.sqlite import FileSpill, SqliteJournal
from settled.testing.records import AWKWARD, LOST
from tests.journals.support import ENVIRONMENT, in_a_child
from tests.journals.test_rows import OF_TYPE, all_fields


@pytest.fixture
def spill(tmp_path):
    return FileSpill(tmp_path / "journal.db-spill")


def drained(spill):
    kept = []
    spill.drain(kept.append)
    return kept


PIECES = [
    Evidence("op_1", 1, None, b"\x00\n\xff" * 3, AWKWARD),
    Evidence("op_2", 2, LOST, None, "", over=False),
    Evidence("op_3", 3, None, b"", claim="op_4"),
    Evidence("op_4", 1, replace(LOST, seen=(Exchange("POST", AWKWARD, Phase.ANSWERED, 500, (("a", AWKWARD),)),))),
]


def test_what_is_kept_comes_back_in_order(spill):
    for piece in PIECES:
        spill.keep(piece)
    taken = []
    assert FileSpill(spill.path).drain(taken.append) == 4
    assert taken == PIECES
    assert drained(spill) == []
    assert Path(spill.path).stat().st_size == 0


@pytest.mark.parametrize("what", ["a folder", "a pipe", "a link to itself", "in a file"])
@pytest.mark.parametrize("of", [SqliteJournal, PostgresJournal, RedisJournal])
def test_what_can_be_no_file_is_refused_when_the_journal_is_opened(tmp_path, what, of):
    """Not when there is evidence to keep, and no place for it."""
    path = tmp_path / "spill"
    ways = {
        "a folder": path.mkdir,
        "a pipe": lambda: os.mkfifo(path),
        "a link to itself": lambda: path.symlink_to(path),
        "in a file": path.touch,
    }
    ways[what]()
    where = {SqliteJournal: str(tmp_path / "a.db"), PostgresJournal: "postgresql://127.0.0.1:1/x"}
    with pytest.raises(JournalError, match="evidence that the journal cannot take is to be kept in"):
        of(where.get(of, "redis://127.0.0.1:1/0"), spill=path / "spill" if what == "in a file" else path)
    assert not (tmp_path / "a.db").exists()


def test_an_empty_spill_leaves_no_file(spill):
    assert drained(spill) == []
    assert not Path(spill.path).exists()


@given(piece=all_fields(Evidence))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_anything_can_be_kept(piece, spill):
    assert set(Evidence.__annotations__.values()) <= set(OF_TYPE)
    assert Fault.__name__ in OF_TYPE
    spill.keep(piece)
    assert drained(spill) == [piece]


def test_what_was_not_taken_stays(spill):
    for piece in PIECES:
        spill.keep(piece)
    taken = []

    def take(piece):
        if piece.operation_id == "op_2":
            raise OSError("the journal is away again")
        taken.append(piece)

    with pytest.raises(OSError, match="away again"):
        spill.drain(take)
    assert taken == PIECES[:1]
    spill.keep(PIECES[0])
    assert drained(spill) == [*PIECES[1:], PIECES[0]]


def test_what_is_kept_meanwhile_stays(spill):
    """The lock is not held while a piece is taken: it may be kept again by the very one who takes it."""
    spill.keep(PIECES[0])
    assert spill.drain(lambda piece: spill.keep(PIECES[1])) == 1
    assert drained(spill) == [PIECES[1]]


@pytest.mark.parametrize("torn", [2, 5, 30])
def test_a_torn_last_line_harms_no_other(spill, torn):
    """A process died while it wrote."""
    for piece in PIECES:
        spill.keep(piece)
    os.truncate(spill.path, Path(spill.path).stat().st_size - torn)
    spill.keep(PIECES[0])
    assert drained(spill) == [*PIECES[:-1], PIECES[0]]
    assert spill.damaged() == 1
    assert drained(spill) == []


def test_a_line_that_lacks_only_its_end_is_whole(spill):
    spill.keep(PIECES[0])
    os.truncate(spill.path, Path(spill.path).stat().st_size - 1)
    spill.keep(PIECES[1])
    assert drained(spill) == PIECES[:2]


def test_a_flipped_byte_is_never_taken_for_evidence(spill):
    for piece in PIECES:
        spill.keep(piece)
    with Path(spill.path).open("r+b") as file:
        content = file.read()
        file.seek(content.index(b"op_2"))
        file.write(b"op_9")
    assert [piece.operation_id for piece in drained(spill)] == ["op_1", "op_3", "op_4"]
    assert spill.damaged() == 1


def test_a_full_disk_is_told_and_leaves_no_half_line(spill):
    spill.keep(PIECES[0])
    size = Path(spill.path).stat().st_size

    def work():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, resource.RLIM_INFINITY))
        with pytest.raises(OSError, match="large"):
            spill.keep(PIECES[1])

    assert in_a_child(work) == "ok"
    assert Path(spill.path).stat().st_size == size
    assert drained(spill) == PIECES[:1]


KEEPER = """
import sys
from settled.core.doubt.late import Evidence
from settled.errors import JournalError
from settled.journals.mark import place_of
from settled.journals.postgres import PostgresJournal
from settled.journals.redis import RedisJournal
from settled.journals.sqlite import FileSpill, SqliteJournal

spill = FileSpill(sys.argv[1])
for i in range(40):
    spill.keep(Evidence(f"op_{sys.argv[2]}_{i}", 1, None, b"x" * 5000))
"""


def test_processes_share_it(spill):
    """Four keep while this one takes: nothing is lost, nothing is torn."""
    command = [sys.executable, "-c", KEEPER, spill.path]
    children = [subprocess.Popen([*command, str(name)], env=ENVIRONMENT) for name in range(4)]
    taken = []
    while any(child.poll() is None for child in children):
        spill.drain(taken.append)
    spill.drain(taken.append)
    assert [child.wait(30) for child in children] == [0] * 4
    assert sorted({piece.operation_id for piece in taken}) == sorted(f"op_{n}_{i}" for n in range(4) for i in range(40))
    assert all(piece.result == b"x" * 5000 for piece in taken)
    assert spill.damaged() == 0


def test_a_user_without_a_home_is_told_where_evidence_may_go(monkeypatch):
    def nobody(_):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "expanduser", nobody)
    with pytest.raises(JournalError, match=r"home directory.*give spill="):
        place_of("postgres-settled-1", "postgresql://host/db", None)
