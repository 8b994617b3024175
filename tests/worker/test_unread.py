"""One record cannot be read: it is told of and passed over, and nobody else's call waits for it."""

import asyncio
import itertools
import logging
import sqlite3
import time
from contextlib import closing

import psycopg
import pytest

import settled
from settled.api.queue import waiting
from settled.core.ask import Begun
from settled.core.claim import Claim
from settled.core.states import State
from settled.errors import JournalError
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
    guard = settled.Guard(place, lease=0.2)

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
    for operation_id in broken:
        damage(operation_id)
    time.sleep(0.3)  # the lease of who left them
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
