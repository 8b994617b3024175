"""Attempts that async code waits for where it stands: those without a record, and all of a sync tool's."""

from __future__ import annotations

import asyncio
import contextvars
from asyncio import CancelledError
from typing import TYPE_CHECKING

from settled.current import current
from settled.drivers.alarm import alarm_of
from settled.drivers.attempts import current_call, ended, is_an_answer, late_of, raised, returned, run_here, timed_out
from settled.drivers.leaving import Leaving, in_thread
from settled.drivers.loops import being_cancelled, on_loop
from settled.drivers.waiting import asked_from

if TYPE_CHECKING:
    from settled.core.commands import Ended, Invoke, Shut
    from settled.drivers.alarm import Limit
    from settled.drivers.floor import Binding, Floor


async def attempt(command: Invoke, binding: Binding, floor: Floor) -> Ended | Shut:
    """Make an attempt that needs no record."""
    if command.first:
        shut = floor.admit(binding)
        if shut is not None:
            return shut
        floor.begin(binding)
    make = threaded if not binding.is_async else _in_time if command.timeout is not None else _within
    return floor.judge(binding, await make(command, binding, floor), command.no)  # not kept in a name: see sync.attempt


async def _in_time(command: Invoke, binding: Binding, floor: Floor) -> Ended:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None and command.timeout is not None  # noqa: S101, PT018 - for the type checker
    alarm = alarm_of(loop)
    limit = alarm.set(loop, task, command.timeout)
    try:
        return await _within(command, binding, floor, limit)
    finally:
        alarm.off(limit)


async def _within(command: Invoke, binding: Binding, floor: Floor, limit: Limit | None = None) -> Ended:
    """Run an async attempt in the asker's own task: cancelling one cancels the other."""
    token = current.set(current_call(command, binding))
    try:
        value = await binding.run(None)
        if not is_an_answer(type(value)):
            value = await ended(value)
    except CancelledError as error:
        if limit is not None and limit.over():
            return timed_out(command, binding, floor, over=True)
        if being_cancelled():
            floor.release(binding)
            raise
        return raised(error, command, binding, floor)
    except Exception as error:  # noqa: BLE001 - every end of an attempt is read
        if limit is not None and limit.expired:
            limit.over()
            return timed_out(command, binding, floor, over=True)
        return raised(error, command, binding, floor)
    finally:
        current.reset(token)
    if limit is not None and limit.expired:
        limit.over()  # it answered all the same
    return returned(value, command, binding, floor)


async def threaded(command: Invoke, binding: Binding, floor: Floor) -> Ended:
    """Run a sync attempt in a thread of its own."""
    loop = asyncio.get_running_loop()
    woken = asyncio.Event()
    slot: Leaving[Ended] = Leaving(late_of(command, binding, floor))
    inside = contextvars.copy_context()
    inside.run(asked_from.set, loop)

    def work() -> None:
        slot.finish(inside.run(run_here, command, binding, floor))
        on_loop(loop, woken.set)

    in_thread(work, f"settled-{binding.tool}")
    try:
        async with asyncio.timeout(command.timeout):
            await woken.wait()
    except TimeoutError:
        return slot.leave() or timed_out(command, binding, floor, over=False)
    except CancelledError:
        slot.leave()
        floor.release(binding)
        raise
    end = slot.leave()
    if end is None:
        raise RuntimeError("woken without a result")
    return end
