"""Async functions run where their clients live: on the asker's loop, or on the one loop kept for plain code."""

import asyncio
import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import settled
from settled.drivers.home import Home
from settled.ports import CallQuery


@pytest.fixture
def home():
    home = Home()
    yield home
    home.close()


def in_a_child(target, *args):
    """Run a function in a forked child; return the child's exit code."""
    process = multiprocessing.get_context("fork").Process(target=target, args=args)
    process.start()
    process.join(60)
    return process.exitcode


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
    assert in_a_child(_die_while_undoing, address) == 9
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


def test_the_loop_is_kept_beyond_its_guard(home):
    loops = {home.run(here()) for _ in range(3)}
    home.close()
    assert loops == {home.run(here())}


def test_guards_share_the_loop_at_once_and_one_after_another():
    """Guards of several tenants, or of one job after another, have their tools' clients in common."""
    client = Client()
    with open_guard("memory://", client) as one, open_guard("memory://", client) as other:
        first = [guard.dispatch("book", {"what": "a"}).status for guard in (one, other, one)]
    with open_guard("memory://", client) as third:
        assert [*first, third.dispatch("book", {"what": "a"}).status] == ["succeeded"] * 4


def test_what_ends_a_process_is_raised_to_who_asked_and_to_nobody_else():
    """It is put on record first; another thread's call, under way on the same loop, is done."""
    begun, go_on = threading.Event(), threading.Event()
    with settled.Guard("memory://") as guard, ThreadPoolExecutor(1) as thread:

        @guard.tool(effect="write")
        async def slow() -> str:
            begun.set()
            while not go_on.is_set():  # noqa: ASYNC110 - it is set by another thread
                await asyncio.sleep(0.01)
            return "done"

        @guard.tool(effect="write")
        async def leaves() -> str:
            raise SystemExit(3)

        other = thread.submit(slow.call)
        assert begun.wait(30)
        with pytest.raises(SystemExit):
            leaves.call()
        go_on.set()
        assert other.result(30).value == "done"
        assert [str(call.state) for call in guard.journal.find(CallQuery(tool="leaves"))] == ["unknown"]


def test_a_guard_that_is_closed_cuts_off_its_own_calls_only():
    begun, go_on = threading.Event(), threading.Event()

    async def slow() -> str:
        begun.set()
        while not go_on.is_set():  # noqa: ASYNC110 - it is set by another thread
            await asyncio.sleep(0.01)
        return "done"

    closing, other = settled.Guard("memory://"), settled.Guard("memory://")
    with other, ThreadPoolExecutor(2) as threads:
        asked = []
        for guard in (closing, other):
            begun.clear()
            asked.append(threads.submit(guard.tool(effect="write")(slow).call))
            assert begun.wait(30)
        closing.close()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            asked[0].result(30)
        assert asked[1].result(30).value == "done"


def test_a_cancellation_is_one_of_asyncio(home):
    async def cancelled():
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        home.run(cancelled())


def test_work_inside_of_work_does_not_wait_for_itself(home):
    async def blocking():
        return home.run(here())

    assert home.run(blocking()).is_closed()  # a loop of its own


def _loops_of(guard, loops):
    @guard.tool(effect="write")
    async def leaf() -> None:
        loops.append(asyncio.get_running_loop())

    return leaf


def test_a_thread_that_the_loop_has_lent_is_served_by_it():
    loops = []
    with settled.Guard("memory://") as guard:
        leaf = _loops_of(guard, loops)

        @guard.tool(effect="write")
        async def outer() -> str:
            loops.append(asyncio.get_running_loop())
            return (await asyncio.to_thread(leaf.call)).status

        assert outer.call().value == "succeeded"
    assert len(set(loops)) == 1


@pytest.mark.parametrize("plain", [True, False])
def test_a_loop_that_is_held_up_is_not_waited_for(plain):
    """Async code makes a plain call with a time-out, which blocks its loop, and that asks for an async tool."""
    loops = []
    with settled.Guard("memory://") as guard:
        leaf = _loops_of(guard, loops)

        @guard.tool(effect="write", timeout=30)
        def third() -> str:
            return leaf.call().status

        @guard.tool(effect="write")
        async def second() -> str:
            return third.call().value

        @guard.tool(effect="write")
        def first() -> str:
            return second.call().value

        assert (first.call() if plain else asyncio.run(first.bind().acall())).value == "succeeded"


def test_calls_are_made_once_the_main_thread_has_ended(tmp_path):
    """Python's pools of threads take no work any more then; a program's other threads go on all the same."""
    program = f"""
import asyncio, threading, settled
from settled.errors import JournalError
guard = settled.Guard("sqlite:///{tmp_path}/agent.db")

@guard.tool(effect="write", timeout=0.1, max_request_lifetime=0.01, probe=lambda call: settled.Happened("probed"))
async def doubtful() -> str:
    await asyncio.sleep(60)

@guard.tool(effect="write")
async def last() -> str:
    async def away(_): raise JournalError("away")
    guard.journal.aperform = away
    return "kept"

async def again():
    async with guard.run("again"):
        return (await doubtful.acall()).value

def work():
    threading.main_thread().join()
    with guard.run("run") as run:
        print([result.value for result in run.gather(doubtful.bind(), doubtful.bind())])
    print(asyncio.run(again()), asyncio.run(again()), last.call().value)

threading.Thread(target=work).start()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == ("['probed', 'probed']\nprobed probed kept\n", 0), done.stderr
    assert [path.name for path in tmp_path.glob("*spill*")], "the evidence is kept"


def _leaves_a_call_of_its_parent(address):
    async def main():
        guard = settled.Guard(address)
        begun, never = asyncio.Event(), asyncio.Event()

        @guard.tool(effect="write")
        async def slow() -> None:
            begun.set()
            await never.wait()

        call = asyncio.create_task(slow.acall())
        await begun.wait()
        return guard, call

    with asyncio.Runner() as runner:
        guard, _ = runner.run(main())
        if os.fork():
            os.wait()
            call = guard.journal.find(CallQuery())[0]
            os._exit(0 if str(call.state) == "processing" else 1)
    os._exit(0)  # the child has cancelled what it found on the loop


def test_a_child_that_leaves_puts_nothing_on_record_for_a_call_of_its_parent(tmp_path):
    address = f"sqlite:///{tmp_path}/agent.db"
    assert in_a_child(_leaves_a_call_of_its_parent, address) == 0


def test_a_forked_child_has_a_loop_of_its_own(home):
    first = home.run(here())
    assert in_a_child(_runs_anew, home, first) == 0


def _runs_anew(home, first):
    home.forked()
    assert home.run(here()) is not first
