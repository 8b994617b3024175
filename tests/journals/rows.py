"""What holds of transactional tools on every journal that has them: the rows are there exactly when the record is."""

import asyncio
import signal
import subprocess
import sys
import threading

import pytest
from sqlalchemy import text

import settled
from settled.core.encoding import codec
from settled.core.states import State
from settled.ports import CallQuery
from tests.journals.support import ENVIRONMENT
from tests.waiting import until

Tx = settled.Transaction


BOOKER = """
import itertools, os, sys, threading, settled
guard = settled.Guard(sys.argv[1])

@guard.tool(effect="transactional", key="{order}")
def book(order: str, tx: settled.Transaction) -> str:
    tx.execute(sys.argv[2], (order,))
    return order

def work(name):
    for number in itertools.count():
        os.write(1, f"{book(order=f'{name}-{number}')}\\n".encode())  # in one piece, among four threads

for name in "abc":
    threading.Thread(target=work, args=(name,), daemon=True).start()
work("d")
"""


class Declined(Exception):  # noqa: N818 - what a tool raises, by any name
    """What a tool raises."""


class TransactionalTools:
    """Subclasses have fixtures ``guard``, ``rows`` (returns what stands in ``orders``) and ``lose_an_answer``."""

    INSERT = ""
    DICTS = None
    """A row factory that makes dictionaries."""

    def address(self, guard):
        """Return where the journal is, for another process."""
        raise NotImplementedError  # each journal has its own; a subclass that forgets it fails

    def sessions(self, guard):
        """Return the server's sessions of all that use the journal, where there is a server."""
        return set()

    def put(self, tx, order):
        """Write one row, as a tool does."""
        tx.execute(self.INSERT, (order,))

    @pytest.fixture
    def book(self, guard):
        """A tool that does what its arguments say, and counts how often."""

        @guard.tool(effect="transactional", key="{order}", retry=settled.Backoff(base=0.001))
        def book(order: str, tx: Tx, fail: int = 0, how: str = "lost") -> str:
            book.calls += 1
            self.put(tx, order)
            if book.calls <= fail:
                raise {"lost": ConnectionResetError, "declined": Declined, "time": TimeoutError}[how](order)
            return f"booked {order}"

        book.calls = 0
        return book

    def test_row_and_record_stand_together(self, guard, book, rows):
        assert book(order="7") == "booked 7"
        again = book.call(order="7")
        assert (again.value, again.replayed, book.calls) == ("booked 7", True, 1)
        assert rows() == ["7"]
        assert [str(row.event) for row in guard.journal.log(again.operation_id)] == ["claim", "succeed"]

    def test_what_raises_is_rolled_back_and_made_again(self, guard, book, rows):
        result = book.call(order="7", fail=2)
        assert (result.status, result.attempts, book.calls) == ("succeeded", 3, 3)
        assert rows() == ["7"]
        details = [row.detail for row in guard.journal.log(result.operation_id)]
        assert [detail.partition("/")[2] for detail in details] == ["", "none", "", "none", "", ""]

    @pytest.mark.parametrize("how", ["lost", "declined", "time"])
    def test_it_is_never_in_doubt(self, guard, book, rows, how):
        """Whatever is raised, even what leaves any other tool in doubt."""
        result = book.call(order="7", fail=9, how=how)
        assert (result.status, book.calls) == ("not_done", 3)
        assert rows() == []
        assert guard.journal.count() == {State.NOT_DONE: 1}

    def test_other_arguments_under_the_key_are_a_conflict(self, book, rows):
        book(order="7")
        assert book.call(order="7", fail=1).status == "conflict"
        assert (rows(), book.calls) == (["7"], 1)

    def test_a_final_refusal_is_kept(self, guard, rows):
        @guard.tool(effect="transactional", key="{order}")
        def book(order: str, tx: Tx) -> str:
            self.put(tx, order)
            raise settled.NotExecuted("sold_out")

        assert [book.call(order="7").status for _ in range(2)] == ["failed", "failed"]
        assert rows() == []

    @pytest.mark.parametrize("how", ["commit", "rollback"])
    def test_the_transaction_is_the_journals_to_end(self, guard, rows, how):
        @guard.tool(effect="transactional", attempts=1)
        def book(order: str, tx: Tx) -> None:
            self.put(tx, order)
            getattr(tx.connection, how)()

        assert book.call(order="7").status == "not_done"
        assert rows() == []

    def test_what_does_not_pass_its_own_check_is_rolled_back(self, guard, rows):
        @guard.tool(effect="transactional", verify=lambda value: value != "bad", attempts=1)
        def book(order: str, tx: Tx) -> str:
            self.put(tx, order)
            return order

        assert [book.call(order=order).status for order in ("bad", "good")] == ["not_done", "succeeded"]
        assert rows() == ["good"]

    def test_a_session_of_sqlalchemy(self, guard, rows):
        @guard.tool(effect="transactional", attempts=1)
        def book(order: str, tx: Tx, *, ends: bool = False) -> int:
            tx.session.execute(text("INSERT INTO orders (id) VALUES (:id)"), {"id": order})
            with tx.session.begin_nested() as savepoint:
                tx.session.execute(text("INSERT INTO orders (id) VALUES (:id)"), {"id": "undone"})
                savepoint.rollback()
            if ends:
                raise Declined
            return tx.session.execute(text("SELECT count(*) FROM orders")).scalar_one()

        assert book(order="7") == 1
        assert book.call(order="8", ends=True).status == "not_done"
        assert book(order="9") == 2
        assert rows() == ["7", "9"]

    def test_a_call_inside_would_outlive_a_rollback(self, guard, rows):
        @guard.tool(effect="write")
        def mail(to: str) -> str:
            return to

        @guard.tool(effect="read")
        def look(name: str) -> str:
            return name

        @guard.tool(effect="transactional", attempts=1)
        def book(order: str, tx: Tx, *, mails: bool) -> str:
            self.put(tx, order)
            return mail(to=order) if mails else look(name=order)

        refused = book.call(order="7", mails=True)
        assert (refused.status, rows()) == ("not_done", [])
        assert "inside of a transactional tool" in refused.message
        assert book(order="8", mails=False) == "8"
        assert mail(to="outside") == "outside"

    def test_a_run_is_not_entered_inside(self, guard, rows):
        @guard.tool(effect="transactional", attempts=1)
        def book(order: str, tx: Tx) -> None:
            self.put(tx, order)
            with guard.run("inner"):
                pass

        refused = book.call(order="7")
        assert (refused.status, rows()) == ("not_done", [])
        assert "inside of a transactional tool" in refused.message

    def test_the_answer_to_a_later_attempts_commit_is_lost(self, guard, book, rows, lose_an_answer):
        """Its record is found under its number: nothing is run again, and all hear of the same result."""
        lose_an_answer(after=1)
        result = book.call(order="7", fail=1)
        assert (result.status, book.calls, rows()) == ("succeeded", 2, ["7"])
        again = book.call(order="7", fail=1)
        assert (again.value, again.replayed, rows()) == (result.value, True, ["7"])

    def test_what_a_tool_changes_of_the_connection_ends_with_it(self, guard, rows):
        @guard.tool(effect="transactional", attempts=1)
        def book(order: str, tx: Tx) -> str:
            self.put(tx, order)
            tx.connection.row_factory = self.DICTS
            return order

        @guard.tool(effect="write")
        def pay(amount: int) -> int:
            return amount

        assert book(order="7") == "7"
        assert pay(amount=3) == 3
        assert book(order="8") == "8"
        assert rows() == ["7", "8"]

    def test_a_run_that_is_entered_again_finds_it_done(self, guard, rows):
        @guard.tool(effect="transactional")
        def book(order: str, tx: Tx) -> str:
            self.put(tx, order)
            return order

        for _ in range(2):
            with guard.run("trip"):
                book(order="7")
                book(order="7")
        assert rows() == ["7", "7"]

    def test_the_runs_state_is_in_the_same_commit(self, guard, rows):
        @guard.tool(effect="transactional")
        def book(order: str, tx: Tx) -> str:
            self.put(tx, order)
            return order

        with guard.run("trip") as run:
            run.state["booked"] = "7"
            book(order="7")
            assert run.saved_state == {"booked": "7"}

    def test_a_run_is_undone_in_rows_too(self, guard, rows):
        @guard.tool(effect="transactional")
        def cancel(order: str, tx: Tx) -> None:
            tx.execute(
                self.INSERT.replace("INSERT INTO orders (id) VALUES (", "DELETE FROM orders WHERE id = ("), (order,)
            )

        @guard.tool(effect="transactional", compensate=cancel)
        def book(order: str, tx: Tx) -> str:
            self.put(tx, order)
            return order

        with pytest.raises(Declined), guard.run("trip", on_error="compensate"):  # noqa: PT012 - the run is what raises
            book(order="7")
            book(order="8")
            assert rows() == ["7", "8"]
            raise Declined
        assert rows() == []
        assert guard.journal.count() == {State.COMPENSATED: 2, State.SUCCEEDED: 2}

    def test_many_at_once_book_each_order_once(self, guard, book, rows):
        results = []

        def work():
            results.extend(book.call(order=str(number), fail=0) for number in range(10))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(results) == 40
        assert {result.status for result in results} == {"succeeded"}
        assert sorted(rows()) == sorted(map(str, range(10)))

    async def test_it_serves_asyncio(self, book, rows):
        results = await asyncio.gather(*(book.acall(order=str(number % 3)) for number in range(9)))
        assert {result.value for result in results} == {"booked 0", "booked 1", "booked 2"}
        assert sorted(rows()) == ["0", "1", "2"]

    async def test_who_is_cancelled_leaves_nothing_or_all_of_it(self, guard, rows):
        started, go_on = threading.Event(), threading.Event()

        @guard.tool(effect="transactional")
        def book(order: str, tx: Tx) -> str:
            started.set()
            go_on.wait(30)
            self.put(tx, order)
            return order

        with guard.run("trip"):
            task = asyncio.create_task(book.acall(order="7"))
            await asyncio.to_thread(started.wait, 30)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            go_on.set()
            told = (await book.acall(order="7")).status
            assert (told, rows()) in [("succeeded", ["7"]), ("not_done", [])]
        with guard.run("trip"):
            assert (await book.acall(order="7")).status == "succeeded"
        assert rows() == ["7"]

    @pytest.mark.parametrize("lines", [1, 20, 100])
    def test_a_kill_at_any_moment(self, guard, rows, lines):
        """Rows and records are the same set, whatever the moment; what was told stands."""
        guard.journal.find(CallQuery())
        others = self.sessions(guard)
        command = [sys.executable, "-c", BOOKER, self.address(guard), self.INSERT]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
        told = [child.stdout.readline().strip() for _ in range(lines)]
        child.send_signal(signal.SIGKILL)
        child.wait(60)
        rest = child.stdout.read()
        child.stdout.close()
        told += rest.splitlines() if rest.endswith("\n") else rest.splitlines()[:-1]
        until(lambda: self.sessions(guard) <= others, "the server has seen that its client is gone")
        calls = guard.journal.find(CallQuery(limit=10_000))
        booked = [codec.loads(call.arguments)["order"] for call in calls if call.state is State.SUCCEEDED]
        assert {call.state for call in calls} <= {State.SUCCEEDED}
        assert sorted(booked) == sorted(rows())
        assert set(told) <= set(booked)
        assert len(set(booked)) == len(booked)

    def test_ctrl_c_inside_rolls_back(self, guard, rows):
        @guard.tool(effect="transactional", key="{order}")
        def book(order: str, tx: Tx) -> str:
            self.put(tx, order)
            if not rows_seen:
                rows_seen.append(order)
                raise KeyboardInterrupt
            return order

        rows_seen = []
        with pytest.raises(KeyboardInterrupt):
            book(order="7")
        assert rows() == []
        assert book(order="7") == "7"
        assert rows() == ["7"]

    def test_the_transaction_ends_with_the_tool(self, guard):
        @guard.tool(effect="transactional")
        def book(order: str, tx: Tx) -> str:
            kept.append(tx)
            return order

        kept = []
        book(order="7")
        with pytest.raises(RuntimeError, match="is over"):
            kept[0].execute("SELECT 1")
