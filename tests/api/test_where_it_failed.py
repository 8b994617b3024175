"""Who looks for a bug in a tool is told where it failed, and nothing of what was said there."""

import asyncio
import inspect
import logging
from pathlib import Path

import pytest

import settled


@pytest.fixture
def guard():
    with settled.Guard("memory://") as made:
        yield made


def look_up(password: str) -> str:
    return {}[password]


LINE = inspect.getsourcelines(look_up)[1] + 1
PLACE = f"{Path(__file__)}:{LINE} in look_up"


def plain(guard, effect):
    return guard.tool(effect=effect, breaker=None, attempts=1)(look_up).call("hunter2")


def in_a_thread(guard, effect):
    return guard.tool(effect=effect, breaker=None, attempts=1, timeout=20)(look_up).call("hunter2")


def on_a_loop(guard, effect):
    @guard.tool(effect=effect, breaker=None, attempts=1, name="look_up")
    async def looked(password: str) -> str:
        await asyncio.sleep(0)
        return look_up(password)

    async def asked():
        return await looked.acall("hunter2")

    return asyncio.run(asked())


@pytest.mark.parametrize("effect", ["read", "write"])
@pytest.mark.parametrize("make", [plain, in_a_thread, on_a_loop])
def test_it_is_told_at_debug(guard, caplog, make, effect):
    caplog.set_level(logging.DEBUG, "settled")
    call = make(guard, effect)
    (told,) = [message for message in caplog.messages if "by way of" in message]
    assert told.startswith("look_up, attempt 1: KeyError by way of ")
    assert told.endswith(f"{PLACE} [{call.operation_id or 'not recorded'}]")
    assert "hunter2" not in told
    assert "settled/api" not in told


def test_it_is_not_told_above(guard, caplog):
    caplog.set_level(logging.INFO, "settled")
    plain(guard, "write")
    assert caplog.messages == []
