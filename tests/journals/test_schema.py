"""Older journals are brought up to date, newer ones refused."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import settled
from settled.core.runs.entering import EnterRun
from settled.errors import JournalError
from settled.journals.sqlite import SqliteJournal, migrate, schema
from settled.testing.records import FakeClock, begun, make_ask

ADDS = schema.Step(
    schema.newest() + 1, additive=True, statements=("CREATE TABLE extra (x)", "ALTER TABLE runs ADD COLUMN more TEXT")
)
CHANGES = schema.Step(ADDS.version + 1, additive=False, statements=("DROP TABLE extra",))


@pytest.fixture
def path(tmp_path):
    """A journal of version 1, as the first release wrote it, with calls in it."""
    path = tmp_path / "journal.db"
    connection = sqlite3.connect(path)
    connection.executescript(Path(__file__).with_name("schema_1.sql").read_text())
    connection.close()
    return path


def opened(path):
    return SqliteJournal(path, clock=FakeClock())


def version(path):
    with sqlite3.connect(path) as connection:
        found = schema.version_of(connection)
    connection.close()
    return found


def test_version_1_opens_and_reads(path):
    journal = opened(path)
    states = {call.operation_id: str(call.state) for call in map(journal.get, ("op_1", "op_2", "op_3"))}
    assert states == {"op_1": "succeeded", "op_2": "unknown", "op_3": "processing"}
    assert journal.get("op_1").result == b"receipt"
    assert journal.verify(journal.head()).ok
    assert [alert.operation_id for alert in journal.alerts()] == ["op_2"]
    assert [run.run_id for run in journal.runs()] == ["trip"]
    assert version(path) == schema.newest()
    journal.close()


def test_a_turn_that_was_open_in_version_1_goes_on(path):
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO runs VALUES (2, 'acme', 'thread', 4, 'message 3', 3, '{}', 'active')")
    connection.close()
    journal = opened(path)
    assert list(journal.perform(EnterRun("thread", "acme", "message 3")).earlier) == [3, 4]
    assert list(journal.perform(EnterRun("thread", "acme", "message 4")).earlier) == []
    assert list(journal.perform(EnterRun("trip", "acme", "message 3")).earlier) == []
    journal.close()


def test_a_step_that_adds_is_taken_at_opening(path, monkeypatch):
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, ADDS))
    journal = opened(path)
    begun(journal, make_ask(operation_id="op_new", key="pay:new", fingerprint="1:new"))
    assert journal.check().facts["schema"] == ADDS.version
    assert journal.get("op_1").result == b"receipt"
    journal.close()


def test_a_step_that_changes_waits_for_a_person(path, monkeypatch):
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, ADDS, CHANGES))
    with pytest.raises(JournalError, match=rf"step to version {CHANGES.version}.*journal migrate"):
        opened(path)
    assert version(path) == 1
    assert migrate(path) == (1, CHANGES.version)
    assert migrate(path) == (CHANGES.version, CHANGES.version)
    journal = opened(path)
    assert journal.get("op_1").result == b"receipt"
    journal.close()


def test_a_newer_journal_is_refused_and_left_alone(path, monkeypatch):
    opened(path).close()
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, ADDS))
    opened(path).close()
    monkeypatch.undo()
    content = path.read_bytes()
    for attempt in (opened, migrate):
        with pytest.raises(JournalError, match=rf"version {ADDS.version}.*newer release"):
            attempt(path)
    assert path.read_bytes() == content


def test_a_step_that_fails_leaves_the_journal_as_it_was(path, monkeypatch):
    broken = schema.Step(schema.newest() + 1, additive=True, statements=("CREATE TABLE extra (x)", "no such statement"))
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, broken))
    with pytest.raises(JournalError):
        opened(path)
    monkeypatch.undo()
    assert version(path) == 1
    journal = opened(path)
    assert journal.check().facts["schema"] == schema.newest()
    journal.close()


def test_a_migration_makes_no_journal(tmp_path):
    with pytest.raises(JournalError, match="must exist"):
        migrate(tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == []


def test_other_tables_in_the_file_are_left_alone(tmp_path):
    """A transactional tool has its rows in the same file."""
    path = tmp_path / "app.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE orders (id)")
        connection.execute("INSERT INTO orders VALUES (7)")
    connection.close()
    journal = opened(path)
    begun(journal, make_ask())
    with journal._file.reader() as connection:
        assert connection.execute("SELECT id FROM orders").fetchall() == [(7,)]
    journal.close()


def test_tables_of_the_same_name_are_not_taken_for_ours(tmp_path):
    path = tmp_path / "app.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE calls (id)")
    connection.close()
    with pytest.raises(JournalError, match="calls already exists"):
        opened(path)


NEWER = (
    "state = 'frozen'",
    "kind = 'fancy'",
    "terms = replace(terms, ']', ',false,false,false,false,\"newer\"]')",
    "body = '[1]'",
)


@pytest.mark.parametrize("change", NEWER)
def test_a_record_that_a_newer_release_has_written_is_named_and_the_others_go_on(tmp_path, change):
    path = tmp_path / "new.db"

    def pay(name: str) -> str:
        return f"paid {name}"

    with settled.Guard(f"sqlite:///{path}") as guard:
        paid = guard.tool(pay, effect="write", key="{name}")
        paid("one")
        newer = paid.call(name="other").operation_id
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE calls SET {change} WHERE operation_id = ?", (newer,))
    with settled.Guard(f"sqlite:///{path}") as guard:
        paid = guard.tool(pay, effect="write", key="{name}")
        with pytest.raises(JournalError, match=f"the record of {newer} cannot be read .* a newer release"):
            paid("other")
        assert paid.call(name="one").replayed
        assert paid("third") == "paid third"


def test_a_record_that_cannot_be_read_holds_up_no_other(tmp_path):
    url = f"sqlite:///{tmp_path}/new.db"

    def send(to: str) -> str:
        raise TimeoutError

    def seen(call: settled.Call) -> settled.Inconclusive:
        return settled.Inconclusive("not now")

    with settled.Guard(url) as guard:
        sent = guard.tool(send, probe=seen, max_request_lifetime=0.0, breaker=None)
        one, poison, two = (sent.call(to=to).operation_id for to in "abc")
    with closing(sqlite3.connect(tmp_path / "new.db")) as connection, connection:
        connection.execute("UPDATE calls SET body = '[1]' WHERE operation_id = ?", (poison,))
        connection.execute("UPDATE calls SET lease_mono = 0.0")
    with settled.Guard(url) as guard:
        sent = guard.tool(send, probe=lambda call: settled.Happened("done"), max_request_lifetime=0.0, breaker=None)
        assert sent.call(to="d").status == "succeeded"
        with pytest.raises(JournalError, match=f"the record of {poison} cannot be read"):
            sent.call(to="b")
        assert asyncio.run(settled.Worker(guard).around()).settled.happened == 2
        assert [guard.look(each).status for each in (one, two)] == ["succeeded"] * 2
        assert guard.reconcile().left == 0
        [problem] = guard.journal.verify().problems
        assert problem.startswith(f"the record of {poison} cannot be read")
