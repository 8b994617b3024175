"""Outages of PostgreSQL under a load of several processes, and what one guard does where it lacks something."""

import contextlib
import os
import resource
import threading
import time

import pytest

import settled
from settled.ports import CallQuery
from tests.outage.harness import KEYS, Load, paying, settled_well
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import PostgresServer
from tests.servers.proxy import Proxy, Scissors
from tests.waiting import until


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
    side, one_in, only = where
    scissors = Scissors(side, one_in=one_in, seed=7, only=only, most=25)
    with Proxy(postgres.folder() / ".s.PGSQL.5432", scissors) as proxy:
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
        with taken.pop() as watch:
            gone = [connection.info.backend_pid for connection in taken]
            for connection in taken:
                connection.close()
            until(lambda: watch.execute(STILL_THERE, [gone]).fetchone() == (0,), "the server has seen it")
        assert pay("2") == "paid 2"
        assert effects == ["1", "2"]
        guard.close()


STILL_THERE = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY(%s)"


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


@pytest.mark.case("CASE-026-serialization-failure-made-durable")
def test_a_deadlock_is_no_outcome(place, postgres):
    """With somebody else's locks on the same row: the transaction is made once more, and nobody hears of it."""
    guard = settled.Guard(place(pool=1, patience=60))
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
    guard.close()
