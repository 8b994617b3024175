"""Tools whose effect is rows in the journal's own database."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg.rows import dict_row

import settled
from settled.core.noted.pausing import Pause
from settled.journals.postgres.connections import Connections
from settled.journals.postgres.joint import JointTransactions
from settled.journals.postgres.line import Line
from settled.transaction import EndedByTool
from tests.journals.rows import TransactionalTools
from tests.journals.support import ENVIRONMENT

Tx = settled.Transaction
FORKING = """
import os, sys, settled
guard = settled.Guard(sys.argv[1])

@guard.tool(effect="transactional", attempts=1)
def book(order: str, tx: settled.Transaction) -> str:
    tx.execute(sys.argv[2], (order,))
    child = os.fork()
    if not child:
        raise SystemExit(0)
    os.waitpid(child, 0)
    return order

for number in range(3):
    print(book.call(order=str(number)).status, flush=True)
"""


@pytest.fixture
def guard(postgres, schema_name, tmp_path):
    with postgres.connect() as connection:
        connection.execute("DROP TABLE IF EXISTS orders")
        connection.execute("CREATE TABLE orders (n serial, id text)")
    url = postgres.url(schema=schema_name, spill=tmp_path / "spill")
    with settled.Guard(url) as guard:
        guard.address_in_test, guard.server_in_test = url, postgres
        yield guard


@pytest.fixture
def rows(postgres):
    def found():
        with postgres.connect() as connection:
            return [row[0] for row in connection.execute("SELECT id FROM orders ORDER BY n")]

    return found


@pytest.fixture
def lose_an_answer(monkeypatch):
    """Let one commit that wrote take effect, and fail all the same: the first one after so many others."""

    def lose(after):
        end, left = JointTransactions._end, [after]

        def lost(self, line, books, record):
            end(self, line, books, record)
            left[0] -= books.changed
            if left[0] < 0:
                monkeypatch.setattr(JointTransactions, "_end", end)
                line.close()
                raise psycopg.OperationalError("server closed the connection unexpectedly")

        monkeypatch.setattr(JointTransactions, "_end", lost)

    return lose


@pytest.fixture
def waits(monkeypatch):
    """Each wait for the server."""
    found, reach = [], Line.reach
    monkeypatch.setattr(Line, "reach", lambda line, last: (found.append(last), reach(line, last))[1])
    return found


def elsewhere(work):
    """Do it as another process does: not as part of the tool at work."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result(30)


