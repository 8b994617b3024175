"""One record cannot be read: it is told of and passed over, and nobody else's call waits for it."""

import asyncio
import itertools
import logging
import sqlite3
from contextlib import closing, suppress
from functools import partial

import psycopg
import pytest

import settled
from settled.api.people.queue import waiting
from settled.core.ask import Begun
from settled.core.doubt.tending import LayDown
from settled.core.matching.claim import Claim
from settled.core.states import State
from settled.errors import JournalError
from settled.journals import unread
from settled.journals.commit import Member
from settled.journals.redis import RedisJournal
from settled.ports import CallQuery
from settled.testing.records import begun, make_ask
from tests.servers.redis import KINDS, RedisServer

_numbers = itertools.count(1)


@pytest.fixture(params=["sqlite", "postgres", *KINDS])
def place(request, tmp_path):
    """The address of a journal, and what makes the record of a call in it one that cannot be read."""
    if request.param == "sqlite":
        path = tmp_path / "agent.db"

        def damage(operation_id):
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("UPDATE calls SET body = '[]' WHERE operation_id = ?", (operation_id,))

        yield f"sqlite:///{path}", damage
    elif request.param == "postgres":
        server, schema = request.getfixturevalue("postgres"), f"unread_{next(_numbers)}"

        def damage(operation_id):
            with psycopg.connect(server.url()) as connection:
                connection.execute(f"UPDATE {schema}.calls SET body = '[]' WHERE operation_id = %s", (operation_id,))

        yield server.url(schema=schema, spill=tmp_path / "spill"), damage
    else:
        with RedisServer(request.param) as server:
            yield server.url(spill=tmp_path / "spill"), lambda operation_id: spoil(server, operation_id)


def spoil(server, operation_id):
    with server.client() as client:
        value = client.hget("{settled}:calls", operation_id)
        client.hset("{settled}:calls", operation_id, value[:52] + b"\xc1" + value[53:])


def guarded(place, probe):
    guard = settled.Guard(place)

    @guard.tool(effect="write", key="{order}", probe=probe, max_request_lifetime=0.0, breaker=None, retention=0.0)
    def pay(order: str) -> str:
        if order.startswith("lost"):
            raise TimeoutError("no answer")
        return order

    return guard, pay


def test_a_worker_s_round_goes_on_without_it(place, caplog):
    address, damage = place
    guard, pay = guarded(address, None)
    with guard:
        broken = [pay.call(order).operation_id for order in ("lost 1", "paid 1")]
        others = [pay.call(order).operation_id for order in ("lost 2", "paid 2")]
        for each in broken + others:
            guard.journal.perform(LayDown(each, 1, 0.0))  # a worker may look at once
    for operation_id in broken:
        damage(operation_id)
    guard, pay = guarded(address, lambda call: settled.NotHappened())
    with guard, caplog.at_level(logging.WARNING, "settled"):
        done = asyncio.run(settled.Worker(guard, together=1, ledger_every=None).around())
        assert (done.settled.did_not_happen, done.pruned, done.trouble) == (1, 2, "")
        assert [guard.journal.get(each).state for each in others] == [State.EXPIRED, State.EXPIRED]
        assert waiting(guard.journal) == []
        for operation_id in broken:
            assert f"the record of {operation_id} cannot be read" in caplog.text
            with pytest.raises(JournalError, match="cannot be read"):
                guard.journal.get(operation_id)
        with pytest.raises(JournalError, match="cannot be read"):
            guard.journal.find(CallQuery())
        with pytest.raises(JournalError, match="cannot be read"):
            pay("lost 1")
        assert pay("new") == "new"


@pytest.mark.parametrize("kind", KINDS)
def test_on_redis_it_ends_no_other_call_of_its_batch(kind, tmp_path):
    with RedisServer(kind) as server:
        journal = RedisJournal(server.url(spill=tmp_path / "spill"))
        broken, others = make_ask(), [make_ask(), make_ask()]
        begun(journal, broken)
        spoil(server, broken.operation_id)
        members = [Member(Claim(ask)) for ask in (others[0], broken, others[1])]
        journal._transactions.run(members)
        assert isinstance(members[0].outcome(), Begun)
        assert isinstance(members[2].outcome(), Begun)
        with pytest.raises(JournalError, match="cannot be read"):
            members[1].outcome()
        journal.close()


# --- runs ---

UNREADABLE = {
    "empty": "'[]'",
    "no JSON": "'[1'",
    "of a later release": "substr(body, 1, length(body) - 1) || ',1,2,3,4]'",
    "of bytes": "x'ff'",
}


@pytest.fixture
def trips(tmp_path):
    """Two runs whose undoing was left by a process; the record of the first cannot be read."""
    unread._told.clear()  # each is told of once in a process

    def opened(*, refuses):
        guard = settled.Guard(f"sqlite:///{tmp_path / 'agent.db'}")

        @guard.tool(effect="write")
        def cancel(what: str) -> str:
            if refuses:
                raise settled.NotExecuted("busy", retryable=True)
            return what

        @guard.tool(effect="write", compensate=cancel)
        def book(what: str) -> str:
            return what

        return guard, book

    guard, book = opened(refuses=True)
    with guard:
        for name in ("first", "second"):
            with suppress(LookupError), guard.run(name, on_error="compensate", undo_within=0.0):
                book(what=name)
                raise LookupError

    def damage(how):
        with closing(sqlite3.connect(tmp_path / "agent.db")) as connection, connection:
            connection.execute(f"UPDATE runs SET body = {how} WHERE run_id = 'first'")

    return opened, damage


@pytest.mark.parametrize("how", UNREADABLE)
def test_one_run_that_cannot_be_read_ends_no_worker_and_holds_up_no_other(trips, how, caplog):
    opened, damage = trips
    damage(UNREADABLE[how])
    guard, book = opened(refuses=False)
    with guard, caplog.at_level(logging.WARNING, "settled"):
        done = asyncio.run(settled.Worker(guard, ledger_every=None).around())
        assert (done.undone.compensated, done.trouble) == (1, "")
        assert guard.journal.run("", "second").state == "compensated"
        assert "the record of run 'first' cannot be read" in caplog.text
        assert [run.run_id for run in guard.journal.runs()] == ["second"]
        with pytest.raises(JournalError, match="cannot be read"):
            guard.journal.run("", "first")
        with pytest.raises(JournalError, match="cannot be read"), guard.run("first"):
            book(what="nothing begins in it")
        report = guard.journal.verify()
        assert not report.ok
        assert any("run 'first'" in problem for problem in report.problems)


# --- what nobody has thought of ---


@pytest.mark.parametrize("part", ["_adopt", "_settle", "_carry_on", "_compare", "_prune"])
def test_a_part_of_a_round_that_fails_ends_neither_the_others_nor_the_worker(trips, part, monkeypatch, caplog):
    opened, _ = trips
    guard, _ = opened(refuses=False)
    asked = []

    async def broken():
        raise ArithmeticError("token=s3cret1234 is no number")

    async def noted(name):
        asked.append(name)

    with guard:
        worker = settled.Worker(guard, every=0.01)
        for name in ("_adopt", "_settle", "_carry_on", "_compare", "_prune"):
            monkeypatch.setattr(worker, name, broken if name == part else partial(noted, name))
        rounds = []

        def tell(done):
            rounds.append(done)
            if len(rounds) == 2:
                worker.stop()

        worker.run(tell)
    assert len(asked) >= 8
    assert all("ArithmeticError" in done.trouble and "s3cret" not in done.trouble for done in rounds)
    assert "part of a worker's round failed" in caplog.text
