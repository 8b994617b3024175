"""Probes of every kind: what one raises or returns ends neither the worker nor the asking about other calls."""

import asyncio

import pytest

import settled
from settled.core.doubt.tending import LayDown


class Rude(BaseException):
    """As gevent.Timeout is: no ``Exception``."""


class MuteError(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Wordless:
    def __repr__(self):
        raise RuntimeError("no words")


RAISED = [OSError("no line"), SystemExit(3), asyncio.CancelledError(), StopIteration(), Rude(), MuteError()]
RETURNED = [None, True, settled.Happened, Wordless(), "happened"]


def probes(odd, *, is_async):
    """Return a probe that is odd once it is let, and one that says that nothing happened."""
    asked = []

    def act():
        if not asked:
            return settled.Inconclusive("too early")
        if isinstance(odd, BaseException):
            raise odd
        return odd

    async def later(call):
        return act()

    def plain(call):
        return settled.NotHappened() if asked else settled.Inconclusive("too early")

    return asked, later if is_async else lambda call: act(), plain


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("odd", [*RAISED, *RETURNED], ids=lambda odd: type(odd).__name__)
def test_an_odd_probe_is_counted_as_failed_and_holds_up_no_other(tmp_path, odd, is_async):
    asked, odd_one, plain = probes(odd, is_async=is_async)
    with settled.Guard(f"sqlite:///{tmp_path / 'agent.db'}") as guard:
        declared = {"effect": "write", "max_request_lifetime": 0.0, "breaker": None, "attempts": 1}
        calls = []
        for name, probe in (("odd", odd_one), ("other", plain)):

            @guard.tool(name=name, probe=probe, **declared)
            def pay(to: str) -> None:
                raise TimeoutError

            calls += [pay.call(to=to).operation_id for to in "ab"]
        for each in calls:
            guard.journal.perform(LayDown(each, 1, 0.0))  # a worker may look at once
        asked.append(True)
        done = asyncio.run(settled.Worker(guard, ledger_every=None).around())
        counted = done.settled
        assert (counted.left, counted.probes_failed, counted.did_not_happen, done.trouble) == (2, 2, 2, "")
        assert [guard.journal.get(each).state for each in calls] == ["unknown"] * 2 + ["not_done"] * 2
