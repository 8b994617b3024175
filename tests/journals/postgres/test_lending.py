"""What a tool leaves in a session that was lent to it."""

from contextlib import ExitStack

import pytest

import settled
from settled.errors import JournalError
from tests.servers.pgbouncer import PgBouncer


def test_what_a_parent_had_lent_is_no_place_of_its_child(open_journal):
    lending = open_journal(pool=1, patience=0.05)._lending
    line = lending.take()
    lending.forget()  # as a child does that was forked by the tool
    lending.give_back(line)
    own = lending.take()
    assert own is not line
    with pytest.raises(JournalError, match="raise pool="):
        lending.take()
    lending.give_back(own)
    assert lending.take() is own
    lending.give_back(own)
    own.close()


LASTING = (
    "SET search_path TO nowhere",
    "SET statement_timeout TO '1ms'",
    "SET ROLE tools",
    "SET SESSION AUTHORIZATION tools",
    "SELECT pg_advisory_lock(1)",
    "CREATE TEMP TABLE lasting (x int)",
    "DECLARE held CURSOR WITH HOLD FOR SELECT 1",
    "LISTEN lasting",
)
STANDS = (
    "SELECT current_user, session_user, current_setting('search_path'), current_setting('statement_timeout'), "
    "(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 1), to_regclass('lasting')::text, "
    "(SELECT count(*) FROM pg_cursors WHERE name = 'held'), (SELECT count(*) FROM pg_listening_channels())"
)


@pytest.mark.parametrize("pooled", [False, True])
def test_nothing_of_a_tool_outlasts_its_transaction(postgres, schema_name, tmp_path, pooled):
    """Behind a pooler the same session is anybody's next."""
    with ExitStack() as stack:
        admin = stack.enter_context(postgres.connect())
        admin.execute("DROP ROLE IF EXISTS tools")
        admin.execute("CREATE ROLE tools SUPERUSER")
        server = stack.enter_context(PgBouncer(postgres, size=1)) if pooled else postgres
        guard = stack.enter_context(settled.Guard(server.url(schema=schema_name, spill=tmp_path / "spill")))

        @guard.tool(effect="transactional")
        def use(statement: str, tx: settled.Transaction) -> list[str]:
            return [str(each) for each in tx.execute(statement).fetchone() or ()] if "SELECT" in statement else []

        @guard.tool(effect="transactional")
        def leave(statement: str, tx: settled.Transaction) -> None:
            tx.execute(statement)

        before = use(STANDS)
        for statement in LASTING:
            leave(statement)
            assert use(STANDS) == before, statement
        admin.execute(f'DROP SCHEMA "{schema_name}" CASCADE')
