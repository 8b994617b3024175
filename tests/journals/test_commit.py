"""The group commit: who leads, who shares, who is told when."""

import asyncio
import signal
import threading
import time

import pytest

from settled.core.ask import Begun
from settled.core.matching.claim import Claim
from settled.errors import JournalError
from settled.journals.commit import MOST_TOGETHER, GroupCommit
from settled.journals.sqlite import SqliteJournal
from settled.ports import CallQuery
from settled.testing.records import FakeClock, Look, Raising, at_once, begun, make_ask


@pytest.fixture
def journal(tmp_path):
    journal = SqliteJournal(tmp_path / "journal.db", clock=FakeClock())
    yield journal
    journal.close()


def commits(journal):
    return journal.check().facts["commits"]


class Slow:
    """A transition that keeps the lead until it is let go."""

    def __init__(self):
        self.under_way, self.go_on = threading.Event(), threading.Event()

    def apply(self, books, now):
        self.under_way.set()
        assert self.go_on.wait(30)


@pytest.fixture
def slow(journal):
    """The lead is held by another thread, until ``slow.go_on`` is set."""
    slow = Slow()
    thread = threading.Thread(target=journal.perform, args=(slow,))
    thread.start()
    assert slow.under_way.wait(30)
    yield slow
    slow.go_on.set()
    thread.join(30)


def wait_for_queue(journal, length):
    deadline = time.monotonic() + 30
    while len(journal._commit._queue) < length:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_those_who_wait_share_one_commit(journal, slow):
    replies = []
    threads = [threading.Thread(target=lambda: replies.append(begun(journal, make_ask()))) for _ in range(20)]
    for thread in threads:
        thread.start()
    wait_for_queue(journal, 20)
    before = commits(journal)
    slow.go_on.set()
    for thread in threads:
        thread.join(30)
    assert len(replies) == 20
    assert commits(journal) == before + 1


def test_tasks_share_one_commit_too(journal, slow):
    async def main():
        replies = asyncio.gather(*(journal.aperform(Claim(make_ask())) for _ in range(50)))
        await asyncio.sleep(0)  # all have asked
        slow.go_on.set()
        return await replies

    before = commits(journal)
    replies = asyncio.run(main())
    assert all(isinstance(reply, Begun) for reply in replies)
    assert commits(journal) == before + 1


def test_a_caller_alone_pays_for_no_other_thread(journal):
    seen = []
    journal.perform(Look(lambda books: seen.append(threading.current_thread())))
    assert seen == [threading.current_thread()]
    assert journal._commit._thread is None


def test_the_event_loop_goes_on_while_the_journal_waits(journal, slow):
    """Another holds the lead, as one does who waits for a locked file: the loop must not stand still."""

    async def main():
        task = asyncio.create_task(journal.aperform(Claim(make_ask())))
        turns = 0
        for _ in range(100):
            await asyncio.sleep(0)
            turns += 1
        assert not task.done()
        slow.go_on.set()
        assert isinstance(await task, Begun)
        return turns

    assert asyncio.run(main()) == 100


def test_a_batch_is_bounded():
    sizes, gate = [], threading.Event()

    def run(batch):
        sizes.append(len(batch))
        gate.wait(30)

    group = GroupCommit(run, lambda: JournalError("closed"))
    threads = [threading.Thread(target=group.perform, args=(None,)) for _ in range(2)]

    async def many():
        for _ in range(2 * MOST_TOGETHER):
            task = asyncio.ensure_future(group.aperform(None))
            tasks.append(task)
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(*tasks)

    tasks = []
    threads[0].start()
    while not sizes:
        time.sleep(0.001)
    asyncio.run(many())
    threads[0].join(30)
    assert sizes[0] == 1
    assert max(sizes) == MOST_TOGETHER
    assert sum(sizes) == 2 * MOST_TOGETHER + 1
    assert group.close(5)


