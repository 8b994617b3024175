"""Cost does not grow with the journal: few calls among many are looked for by the index that holds few."""

import pytest

from settled.core.doubt.tending import AdoptLost, TakeUp
from settled.core.states import State
from settled.journals import books, lists
from settled.journals.postgres.statements import in_schema
from settled.ports import CallQuery
from settled.testing.records import FakeClock, begun, ended, make_ask, unknown_call

MANY, FEW = 30_000, 900


@pytest.fixture
def journal(open_journal, postgres, schema_name):
    """A journal with many finished calls, and then some in doubt; the server has counted them."""
    journal = open_journal(clock=FakeClock())
    ended(journal, begun(journal, make_ask()))
    with postgres.connect() as connection:
        connection.execute(f'SET search_path = "{schema_name}"')
        multiply(connection, "succeeded", MANY)
        unknown_call(journal)
        multiply(connection, "unknown", FEW)
        connection.execute("ANALYZE calls")
    journal._given.advance(60.0)
    return journal


def multiply(connection, state, number):
    """Let there be so many more calls like the one in this state."""
    (columns,) = connection.execute(
        "SELECT string_agg(quote_ident(column_name), ', ') FROM information_schema.columns WHERE "
        "table_schema = current_schema() AND table_name = 'calls' AND column_name NOT IN ('seq', 'operation_id', 'key')"
    ).fetchone()
    connection.execute(
        f"INSERT INTO calls (operation_id, key, {columns}) SELECT operation_id || more, key || more, {columns} "
        "FROM calls, generate_series(1, %s) AS more WHERE state = %s",
        (number, state),
    )


def plan_of(journal, statement):
    """Whatever the values are: statements are planned once."""
    with journal._connections.reader() as look:
        numbered = in_schema(statement, journal._connections.address.schema, numbered=True)
        found = look.connection.execute(f"EXPLAIN (GENERIC_PLAN) {numbered}".encode()).fetchall()
    return "\n".join(row[0] for row in found)


def test_what_waits_for_somebody_is_listed_by_an_index(journal):
    queries = {
        "calls_open": [
            CallQuery(states=[State.UNKNOWN], tenant="acme"),
            CallQuery(states=[State.UNKNOWN, State.COMPENSATING]),
            CallQuery(lease_over=True),
        ],
        "calls_due": [CallQuery(past_retention=True, limit=200)],
        "calls_disputed": [CallQuery(disputed=True)],
    }
    for index, those in queries.items():
        for query in those:
            plan = plan_of(journal, lists.page(query, journal.now(), 2**40)[0])
            assert index in plan, plan


def test_calls_without_an_owner_are_found_by_an_index(journal):
    for state in (State.UNKNOWN, State.PROCESSING):
        for tools in (None, ["pay"], ["pay", "mail"]):
            plan = plan_of(journal, books.adrift(state, "acme", tools, journal.now(), 8)[0])
            assert "calls_open" in plan, plan


def test_they_are_taken_up_in_their_order(journal):
    first = journal.find(CallQuery(states=[State.UNKNOWN], limit=10_000))[::-1]
    taken = [call for _ in range(3) for call in journal.perform(TakeUp("acme", ("pay",), 4, 600.0))]
    assert [call.operation_id for call in taken] == [call.operation_id for call in first[:12]]
    assert journal.perform(AdoptLost("acme", 200)) == 0


def test_they_are_counted_by_several_processes_of_the_server(journal, postgres, schema_name):
    """It then counts all and some at once, and tells what it has first."""
    with journal._connections.reader() as look:
        for name, value in (
            ("parallel_setup_cost", "0"),
            ("parallel_tuple_cost", "0"),
            ("min_parallel_table_scan_size", "0"),
            ("min_parallel_index_scan_size", "0"),
        ):
            look.connection.execute(f"SET {name} = {value}")
        plan = look.execute(f"EXPLAIN {lists.COUNT}").fetchall()
        assert any("Parallel" in row[0] for row in plan), plan
        assert lists.count(look) == {State.SUCCEEDED: MANY + 1, State.UNKNOWN: FEW + 1}
