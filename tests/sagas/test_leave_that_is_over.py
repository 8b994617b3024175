"""Leave that was used, that nobody gave in time, or that is no longer asked for; and what going on costs in vain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import settled
from settled.journals.memory import MemoryJournal
from settled.testing.records import FakeClock
from tests.lapsing import lapse

if TYPE_CHECKING:
    from pathlib import Path

    from settled.partial.outcome import Item

QUICK = settled.Backoff(base=1e-6, cap=1e-6)


def test_leave_that_was_used_does_not_cover_what_is_made_after_the_call_was_parked() -> None:
    made: list[int] = []
    clock = FakeClock()
    with settled.Guard(MemoryJournal(clock)) as guard:

        @guard.tool(effect="write", approve=True, key="k:{n}")
        def pay(n: int) -> str:
            made.append(n)
            if len(made) == 1:
                raise settled.NotExecuted("later", retryable=True, retry_after=600.0)
            return "paid"

        operation_id = pay.options(wait=0).call(1).operation_id
        guard.approve(operation_id, by="eva", reason="once")
        parked = pay.options(wait=0, within=60).call(1)
        assert (parked.status, made) == ("not_done", [1])
        clock.advance(3600.0)
        assert pay.options(wait=0).call(1).status == "awaiting_approval"
        guard.approve(operation_id, by="eva", reason="once more")
        assert (pay.call(1).value, made) == ("paid", [1, 1])


def test_a_call_whose_tool_asks_for_no_leave_any_more_does_not_wait_for_ever(tmp_path: Path) -> None:
    def opened(**options: Any) -> tuple[settled.Guard, Any]:
        guard = settled.Guard(f"sqlite:///{tmp_path}/j.db")

        def pay(n: int) -> str:
            return "paid"

        return guard, guard.tool(effect="write", key="k:{n}", **options)(pay).options(wait=0)

    guard, pay = opened(approve=True, approve_within=60)
    asked = pay.call(1)
    assert asked.status == "awaiting_approval"
    guard.close()
    guard, pay = opened()
    with guard:
        assert pay.call(1).status == "awaiting_approval"  # there is time left to decide
        lapse(guard, asked.operation_id)
        assert pay.call(1).value == "paid"
        assert guard.journal.verify().ok


def test_what_going_on_takes_is_given_back_where_the_run_does_not_grant_it() -> None:
    def read(_: object, items: list[int]) -> list[Item]:
        return [settled.partial.done(n) if n else settled.partial.not_done("busy") for n in items]

    with settled.Guard("memory://") as guard:

        @guard.tool(effect="write", partial=read, attempts=3, retry=QUICK)
        def send(items: list[int]) -> dict[str, str]:
            return {}

        with guard.run("r", retries=settled.RetryBudget(total=0)):
            for n in range(1, 14):
                assert send.call([1, 0, 0, n]).attempts == 1
        pool = guard.pools_of(send).process
        assert pool is not None
        assert pool.full


def test_who_gives_leave_once_more_is_told_that_the_program_is_awaited() -> None:
    with settled.Guard("memory://") as guard:

        @guard.tool(effect="write", approve=True, key="k:{n}")
        def pay(n: int) -> str:
            return "paid"

        operation_id = pay.options(wait=0).call(1).operation_id
        guard.approve(operation_id, by="eva", reason="once")
        told = "eva gave it, and it is made when its program asks for it again"
        with pytest.raises(settled.DeclarationError, match=told):
            guard.approve(operation_id, by="kim", reason="twice")