def test_nobody_is_told_before_the_commit(journal, monkeypatch):
    """The commit fails: not even the one who only looked is told what was never durable."""
    told = []

    def work(i):
        try:
            told.append(journal.perform(Claim(make_ask())))
        except JournalError:
            return "refused"
        return "told"

    connection = Refusing(journal._file.writer())
    journal._file._writer = connection
    outcomes = at_once(8, work)
    assert set(outcomes) == {"told", "refused"}
    assert sorted(reply.call.operation_id for reply in told) == sorted(
        call.operation_id for call in journal.find(CallQuery())
    )


class Refusing:
    """A connection whose first commit fails."""

    def __init__(self, connection):
        self.connection, self.refused = connection, False

    def __getattr__(self, name):
        return getattr(self.connection, name)

    def execute(self, statement, *values):
        if statement.startswith("COMMIT") and not self.refused:
            self.refused = True
            self.connection.execute("PRAGMA max_page_count = 1")  # fails as SQLite does: with an error of its own
            self.connection.execute("CREATE TABLE too_much (x)")
        return self.connection.execute(statement, *values)


def test_who_is_cancelled_leaves_the_others_alone(journal, slow):
    async def main():
        tasks = [asyncio.create_task(journal.aperform(Claim(make_ask()))) for _ in range(10)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        slow.go_on.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    outcomes = asyncio.run(main())
    assert [isinstance(outcome, Begun) for outcome in outcomes] == [False, True] * 5
    assert journal.count() == {"processing": 10}, "what was handed in is performed, whoever waits for it"


def test_a_loop_that_ended_early_stops_nobody(journal, slow):
    async def leave():
        task = asyncio.ensure_future(journal.aperform(Claim(make_ask())))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(leave())
    slow.go_on.set()
    begun(journal, make_ask())
    assert journal.count() == {"processing": 2}


def test_a_signal_in_the_leader_is_not_passed_on(journal):
    """KeyboardInterrupt while it leads: its own caller sees it, nothing stays, the journal goes on."""
    ask = make_ask()

    class Interrupted:
        def apply(self, books, now):
            Claim(ask).apply(books, now)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        journal.perform(Interrupted())
    assert journal.get(ask.operation_id) is None
    begun(journal, ask)


def test_a_signal_in_one_who_waits_leaves_the_lead_to_others(journal, slow):
    """It was to lead next: the one behind it must not wait for ever."""
    replies = []
    behind = threading.Thread(target=lambda: replies.append(begun(journal, make_ask())))

    def interrupt():
        wait_for_queue(journal, 1)  # the main thread waits
        behind.start()
        wait_for_queue(journal, 2)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        journal.perform(Claim(make_ask()))
    interrupting.join(30)
    slow.go_on.set()
    behind.join(30)
    assert len(replies) == 1


def test_a_rule_that_raises_alone_leaves_nothing(journal):
    ask = make_ask()
    with pytest.raises(ArithmeticError):
        journal.perform(Raising(ask))
    assert journal.get(ask.operation_id) is None


def test_what_was_queued_before_the_end_is_done(journal, slow):
    """Closing waits for it; what comes later is refused."""
    replies = []
    thread = threading.Thread(target=lambda: replies.append(begun(journal, make_ask())))
    thread.start()
    wait_for_queue(journal, 1)
    closing = threading.Thread(target=journal.close)
    closing.start()
    while not journal._commit._closed:
        time.sleep(0.001)
    with pytest.raises(JournalError, match="closed"):
        journal.perform(Claim(make_ask()))
    slow.go_on.set()
    thread.join(30)
    closing.join(30)
    assert len(replies) == 1
    with pytest.raises(JournalError, match="closed"):
        journal.get("op_1")


def test_its_thread_ends_with_it(journal):
    asyncio.run(journal.aperform(Claim(make_ask())))
    thread = journal._commit._thread
    assert thread.is_alive()
    journal.close()
    thread.join(30)
    assert not thread.is_alive()
