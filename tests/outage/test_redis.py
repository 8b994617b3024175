"""Outages of Valkey and Redis under a load of several processes, with what is their own."""

import os
import resource
import signal
import subprocess
import sys

import pytest

import settled
from settled.ports import CallQuery
from tests.outage.harness import KEYS, Load, judge, paying, settled_well
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
    with Proxy(server.socket, scissors) as proxy:
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


def test_the_judge_sees_what_is_done_twice(url, tmp_path):
    """The load's ledger, with one effect more than was made."""
    with Load(url, tmp_path, {"processes": 1, "threads": 1, "keys": 3}) as load:
        pass
    assert judge(load).problems == []
    ledger = tmp_path / "ledger"
    ledger.write_bytes(ledger.read_bytes() + ledger.read_bytes().splitlines(keepends=True)[0])
    assert [problem for problem in judge(load).problems if "was done 2 times" in problem]
