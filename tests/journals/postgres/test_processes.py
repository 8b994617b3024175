"""Several processes, and a server that dies: one executes, nobody hangs, nothing that was told is lost."""

import asyncio
import os
import signal
import subprocess
import threading
import time
from contextlib import closing

import psutil
import psycopg
import pytest

from settled.core.ask import Begun, Busy
from settled.core.attempts.progress import End, Renew
from settled.core.doubt.late import Evidence
from settled.core.matching.claim import Claim
from settled.core.model import KeyKind
from settled.core.runs.entering import EnterRun, scope_of_run
from settled.core.values import replace
from settled.errors import JournalError
from settled.journals.memory import MemoryJournal
from settled.journals.postgres import PostgresJournal, connect
from settled.journals.postgres.line import Line
from settled.journals.postgres.transactions import Transactions
from settled.ports import CallQuery
from settled.testing.records import FakeClock, begun, ended, make_ask, scoped, unknown_call
from tests.journals.support import CLAIMER, CROWD, JOINED, WRITER, forked, start, together
from tests.servers.postgres import PostgresServer


@pytest.fixture
def url(postgres, schema_name, tmp_path):
    return postgres.url(schema=schema_name, spill=tmp_path / "spill")


def test_of_8_processes_one_begins_each_call(open_journal, url):
    said = together(CLAIMER, url, 25, journal="postgres")
    assert sum(words.count("begun") for words in said) == 25
    journal = open_journal()
    assert journal.count() == {"succeeded": 25}
    assert journal.verify().ok


def test_8_processes_in_one_run_are_counted_one_after_the_other(open_journal, url):
    """Each asks for another like call: a number given twice would be one call for two."""
    journal = open_journal()
    journal.perform(EnterRun("shared", "acme"))
    said = together(JOINED, url, 10, journal="postgres")
    told = [(name, int(number)) for words in said for name, number in zip(words[::2], words[1::2], strict=True)]
    for name in ("begun", "entry"):
        assert sorted(number for what, number in told if what == name) == list(range(1, 81))
    assert journal.verify().ok


def test_a_crowd_on_few_calls_loses_no_change(open_journal, url):
    """24 threads of 8 processes do everything to five calls and two runs: no change is made over an unseen one."""
    said = together(CROWD, url, 40, journal="postgres")
    assert all(words[0] == "done" for words in said)
    journal = open_journal()
    assert sum(len(journal.log(f"op_shared_{i}")) for i in range(5)) > 10
    journal.seal()
    report = journal.verify(journal.head())
    assert (report.ok, report.problems) == (True, [])
    inside = [call for call in journal.find(CallQuery(limit=10**4)) if call.scope]
    assert inside
    assert len({(call.scope, call.n) for call in inside}) == len(inside)


def test_what_is_decided_on_a_record_that_changed_meanwhile_is_decided_again(open_journal, monkeypatch):
    """Between the reads and the writes of one process another one comes, as often as not."""
    mine, other = open_journal(), open_journal()
    end = Transactions._end
    owed = []

    def interrupted(self, line, books, record):
        while owed:
            owed.pop()()
        end(self, line, books, record)

    monkeypatch.setattr(Transactions, "_end", interrupted)
    call = begun(mine, make_ask())
    owed.append(lambda: ended(other, call, result=b"1"))
    assert mine.perform(Evidence(call.operation_id, 1, None, b"2")).result == b"1"
    held = begun(mine, make_ask())
    owed.append(lambda: other.perform(Renew([(held.operation_id, 1, 500.0)])))
    noted = mine.perform(Evidence(held.operation_id, 1, None))
    assert noted.lease == mine.get(held.operation_id).lease
    assert mine.get(held.operation_id).lease.since(held.lease) > 400
    ask = make_ask()
    owed.append(lambda: begun(other, replace(ask, operation_id="op_first")))
    assert mine.perform(Claim(replace(ask, key="", kind=KeyKind.RANDOM, operation_id="op_x")))
    assert mine.verify().ok


