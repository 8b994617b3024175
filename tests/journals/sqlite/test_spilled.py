"""Evidence that cannot be brought in holds up none that can."""

import asyncio
import json
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

import pytest

import settled
from settled.core.doubt.late import Evidence
from settled.core.states import State
from settled.journals.sqlite import FileSpill, SqliteJournal
from settled.testing.records import LOST, unknown_call


def later_release(line):
    """The same evidence, with one field more."""
    body = json.dumps([*json.loads(line.partition(b" ")[2]), "more"]).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


def other_kind(line):
    """A field of another kind."""
    values = json.loads(line.partition(b" ")[2])
    body = json.dumps([*values[:2], {"class": "new"}, *values[3:]]).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


@pytest.mark.parametrize("changed", [later_release, other_kind])
def test_what_a_later_release_has_kept_stays_for_it(tmp_path, changed):
    path = tmp_path / "spill"
    spill = FileSpill(path)
    spill.keep(Evidence("op_1", 1, LOST))
    path.write_bytes(changed(path.read_bytes()))
    spill.keep(Evidence("op_2", 1, None, b"done"))
    kept = []
    spill.drain(kept.append)
    assert [piece.operation_id for piece in kept] == ["op_2"]
    assert spill.damaged() == 1


def test_what_belongs_to_an_unreadable_record_holds_up_neither_the_rest_nor_a_worker(tmp_path):
    path = tmp_path / "agent.db"
    journal = SqliteJournal(path)
    broken, whole = unknown_call(journal, tenant=""), unknown_call(journal, tenant="")
    for call in (broken, whole):
        journal.spill.keep(Evidence(call.operation_id, 1, None, b"null"))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE calls SET body = '[]' WHERE operation_id = ?", (broken.operation_id,))
    journal.close()
    with settled.Guard(f"sqlite:///{path}") as guard:
        assert asyncio.run(settled.Worker(guard).around()).trouble == ""
        assert guard.journal.get(whole.operation_id).state is State.SUCCEEDED
    assert broken.operation_id.encode() in Path(f"{path}-spill").read_bytes()
