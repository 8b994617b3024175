"""Small things that the asyncio driver does on its loop: wait for threads, events and time."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import types
from typing import TYPE_CHECKING

from settled.drivers.attempts import SHORTEST_SLEEP, ended, is_an_answer
from settled.drivers.leaving import in_thread
from settled.drivers.waiting import asked_from, in_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any, TypeVar

    T = TypeVar("T")


async def apart(name: str, function: Callable[..., T], *args: object) -> T:
    """Call a function in a thread of its own.

    Those that asyncio lends are few, and others may wait for them; and it lends none once the main thread has ended.
    """
    loop, inside = asyncio.get_running_loop(), contextvars.copy_context()
    inside.run(asked_from.set, loop)
    future: asyncio.Future[T] = loop.create_future()

    def tell(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:  # a future takes no StopIteration: whoever waits would do so for ever
            future.set_exception(RuntimeError(repr(error)) if isinstance(error, StopIteration) else error)

    def work() -> None:
        try:
            value, error = inside.run(function, *args), None
        except BaseException as failed:  # noqa: BLE001 - raised again by whoever waits
            value, error = None, failed
        on_loop(loop, lambda: tell(value, error))

    in_thread(work, name)
    return await future


async def aside(function: Callable[..., T], *args: object) -> T:
    """Call a function that blocks, from async code, in a thread of its own."""
    return await apart("settled-aside", function, *args)


async def awaited(run: Callable[[], Any]) -> Any:
    """Call a function and await what it returns, to its end: a coroutine, which a task needs."""
    value = await run()
    return value if is_an_answer(type(value)) else await ended(value)


def end_of(
    loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any], note: Callable[[asyncio.Task[Any]], object]
) -> asyncio.Future[None]:
    """Return what is done once a task has ended and that was noted; whoever stops waiting leaves the task alone."""
    future: asyncio.Future[None] = loop.create_future()

    def over(task: asyncio.Task[Any]) -> None:
        note(task)
        if not future.done():
            future.set_result(None)

    task.add_done_callback(over)
    return future


async def off_loop(function: Callable[..., Any], *args: object, seconds: float = 60.0) -> Any:
    """Await an async function here; run a sync one in a thread that is left after ``seconds``: ``TimeoutError``."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        return await function(*args)
    async with asyncio.timeout(seconds):
        said = await apart("settled-probe", function, *args)
    return await said if inspect.isawaitable(said) else said


@types.coroutine
def turn() -> Generator[None, None, None]:
    """Let the loop go round once, as ``asyncio.sleep(0)`` does."""
    yield


async def asleep(waiting: asyncio.Future[None], seconds: float) -> None:
    """Wait for time to pass, or for ``wake``."""
    timer = waiting.get_loop().call_later(seconds, wake, waiting)
    try:
        await waiting
    finally:
        timer.cancel()


def wake(waiting: asyncio.Future[None]) -> None:
    """Let whoever is asleep go on."""
    if not waiting.done():
        waiting.set_result(None)


async def first(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event or for time to pass, whichever comes first."""
    if seconds < SHORTEST_SLEEP:
        await turn()
        return
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


def on_loop(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
    """Have a function called on a loop, from any thread; where the loop was closed nobody waits any more."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(function)


def being_cancelled() -> bool:
    """Whether the task at work is being cancelled from outside."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def leaked(error: BaseException) -> bool:
    """Whether a cancellation is one that nobody here has asked for: a function, or its client, raised it by itself."""
    return isinstance(error, asyncio.CancelledError) and not (in_loop() and being_cancelled())
