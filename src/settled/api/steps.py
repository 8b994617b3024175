"""What is done in several steps, written once for plain and for async code: a generator says what it wants next."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeVar

from settled.api.calls.bound import BoundCall

if TYPE_CHECKING:
    from settled.api.guard import Guard

T = TypeVar("T")
Steps = Generator[Any, Any, T]
"""Yields a transition to perform, a bound call to make, or seconds to sleep (a float); is sent what came of it."""


def drive(guard: Guard, steps: Steps[T]) -> T:
    """Do what the steps want until they are through, from plain code; return what they return.

    What goes wrong leaves through here, and ends them.
    """
    answer = None
    try:
        while True:
            wanted = steps.send(answer)
            if isinstance(wanted, BoundCall):
                answer = guard.make(wanted)
            elif isinstance(wanted, float):
                answer = None
                time.sleep(wanted)
            else:
                answer = guard.journal.perform(wanted)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        steps.close()


async def adrive(guard: Guard, steps: Steps[T]) -> T:
    """Like ``drive``, without blocking the loop."""
    answer = None
    try:
        while True:
            wanted = steps.send(answer)
            if isinstance(wanted, BoundCall):
                answer = await guard.amake(wanted)
            elif isinstance(wanted, float):
                answer = None
                await asyncio.sleep(wanted)
            else:
                answer = await guard.journal.aperform(wanted)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        steps.close()
