"""Breakers that processes share: one's trip is everybody's, and of all of them one makes the probe."""

import os
import threading
import time
from contextlib import suppress

import pytest

import settled
from settled.errors import JournalError
from settled.journals.sqlite import SqliteJournal
from settled.testing.records import FakeClock

COOLDOWN = 4.0
POLICY = settled.BreakerPolicy(cooldown=COOLDOWN, adaptive=False, failures=4)


class Down(Exception):  # noqa: N818 - what a tool raises, by any name
    """The other side is away."""


class SharedBreakers:
    """Subclasses have a fixture ``address``: of a journal that several guards open."""

    @pytest.fixture
    def guards(self, address):
        """Three guards, each as a process of its own would have it; and their tools."""
        guards = [settled.Guard(address, shared_breakers=True) for _ in range(3)]
        yield guards
        for guard in guards:
            guard.close()

    @pytest.fixture
    def world(self):
        go_on = threading.Event()
        go_on.set()
        return {"down": True, "calls": 0, "go on": go_on}

    @pytest.fixture
    def tools(self, guards, world):
        def ask() -> str:
            world["calls"] += 1
            world["go on"].wait(30)
            if world["down"]:
                raise Down
            return "here"

        return [guard.tool(effect="read", attempts=1, breaker=POLICY)(ask) for guard in guards]

    def reason(self, tool):
        return tool.call().reason

    def test_a_trip_is_everybodys(self, tools, world):
        """Those whose own calls went well are turned away too, a second later at the latest."""
        world["down"] = False
        assert [tool() for tool in tools] == ["here"] * 3
        world["down"] = True
        while self.reason(tools[0]) != "breaker_open":
            assert world["calls"] < 20
        world["down"] = False
        deadline = time.monotonic() + 20
        while self.reason(tools[1]) != "breaker_open":
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def test_of_all_one_makes_the_probe(self, guards, tools, world):
        while self.reason(tools[0]) != "breaker_open":
            assert world["calls"] < 20
        assert all(tool.call() for tool in tools)
        for guard in guards:
            guard.breakers.keep()
        time.sleep(COOLDOWN * 1.3)
        world.update(calls=0, down=False)
        world["go on"].clear()
        told = []
        threads = [threading.Thread(target=lambda tool=tool: told.append(self.reason(tool))) for tool in tools * 2]
        for thread in threads:
            thread.start()
        while len(told) < len(threads) - 1:
            time.sleep(0.01)
        world["go on"].set()
        for thread in threads:
            thread.join(30)
        assert world["calls"] == 1
        assert sorted(told) == ["", *["breaker_open"] * 5]
        for guard in guards:
            guard.breakers.keep()
        assert [tool() for tool in tools] == ["here"] * 3

    def test_an_operators_reset_is_everybodys(self, guards, tools, world):
        while self.reason(tools[0]) != "breaker_open":
            assert world["calls"] < 20
        world["down"] = False
        for guard in guards:
            guard.breakers.keep()
        assert list(guards[1].journal.reset_breakers()) == ["tool:ask"]
        for guard in guards:
            guard.breakers.keep()
        assert [tool() for tool in tools] == ["here"] * 3

    def test_who_comes_later_finds_it_open(self, address, guards, tools, world):
        while self.reason(tools[0]) != "breaker_open":
            assert world["calls"] < 20
        before = world["calls"]
        with settled.Guard(address, shared_breakers=True) as late:
            tool = late.tool(effect="read", attempts=1, breaker=POLICY)(tools[0].function)
            assert self.reason(tool) == "breaker_open"
        assert world["calls"] == before


