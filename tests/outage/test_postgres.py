"""Outages under a load of several processes: no effect twice, no lie, nothing lost unseen, and no needless doubt."""

import contextlib
import os
import resource
import signal
import threading
import time

import pytest

import settled
from settled.ports import CallQuery
from tests.outage.harness import Load, judge
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import PostgresServer
from tests.servers.proxy import Proxy, Scissors
from tests.waiting import until

KEYS = 60


def settled_well(load, *, unknown=0):
    """Everything is settled, but for what those who were killed have left in doubt."""
    scene = judge(load)
    assert scene.problems == []
    assert scene.states["succeeded"] + scene.states["unknown"] == load.options.get("keys", KEYS)
    assert scene.states["unknown"] <= unknown
    return scene


def test_processes_that_are_killed(place, tmp_path):
    """The six of the soak, in short: ``python -m tests.outage`` plays all of it."""
    with Load(place(), tmp_path, {"processes": 6, "threads": 2, "keys": 80, "kills": 12}) as load:
        pass
    assert len((tmp_path / "killed").read_text().split()) == 12
    settled_well(load, unknown=24)


def test_a_server_that_is_killed_and_restarted(tmp_path):
    with PostgresServer() as server, Load(server.url(spill=tmp_path / "spill", patience=1), tmp_path) as load:
        for end in (server.kill, server.stop, server.kill):
            before = len(load.effects)
            until(lambda before=before: len(load.effects) >= min(before + 8, KEYS), "work goes on")
            end()
            server.start()
        load.process.wait(120)
        settled_well(load)


@pytest.mark.case("CASE-057-commit-answer-lost")
@pytest.mark.parametrize(
    "where",
    [("client", 8, b""), ("server", 8, b""), ("server", 4, b"COMMIT\0")],
    ids=["before it is handled", "after it is handled", "the answer to a commit"],
)
def test_connections_that_are_cut(postgres, place, tmp_path, where):
    (tmp_path / "socket").mkdir()
    side, one_in, only = where
    scissors = Scissors(side, one_in=one_in, seed=7, only=only, most=25)
    with Proxy(tmp_path / "socket", postgres.folder() / ".s.PGSQL.5432", scissors) as proxy:
        with Load(place(proxy.url), tmp_path) as load:
            pass
        scissors.left = 0
        assert proxy.cuts >= 5
        settled_well(load)


def test_a_transaction_mode_pooler_of_two_connections(postgres, place, tmp_path):
    with PgBouncer(postgres, size=2) as bouncer, Load(place(bouncer.url), tmp_path, {"threads": 8}) as load:
        load.process.wait(120)
        settled_well(load)


# --- one guard, and something that it needs is not to be had ---


@pytest.fixture
def guard(place):
    with settled.Guard(place(pool=1), lease=2.0) as guard:
        yield guard


def paying(guard, effects):
    @guard.tool(effect="write", key="{order}", breaker=None)
    def pay(order: str) -> str:
        effects.append(order)
        return f"paid {order}"

    return pay


def test_all_connections_that_look_are_lent(guard):
    """Calls go on: they need the one that writes. Who looks is told what to do."""
    effects = []
    pay = paying(guard, effects)
    with guard.journal._reading():
        with pytest.raises(settled.JournalError, match="all 1 connections are in use; raise pool="):
            guard.journal.find(CallQuery())
        assert pay("7") == "paid 7"
    assert [call.state for call in guard.journal.find(CallQuery())] == ["succeeded"]


def test_the_server_has_no_connection_left(tmp_path):
    """Nothing is executed, at the opening and after a connection was lost; and it goes on as soon as one is free."""
    effects, taken = [], []
    with PostgresServer(max_connections="8", superuser_reserved_connections="0", autovacuum="off") as server:
        address = server.url(spill=tmp_path / "spill", patience=0.3)
        guard = settled.Guard(address)
        pay = paying(guard, effects)
        pay("1")
        guard.journal._connections.drop_line()
        fill(server, taken)
        with pytest.raises(settled.JournalError, match="no connection left: raise max_connections, or lower pool="):
            settled.Guard(address)
        with pytest.raises(settled.JournalError, match="no connection left"):
            pay("2")
        assert effects == ["1"]
        for connection in taken:
            connection.close()
        assert pay("2") == "paid 2"
        assert effects == ["1", "2"]
        guard.close()


def fill(server, taken):
    """Take every connection that the server gives."""
    import psycopg  # noqa: PLC0415 - the guard's own

    with contextlib.suppress(psycopg.OperationalError):
        while True:
            taken.append(server.connect())