class TestOnPostgres(TransactionalTools):
    INSERT = "INSERT INTO orders (id) VALUES (%s)"
    DICTS = staticmethod(dict_row)

    def address(self, guard):
        return guard.address_in_test

    def sessions(self, guard):
        with guard.server_in_test.connect() as connection:
            return set(connection.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'settled'"))

    @pytest.mark.parametrize("statements", [["COMMIT"], ["COMMIT", "BEGIN"], ["COMMIT AND CHAIN"]])
    @pytest.mark.parametrize("raises", [True, False])
    def test_a_commit_of_its_own_leaves_it_in_doubt(self, guard, rows, statements, raises):
        """What stands without its record is told as what it is, and waits for a person."""

        @guard.tool(effect="transactional", key="{order}")
        def book(order: str, tx: Tx) -> None:
            self.put(tx, order)
            for statement in statements:
                tx.execute(statement)
            if raises:
                raise ConnectionResetError

        assert book.call(order="7").status == "unknown"
        assert book.call(order="7").status == "unknown"
        assert rows() == ["7"]

    def test_a_commit_of_its_own_is_seen_whatever_came_meanwhile(self, guard, rows, monkeypatch):
        """The insertion sees first whether the transaction is still its own, and then what else is there."""
        do, seen = JointTransactions.do, []

        def noted(self, work):
            try:
                return do(self, work)
            except EndedByTool:
                seen.append(work.first.ask.key)
                raise

        other = settled.Guard(self.address(guard))

        def book(order: str, tx: Tx) -> str:
            self.put(tx, order)
            if order == "7" and not seen:
                monkeypatch.setattr(JointTransactions, "do", do)
                for statement in ("COMMIT", "BEGIN"):
                    tx.execute(statement)
                seen.append("ended")
                elsewhere(lambda: theirs(order="7"))
            return order

        ours, theirs = [each.tool(effect="transactional", key="{order}")(book) for each in (guard, other)]
        ours(order="6")
        monkeypatch.setattr(JointTransactions, "do", noted)
        ours.call(order="7")
        assert len(seen) == 2
        assert rows() == ["6", "7", "7"]
        other.close()

    def test_who_gets_no_connection_holds_no_place(self, guard, rows, monkeypatch):
        another, left = Connections.another, [2]

        def away(self, *, lent=False):
            left[0] -= lent
            if lent and left[0] >= 0:
                raise psycopg.OperationalError("the server is away")
            return another(self, lent=lent)

        monkeypatch.setattr(Connections, "another", away)
        with settled.Guard(f"{self.address(guard)}&pool=1") as narrow:

            @narrow.tool(effect="transactional")
            def book(order: str, tx: Tx) -> None:
                self.put(tx, order)

            book(order="7")
        assert left == [-1]
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

    def test_a_commit_that_is_refused_counts_as_an_attempt(self, guard, rows, postgres):
        with postgres.connect() as connection:
            connection.execute(
                "CREATE OR REPLACE FUNCTION never() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$"
            )
            connection.execute(
                "CREATE CONSTRAINT TRIGGER never AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED "
                "FOR EACH ROW EXECUTE FUNCTION never()"
            )

        @guard.tool(effect="transactional", retry=settled.Backoff(base=0.001))
        def book(order: str, tx: Tx) -> None:
            tries.append(order)
            self.put(tx, order)

        tries = []
        result = book.call(order="7")
        assert (result.status, result.attempts, len(tries)) == ("not_done", 3, 3)
        assert rows() == []

    @pytest.mark.parametrize("statement", ["SET search_path TO nowhere", "CREATE TEMP TABLE orders (id text)"])
    def test_a_session_is_handed_on_as_it_was(self, guard, book, rows, statement):
        @guard.tool(effect="transactional")
        def look(tx: Tx) -> int:
            return tx.execute(statement) and 1

        assert look() == 1
        assert book(order="7") == "booked 7"
        assert rows() == ["7"]

    def test_a_child_that_a_tool_has_forked(self, guard, rows):
        """It unwinds through the journal, over its parent's connection."""
        command = [sys.executable, "-c", FORKING, self.address(guard), self.INSERT]
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout.splitlines() == ["succeeded"] * 3
        assert rows() == ["0", "1", "2"]

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
        end = JointTransactions._end

        def lost(self, line, books, record):
            if not books.changed:
                return end(self, line, books, record)
            monkeypatch.setattr(JointTransactions, "_end", end)
            if landed:
                end(self, line, books, record)
            line.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

        monkeypatch.setattr(JointTransactions, "_end", lost)
        assert book.call(order="7").status == "succeeded"
        assert rows() == ["7"]
        assert book.calls == (1 if landed else 2)

    def test_a_new_call_is_three_trips(self, guard, book, waits):
        """One looks and begins, one is the tool's, one records, commits and tidies up."""
        book(order="1")
        del waits[:]
        book(order="2")
        assert len(waits) == 3, "of which the first is for what tidied up after the call before"

    def test_a_new_call_has_its_whole_log(self, guard, book, open_journal):
        """It is inserted as it stands in the end, and intent and end are there all the same."""
        journal = open_journal()
        for order in "12":
            call = journal.get(book.call(order=order).operation_id)
            assert [(row.no, row.event.value) for row in journal.log(call.operation_id)] == [
                (1, "claim"),
                (2, "succeed"),
            ]
            assert (call.log_no, call.state.value) == (2, "succeeded")
        assert journal.verify().ok
        assert journal.seal()
        assert journal.verify().ok

    def test_what_comes_while_the_tool_is_at_work(self, guard, rows):
        """The look has found nothing, and yet the key is there at the end: its own row is rolled back."""
        other = settled.Guard(self.address(guard))
        calls = []

        def book(order: str, tx: Tx) -> str:
            calls.append(order)
            if len(calls) == 2:
                assert elsewhere(lambda: theirs(order=order)) == "3 th"
            self.put(tx, f"{order}, {len(calls)}")
            return f"{len(calls)} th"

        ours, theirs = [each.tool(effect="transactional", key="{order}")(book) for each in (guard, other)]
        ours(order="6")
        result = ours.call(order="7")
        assert (result.value, len(calls)) == ("3 th", 3)
        assert rows() == ["6, 1", "7, 3"]
        other.close()

    def test_a_tool_that_was_paused_elsewhere_is_not_called(self, guard, book, rows, open_journal):
        book(order="7")
        open_journal().perform(Pause("book", "ann", "test", resume=False, nonce="p"))
        assert book.call(order="8").reason == "paused"
        assert (book.calls, rows()) == (1, ["7"])

    def test_a_pause_does_not_wait_for_a_tool_at_work(self, guard, rows, open_journal):
        @guard.tool(effect="transactional", attempts=1)
        def book(order: str, tx: Tx) -> None:
            self.put(tx, order)
            if order == "8":
                open_journal(patience=0.5).perform(Pause("book", "ann", "test", resume=False, nonce="p"))

        book(order="7")
        assert book.call(order="8").reason == "paused"
        assert rows() == ["7"]

    def test_a_tool_that_takes_its_time(self, guard, rows, monkeypatch):
        """The time is asked for anew."""
        monkeypatch.setattr("settled.journals.postgres.joint.FRESH", 0.01)

        @guard.tool(effect="transactional")
        def book(order: str, tx: Tx) -> None:
            self.put(tx, order)
            tx.execute("SELECT pg_sleep(0.05)")

        for order in "78":
            book(order=order)
        assert rows() == ["7", "8"]

    def test_a_connection_that_was_lost_meanwhile(self, guard, book, rows, postgres):
        book(order="7")
        with postgres.connect() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'settled'"
            )
        result = book.call(order="8")
        assert (result.status, result.attempts, book.calls) == ("succeeded", 1, 2)
        assert rows() == ["7", "8"]

    @pytest.mark.parametrize("when", ["before the last statement", "after it"])
    def test_a_connection_that_is_lost_while_the_tool_is_at_work(self, guard, rows, postgres, when):
        """What was written is gone with it for sure, and is written again."""

        @guard.tool(effect="transactional", retry=settled.Backoff(base=0.001))
        def book(order: str, tx: Tx) -> str:
            tries.append(order)
            self.put(tx, order)
            if len(tries) == 2:
                with postgres.connect() as connection:
                    connection.execute("SELECT pg_terminate_backend(%s, 5000)", (tx.connection.info.backend_pid,))
                if when != "after it":
                    self.put(tx, order)
            return order

        tries = []
        assert book(order="6") == "6"
        result = book.call(order="7")
        assert (result.status, result.attempts, len(tries)) == ("succeeded", 2, 3)
        assert rows() == ["6", "7"]

    def test_who_finds_that_nothing_is_to_be_done_needs_no_connection(self, guard, rows):
        """All are held by tools at work, and a call that is on record is answered all the same."""
        go_on, at_work = threading.Event(), threading.Semaphore(0)

        @guard.tool(effect="transactional", key="{order}")
        def book(order: str, tx: Tx) -> str:
            if order != "0":
                at_work.release()
                go_on.wait(30)
            self.put(tx, order)
            return order

        book(order="0")
        threads = [threading.Thread(target=book, kwargs={"order": str(number)}) for number in range(1, 5)]
        for thread in threads:
            thread.start()
        for _ in threads:
            assert at_work.acquire(timeout=30)
        assert book.call(order="0").replayed
        go_on.set()
        for thread in threads:
            thread.join(30)
        assert sorted(rows()) == list("01234")

    def test_texts_go_as_ever(self, guard):
        """How the journal keeps awkward texts is its own affair."""

        @guard.tool(effect="transactional")
        def look(tx: Tx) -> list:
            return [*tx.execute("SELECT %s::text, 7", ("\x1a0041",)).fetchone()]

        assert look() == ["\x1a0041", 7]
