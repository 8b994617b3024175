"""Several processes, and a server that dies: one executes, nobody hangs, nothing that was told is lost unseen."""

import asyncio
import os
import threading
import time

import pytest

from settled.core.ask import Begun, Busy, Stands
from settled.core.attempts.progress import End
from settled.core.doubt.late import Evidence
from settled.core.doubt.settling import Adopt
from settled.core.matching.claim import Claim
from settled.core.model import KeyKind
from settled.core.runs.entering import EnterRun, scope_of_run
from settled.core.states import State
from settled.core.values import replace
from settled.errors import JournalError
from settled.journals.memory import MemoryJournal
from settled.journals.redis import RedisJournal
from settled.journals.redis.attempt import Attempt
from settled.ports import CallQuery
from settled.testing.records import FakeClock, begun, ended, make_ask, scoped, unknown_call
from tests.journals.support import CLAIMER, CROWD, JOINED, WRITER, forked, start, together
from tests.servers.redis import RedisServer
from tests.waiting import until


@pytest.fixture
def url(server, prefix, tmp_path):
    return server.url(prefix=prefix, spill=tmp_path / "spill")


@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_of_8_processes_one_begins_each_call(open_journal, url):
    said = together(CLAIMER, url, 25, journal="redis")
    assert sum(words.count("begun") for words in said) == 25
    journal = open_journal()
    assert journal.count() == {"succeeded": 25}
    assert journal.verify().ok


@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_8_processes_in_one_run_are_counted_one_after_the_other(open_journal, url):
    """Each asks for another like call: a number given twice would be one call for two."""
    journal = open_journal()
    journal.perform(EnterRun("shared", "acme"))
    said = together(JOINED, url, 10, journal="redis")
    told = [(name, int(number)) for words in said for name, number in zip(words[::2], words[1::2], strict=True)]
    for name in ("begun", "entry"):
        assert sorted(number for what, number in told if what == name) == list(range(1, 81))
    assert journal.verify().ok


@pytest.mark.parametrize("server", ["redis"], indirect=True)
def test_a_crowd_on_few_calls_loses_no_change(open_journal, url):
    """24 threads of 8 processes do everything to five calls and two runs: no change is made over an unseen one."""
    said = together(CROWD, url, 25, journal="redis")
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
    """Between the look and the commit of one process another one comes."""
    mine, other = open_journal(), open_journal()
    commit, owed = Attempt._commit, []

    def interrupted(self, books, about):
        while owed:
            owed.pop()()
        return commit(self, books, about)

    monkeypatch.setattr(Attempt, "_commit", interrupted)
    call = begun(mine, make_ask())
    owed.append(lambda: ended(other, call, result=b"1"))
    assert mine.perform(Evidence(call.operation_id, 1, None, b"2")).result == b"1"
    ask = make_ask()
    owed.append(lambda: begun(other, replace(ask, operation_id="op_faster")))
    assert isinstance(mine.perform(Claim(ask)), Busy)
    like = make_ask(kind=KeyKind.RANDOM, key="random:1")
    owed.append(lambda: unknown_call(other, **{**fields(like), "operation_id": "op_doubt", "key": "random:2"}))
    assert not isinstance(mine.perform(Claim(like)), Begun)
    entry = mine.perform(EnterRun("trip", "acme"))
    inside = scoped("trip", entry)
    owed.append(lambda: other.perform(EnterRun("trip", "acme")))
    assert not isinstance(mine.perform(Claim(inside)), Begun)
    assert mine.verify().ok


def fields(ask):
    names = ("tenant", "tool", "terms", "kind", "identity", "words", "fingerprint", "arguments")
    return {name: getattr(ask, name) for name in names}


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