def test_a_paused_process_wakes_after_others_went_on(open_journal, monkeypatch):
    """Stopped amid a transaction it holds a lock until the server ends its session; then it decides anew."""
    monkeypatch.setitem(connect._SETTINGS, "idle_in_transaction_session_timeout", "300ms")
    paused, other = open_journal(), open_journal()
    end, seen, ask = Transactions._end, [], make_ask()

    def stopped(self, line, books, record):
        if not seen:
            seen.append("stopped")
            seen.append(other.perform(Claim(replace(ask, operation_id="op_other"))))
            time.sleep(1.0)
        end(self, line, books, record)

    monkeypatch.setattr(Transactions, "_end", stopped)
    assert paused.perform(Claim(ask)) == Busy(seen[1].call)
    assert isinstance(seen[1], Begun)
    assert paused.verify().ok


def test_a_lock_that_is_held_for_too_long_says_so(open_journal, postgres, schema_name):
    journal = open_journal(patience=0.3)
    call = begun(journal, make_ask())
    with postgres.connect() as other:
        other.execute("BEGIN")
        other.execute(f'SELECT 1 FROM "{schema_name}".calls FOR UPDATE')
        with pytest.raises(JournalError, match="nothing was recorded; another process holds a lock for longer"):
            ended(journal, call)
        other.execute("COMMIT")
    assert ended(journal, call).state == "succeeded"


@pytest.mark.parametrize("how", ["cancelled", "timed out"])
def test_a_statement_that_the_server_ends_is_made_once_more(open_journal, postgres, schema_name, how):
    """By whoever cancels it, or by the user's own limit while others hold what it needs; in time it says so."""
    limit = {"options": "-c%20statement_timeout%3D100"} if how == "timed out" else {}
    open_journal()  # its tables may take longer
    journal = open_journal(postgres.url(**limit), patience=30.0)
    call, done = begun(journal, make_ask()), []
    with postgres.connect() as other, postgres.connect() as watch:
        other.execute("BEGIN")
        other.execute(f'SELECT 1 FROM "{schema_name}".calls FOR UPDATE')
        thread = threading.Thread(target=lambda: done.append(ended(journal, call)))
        thread.start()
        if how == "cancelled":
            while not watch.execute("SELECT pg_cancel_backend(pid) FROM pg_locks WHERE NOT granted").fetchone():
                pass
        else:
            time.sleep(0.5)
        assert thread.is_alive()
        other.execute("COMMIT")
        thread.join(60)
    assert done[0].state == "succeeded"
    assert journal.verify().ok


def test_a_deadlock_is_made_once_more(open_journal, postgres, schema_name):
    """With somebody else's statements: the server ends one of the two, and that one tries again."""
    journal = open_journal()
    first, second = begun(journal, make_ask()), begun(journal, make_ask())
    row = f'SELECT 1 FROM "{schema_name}".calls WHERE operation_id = %s FOR UPDATE'
    with postgres.connect() as other:
        other.execute("SET deadlock_timeout = '30s'")  # the journal is the one that notices
        other.execute("BEGIN")
        other.execute(row, (second.operation_id,))
        renewed = []
        claims = [(call.operation_id, 1, 90.0) for call in (first, second)]
        thread = threading.Thread(target=lambda: renewed.append(journal.perform(Renew(claims))))
        thread.start()
        waits = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        with postgres.connect() as watch:
            while watch.execute(waits).fetchone() == (0,):
                pass
        other.execute(row, (first.operation_id,))
        other.execute("COMMIT")
        thread.join(60)
    assert renewed == [()]
    assert all(journal.get(call.operation_id).lease.since(call.lease) > 30 for call in (first, second))


