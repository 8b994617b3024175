"""The same deaths on Valkey and Redis: killed at a boundary, a process leaves nothing done twice, misreported or lost.

Every third boundary, plain code and asyncio in turn. The server is killed too, and restarted, with its file synced at
each commit or each second.
"""

import json
import subprocess
import sys
import time
from collections import Counter

import pytest

import settled
from settled.core.states import State
from settled.ports import CallQuery
from settled.testing.kill.plan import Plan
from settled.testing.kill.rounds import everywhere
from tests.journals.support import ENVIRONMENT
from tests.servers.redis import RedisServer

SCRIPTS = ("agent", "doubt", "desk", "fan", "person", "care", "late", "saga", "doubtful saga")


@pytest.fixture(scope="module")
def servers():
    with RedisServer("valkey") as valkey, RedisServer("redis") as redis:
        yield {"valkey": valkey, "redis": redis}


@pytest.mark.parametrize(("kind", "script"), [*(("valkey", each) for each in SCRIPTS), ("redis", "agent")])
def test_killed_at_boundaries(nursery, servers, tmp_path, kind, script):
    number = SCRIPTS.index(script) + (kind == "redis")
    plan = Plan(str(tmp_path), script, at=1 + number % 3, is_async=bool(number % 2), journal=servers[kind].url())
    deaths = list(everywhere(nursery, plan, step=3))
    assert [str(death) for death in deaths if death.problems] == []
    assert [death.died for death in deaths] == [True] * (len(deaths) - 1) + [False]
    assert len(deaths) > 5


WORKER = """
import os, random, sys, time
import settled

url, ledger, name, keys = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
effects = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
dice = random.Random(name)
guard = settled.Guard(url, lease=60.0, accept_loss=True)

@guard.tool(effect="write", key="{order}")
def pay(order: str) -> str:
    time.sleep(dice.random() * 0.003)
    os.write(effects, f"{order} {os.getpid()}\\n".encode())
    os.fsync(effects)
    time.sleep(dice.random() * 0.003)
    return f"receipt {order}"

orders = list(range(keys))
dice.shuffle(orders)
for order in orders:
    while True:
        try:
            result = pay.options(wait=0.0).call(f"{order}")
        except settled.JournalError:
            continue
        print(order, result.status, result.value if result.ok and result.value_available else "", flush=True)
        break
guard.close()
"""


class Crowd:
    """Workers on the same keys; who is killed is replaced."""

    def __init__(self, url, folder, keys):
        self.url, self.folder, self.keys = url, folder, keys
        self.ledger = folder / "ledger"
        self.started = 0
        self.alive = [self.start() for _ in range(4)]
        self.killed = set()

    def start(self):
        self.started += 1
        command = [sys.executable, "-c", WORKER, self.url, self.ledger, self.started, self.keys]
        with (self.folder / f"said-{self.started}").open("w") as said:
            return subprocess.Popen(list(map(str, command)), env=ENVIRONMENT, stdout=said)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self.alive:
            if worker.poll() is None:
                worker.kill()
            worker.wait(30)

    def kill_one(self, place):
        worker = self.alive[place]
        worker.kill()
        worker.wait(30)
        self.killed.add(worker.pid)
        self.alive[place] = self.start()

    def effects(self):
        return [line.split() for line in self.ledger.read_text().splitlines()] if self.ledger.exists() else []

    def finish(self):
        assert [worker.wait(120) for worker in self.alive] == [0] * 4

    def told(self):
        lines = [
            line.split(maxsplit=2) for path in self.folder.glob("said-*") for line in path.read_text().splitlines()
        ]
        return [(line[0], line[1], line[2] if len(line) > 2 else "") for line in lines if len(line) > 1]


@pytest.mark.parametrize(("kind", "appendfsync"), [("valkey", "everysec"), ("redis", "always")])
def test_a_crowd_on_the_same_keys_while_workers_and_the_server_are_killed(tmp_path, kind, appendfsync):
    """At most one effect for each key; what is told as done was done; in doubt is what a killed one was at, only."""
    keys, kills = 40, 8
    with RedisServer(kind, appendfsync=appendfsync) as server:
        url = server.url(spill=tmp_path / "spill", patience="20")
        with Crowd(url, tmp_path, keys) as crowd:
            for number in range(kills):
                wanted, end = len(crowd.effects()) + 2, time.monotonic() + 20
                while len(crowd.effects()) < min(wanted, keys - 5) and time.monotonic() < end:
                    time.sleep(0.002)
                if number % 4 == 3:
                    server.kill()
                    server.start()
                else:
                    crowd.kill_one(number % 4)
            crowd.finish()
        with settled.Guard(url, accept_loss=True) as guard:
            guard.tool(effect="write", name="pay", key="{order}")(_paid)
            guard.reconcile()
            calls = {call.operation_id: call for call in guard.journal.find(CallQuery(limit=10**4))}
            report = guard.journal.verify()
            losses = [problem for problem in guard.journal.check().problems if "were seen by a client" in problem]
    assert (report.ok, losses) == (True, [])
    effects = Counter(order for order, _ in crowd.effects())
    assert max(effects.values()) == 1
    assert len(calls) == keys
    by_key = {json.loads(call.arguments[2:])["order"]: call for call in calls.values()}
    for order, call in by_key.items():
        assert call.state in (State.SUCCEEDED, State.UNKNOWN, State.NOT_DONE), call
        assert effects[order] == 1 or call.state is not State.SUCCEEDED
        assert effects[order] == 0 or call.state is not State.NOT_DONE
        owners = {attempt.owner.pid for attempt in call.doubtful}
        assert call.state is not State.UNKNOWN or owners <= crowd.killed, "in doubt, and its owner lives"
    unknown = sum(call.state is State.UNKNOWN for call in calls.values())
    assert unknown <= len(crowd.killed)
    assert len(crowd.killed) == kills - kills // 4
    for order, status, value in crowd.told():
        assert (status, value) in ((status, ""), ("succeeded", f"receipt {order}"))
        assert status != "succeeded" or effects[order] == 1


def _paid(order: str) -> str:
    return f"receipt {order}"
