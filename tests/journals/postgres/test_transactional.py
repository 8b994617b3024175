"""Tools whose effect is rows in the journal's own database."""

import psycopg
import pytest

import settled
from settled.journals.postgres.transactions import Transactions
from tests.journals.rows import TransactionalTools

Tx = settled.Transaction


@pytest.fixture
def guard(postgres, schema_name, tmp_path):
    with postgres.connect() as connection:
        connection.execute("DROP TABLE IF EXISTS orders")
        connection.execute("CREATE TABLE orders (n serial, id text)")
    url = postgres.url(schema=schema_name, spill=tmp_path / "spill")
    with settled.Guard(url) as guard:
        guard.address_in_test = url
        yield guard


@pytest.fixture
def rows(postgres):
    def found():
        with postgres.connect() as connection:
            return [row[0] for row in connection.execute("SELECT id FROM orders ORDER BY n")]

    return found


class TestOnPostgres(TransactionalTools):
    INSERT = "INSERT INTO orders (id) VALUES (%s)"

    def address(self, guard):
        return guard.address_in_test

    def test_a_commit_of_its_own_leaves_it_in_doubt(self, guard, rows):
        """What stands without its record is told as what it is, and waits for a person."""

        @guard.tool(effect="transactional", key="{order}")
        def book(order: str, tx: Tx) -> None:
            self.put(tx, order)
            tx.execute("COMMIT")

        assert book.call(order="7").status == "unknown"
        assert book.call(order="7").status == "unknown"
        assert rows() == ["7"]

    def test_an_error_that_the_tool_has_swallowed(self, guard, rows):
        @guard.tool(effect="transactional", attempts=1)
        def book(order: str, tx: Tx) -> str:
            self.put(tx, order)
            with pytest.raises(psycopg.Error):
                tx.execute("SELECT no_such_column")
            return order

        assert book.call(order="7").status == "not_done"
        assert rows() == []

    def test_a_serialization_failure_is_made_again(self, guard, rows):
        @guard.tool(effect="transactional", retry=settled.Backoff(base=0.001))
        def book(order: str, tx: Tx) -> str:
            self.put(tx, order)
            tries.append(order)
            if len(tries) == 1:
                tx.execute("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$")
            return order

        tries = []
        assert book.call(order="7").attempts == 2
        assert rows() == ["7"]

    @pytest.mark.parametrize("landed", [True, False])
    def test_a_commit_whose_answer_is_lost(self, guard, book, rows, monkeypatch, landed):
        end = Transactions._end

        def lost(self, line, books, record):
            if not books.changed:
                return end(self, line, books, record)
            monkeypatch.setattr(Transactions, "_end", end)
            if landed:
                end(self, line, books, record)
            line.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

        monkeypatch.setattr(Transactions, "_end", lost)
        assert book.call(order="7").status == "succeeded"
        assert rows() == ["7"]
        assert book.calls == (1 if landed else 2)

    def test_texts_go_as_ever(self, guard):
        """How the journal keeps awkward texts is its own affair."""

        @guard.tool(effect="transactional")
        def look(tx: Tx) -> list:
            return [*tx.execute("SELECT %s::text, 7", ("\x1a0041",)).fetchone()]

        assert look() == ["\x1a0041", 7]
