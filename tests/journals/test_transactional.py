"""Tools whose effect is rows in the journal's own file."""

import sqlite3
import threading

import pytest

import settled
from settled.errors import JournalError
from settled.journals import commit
from settled.journals.sqlite.transactions import Transactions
from tests.journals.rows import TransactionalTools

Tx = settled.Transaction


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "agent.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE orders (id TEXT)")
    connection.close()
    return path


@pytest.fixture
def guard(path):
    with settled.Guard(f"sqlite:///{path}") as guard:
        yield guard


@pytest.fixture
def rows(path):
    def found():
        with sqlite3.connect(path) as connection:
            ids = [row[0] for row in connection.execute("SELECT id FROM orders ORDER BY rowid")]
        connection.close()
        return ids

    return found


@pytest.fixture
def lose_an_answer(monkeypatch):
    """Let one commit take effect, and fail all the same: the first one that comes after so many others."""

    def lose(after):
        commit, left = Transactions._commit, [after]

        def lost(self, connection):
            commit(self, connection)
            left[0] -= 1
            if left[0] < 0:
                monkeypatch.setattr(Transactions, "_commit", commit)
                raise sqlite3.OperationalError("disk I/O error")

        monkeypatch.setattr(Transactions, "_commit", lost)

    return lose


def as_dict(cursor, row):
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}


async def anote():
    pass


class TestOnSqlite(TransactionalTools):
    INSERT = "INSERT INTO orders (id) VALUES (?)"
    DICTS = staticmethod(as_dict)

    def address(self, guard):
        return guard.journal.url

    def test_it_costs_one_commit(self, guard, book):
        before = guard.journal.check().facts["commits"]
        book(order="7")
        assert guard.journal.check().facts["commits"] == before + 1

    @pytest.mark.parametrize("note", [lambda: None, anote])
    def test_a_tool_that_waits_for_a_call_of_its_own_thread_is_not_waited_for_forever(
        self, guard, rows, monkeypatch, note
    ):
        monkeypatch.setattr(commit, "LONGEST_ALONE", 0.2)
        told = []
        guard.tool(effect="write", name="note")(note)

        def call():
            try:
                guard.dispatch("note", {})
            except JournalError as error:
                told.append(str(error))

        @guard.tool(effect="transactional")
        def wait(transaction: Tx) -> int:
            thread = threading.Thread(target=call)
            thread.start()
            thread.join(30)
            return len(told)

        assert wait() == 1
        assert "make such calls before it or after it" in told[0]
        assert guard.dispatch("note", {}).ok

    @pytest.mark.parametrize("statement", ["COMMIT", "END", "ROLLBACK", "ATTACH ':memory:' AS other", "BEGIN"])
    def test_no_statement_ends_it(self, guard, rows, statement):
        @guard.tool(effect="transactional", attempts=1)
        def book(order: str, tx: Tx) -> None:
            self.put(tx, order)
            tx.execute(statement)

        guard.tool(name="warm", effect="write")(lambda: 1)()  # the journal has such statements prepared
        assert book.call(order="7").status == "not_done"
        assert rows() == []

    @pytest.mark.parametrize("raises", [True, False])
    def test_a_conflict_clause_that_rolls_back(self, guard, path, rows, raises):
        """What is written after that stands by itself, in a savepoint or not: nobody can say what of it stands."""
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE seats (id UNIQUE ON CONFLICT ROLLBACK)")
            connection.execute("INSERT INTO seats VALUES (1)")
        connection.close()

        @guard.tool(effect="transactional")
        def book(order: str, tx: Tx) -> str:
            self.put(tx, order)
            with pytest.raises(sqlite3.IntegrityError):
                tx.execute("INSERT INTO seats VALUES (1)")
            self.put(tx, "waiting list")
            tx.execute("SAVEPOINT more")
            if raises:
                raise ConnectionResetError
            return order

        assert book.call(order="7").status == "unknown"
        assert rows() == ["waiting list"]

    @pytest.mark.parametrize(
        "statement",
        ["CREATE TEMP TABLE calls (x)", "CREATE TEMP VIEW meta AS SELECT 1", "PRAGMA locking_mode = EXCLUSIVE"],
    )
    def test_nothing_is_put_before_the_journals_tables(self, guard, rows, statement):
        @guard.tool(effect="transactional", attempts=1)
        def book(order: str, tx: Tx) -> None:
            self.put(tx, order)
            tx.execute(statement)

        assert book.call(order="7").status == "not_done"
        assert rows() == []
        assert guard.journal.verify().ok

    def test_a_connection_that_a_tool_has_closed(self, guard, book, rows):
        @guard.tool(effect="transactional", attempts=1)
        def close(order: str, tx: Tx) -> None:
            self.put(tx, order)
            tx.connection.text_factory = bytes
            tx.connection.close()

        assert close.call(order="7").status == "not_done"
        assert book(order="8") == "booked 8"
        assert rows() == ["8"]

    @pytest.mark.parametrize("landed", [True, False])
    def test_a_commit_whose_answer_is_lost(self, guard, book, rows, monkeypatch, landed):
        commit = Transactions._commit

        def lost(self, connection):
            monkeypatch.setattr(Transactions, "_commit", commit)
            if landed:
                commit(self, connection)
            raise sqlite3.OperationalError("disk I/O error")

        monkeypatch.setattr(Transactions, "_commit", lost)
        result = book.call(order="7")
        assert result.status == ("succeeded" if landed else "not_done")
        assert rows() == (["7"] if landed else [])
        assert book.call(order="7").status == "succeeded"
        assert rows() == ["7"]

    def test_a_journal_that_is_away_afterwards(self, guard, book, rows, monkeypatch):
        """Neither the commit nor what became of it can be told: the asker hears of no outcome."""

        def lost(self, connection):
            raise sqlite3.OperationalError("disk I/O error")

        with monkeypatch.context() as broken:
            broken.setattr(Transactions, "_commit", lost)
            with pytest.raises(JournalError):
                book(order="7")
        assert rows() == []
        assert book(order="7") == "booked 7"
        assert rows() == ["7"]


DECLARED_WRONG = {
    "no parameter": (lambda order: order, {}, "has a parameter annotated settled.Transaction"),
    "not transactional": (lambda order, tx: order, {"effect": "write"}, "no other tool is given one"),
    "time-out": (lambda order, tx: order, {"timeout": 3.0}, "set a limit in the database"),
    "probe": (lambda order, tx: order, {"probe": lambda call: None, "max_request_lifetime": 1.0}, "never in doubt"),
}


@pytest.mark.parametrize("name", DECLARED_WRONG)
def test_a_declaration_that_cannot_work(guard, name):
    function, options, said = DECLARED_WRONG[name]
    function.__annotations__ = {"order": str} | ({"tx": Tx} if "tx" in function.__code__.co_varnames else {})
    function.__name__ = "book"
    with pytest.raises(settled.DeclarationError, match=said):
        guard.tool(**{"effect": "transactional", **options})(function)


def test_an_async_tool_is_refused(guard):
    async def book(order: str, tx: Tx) -> str:
        return order

    with pytest.raises(settled.DeclarationError, match="plain function"):
        guard.tool(effect="transactional")(book)


def test_a_journal_in_memory_has_no_rows():
    def book(order: str, tx: Tx) -> str:
        return order

    with settled.Guard("memory://") as guard, pytest.raises(settled.DeclarationError, match="SQLite or PostgreSQL"):
        guard.tool(effect="transactional")(book)
