"""The journal's own thread: it cannot be started, or it is killed. Nobody waits for it for ever."""

import asyncio
import subprocess
import sys
import threading

import pytest

from settled.core.ask import Begun
from settled.core.matching.claim import Claim
from settled.errors import JournalError
from settled.journals.sqlite import SqliteJournal
from settled.testing.records import FakeClock, begun, make_ask
from tests.journals.support import ENVIRONMENT


@pytest.fixture
def journal(tmp_path):
    journal = SqliteJournal(tmp_path / "journal.db", clock=FakeClock())
    yield journal
    journal.close()


@pytest.fixture
def no_threads():
    """The system has no memory for the stack of one more thread."""
    threading.stack_size(2**46)
    yield
    threading.stack_size(0)


async def claimed(journal):
    return await asyncio.wait_for(journal.aperform(Claim(make_ask())), 30)


def test_without_a_thread_a_task_is_served_all_the_same(journal, no_threads):
    with pytest.raises(RuntimeError):
        threading.Thread(target=print).start()
    assert isinstance(asyncio.run(claimed(journal)), Begun)
    threading.stack_size(0)
    assert isinstance(asyncio.run(claimed(journal)), Begun)
    begun(journal, make_ask())
    assert journal.count() == {"processing": 3}


def test_many_tasks_are_served_without_a_thread(journal, no_threads):
    async def all_at_once():
        return await asyncio.gather(*(claimed(journal) for _ in range(20)))

    assert all(isinstance(reply, Begun) for reply in asyncio.run(all_at_once()))


class Killing:
    """What ends a thread, in the middle of its work: raised by a test's time-out, a debugger, a pool that gives up."""

    def apply(self, books, now):
        raise SystemExit


def test_what_kills_the_thread_holds_up_nobody_who_comes_later(journal):
    async def one_by_one():
        with pytest.raises(JournalError, match="interrupted"):
            await asyncio.wait_for(journal.aperform(Killing()), 30)
        return await claimed(journal)

    assert isinstance(asyncio.run(one_by_one()), Begun)
    begun(journal, make_ask())


def test_a_thread_that_is_gone_is_replaced(journal):
    asyncio.run(claimed(journal))
    thread = journal._commit._thread
    journal._commit._closed = True  # it ends, as if it had been killed while it was idle
    journal._commit._calls.put(None)
    thread.join(30)
    journal._commit._closed = False
    assert isinstance(asyncio.run(claimed(journal)), Begun)


AT_THE_END = """
import asyncio, atexit, sys
from settled.core.matching.claim import Claim
from settled.journals.sqlite import SqliteJournal
from settled.testing.records import make_ask

journal = SqliteJournal(sys.argv[1])

@atexit.register
def last():
    reply = asyncio.run(asyncio.wait_for(journal.aperform(Claim(make_ask())), 20))
    print(type(reply).__name__)
"""


def test_what_is_asked_for_while_the_interpreter_ends_is_done(tmp_path):
    """It starts no more threads then (Python 3.12 and later)."""
    words = [sys.executable, "-c", AT_THE_END, str(tmp_path / "journal.db")]
    ended = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)
    assert ended.stdout == "Begun\n", ended.stderr
