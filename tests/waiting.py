"""Waiting for what another thread, process or server brings about, and no longer than until then."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


def until(look: Callable[[], T], what: str, seconds: float = 60) -> T:
    """Look until there is something to see, generously; return what was seen.

    Raises:
        AssertionError: It was never seen in so many seconds.
    """
    end = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < end, f"never seen: {what}"
        time.sleep(0.005)
    return seen


async def auntil(look: Callable[[], T], what: str, seconds: float = 60) -> T:
    """Look so while the loop goes on."""
    end = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < end, f"never seen: {what}"
        await asyncio.sleep(0.005)
    return seen


async def given_up_once(begun: Callable[[], object], call: Awaitable[T]) -> T:
    """Wait for a call until that is seen, and no longer: on a busy machine any number of seconds may be too few.

    Raises:
        TimeoutError: The time was over then.
    """
    async with asyncio.timeout(None) as limit:

        async def end() -> None:
            await auntil(begun, "it has begun")
            limit.reschedule(0.0)

        ending = asyncio.create_task(end())
        try:
            return await call
        finally:
            ending.cancel()
