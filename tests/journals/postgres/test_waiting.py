"""Waiting for another process's answer: heard of at once from the server, asked for where a pooler stands between."""

import resource
import threading
import time
from contextlib import ExitStack

import pytest

import settled
from settled.core.attempts.progress import End
from settled.core.doubt.late import Evidence
from settled.core.doubt.settling import Resolve
from settled.core.matching.claim import Claim
from settled.journals.postgres import PostgresJournal
from settled.journals.postgres.ear import Ear
from settled.testing.records import begun, ended, make_ask, unknown_call
from tests.journals.support import forked
from tests.servers.pgbouncer import PgBouncer


class Waiter:
    """Notes when it is woken, as the drivers' presence would."""

    def __init__(self, journal):
        self.journal, self.event, self.woken = journal, threading.Event(), 0

    def wake(self, operation_id):
        self.woken += 1
        self.event.set()

    def listen(self, operation_id):
        """Wait until the call is listened for."""
        self.journal.ear.heed(operation_id, self.wake)
        assert self.event.wait(30)
        self.event.clear()
        return self

    def told(self):
        return self.event.wait(30)


def hears(journal, call):
    """Wait until the next change is sure to be heard of."""
    end = time.monotonic() + 30
    while not journal.ear.hears(call.operation_id):
        assert time.monotonic() < end
        time.sleep(0.01)
    return True


@pytest.mark.parametrize("how", ["end", "evidence", "verdict"])
def test_who_waits_is_told_of_the_end(open_journal, how):
    mine, other = open_journal(), open_journal()
    call = unknown_call(mine) if how == "verdict" else begun(mine, make_ask())
    waiter = Waiter(other).listen(call.operation_id)
    assert hears(other, call)
    ways = {
        "end": End(call.operation_id, 1, 1, None, b"1"),
        "evidence": Evidence(call.operation_id, 1, None, b"1"),
        "verdict": Resolve(call.operation_id, "happened", "eva", "seen", epoch=call.epoch),
    }
    mine.perform(ways[how])
    assert waiter.told()
    assert not other.ear.hears(call.operation_id), "the next change is another one to wait for"
    assert other.get(call.operation_id).state == "succeeded"


def test_nobody_is_told_of_other_calls_or_of_what_was_rolled_back(open_journal):
    mine, other = open_journal(), open_journal()
    calls = [begun(mine, make_ask()) for _ in range(3)]
    waiter = Waiter(other).listen(calls[0].operation_id)
    ended(mine, calls[1])

    class EndAndRaise:
        def apply(self, books, now):
            End(calls[0].operation_id, 1, 1, None).apply(books, now)
            books.look("SELECT count(*) FROM runs")  # what was written is sent, in a savepoint
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        mine.perform(EndAndRaise())
    last = Waiter(other).listen(calls[2].operation_id)
    ended(mine, calls[2])
    assert last.told()
    assert waiter.woken == 1
    ended(mine, calls[0])
    assert waiter.told()


def test_an_end_just_before_it_is_listened_for_is_not_missed(open_journal):
    """Hundreds of ends race with as many who begin to wait: each is woken after the end, by whichever way."""
    mine, other = open_journal(), open_journal()
    for _ in range(150):
        call = begun(mine, make_ask())
        seen = []

        def look(operation_id, seen=seen, call=call):
            seen.append(other.get(call.operation_id).state)

        ender = threading.Thread(target=ended, args=(mine, call))
        ender.start()
        other.ear.heed(call.operation_id, look)
        ender.join(30)
        end = time.monotonic() + 30
        while "succeeded" not in seen:
            assert time.monotonic() < end, seen
            time.sleep(0.001)


def test_who_joins_others_and_looked_before_they_were_listened_for_asks(open_journal):
    """The call ends after the look of a second waiter, and before the first one's wish is heeded."""
    mine, other = open_journal(), open_journal()
    call = begun(mine, make_ask())
    first = Waiter(other)
    other.get(call.operation_id)  # the second one's look
    ended(mine, call)
    first.listen(call.operation_id)
    other.ear.heed(call.operation_id, first.wake)  # the second one: it is listened for already, so nobody is woken
    assert not other.ear.hears(call.operation_id), "it would sleep although all is over"
    assert hears(other, call), "who looks again relies on it"


def test_where_the_session_is_lost_the_waiters_are_told_to_ask(open_journal, postgres):
    mine, other = open_journal(), open_journal()
    call = begun(mine, make_ask())
    waiter = Waiter(other).listen(call.operation_id)
    with postgres.connect() as connection:
        pid = other.ear._link.info.backend_pid
        connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
    assert waiter.told()
    assert not other.ear.hears(call.operation_id)
    other.ear.heed(call.operation_id, waiter.wake)
    assert not other.ear.hears(call.operation_id), "not tried again at once"