def test_one_poisoned_member_fails_alone(open_journal):
    """A text that PostgreSQL cannot index, in one commit with others."""
    journal, outcomes, barrier = open_journal(), {}, threading.Barrier(9)
    long = "".join(map(chr, range(1000, 5000)))

    def work(i):
        barrier.wait()
        try:
            outcomes[i] = begun(journal, make_ask(**({"key": long} if i == 4 else {})))
        except JournalError as error:
            outcomes[i] = error

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    journal._commit.hold(5)
    for thread in threads:
        thread.start()
    barrier.wait()
    while len(journal._commit._queue) < 8:
        pass
    journal._commit.let_go()
    for thread in threads:
        thread.join(60)
    assert "too long" in str(outcomes.pop(4))
    assert [journal.get(call.operation_id) for call in outcomes.values()] == list(outcomes.values())


def test_members_of_one_commit_see_each_other(open_journal):
    """Like calls of one run, with the same steps or others, as if each had come alone."""
    clock = FakeClock()
    journal, model = open_journal(clock=clock), MemoryJournal(clock)
    first = [EnterRun("busy", "acme", turn="t"), EnterRun("busy", "acme", turn="t")]
    entries = [[where.perform(entry) for entry in first][-1] for where in (journal, model)]
    asks = [make_ask(identity=f"i{i % 2}", step=f"s{i % 3}", operation_id=f"op_{i}") for i in range(12)]
    more = {"kind": KeyKind.SCOPED, "key": "", "scope": scope_of_run("acme", "busy"), "run_id": "busy", "run_entry": 2}
    ours, theirs = ([Claim(replace(ask, **more, entry=entry)) for ask in asks] for entry in entries)

    async def at_once():
        assert journal._commit.hold(5)
        tasks = [asyncio.create_task(journal.aperform(claim)) for claim in ours]
        await asyncio.sleep(0)
        journal._commit.let_go()
        return await asyncio.gather(*tasks)

    assert asyncio.run(at_once()) == [model.perform(claim) for claim in theirs]
    everything = CallQuery(limit=100)
    assert journal.find(everything) == model.find(everything)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_the_connection_is_lost_at_the_commit(open_journal, moment, monkeypatch):
    """Whether it took effect is looked up, not guessed; the caller hears nothing of it."""
    journal = open_journal()
    settle, broken = Line.settle, []

    def cut(self):
        if not broken and moment == "before":
            broken.append(self.close())
        settle(self)
        if not broken:
            broken.append(self.close())
            raise psycopg.OperationalError("the answer was lost")

    ask = make_ask()
    monkeypatch.setattr(Line, "settle", cut)
    call = begun(journal, ask)
    assert broken
    monkeypatch.undo()
    assert journal.get(call.operation_id) == call
    assert len(journal.log(call.operation_id)) == 1
    assert isinstance(journal.perform(Claim(ask)), Begun)


def test_what_was_told_survives_when_the_server_is_killed(tmp_path):
    """SIGKILL and an orderly restart, in mid-load of two processes, which go on as soon as it is back."""
    with PostgresServer() as server:
        url = server.url(spill=tmp_path / "spill")
        children = [start(WRITER, url, name, journal="postgres") for name in range(2)]
        told = []
        for end in (server.kill, server.stop, server.kill):
            told += [child.stdout.readline().strip() for child in children for _ in range(60)]
            end()
            server.start()
        told += [child.stdout.readline().strip() for child in children for _ in range(200)]
        for child in children:
            child.kill()
            told += child.stdout.read().split("\n")[:-1]
            child.wait(30)
            child.stdin.close()
            child.stdout.close()
        journal = PostgresJournal(url)
        there = {call.operation_id for call in journal.find(CallQuery(limit=10**6))}
        assert [op for op in told if op not in there] == []
        assert len(there) <= len(told) + 2 * 8, "at most what was in the last commits, untold"
        assert journal.verify().ok
        journal.close()


def test_nobody_outlives_a_killed_server(tmp_path):
    """A server's own process may be gone while one that it started still answers, and makes what it is asked."""
    with PostgresServer() as server, closing(server.connect()) as connection:
        (worker,) = connection.execute("SELECT pg_backend_pid()").fetchone()
        os.kill(worker, signal.SIGSTOP)  # it cannot see by itself that the server is gone
        server.kill()
        assert not psutil.pid_exists(worker) or psutil.Process(worker).status() == psutil.STATUS_ZOMBIE