class SharedRetries:
    """Subclasses have a fixture ``address``: of a journal that several guards open."""

    @pytest.fixture
    def tools(self, address):
        """The same tool, which is away, in three guards, each as a process of its own would have it."""

        def ask() -> str:
            raise TimeoutError

        guards = [settled.Guard(address, shared_retries=True) for _ in range(3)]
        now = settled.Backoff(base=0.0001, cap=0.001)
        yield [guard.tool(effect="read", attempts=2, breaker=None, retry=now)(ask) for guard in guards]
        for guard in guards:
            guard.close()

    def spend(self, tool):
        """Call until a retry is refused; return how many were granted. First attempts pay in a tenth of one."""
        results = []
        while not results or "retry_budget:process" not in results[-1].reason:
            assert len(results) < 30
            results.append(tool.call())
        return sum(result.attempts - 1 for result in results)

    def together(self, tools):
        for tool in tools:
            tool.attached._agree_on_retries()

    def test_what_moved_before_a_fork_is_told_once(self, tools):
        guard = tools[0].attached
        tools[0].call()
        left = guard.pools_of(tools[0]).process.level
        for _ in range(2):
            if not (child := os.fork()):
                guard._agree_on_retries()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        self.together(tools)
        assert [tool.attached.pools_of(tool).process.level for tool in tools[:2]] == [left] * 2

    def test_what_was_told_is_not_told_again_where_the_answer_was_lost(self, tools, monkeypatch):
        guard = tools[0].attached
        tools[0].call()
        left, agree = guard.pools_of(tools[0]).process.level, guard.journal.agree

        def lost(*told):
            agree(*told)
            raise JournalError("the answer was lost")

        for _ in range(2):
            with monkeypatch.context() as away, suppress(JournalError):
                away.setattr(guard.journal, "agree", lost)
                guard._agree_on_retries()
        self.together(tools)
        assert [tool.attached.pools_of(tool).process.level for tool in tools[:2]] == [left] * 2

    def test_what_one_spends_the_others_lack(self, tools):
        assert all(tool.call().attempts == 2 for tool in tools)
        alone = self.spend(tools[0])
        self.together(tools)
        assert alone >= 9
        assert [self.spend(tool) for tool in tools] == [0, 0, 0]

    def test_what_all_spent_at_once_is_paid_back_first(self, tools):
        spent = [self.spend(tool) for tool in tools]  # each saw a full pool: nobody has told of anything yet
        self.together(tools * 2)
        levels = [pool.level for pool in self.pools(tools)]
        assert sum(spent) > 25
        assert len(set(levels)) == 1
        assert levels[0] < -10

    def test_who_comes_later_finds_what_is_left(self, address, tools):
        self.spend(tools[0])
        self.together(tools[:1])
        with settled.Guard(address, shared_retries=True) as late:
            tool = late.tool(effect="read", attempts=2, breaker=None)(tools[0].function)
            assert self.spend(tool) == 0

    def test_each_has_its_own_unless_it_is_asked_for(self, address, tools):
        self.spend(tools[0])
        self.together(tools[:1])
        with settled.Guard(address) as own:
            tool = own.tool(effect="read", attempts=2, breaker=None)(tools[0].function)
            assert self.spend(tool) >= 9

    def test_several_that_tell_at_once_lose_nothing(self, tools):
        for tool in tools:
            tool.call()
        threads = [threading.Thread(target=self.together, args=(tools,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        self.together(tools * 2)
        assert {pool.level for pool in self.pools(tools)} == {10.0 - 3 * 1.0}

    def pools(self, tools):
        return [tool.attached.pools_of(tool).process for tool in tools]


class TestRetriesOnSqlite(SharedRetries):
    @pytest.fixture
    def address(self, tmp_path):
        return f"sqlite:///{tmp_path / 'agent.db'}"


class TestOnSqlite(SharedBreakers):
    @pytest.fixture
    def address(self, tmp_path):
        return f"sqlite:///{tmp_path / 'agent.db'}"

    def test_a_change_is_made_by_who_saw_the_last_one(self, tmp_path):
        journal = SqliteJournal(tmp_path / "agent.db", clock=FakeClock())
        assert journal.agree("pay", 0, "mine") == (1, "mine")
        assert journal.agree("pay", 0, "mine") == (1, "mine")  # the answer was lost
        assert journal.agree("pay", 0, "theirs") == (1, "mine")
        assert journal.agree("pay", 1, "theirs") == (2, "theirs")
        assert journal.agreed() == {"pay": (2, "theirs")}
        assert journal.breakers() == {}
        journal.close()