def test_a_process_with_a_thousand_open_files_hears_too(open_journal, tmp_path):
    mine, other = open_journal(), open_journal()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, limits[1]), limits[1]))
        files.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        for _ in range(1100):
            files.enter_context((tmp_path / "any").open("w"))
        call = begun(mine, make_ask())
        waiter = Waiter(other).listen(call.operation_id)
        assert hears(other, call)
        ended(mine, call)
        assert waiter.told()
        thread = other.ear._thread
    assert thread is other.ear._thread is not None, "it goes on"


def test_a_session_is_given_back_when_nobody_waits(open_journal, monkeypatch):
    monkeypatch.setattr("settled.journals.postgres.ear._LINGER", 0.0)
    monkeypatch.setattr("settled.journals.postgres.ear._IDLE", 0.1)
    mine, other = open_journal(), open_journal()
    call = begun(mine, make_ask())
    waiter = Waiter(other).listen(call.operation_id)
    thread = other.ear._thread
    other.ear.leave(call.operation_id)
    thread.join(30)
    assert other.ear._link is None
    waiter.listen(call.operation_id)
    ended(mine, call)
    assert waiter.told()


def test_a_forked_child_listens_for_itself(open_journal):
    import os  # noqa: PLC0415 - where the fork is

    mine, other = open_journal(), open_journal()
    calls = [begun(mine, make_ask()) for _ in range(2)]
    waiter = Waiter(other).listen(calls[0].operation_id)
    pid = forked()
    if not pid:
        code = 1
        try:
            child = Waiter(other).listen(calls[1].operation_id)
            ended(mine, calls[1])
            code = 0 if child.told() else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    ended(mine, calls[0])
    assert waiter.told()


def two_guards(postgres, schema, tmp_path, url=None):
    """Two guards as two processes have them, each with the tool; what it does is up to the test."""
    guards, gates = [], [threading.Event(), threading.Event()]
    for name in ("one", "two"):
        address = (url or postgres.url)(schema=schema, spill=tmp_path / name)
        guard = settled.Guard(PostgresJournal(address))
        guards.append(guard)

        @guard.tool(effect="write", key="{order}")
        def pay(order: str) -> str:
            gates[0].set()
            assert gates[1].wait(60)
            return f"paid {order}"

    return guards, gates


def both_ask(guards, gates, before_the_end=lambda: None):
    """One makes the call, the other waits for it; return what the second was told, and how often it looked."""
    looks, results = [], []
    journal = guards[1].journal
    perform = journal.perform
    journal.perform = lambda t: (looks.append(t) if isinstance(t, Claim) else None, perform(t))[1]
    first = threading.Thread(target=lambda: guards[0].tools["pay"]("7"))
    first.start()
    assert gates[0].wait(60)
    second = threading.Thread(target=lambda: results.append(guards[1].tools["pay"].options(wait=60.0).call("7")))
    second.start()
    before_the_end()
    gates[1].set()
    first.join(60)
    second.join(60)
    for guard in guards:
        guard.close()
    return results[0], looks


def test_an_asker_sleeps_until_it_hears(postgres, schema_name, tmp_path):
    """Two seconds, and two or three looks: before it listens, once it does, and when it has heard."""
    guards, gates = two_guards(postgres, schema_name, tmp_path)
    ear = guards[1].journal.ear

    def listened():
        end = time.monotonic() + 30
        while not ear._heard:
            assert time.monotonic() < end
            time.sleep(0.01)
        time.sleep(2.0)

    result, looks = both_ask(guards, gates, listened)
    assert (result.value, result.replayed) == ("paid 7", True)
    assert len(looks) <= 8  # asking without hearing takes 8 looks for the same time, and then one a second


def test_without_a_session_of_its_own_it_asks(postgres, schema_name, tmp_path, monkeypatch):
    monkeypatch.setattr(Ear, "heed", lambda self, operation_id, wake: None)
    result, _ = both_ask(*two_guards(postgres, schema_name, tmp_path))
    assert (result.value, result.replayed) == ("paid 7", True)


def test_behind_a_pooler_it_asks(postgres, schema_name, tmp_path):
    with PgBouncer(postgres) as bouncer:
        guards, gates = two_guards(postgres, schema_name, tmp_path, bouncer.url)

        def deaf():
            end = time.monotonic() + 30
            while guards[1].journal.ear._deaf_until != float("inf"):
                assert time.monotonic() < end
                time.sleep(0.01)

        result, _ = both_ask(guards, gates, deaf)
        assert (result.value, result.replayed) == ("paid 7", True)