def test_a_new_call_and_its_end_take_one_trip_each_and_a_replay_one(server, open_journal):
    journal = open_journal()
    begun(journal, make_ask())  # the clock has been read

    def trips(work):
        with server.client() as client:
            before = client.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"]
            reply = work()
            return client.info("commandstats")["cmdstat_evalsha"]["calls"] - before, reply

    ask = make_ask()
    number, call = trips(lambda: begun(journal, ask))
    assert number == 1
    assert trips(lambda: ended(journal, call))[0] == 1
    number, reply = trips(lambda: journal.perform(Claim(replace(ask, operation_id="op_again"))))
    assert (number, type(reply)) == (1, Stands)
    assert trips(lambda: journal.perform(Claim(replace(ask, operation_id="op_once_more"))))[0] == 1
    assert trips(lambda: begun(journal, make_ask()))[0] == 2, "look, commit: the last one was there already"
    assert trips(lambda: begun(journal, make_ask()))[0] == 1


# --- time ---


@pytest.mark.case("CASE-018-lease-judged-by-other-clock")
@pytest.mark.parametrize("step", [-600.0, 600.0])
def test_the_server_s_clock_is_set_while_a_call_is_at_work(server, prefix, open_journal, step):
    """What it jumps is taken off before a lease is judged by it: the record's clock is moved as much the other way."""
    journal, other = open_journal(), open_journal()
    call = begun(journal, make_ask(lease=30.0))
    other.now()
    with server.client() as client:
        wall = float(client.hget(f"{{{prefix}}}:meta", "wall"))
        client.hset(f"{{{prefix}}}:meta", "wall", repr(wall - step))
    assert other.perform(Adopt(call.operation_id)).state is State.PROCESSING
    assert ended(journal, call).state is State.SUCCEEDED
    late = begun(other, make_ask(lease=0.0))  # by a time that was reckoned, and may run a little ahead
    until(lambda: other.perform(Adopt(late.operation_id)).state is State.UNKNOWN, "the lease is over")


@pytest.mark.parametrize("step", [-600.0, 600.0])
def test_a_worker_s_own_clock_counts_for_nothing(open_journal, monkeypatch, step):
    journal, other = open_journal(), open_journal()
    honest = time.time
    monkeypatch.setattr(time, "time", lambda: honest() + step)
    call = begun(journal, make_ask(lease=30.0))
    assert abs(call.created.wall - honest()) < 60
    assert other.perform(Adopt(call.operation_id)) == call


# --- a server that dies ---


def both_are_back(server):
    """Whether both children have entered the journal anew, and so have seen what was lost."""
    with server.client() as client:
        return sum(each["cmd"] == "evalsha" for each in client.client_list()) == 2


def read_on(child, told):
    """Take all that a child still says, but for a line that it did not come to end."""
    told += child.stdout.read().split("\n")[:-1]


@pytest.mark.parametrize("appendfsync", ["always", "everysec"])
@pytest.mark.parametrize("kind", ["valkey", "redis"])
def test_what_was_told_survives_when_the_server_is_killed(tmp_path, kind, appendfsync):
    """SIGKILL and an orderly restart, in mid-load of two processes, which go on as soon as it is back."""
    with RedisServer(kind, appendfsync=appendfsync) as server:
        url = server.url(spill=tmp_path / "spill", accept_loss="true")
        children = [start(WRITER, url, name, journal="redis") for name in range(2)]
        told = []
        for end in (server.kill, server.stop, server.kill):
            told += [child.stdout.readline().strip() for child in children for _ in range(60)]
            end()
            server.start()
        told += [child.stdout.readline().strip() for child in children for _ in range(200)]
        rest = [threading.Thread(target=read_on, args=(child, told)) for child in children]
        for reading in rest:
            reading.start()  # nobody who is read no further gets as far as to the journal again
        until(lambda: both_are_back(server), "both")  # what was read may have been told before the server's end
        for child, reading in zip(children, rest, strict=True):
            child.kill()
            reading.join(30)
            child.wait(30)
            child.stdin.close()
            child.stdout.close()
        journal = RedisJournal(url)
        there = {call.operation_id for call in journal.find(CallQuery(limit=10**6))}
        lost = [op for op in told if op not in there]
        noticed = [problem for problem in journal.check().problems if "were seen by a client and lost" in problem]
        assert not lost or (appendfsync == "everysec" and noticed), "what is lost is lost to the settings, and seen"
        assert len(there) <= len(told) + 2 * 8, "at most what was in the last commits, untold"
        assert 2 <= journal.check().facts["lives"] <= 4, "those that a client has seen"
        assert journal.verify().ok
        journal.close()