def test_a_killed_server_leaves_no_memory_to_the_system():
    """A system has few pieces to give, and keeps them until somebody takes them away."""
    with PostgresServer() as server, closing(server.connect()) as connection:
        assert connection.execute("SHOW dynamic_shared_memory_type").fetchone() == ("mmap",)
        piece = (server.data / "postmaster.pid").read_text().splitlines()[6].split()[-1]
        assert piece in pieces()
        server.kill()
    assert piece not in pieces()


def pieces():
    return subprocess.run(["ipcs", "-m"], capture_output=True, text=True, check=True).stdout.split()


def test_a_server_that_stays_away_fails_closed(tmp_path):
    with PostgresServer() as server:
        journal = PostgresJournal(server.url(), spill=tmp_path / "spill", patience=0.3)
        call = unknown_call(journal)
        server.kill()
        with pytest.raises(JournalError, match=r"perform again.*cannot be reached"):
            begun(journal, make_ask())
        with pytest.raises(JournalError, match="cannot be read"):
            journal.get(call.operation_id)
        assert journal.now().mono >= call.created.mono
        server.start()
        assert journal.get(call.operation_id) == call
        begun(journal, make_ask())
        journal.close()


def test_children_of_an_open_journal(open_journal):
    """They share nothing with their parent, who goes on."""
    journal = open_journal()
    asks = [make_ask() for _ in range(4)]
    begun(journal, make_ask())
    journal.get("op_none")
    pids = []
    for ask in asks:
        pid = forked()
        if not pid:
            code = 1
            try:
                call = begun(journal, ask)
                journal.perform(End(call.operation_id, 1, 1, None, b"child"))
                assert journal.get(call.operation_id).result == b"child"
                journal.close()
                code = 0
            finally:
                os._exit(code)
        pids.append(pid)
        ended(journal, begun(journal, make_ask()))
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0] * 4
    assert [journal.get(ask.operation_id).result for ask in asks] == [b"child"] * 4
    entry = journal.perform(EnterRun("after", "acme"))
    begun(journal, scoped("after", entry))


def test_a_result_of_5_megabytes_and_texts_that_postgresql_does_not_take(open_journal):
    journal = open_journal()
    result = bytes(range(256)) * 20_480
    call = ended(journal, begun(journal, make_ask(arguments=result)), result=result)
    assert journal.get(call.operation_id) == call
    for text in ("\0", "\x1a", "\x1a0000", "\ud83d", "\\u0000", "\ud83d\ude00", "😀", "e\u0301", "é"):
        begun(journal, make_ask(key=text))
    nan = End(begun(journal, make_ask()).operation_id, 1, 1, None, b"1", reason="NaN", park=float("nan"))
    assert journal.perform(nan).result == b"1"
    assert journal.verify().ok


def test_a_batch_waits_for_the_server_twice_at_first_then_once(open_journal, monkeypatch):
    """For all that it looks up, and for its commit: claims outside of runs, each with look-ups of its own.

    Once it knows the time and what stands, the look-ups travel with the commit.
    """
    journal, waits = open_journal(), []
    settle = Line.settle
    monkeypatch.setattr(Line, "settle", lambda self: (waits.append(self), settle(self))[1])

    async def at_once(transitions):
        assert journal._commit.hold(5)
        tasks = [asyncio.create_task(journal.aperform(transition)) for transition in transitions]
        await asyncio.sleep(0)
        waits.clear()
        journal._commit.let_go()
        return await asyncio.gather(*tasks)

    for most in (2, 1):
        claims = [Claim(make_ask(kind=KeyKind.RANDOM, identity=f"{i}", fingerprint=f"1:{i}")) for i in range(16)]
        replies = asyncio.run(at_once(claims))
        assert all(isinstance(reply, Begun) for reply in replies)
        assert len(waits) == most
        asyncio.run(at_once([End(reply.call.operation_id, 1, 1, None, b"1") for reply in replies]))
        assert len(waits) == 1
