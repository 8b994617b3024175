"""What is left behind when a loop closes, a guard closes, a process starts again."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from typing import TYPE_CHECKING, Any, Literal

import httpx
import pytest

import settled
from tests.waiting import auntil, given_up_once, until

if TYPE_CHECKING:
    from pathlib import Path


def test_a_loop_that_closes_over_a_write_leaves_it_unknown_in_the_queue() -> None:
    with settled.Guard("memory://") as guard:
        begun: list[str] = []

        @guard.tool(effect="write")
        async def act() -> None:
            begun.append("act")
            await asyncio.sleep(30)

        async def main() -> None:
            with pytest.raises(TimeoutError):
                await given_up_once(lambda: begun, act.acall())

        asyncio.run(main())
        [call] = guard.journal.books.calls.values()  # type: ignore[attr-defined]  # a journal in memory
        result = guard.look(call.operation_id)
        assert result is not None
        assert (result.status, result.reason) == ("unknown", "loop_closed")


def test_a_cancelled_read_is_cut() -> None:
    with settled.Guard("memory://") as guard:
        begun: list[str] = []
        ended: list[str] = []

        @guard.tool(effect="read")
        async def look() -> None:
            begun.append("look")
            try:
                await asyncio.sleep(30)
            finally:
                ended.append("cut")

        async def cut_off(times: int) -> None:
            with pytest.raises(TimeoutError):
                await given_up_once(lambda: len(begun) == times, look.acall())
            await auntil(lambda: len(ended) == times, "the attempt's end")

        async def main() -> None:
            async with guard.run("r"):
                await cut_off(1)
            await cut_off(2)
            assert ended == ["cut", "cut"]

        asyncio.run(main())


def test_an_open_breaker_stays_open_in_the_next_process(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/j.db"
    policy = settled.BreakerPolicy.static(failures=2, cooldown=60)

    def declare(guard: settled.Guard) -> settled.Tool[[], None]:
        def sick() -> None:
            raise httpx.ReadTimeout("sick")

        tool: settled.Tool[[], None] = guard.tool(effect="write", breaker=policy)(sick)
        return tool

    with settled.Guard(address) as guard:
        tool = declare(guard)
        for n in range(2):
            assert tool.options(key=f"k{n}").call().status == "unknown"
        guard.breakers.keep()
    with settled.Guard(address) as guard:
        tool = declare(guard)
        result = tool.options(key="k3").call()
        assert result.reason == "breaker_open"
        assert result.retry_after is not None
        assert 0 < result.retry_after <= 72
        guard.breakers.keep()
        assert guard.journal.reset_breakers() == ["tool:sick"]
        guard.breakers.keep()
        assert tool.options(key="k3").call().status == "unknown"


def test_a_guard_that_is_closed_twice_and_used_after(tmp_path: Path) -> None:
    guard = settled.Guard(f"sqlite:///{tmp_path}/j.db")
    tool = guard.tool(effect="write")(lambda: 1)
    assert tool() == 1
    guard.close()
    guard.close()
    with pytest.raises(settled.JournalError):
        tool()


def test_the_log_is_sealed_by_the_guards_own_thread(tmp_path: Path) -> None:
    with settled.Guard(f"sqlite:///{tmp_path}/j.db") as guard:
        guard.tool(effect="write", name="act")(lambda: 1)()
        head = until(guard.journal.head, "its seal")
        assert guard.journal.verify(head).ok


def test_a_tool_that_is_cut_off_may_still_say_what_became_of_it() -> None:
    with settled.Guard("memory://") as guard:

        @guard.tool(effect="write", timeout=0.05, breaker=None)
        async def act(outcome: str) -> str:
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                if outcome == "answer":
                    return "done after all"
                if outcome == "not sent":
                    raise settled.NotExecuted("nothing had been sent") from None
                raise
            return ""

        async def main() -> list[str]:
            results = [await act.acall(outcome) for outcome in ("answer", "not sent", "nothing")]
            return [result.status for result in results]

        assert asyncio.run(main()) == ["succeeded", "failed", "unknown"]


def test_an_attempt_that_ignores_its_time_out_brings_its_answer_late() -> None:
    with settled.Guard("memory://") as guard:
        seen: list[str] = []

        @guard.tool(effect="write", timeout=0.05)
        async def act() -> str:
            while not seen:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.05)
            return "late"

        async def main() -> None:
            first = await act.acall()
            assert (first.status, first.reason) == ("unknown", "attempt_timeout")
            seen.append(first.status)
            await auntil(lambda: guard.look(first.operation_id).status != "unknown", "its late answer")
            result = guard.look(first.operation_id)
            assert (result.status, result.value) == ("succeeded", "late")

        asyncio.run(main())


class Held:
    """What a tool holds while it works."""


@pytest.mark.parametrize("effect", ["read", "write"])
@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_failed_attempt_held_is_let_go_with_it(effect: Literal["read", "write"], is_async: bool) -> None:
    """The traceback of its error reaches all of its frames, and those of its callers: they must not hold the error."""
    held: list[weakref.ref[Held]] = []

    def fail() -> None:
        mine = Held()
        held.append(weakref.ref(mine))
        raise ConnectionResetError

    async def afail() -> None:
        fail()

    with settled.Guard("memory://") as guard:
        options: Any = {"effect": effect, "attempts": 2, "retry": settled.Backoff(base=1e-9, cap=1e-9)}
        tool = guard.tool(name="fail", **options)(afail if is_async else fail)
        gc.collect()
        gc.disable()
        try:
            result = asyncio.run(tool.acall()) if is_async else tool.call()
            assert (result.ok, result.reason) == (False, "connection_reset")
            assert [each() for each in held] == ([None, None] if effect == "read" else [None])
        finally:
            gc.enable()
