"""A tool that returns a future, a task or a coroutine has not answered yet: what it comes to is the answer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import settled

if TYPE_CHECKING:
    from collections.abc import Callable

EFFECTS = ("write", "read")


@pytest.fixture
def guard() -> Iterator[settled.Guard]:
    with settled.Guard("memory://") as guard:
        yield guard


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def later(how: str) -> str:
    time.sleep(0.05)
    if how == "fails":
        raise RuntimeError("it went wrong halfway")
    return "done"


async def alater(how: str) -> str:
    return await asyncio.to_thread(later, how)


async def a_task(how: str) -> Any:
    return asyncio.create_task(alater(how))


async def a_coroutine(how: str) -> Any:
    return alater(how)


async def a_task_of_a_task(how: str) -> Any:
    return asyncio.create_task(a_task(how))


async def a_gathering(how: str) -> Any:
    return asyncio.gather(alater(how))


def of_a_pool(pool: ThreadPoolExecutor, how: str) -> Future[str]:
    return pool.submit(later, how)


def one_of_another(pool: ThreadPoolExecutor, how: str) -> Any:
    return pool.submit(of_a_pool, pool, how)


async def apool(pool: ThreadPoolExecutor, how: str) -> Any:
    return pool.submit(later, how)


def _declared(guard: settled.Guard, function: Callable[..., Any], effect: Any, **more: Any) -> Any:
    return guard.tool(effect=effect, name="act", **more)(function)


def _with(function: Callable[..., Any], pool: ThreadPoolExecutor) -> Callable[..., Any]:
    if asyncio.iscoroutinefunction(function):

        async def act(how: str) -> Any:
            return await function(pool, how)

        return act

    def act_here(how: str) -> Any:
        return function(pool, how)

    return act_here


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("timeout", [None, 20.0])
@pytest.mark.parametrize("function", [of_a_pool, one_of_another, apool])
def test_a_future_is_waited_for(
    guard: settled.Guard, pool: ThreadPoolExecutor, function: Any, timeout: float | None, effect: str
) -> None:
    act = _declared(guard, _with(function, pool), effect, timeout=timeout, attempts=1)
    assert act.call("works").value == "done"
    assert act.call("fails").status == ("unknown" if effect == "write" else "not_done")


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("function", [a_task, a_coroutine, a_task_of_a_task, a_gathering])
def test_a_task_is_waited_for(guard: settled.Guard, function: Any, effect: str) -> None:
    act = _declared(guard, function, effect, attempts=1)
    wanted = ["done"] if function is a_gathering else "done"

    async def both() -> tuple[Any, Any]:
        return await act.acall("works"), await act.acall("fails")

    for well, failed in (asyncio.run(both()), (act.call("works"), act.call("fails"))):
        assert well.value == wanted
        assert failed.status == ("unknown" if effect == "write" else "not_done")


def test_async_code_waits_for_a_sync_tools_future(guard: settled.Guard, pool: ThreadPoolExecutor) -> None:
    act = _declared(guard, _with(of_a_pool, pool), "write")

    async def both() -> tuple[Any, Any]:
        return await act.acall("works"), await act.acall("fails")

    well, failed = asyncio.run(both())
    assert well.value == "done"
    assert failed.status == "unknown"


def test_a_future_of_the_loop_that_the_tool_holds_up_is_not_waited_for(guard: settled.Guard) -> None:
    async def main() -> Any:
        loop = asyncio.get_running_loop()
        act = _declared(guard, lambda: asyncio.run_coroutine_threadsafe(alater("works"), loop), "write")
        return act.call()

    said: list[Any] = []
    thread = threading.Thread(target=lambda: said.append(asyncio.run(main())), daemon=True)
    thread.start()
    thread.join(20)
    assert [each.status for each in said] == ["unknown"]


def test_what_gives_itself_when_it_is_awaited_is_an_answer(guard: settled.Guard) -> None:
    class Connection(Awaitable[Any]):
        def __await__(self) -> Any:
            return self
            yield

    async def connect() -> Any:
        return Connection()

    act = _declared(guard, connect, "read")
    assert isinstance(act.call().value, Connection)


def test_a_time_limit_counts_for_the_future_too(guard: settled.Guard, pool: ThreadPoolExecutor) -> None:
    enough = threading.Event()

    def act_here() -> Any:
        return pool.submit(enough.wait, 20)

    act = _declared(guard, act_here, "write", timeout=0.2)
    try:
        assert act.call().status in ("unknown", "in_progress")
    finally:
        enough.set()
