"""Async functions run where their clients live: on the asker's loop, or on the one loop kept for plain code."""

import asyncio
import multiprocessing
import os

import pytest

import settled
from settled.drivers.home import Home


@pytest.fixture
def home():
    home = Home()
    yield home
    home.close()


async def here():
    return asyncio.get_running_loop()


def test_what_a_sync_function_leaves_to_be_awaited_runs_on_the_loop_that_asks():
    with settled.Guard("memory://") as guard:
        guard.tool(effect="write", name="inner")(here)
        guard.tool(effect="write", name="wrapped")(lambda: here())  # noqa: PLW0108 - a sync function
        guard.tool(effect="write", name="nested")(lambda: guard.dispatch("inner", {}).value)

        async def main():
            loops = [(await guard.adispatch(name, {})).value for name in ("inner", "wrapped", "nested")]
            return [loop is asyncio.get_running_loop() for loop in loops]

        assert asyncio.run(main()) == [True] * 3


class Client:
    """Bound to the loop on which it was first used, as HTTP and database clients are by their pools."""

    def __init__(self):
        self.loop, self.used = None, []

    async def use(self, what):
        self.loop = self.loop or asyncio.get_running_loop()
        if self.loop is not asyncio.get_running_loop() or self.loop.is_closed():
            raise RuntimeError("Event loop is closed")
        self.used.append(what)


def open_guard(address, client, *, die=False):
    guard = settled.Guard(address)

    @guard.tool(effect="write", waiver="it undoes")
    async def cancel(booking: str) -> str:
        if die:
            os._exit(9)
        await client.use(f"cancel {booking}")
        return booking

    @guard.tool(effect="write", compensate="cancel", undo=lambda _, result: {"booking": result})
    async def book(what: str) -> str:
        await client.use(f"book {what}")
        return what

    return guard


def make_a_trip(guard):
    with guard.run("trip", on_error="compensate"):
        guard.dispatch("book", {"what": "a"}).unwrap()
        guard.dispatch("book", {"what": "b"}).unwrap()
        raise LookupError


def test_calls_from_plain_code_share_a_loop():
    client = Client()
    with open_guard("memory://", client) as guard:
        made = [guard.dispatch("book", {"what": str(no)}).value for no in range(3)]
        with pytest.raises(LookupError):
            make_a_trip(guard)
        assert (made, str(guard.journal.run("", "trip").state)) == (["0", "1", "2"], "compensated")


def _die_while_undoing(address):
    async def main():
        async with open_guard(address, Client(), die=True) as guard, guard.run("trip", on_error="compensate"):
            await guard.adispatch("book", {"what": "flight"})
            await guard.adispatch("book", {"what": "hotel"})
            raise LookupError

    asyncio.run(main())


def test_a_rollback_that_was_left_is_seen_through_on_the_loop_that_finds_it(tmp_path):
    address = f"sqlite:///{tmp_path}/agent.db"
    process = multiprocessing.get_context("fork").Process(target=_die_while_undoing, args=(address,))
    process.start()
    process.join(60)
    assert process.exitcode == 9
    client = Client()

    async def main():
        async with open_guard(address, client) as guard:
            await guard.adispatch("book", {"what": "car"})  # the client is bound to this loop
            with pytest.raises(settled.RunUndone) as told:
                async with guard.run("trip", on_error="compensate"):
                    raise AssertionError
            return told.value.status

    assert asyncio.run(main()) == "partly_compensated"  # whether the hotel was cancelled nobody knows
    assert client.used == ["book car", "cancel flight"]


def test_the_loop_is_kept_and_ends_with_its_owner(home):
    loops = {home.run(here()) for _ in range(3)}
    assert len(loops) == 1
    home.close()
    assert loops.pop().is_closed()
    assert not home.run(here()).is_closed()


def test_what_ends_a_process_is_raised_and_the_next_work_has_a_loop_again(home):
    async def end():
        async def ending():
            raise SystemExit(3)

        await asyncio.create_task(ending())

    first = home.run(here())
    with pytest.raises(SystemExit):
        home.run(end())
    assert home.run(here()) is not first


def test_a_cancellation_is_one_of_asyncio(home):
    async def cancelled():
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        home.run(cancelled())


def test_work_inside_of_work_does_not_wait_for_itself(home):
    async def blocking():
        return home.run(here())

    assert home.run(blocking()).is_closed()  # a loop of its own


def test_a_forked_child_has_a_loop_of_its_own(home):
    first = home.run(here())
    process = multiprocessing.get_context("fork").Process(target=_in_a_child, args=(home, first))
    process.start()
    process.join(60)
    assert process.exitcode == 0


def _in_a_child(home, first):
    home.forked()
    assert home.run(here()) is not first
