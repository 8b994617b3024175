"""A bank with books of its own, and a guard over each journal in turn, on a clock that the test moves."""

import itertools
import time

import pytest

import settled
from settled.core.model import Moment
from settled.journals.memory import MemoryJournal
from settled.journals.postgres import PostgresJournal
from settled.journals.redis import RedisJournal
from settled.journals.sqlite import SqliteJournal

_numbers = itertools.count(1)
LIFETIME = 60.0


class Clock:
    """The journal's clock; it starts at the real time, since owners and files are real."""

    def __init__(self):
        self.wall, self.mono = time.time(), 1000.0

    def __call__(self):
        return Moment(self.wall, "boot", self.mono)

    def pass_time(self, seconds):
        self.wall += seconds
        self.mono += seconds


class Bank:
    """Books of payments: what happened, when by the bank's clock, under which key."""

    def __init__(self, clock):
        self.clock = clock
        self.rows = []
        self.skew = 0.0
        self.hidden = 0
        """Readings in which the newest row does not show yet."""
        self.asked = []
        self.trouble = {}
        self.keys = True
        self.page = 3

    def book(self, key, to, amount, *, ref=None):
        self.rows.append((ref or f"pay-{len(self.rows)}", key, to, amount, self.clock.wall + self.skew))

    def effects(self, since):
        """List them from then on, page by page; a row at the edge of a page is on both."""
        self.asked.append(since)
        if "ledger" in self.trouble:
            raise self.trouble["ledger"]
        rows = [row for row in self.rows if row[4] >= since.timestamp()]
        if self.hidden:
            self.hidden, rows = self.hidden - 1, rows[:-1]
        for at in range(0, len(rows), self.page):
            for ref, key, to, amount, wall in rows[at : at + self.page + 1]:
                given = {"to": to, "amount": amount}
                yield settled.Effect(at=wall, key=key if self.keys else "", arguments=given, ref=ref, result=ref)


class World:
    """A guard, its bank and its clock."""

    def __init__(self, journal, clock):
        self.clock, self.bank = clock, Bank(clock)
        self.guard = settled.Guard(journal)
        self.lost = set()

        @self.guard.tool(
            effect="write", ledger=self.bank.effects, max_request_lifetime=LIFETIME, breaker=None, retention=None
        )
        def pay(to: str, amount: int = 1) -> str:
            fate = self.bank.trouble.get(to, "done")
            if fate in ("done", "lost", "twice"):
                self.bank.book(settled.current_call().key, to, amount)
            if fate == "twice":
                self.bank.book(settled.current_call().key, to, amount)
            if fate in ("lost", "never"):
                raise TimeoutError("no answer")
            if fate == "refused":
                self.bank.book(settled.current_call().key, to, amount)
                raise settled.NotExecuted("declined", retryable=False)
            return f"pay-{len(self.bank.rows) - 1}"

        self.pay = pay

    def compare(self, since=7200.0):
        (compared,) = self.guard.reconcile(ledger=True, since=since).ledgers
        return compared

    def kinds(self, since=7200.0):
        return sorted(finding.kind for finding in self.compare(since).findings)


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def world(request, tmp_path):
    clock, number = Clock(), next(_numbers)
    if request.param == "memory":
        journal = MemoryJournal(clock)
    elif request.param == "sqlite":
        journal = SqliteJournal(tmp_path / "agent.db", clock=clock)
    elif request.param == "postgres":
        server = request.getfixturevalue("postgres")
        journal = PostgresJournal(server.url(), schema=f"ledger_{number}", spill=tmp_path / "spill", clock=clock)
    else:
        server = request.getfixturevalue("redis")
        journal = RedisJournal(
            server.url(), prefix=f"ledger{number}", spill=tmp_path / "spill", clock=clock, accept_loss=True
        )
    world = World(journal, clock)
    with world.guard:
        yield world
