"""What whoever runs the server sets for it, its roles and its tables: it makes no journal forgetful, or blind."""

import re
import time
from contextlib import ExitStack

import pytest

import settled
from settled.errors import JournalError
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import PostgresServer

SHOWN = "SELECT current_setting('synchronous_commit')"


@pytest.mark.parametrize("pooled", [False, True])
def test_a_server_that_is_told_not_to_wait_for_its_disk_while_it_runs(tmp_path, pooled):
    """What a session has not said for itself follows the server's configuration, whenever that is read anew."""
    with ExitStack() as stack:
        server = stack.enter_context(PostgresServer())
        door = stack.enter_context(PgBouncer(server, size=4)) if pooled else server
        guard = stack.enter_context(settled.Guard(door.url(schema="settled", spill=tmp_path / "spill")))

        @guard.tool(effect="transactional")
        def look(n: int, tx: settled.Transaction) -> str:
            return tx.execute(SHOWN).fetchone()[0]

        assert look(0) == "on"
        with server.connect() as admin:
            admin.execute("ALTER SYSTEM SET synchronous_commit = off")
            admin.execute("SELECT pg_reload_conf()")
            while admin.execute(SHOWN).fetchone() != ("off",):
                time.sleep(0.05)
        time.sleep(0.3)  # as long as the other sessions may take to be told
        assert look(1) == "on"
        line = guard.journal._connections._line
        line.begin()
        answer = line.send(SHOWN)
        line.send("COMMIT")
        line.settle()
        assert answer.fetchone() == ("on",)


@pytest.fixture(scope="module")
def shared_server():
    """A server with a journal in it, and a user who may do with its tables what they allow."""
    with PostgresServer() as server:
        with settled.Guard(server.url(schema="settled", spill=server.folder("spills") / "own")) as guard:
            guard.tool(effect="write", name="pay")(lambda n: "paid")
            guard.pause("pay", by="ann", reason="the bank is closed")
        with server.connect() as admin:
            admin.execute("CREATE ROLE app LOGIN")
            admin.execute("GRANT USAGE ON SCHEMA settled TO app")
            admin.execute("GRANT ALL ON ALL TABLES IN SCHEMA settled TO app")
            admin.execute("GRANT ALL ON ALL SEQUENCES IN SCHEMA settled TO app")
        yield server


def paid(server, spill):
    """Pay with a tool that is paused, in a run, as the user of the app; return how that ended."""
    with settled.Guard(re.sub("//[^@]*@", "//app@", server.url(schema="settled", spill=spill))) as guard:

        @guard.tool(effect="write")
        def pay(n: int) -> str:
            return "paid"

        with guard.run("r"):
            return pay.call(1).status


@pytest.mark.parametrize("table", ["calls", "clock", "log", "meta", "notes", "runs", "turns"])
def test_rows_that_a_policy_hides_are_not_taken_for_rows_that_are_not_there(shared_server, tmp_path, table):
    assert paid(shared_server, tmp_path / "spill") == "rejected"
    with shared_server.connect() as admin:
        admin.execute(f"ALTER TABLE settled.{table} ENABLE ROW LEVEL SECURITY")
        admin.execute(f"CREATE POLICY hidden ON settled.{table} FOR ALL TO app USING (false) WITH CHECK (true)")
    try:
        with pytest.raises(JournalError, match="row-level security hides records from this user"):
            paid(shared_server, tmp_path / "spill")
    finally:
        with shared_server.connect() as admin:
            admin.execute(f"DROP POLICY hidden ON settled.{table}")
            admin.execute(f"ALTER TABLE settled.{table} DISABLE ROW LEVEL SECURITY")


def test_a_tools_own_rows_are_shown_to_it_as_its_policies_say(shared_server, tmp_path):
    with shared_server.connect() as admin:
        admin.execute("CREATE TABLE notes (owner text)")
        admin.execute("INSERT INTO notes VALUES ('app'), ('other')")
        admin.execute("GRANT SELECT ON notes TO app")
        admin.execute("ALTER TABLE notes ENABLE ROW LEVEL SECURITY")
        admin.execute("CREATE POLICY own ON notes TO app USING (owner = current_user)")
    address = re.sub("//[^@]*@", "//app@", shared_server.url(schema="settled", spill=tmp_path / "spill"))
    with settled.Guard(address) as guard:

        @guard.tool(effect="transactional")
        def mine(tx: settled.Transaction) -> list[str]:
            return [row[0] for row in tx.execute("SELECT owner FROM notes").fetchall()]

        assert mine() == ["app"]
