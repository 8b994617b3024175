"""What cannot be opened says why and what to do, and nothing is created or executed."""

import subprocess
import sys

import pytest

import settled
from settled.errors import DeclarationError, JournalError
from settled.journals.postgres import PostgresJournal, migrate, schema
from settled.journals.postgres.address import read_address
from settled.journals.postgres.connections import Connections
from settled.journals.schema import Step
from settled.testing.records import begun, ended, make_ask
from tests.journals.support import ENVIRONMENT
from tests.servers.postgres import PostgresServer

NEXT = schema.newest() + 1
ADDITIVE = Step(NEXT, additive=True, statements=("CREATE TABLE later (one bigint)",))
CHANGING = Step(NEXT, additive=False, statements=("ALTER TABLE outbox RENAME COLUMN at TO since",))


def there(postgres, name):
    with postgres.connect() as connection:
        return connection.execute("SELECT to_regnamespace(%s) IS NOT NULL", (name,)).fetchone() == (True,)


def test_a_guard_opens_it_by_its_address(postgres, schema_name, tmp_path):
    effects = []
    for _ in range(2):
        with settled.Guard(postgres.url(schema=schema_name, spill=tmp_path / "spill")) as guard:

            @guard.tool(effect="write", key="{order}")
            def pay(order: str) -> str:
                effects.append(order)
                return f"receipt {len(effects)}"

            assert pay("7") == "receipt 1"
    assert effects == ["7"]


async def test_it_serves_asyncio(postgres, schema_name, tmp_path):
    with settled.Guard(postgres.url(schema=schema_name, spill=tmp_path / "spill")) as guard:

        @guard.tool(effect="write", key="{order}")
        async def pay(order: str) -> str:
            return f"paid {order}"

        assert await pay("7") == "paid 7"
        assert (await pay.acall("7")).replayed


def test_an_older_guard_works_on_the_schema_of_a_newer_release(open_journal, monkeypatch):
    """While a deployment rolls; its own release has opened the journal first."""
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, ADDITIVE))
    newer = open_journal()
    assert newer.check().facts["schema"] == NEXT
    monkeypatch.undo()
    older = open_journal()
    call = ended(older, begun(older, make_ask()))
    assert newer.get(call.operation_id) == call
    assert older.check().facts["works_from_schema"] == 1
    assert older.verify().ok


def test_a_step_that_adds_is_taken_at_once(open_journal, monkeypatch):
    call = begun(older := open_journal(), make_ask())
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, ADDITIVE))
    newer = open_journal()
    assert newer.check().facts["schema"] == NEXT
    assert newer.get(call.operation_id) == call
    ended(older, call)


def test_a_step_that_changes_waits_to_be_asked_for(open_journal, postgres, schema_name, tmp_path, monkeypatch):
    open_journal().close()
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, CHANGING))
    with pytest.raises(JournalError, match=rf"schema version {NEXT - 1}; the step to version {NEXT} changes.*migrate"):
        open_journal()
    url = postgres.url(schema=schema_name)
    assert migrate(url, spill=tmp_path / "spill") == (NEXT - 1, NEXT)
    assert open_journal().check().facts["schema"] == NEXT
    monkeypatch.undo()
    with pytest.raises(JournalError, match=rf"schema version {NEXT}.*upgrade settled; nothing was executed"):
        open_journal()


def test_eight_processes_create_it_together(postgres, schema_name, tmp_path):
    program = "import sys; from settled.journals.postgres import PostgresJournal as J; J(sys.argv[1]).close()"
    url = postgres.url(schema=schema_name, spill=tmp_path / "spill")
    children = [subprocess.Popen([sys.executable, "-c", program, url], env=ENVIRONMENT) for _ in range(8)]
    assert [child.wait(60) for child in children] == [0] * 8


def test_without_the_extra(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("settled.journals.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(DeclarationError, match=r"pip install 'settled\[postgres\]'"):
        settled.Guard("postgresql:///agents")


def test_it_is_loaded_only_when_it_is_used():
    program = "import sys, settled; settled.Guard('memory://').close(); assert 'psycopg' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], env=ENVIRONMENT, check=True, timeout=60)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("postgresql://user@127.0.0.1:1/db", "cannot be reached: check that it runs"),
        ("postgresql:///db?host=/nowhere", "cannot be reached: check that it runs"),
        ("postgresql://user@host/db?pool=many", "the options of a journal's address are"),
        ("postgresql://user@host/db?schema=a-b", "no plain name"),
        ("postgresql://user:secret@host/db?schemaa=1", r"no option schemaa; the journal's own are schema, pool"),
        ("postgresql://user:secret@ho st/db?schema=x", "not understood: write"),
    ],
)
def test_an_address_that_leads_nowhere(address, said, tmp_path):
    with pytest.raises(JournalError, match=said) as caught:
        settled.Guard(address, spill=tmp_path / "spill")
    assert "secret" not in str(caught.value)


def test_who_was_given_a_schema_needs_no_right_to_make_one(postgres, schema_name, tmp_path):
    role = f"owner_of_{schema_name}"
    with postgres.connect() as admin:
        admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'right'")
        admin.execute(f"CREATE SCHEMA {schema_name} AUTHORIZATION {role}")
    address = postgres.url().replace("postgres@", f"{role}@")
    with settled.Guard(address, schema=schema_name, spill=tmp_path / "spill") as guard:
        assert guard.journal.count() == {}