def test_the_servers_disk_is_full(tmp_path):
    """What was done is told, kept beside, and on record as soon as there is room; what was not begun is not done."""
    effects = []
    with PostgresServer() as server:
        server.largest_file = 16 * 2**20  # as large as the log's own files, which are there already
        server.restart()
        guard = settled.Guard(server.url(spill=tmp_path / "spill", patience=0.3))

        @guard.tool(effect="write", key="{order}", breaker=None)
        def pay(order: str, enclosed: str = "") -> bytes:
            effects.append(order)
            return os.urandom(9 * 2**20)

        assert pay.call("1").recorded
        done = pay.call("2")
        assert (done.status, done.recorded) == ("succeeded", False), done.message
        assert len(done.value) == 9 * 2**20
        with pytest.raises(settled.JournalError, match="nothing was recorded"):
            pay.call("3", enclosed=os.urandom(9 * 2**20).hex())
        server.largest_file = resource.RLIM_INFINITY
        server.restart()
        guard.reconcile()
        calls = guard.journal.find(CallQuery())
        assert [(call.state, len(call.attempts)) for call in calls] == [("succeeded", 1)] * 2
        again = pay.call("2")
        assert (again.replayed, again.value) == (True, done.value)
        assert effects == ["1", "2"]
        assert guard.journal.verify().ok
        guard.close()


# --- clocks and pauses, by the server's own clock ---

OWNER = """
import sys, time
import settled

shift, jumps = float(sys.argv[2]), sys.argv[3] == "jumps"
real, begun = time.time, time.monotonic()
time.time = lambda: real() + (shift if not jumps or int((time.monotonic() - begun) * 5) % 2 else -shift)

with settled.Guard(sys.argv[1], lease=1.0) as guard:
    @guard.tool(effect="write", key="{order}")
    def pay(order: str) -> str:
        print("effect", flush=True)
        sys.stdin.readline()
        return "paid"

    print(pay.call("7").status, flush=True)
"""


@pytest.fixture
def owner(place):
    """Start a process that holds a call; tell it to go on by a line."""
    import subprocess  # noqa: PLC0415 - where it is started
    import sys  # noqa: PLC0415 - same

    from tests.journals.support import ENVIRONMENT  # noqa: PLC0415 - same

    started = []

    def start(*words):
        command = [sys.executable, "-c", OWNER, place(), *map(str, words)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        started.append(subprocess.Popen(command, env=ENVIRONMENT, text=True, **pipes))
        assert started[-1].stdout.readline() == "effect\n"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=30)


@pytest.mark.case("CASE-018-lease-judged-by-other-clock")
@pytest.mark.parametrize(("shift", "jumps"), [(600, ""), (-600, ""), (600, "jumps")])
def test_a_worker_whose_clock_is_off(place, owner, shift, jumps):
    """By ten minutes, or jumping while it renews its lease: it is not taken for dead, and takes nobody for dead."""
    process, effects = owner(shift, jumps or "runs"), []
    with settled.Guard(place()) as guard:
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


def test_a_worker_that_sleeps_past_its_lease_and_wakes_after_takeover(place, owner):
    process, effects = owner(0, "runs"), []
    os.kill(process.pid, signal.SIGSTOP)
    with settled.Guard(place()) as guard:
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


# --- values ---


@pytest.mark.case("CASE-029-result-too-large")
@pytest.mark.case("CASE-030-nul-in-jsonb")
@pytest.mark.case("CASE-032-lone-surrogate")
def test_values_that_a_database_does_not_take(place):
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
        guard = settled.Guard(place())

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


@pytest.mark.case("CASE-026-serialization-failure-made-durable")
def test_a_deadlock_is_no_outcome(guard, postgres):
    """With somebody else's locks on the same row: the transaction is made once more, and nobody hears of it."""
    effects, holding, go_on = [], threading.Event(), threading.Event()

    @guard.tool(effect="write", key="{order}")
    def pay(order: str) -> str:
        effects.append(order)
        holding.set()
        assert go_on.wait(30)
        return "paid"

    results = []
    thread = threading.Thread(target=lambda: results.append(pay.call("7")))
    thread.start()
    assert holding.wait(30)
    schema = guard.journal._connections.address.schema
    with postgres.connect() as other:
        other.execute("BEGIN")
        other.execute(f'SELECT 1 FROM "{schema}".calls FOR UPDATE')
        go_on.set()
        time.sleep(0.3)
        other.execute("ROLLBACK")
        thread.join(30)
    assert [(result.status, result.recorded) for result in results] == [("succeeded", True)]
    [call] = guard.journal.find(CallQuery())
    assert [str(row.event) for row in guard.journal.log(call.operation_id)] == ["claim", "succeed"]
    assert effects == ["7"]
