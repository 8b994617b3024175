"""Outages of Valkey and Redis under a load of several processes: as on PostgreSQL, with what is their own."""

import os
import resource
import signal
import subprocess
import sys
import time

import pytest

import settled
from settled.ports import CallQuery
from tests.journals.support import ENVIRONMENT
from tests.outage.harness import Load, judge
from tests.outage.test_postgres import KEYS, OWNER, paying, settled_well
from tests.servers.proxy import Proxy, Scissors
from tests.servers.redis import RedisServer
from tests.waiting import until


@pytest.fixture(scope="module")
def server():
    with RedisServer() as server:
        yield server


@pytest.fixture
def url(server, tmp_path):
    return server.url(prefix=f"outage_{tmp_path.name[-40:]}", spill=tmp_path / "spill", patience=1)


def test_processes_that_are_killed(url, tmp_path):
    """The six of the soak, in short: ``python -m tests.outage`` plays all of it."""
    with Load(url, tmp_path, {"processes": 6, "threads": 2, "keys": 80, "kills": 12}) as load:
        pass
    assert len((tmp_path / "killed").read_text().split()) == 12
    settled_well(load, unknown=24)


@pytest.mark.parametrize(("kind", "appendfsync"), [("valkey", "everysec"), ("redis", "always")])
def test_a_server_that_is_killed_and_restarted(tmp_path, kind, appendfsync):
    with RedisServer(kind, appendfsync=appendfsync) as server:
        url = server.url(spill=tmp_path / "spill", patience=1, accept_loss="true")
        with Load(url, tmp_path) as load:
            for end in (server.kill, server.stop, server.kill):
                before = len(load.effects)
                until(lambda before=before: len(load.effects) >= min(before + 8, KEYS), "work goes on")
                end()
                server.start()
            load.process.wait(120)
            settled_well(load)


@pytest.mark.case("CASE-057-commit-answer-lost")
@pytest.mark.parametrize("side", ["client", "server"], ids=["before it is handled", "after it is handled"])
def test_connections_that_are_cut(server, tmp_path, side):
    scissors = Scissors(side, one_in=15, seed=7, most=40)
    (tmp_path / "socket").mkdir()
    with Proxy(tmp_path / "socket", server.socket, scissors) as proxy:
        url = f"unix://{proxy.path}?prefix=cut_{side}&spill={tmp_path / 'spill'}&patience=1"
        with Load(url, tmp_path) as load:
            pass
        scissors.left = 0
        assert proxy.cuts >= 5
        settled_well(load)


def test_the_server_s_disk_is_full(tmp_path):
    """It ends, since it cannot sync. What was done is told, kept beside, and on record as soon as there is room."""
    effects = []
    with RedisServer() as server:
        guard = settled.Guard(server.url(spill=tmp_path / "spill", patience=0.3))

        @guard.tool(effect="write", key="{order}", breaker=None)
        def pay(order: str, enclosed: str = "") -> bytes:
            effects.append(order)
            return os.urandom(2**20)

        assert pay.call("1").recorded
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (2**20 + 2**19, resource.RLIM_INFINITY))
        done = pay.call("2")
        assert (done.status, done.recorded) == ("succeeded", False), done.message
        with pytest.raises(settled.JournalError, match="cannot be reached"):
            pay.call("3", enclosed=os.urandom(2**20).hex())
        until(lambda: server.exited, "the server has ended")
        server.start()
        guard.reconcile()
        calls = guard.journal.find(CallQuery())
        assert [(call.state, len(call.attempts)) for call in calls] == [("succeeded", 1)] * 2
        again = pay.call("2")
        assert (again.replayed, again.value) == (True, done.value)
        assert effects == ["1", "2"]
        assert guard.journal.verify().ok
        guard.close()


# --- clocks and pauses, by the server's own clock ---


@pytest.fixture
def owner(url):
    """Start a process that holds a call; tell it to go on by a line."""
    started = []

    def start(*words):
        command = [sys.executable, "-c", OWNER, url, *map(str, words)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        started.append(subprocess.Popen(command, env=ENVIRONMENT, text=True, **pipes))
        assert started[-1].stdout.readline() == "effect\n"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=30)