def test_no_such_database(postgres, tmp_path):
    with pytest.raises(JournalError, match="no such database: create it"):
        PostgresJournal(postgres.url().replace("/postgres?", "/nothing?"), spill=tmp_path / "spill")


def test_no_such_user(postgres, tmp_path):
    with pytest.raises(JournalError, match="refuses this user: correct the address"):
        PostgresJournal(postgres.url().replace("postgres@", "nobody@"), spill=tmp_path / "spill")


def test_a_missing_journal_that_must_exist(postgres, open_journal, schema_name):
    for options in ({"must_exist": True}, {"journal_id": "jn_other"}):
        with pytest.raises(JournalError, match="does not exist, and it must exist"):
            open_journal(**options)
    assert not there(postgres, schema_name)


def test_a_wrong_password_and_a_missing_right(tmp_path):
    """On a server that asks for passwords."""
    with PostgresServer() as server:
        with server.connect() as connection:
            connection.execute("CREATE ROLE agent LOGIN PASSWORD 'right'")
        rules = server.data / "pg_hba.conf"
        rules.write_text("local all postgres trust\nlocal all all scram-sha-256\n")
        server.restart()
        address = server.url().replace("postgres@", "agent:{}@")
        with pytest.raises(JournalError, match="refuses the password: correct it") as caught:
            PostgresJournal(address.format("wrong-one"), spill=tmp_path / "spill")
        assert "wrong-one" not in str(caught.value)
        with pytest.raises(JournalError, match="lacks a right: let its owner grant it"):
            PostgresJournal(address.format("right"), spill=tmp_path / "spill")
        with server.connect() as connection:
            connection.execute("ALTER ROLE agent NOLOGIN")
        with pytest.raises(JournalError, match="refuses this user: correct the address"):
            PostgresJournal(address.format("right"), spill=tmp_path / "spill")
        rules.write_text("local all postgres trust\n")
        server.restart()
        with pytest.raises(JournalError, match="refuses this user: correct the address, or the server's"):
            PostgresJournal(address.format("right"), spill=tmp_path / "spill")


def test_the_shown_address_has_no_secret():
    address, options = read_address("postgresql://me:secret@db.example:5433/agents?schema=mine&pool=2&sslpassword=s2")
    assert address.shown == "postgresql://me@db.example:5433/agents?schema=mine"
    assert options == {"pool": 2}
    assert "secret" not in repr(address)


# --- is it the right one? ---


def test_a_journal_that_was_replaced_is_refused(postgres, open_journal, schema_name):
    begun(open_journal(), make_ask())
    with postgres.connect() as connection:
        connection.execute(f'DROP SCHEMA "{schema_name}" CASCADE')
    with pytest.raises(JournalError, match="holds no tables, but a journal was in use here"):
        open_journal()
    assert not there(postgres, schema_name)


def test_another_journal_is_refused(open_journal, postgres, tmp_path, schema_name):
    first = open_journal()
    with pytest.raises(JournalError, match=f"is {first.journal_id}, and journal_id= asks for jn_other"):
        open_journal(journal_id="jn_other")
    open_journal(schema=f"{schema_name}_other", spill=tmp_path / "other").close()
    with pytest.raises(JournalError, match=r"was in use here: it was replaced.*delete .*spill-mark"):
        open_journal(schema=f"{schema_name}_other")
    with postgres.connect() as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema_name}_other" CASCADE')


def test_an_older_copy_is_refused_also_while_it_is_in_use(postgres, open_journal, schema_name):
    journal = open_journal()
    begun(journal, make_ask())
    ended(journal, begun(journal, make_ask()))
    with postgres.connect() as connection:
        connection.execute(f'ALTER TABLE "{schema_name}".log DISABLE TRIGGER USER')
        connection.execute(f'DELETE FROM "{schema_name}".log WHERE id > 1')
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'settled'")
    with pytest.raises(JournalError, match="ends at log row 1, and row 3 was seen of it: it is an older copy"):
        begun(journal, make_ask())
    journal.close()
    with pytest.raises(JournalError, match="it is an older copy"):
        open_journal()


def test_a_table_that_was_dropped(postgres, open_journal, schema_name):
    journal = open_journal()
    with postgres.connect() as connection:
        connection.execute(f'DROP TABLE "{schema_name}".calls')
    with pytest.raises(JournalError, match="a table of the journal is missing"):
        begun(journal, make_ask())


def test_errors_of_the_server_are_journal_errors(open_journal):
    journal = open_journal()
    with pytest.raises(JournalError, match="too long for PostgreSQL to index"):
        begun(journal, make_ask(key="".join(map(chr, range(1000, 5000)))))
    begun(journal, make_ask())
    assert isinstance(journal.check().facts["bytes"], int)


def test_a_connection_that_is_opened_while_others_commit(open_journal, monkeypatch):
    """What it has read of the journal is not held against what was committed since."""
    journal = open_journal()
    identity = Connections._identity

    def meanwhile(self, connection):
        found = identity(self, connection)
        begun(journal, make_ask())
        return found

    monkeypatch.setattr(Connections, "_identity", meanwhile)
    for _ in range(3):
        journal._connections.another().close()
