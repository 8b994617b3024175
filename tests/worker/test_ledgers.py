"""A ledger that takes its time, and a worker that has other things to do."""

import asyncio
import threading

import pytest

import settled
from settled.api.people import worker as module
from settled.core.states import State
from tests.waiting import until


@pytest.fixture
def shop(monkeypatch):
    """A guard, of whose two tools one has a ledger that does not answer before it is let go."""
    monkeypatch.setattr(module, "PROBE_LIMIT", 0.05)
    with settled.Guard("memory://", lease=2.0) as guard:
        shop = Shop(guard)
        yield shop
        shop.answers.set()


class Shop:
    def __init__(self, guard):
        self.guard, self.asked, self.answers, self.known = guard, threading.Event(), threading.Event(), False

        @guard.tool(effect="write", ledger=self.ledger, max_request_lifetime=0.0)
        def pay(to: str) -> str:
            return to

        @guard.tool(effect="write", probe=self.probe, max_request_lifetime=60.0, attempts=1)
        def mail(to: str) -> str:
            raise TimeoutError

        self.pay, self.mail = pay, mail

    def ledger(self, since):
        self.asked.set()
        assert self.answers.wait(60)
        return []

    def probe(self, call):
        return settled.Happened("sent") if self.known else settled.Inconclusive()

    def settled(self):
        return self.guard.journal.count().get(State.SUCCEEDED, 0)


def test_calls_in_doubt_are_settled_meanwhile_and_it_ends_when_it_is_told_to(shop):
    worker, ended = settled.Worker(shop.guard, every=0.05), []
    thread = threading.Thread(target=lambda: ended.append(worker.run()))
    thread.start()
    assert shop.asked.wait(30)
    assert shop.mail.call("ann").status == "unknown"
    shop.known = True
    until(shop.settled, "the call in doubt")
    worker.stop()
    thread.join(30)
    assert (ended[0].settled.happened, ended[0].findings) == (1, 0), "what has not answered has concluded nothing"
    assert not shop.answers.is_set()


def test_what_it_brings_in_the_end_is_told(shop):
    shop.pay("ann")
    worker, told = settled.Worker(shop.guard, every=0.05), []
    thread = threading.Thread(target=worker.run, args=(told.append,))
    thread.start()
    assert shop.asked.wait(30)
    shop.answers.set()
    until(lambda: any(done.findings for done in told), "the findings")
    worker.stop()
    thread.join(30)
    assert sum(done.findings for done in told) == 1


def test_one_round_alone_waits_for_it(shop):
    shop.pay("ann")
    threading.Timer(0.5, shop.answers.set).start()
    assert asyncio.run(settled.Worker(shop.guard).around()).findings == 1