def test_a_server_that_stays_away_fails_closed(tmp_path):
    with RedisServer() as server:
        journal = RedisJournal(server.url(), spill=tmp_path / "spill", patience=0.3)
        call = unknown_call(journal)
        server.kill()
        with pytest.raises(JournalError, match=r"perform again.*cannot be reached"):
            begun(journal, make_ask())
        with pytest.raises(JournalError, match="cannot be read"):
            journal.get(call.operation_id)
        assert journal.now().mono >= call.changed.mono - 1.0, "it stands still at its last reading, less than that old"
        server.start()
        assert journal.get(call.operation_id) == call
        begun(journal, make_ask())
        journal.close()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_the_connection_is_cut_at_the_commit(open_journal, moment, monkeypatch):
    """Whether it took effect is looked up, not guessed; the caller hears nothing of it."""
    journal = open_journal()
    line = journal._connections.line()
    said = line._said
    cut = []

    def cut_once(request):
        if moment == "after":
            said(request)
        cut.append(True)
        line.close()
        raise ConnectionError("cut")

    monkeypatch.setattr(line, "_said", cut_once)
    ask = make_ask()
    call = begun(journal, ask)
    assert cut == [True]
    assert journal.get(call.operation_id) == call
    assert len(journal.log(call.operation_id)) == 1
    assert isinstance(journal.perform(Claim(ask)), Begun)
    assert ended(journal, call).state == "succeeded"


def test_a_server_that_is_told_to_forget_its_scripts(server, open_journal):
    journal = open_journal()
    with server.client() as client:
        client.script_flush()
        call = begun(journal, make_ask())
        client.script_flush()
        assert journal.get(call.operation_id) == call


def test_all_connections_are_in_use(open_journal):
    journal = open_journal(pool=1, patience=0.1)
    with journal._line(), pytest.raises(JournalError, match="all 1 connections are in use; raise pool="):
        journal.get("op_none")
    assert journal.get("op_none") is None


def test_a_server_that_takes_no_more_clients(tmp_path):
    with RedisServer(maxclients="3") as server:
        journal = RedisJournal(server.url(), spill=tmp_path / "spill", patience=0.2)
        clients = [server.client() for _ in range(2)]
        for client in clients:
            client.ping()
        with pytest.raises(JournalError, match=r"cannot be read.*max number of clients|cannot be reached"):
            journal.get("op_none")
        begun(journal, make_ask())
        clients[0].close()
        until(lambda: len(clients[1].client_list()) < 3, "the server has seen that it is gone")
        assert journal.get("op_none") is None
        clients[1].close()
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


def test_a_result_of_5_megabytes_and_texts_of_all_kinds(open_journal):
    journal = open_journal()
    result = bytes(range(256)) * 20_480
    call = ended(journal, begun(journal, make_ask(arguments=result)), result=result)
    assert journal.get(call.operation_id) == call
    for text in ("\0", "\n", "\xff", "\ud83d", "\\u0000", "\ud83d\ude00", "😀", "e\u0301", "é", " ", ""):
        made = begun(journal, make_ask(key=f"k{text}", operation_id=f"op{text}", tool=text, identity=text))
        done = ended(journal, made, result=text.encode("utf-8", "surrogatepass"))
        assert journal.get(made.operation_id) == done
    long = "x" * 100_000
    assert begun(journal, make_ask(key=long)).key == long
    nan = End(begun(journal, make_ask()).operation_id, 1, 1, None, b"1", reason="NaN", park=float("nan"))
    assert journal.perform(nan).result == b"1"
    assert journal.verify().ok


def test_many_at_once_from_threads(open_journal):
    """Their transitions travel together; none of them waits for ever."""
    journal, calls, lock = open_journal(), [], threading.Lock()

    def work():
        for _ in range(20):
            call = ended(journal, begun(journal, make_ask(kind=KeyKind.RANDOM)))
            with lock:
                calls.append(call)

    threads = [threading.Thread(target=work) for _ in range(16)]
    [thread.start() for thread in threads]
    [thread.join(60) for thread in threads]
    assert len(calls) == 320
    assert journal.count() == {State.SUCCEEDED: 320}