@pytest.mark.case("CASE-018-lease-judged-by-other-clock")
@pytest.mark.parametrize(("shift", "jumps"), [(600, ""), (-600, "jumps")])
def test_a_worker_whose_clock_is_off(url, owner, shift, jumps):
    """By ten minutes, or jumping while it renews its lease: it is not taken for dead, and takes nobody for dead."""
    process, effects = owner(shift, jumps or "runs"), []
    with settled.Guard(url) as guard:
        pay = paying(guard, effects)
        [call] = guard.journal.find(CallQuery())
        end = time.monotonic() + 3.0  # three leases
        while time.monotonic() < end:
            assert pay.options(wait=0.0).call("7").status == "in_progress"
            time.sleep(0.02)
        assert guard.journal.get(call.operation_id).lease.mono > call.lease.mono
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert process.stdout.readline() == "succeeded\n"
        assert pay("7") == "paid"
    assert effects == []


def test_a_worker_that_sleeps_past_its_lease_and_wakes_after_takeover(url, owner):
    process, effects = owner(0, "runs"), []
    os.kill(process.pid, signal.SIGSTOP)
    with settled.Guard(url) as guard:
        pay = paying(guard, effects)
        until(lambda: guard.journal.find(CallQuery(lease_over=True)), "its lease is over")
        assert pay.options(wait=0.0).call("7").status == "unknown"
        os.kill(process.pid, signal.SIGCONT)
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert process.stdout.readline() == "succeeded\n"
        again = pay.call("7")
        assert (again.status, again.value, again.replayed, again.disputed) == ("succeeded", "paid", True, False)
    assert effects == []


def test_a_server_that_is_stopped_for_a_while(server, url):
    """Nothing is executed twice by those who wait for it: the answer comes late, or the question is asked again."""
    effects = []
    with settled.Guard(url) as guard:
        pay = paying(guard, effects)
        pay("1")
        os.kill(server.pid, signal.SIGSTOP)
        try:
            waker = subprocess.Popen(
                [sys.executable, "-c", f"import os, time; time.sleep(1.5); os.kill({server.pid}, 18)"]
            )
            assert pay("2") == "paid 2"
        finally:
            os.kill(server.pid, signal.SIGCONT)
            waker.wait(30)
        assert pay("2") == "paid 2"
    assert effects == ["1", "2"]


# --- values ---


@pytest.mark.case("CASE-029-result-too-large")
@pytest.mark.case("CASE-030-nul-in-jsonb")
@pytest.mark.case("CASE-032-lone-surrogate")
def test_values_of_all_kinds(url):
    """Told alike by another process: nothing is done again for want of a way to keep it."""
    values = {
        "nul": "W\0s\0l\0",
        "escaped": "\\u0000",
        "nul in a name": {"\0": "\0"},
        "surrogate": "ok \ud83d",
        "nan": float("nan"),
        "infinite": [float("inf"), -0.0],
        "five megabytes": "\0é\ud83d" * 1_250_000,
        "bytes": bytes(range(256)) * 20_000,
    }
    effects = []

    def guarded():
        guard = settled.Guard(url)

        @guard.tool(effect="write", key="{name}")
        def give(name: str) -> object:
            effects.append(name)
            return values[name]

        return guard, give

    guard, give = guarded()
    other, again = guarded()
    for name, value in values.items():
        assert repr(give(name)) == repr(value)
        found = again.call(name)
        assert (found.replayed, repr(found.value)) == (True, repr(value))
    assert effects == list(values)
    assert guard.journal.verify().ok
    guard.close()
    other.close()


def test_the_judge_sees_what_is_done_twice(url, tmp_path):
    """The load's ledger, with one effect more than was made."""
    with Load(url, tmp_path, {"processes": 1, "threads": 1, "keys": 3}) as load:
        pass
    assert judge(load).problems == []
    ledger = tmp_path / "ledger"
    ledger.write_bytes(ledger.read_bytes() + ledger.read_bytes().splitlines(keepends=True)[0])
    assert [problem for problem in judge(load).problems if "was done 2 times" in problem]
