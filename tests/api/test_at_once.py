"""A read that is called outside of any run is made at once: it comes to what the same call comes to as a ``Result``."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest

import settled
from settled.core.attempts.budget import Pool, Pools
from tests.waiting import auntil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QUICK = settled.Backoff(base=1e-9, cap=1e-9)


class AwayError(ConnectionError):
    """What a system raises that is away."""


class Behaviour:
    """A tool that does one thing after the other, and counts how often it is called."""

    def __init__(self, *what: object) -> None:
        self.what, self.calls = what, 0

    def now(self, city: str = "Bern") -> str:
        """Raise or return what comes next; the last again and again."""
        what = self.what[min(self.calls, len(self.what) - 1)]
        self.calls += 1
        if isinstance(what, BaseException):
            raise what
        return f"{what} in {city}"

    async def later(self, city: str = "Bern") -> str:
        """The same, async."""
        await asyncio.sleep(0)
        return self.now(city)


BEHAVIOURS: dict[str, Callable[[], Behaviour]] = {
    "succeeds": lambda: Behaviour("rain"),
    "succeeds at the third attempt": lambda: Behaviour(AwayError("a"), AwayError("b"), "rain"),
    "is away": lambda: Behaviour(AwayError("away")),
    "fails for good": lambda: Behaviour(settled.NotExecuted("no such city", retryable=False)),
    "says by an error what it has read": lambda: Behaviour(settled.Executed("sun")),
    "leaks a cancellation": lambda: Behaviour(asyncio.CancelledError()),
    "may have happened": lambda: Behaviour(TimeoutError("no answer")),
    "is wrong inside": lambda: Behaviour(ZeroDivisionError("by zero")),
}
ARGUMENTS: dict[str, dict[str, Any]] = {"good": {"city": "Thun"}, "none": {}, "bad": {"city": 5}, "foreign": {"x": 1}}


@pytest.fixture
def guard() -> Iterator[settled.Guard]:
    with settled.Guard("memory://") as made:
        yield made


def outcome_of(call: Callable[[], Any]) -> tuple[Any, ...]:
    """Return how a call that gives its value or raises has ended, without what is the single call's own."""
    try:
        return ("succeeded", call())
    except settled.CallError as error:
        return told(error.result)


def told(result: settled.Result[Any]) -> tuple[Any, ...]:
    """Return the same of a ``Result``."""
    if result.ok:
        return ("succeeded", result.value)
    return (result.status, result.reason, result.message, result.next, result.retryable, result.attempts)


@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS.keys())
@pytest.mark.parametrize("make", BEHAVIOURS.values(), ids=BEHAVIOURS.keys())
def test_a_value_or_error_says_what_the_result_says(
    guard: settled.Guard, make: Callable[[], Behaviour], arguments: dict[str, Any]
) -> None:
    one, other = make(), make()
    direct = guard.tool(effect="read", name="one", retry=QUICK)(one.now)
    as_result = guard.tool(effect="read", name="one_", retry=QUICK)(other.now)
    said, expected = outcome_of(lambda: direct(**arguments)), told(as_result.call(**arguments))
    assert said == tuple(part.replace("one_", "one") if isinstance(part, str) else part for part in expected)
    assert one.calls == other.calls


@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS.keys())
@pytest.mark.parametrize("make", BEHAVIOURS.values(), ids=BEHAVIOURS.keys())
async def test_so_it_does_in_async_code(
    guard: settled.Guard, make: Callable[[], Behaviour], arguments: dict[str, Any]
) -> None:
    one, other = make(), make()
    direct = guard.tool(effect="read", name="one", retry=QUICK)(one.later)
    as_result = guard.tool(effect="read", name="one_", retry=QUICK)(other.later)
    try:
        said: tuple[Any, ...] = ("succeeded", await direct(**arguments))
    except settled.CallError as error:
        said = told(error.result)
    expected = told(await as_result.acall(**arguments))
    assert said == tuple(part.replace("one_", "one") if isinstance(part, str) else part for part in expected)
    assert one.calls == other.calls


@pytest.mark.parametrize("end", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
@pytest.mark.parametrize("timeout", [None, 5.0])
def test_what_ends_the_process_comes_through(guard: settled.Guard, end: BaseException, timeout: float | None) -> None:
    does = Behaviour(end, "rain")
    tool = guard.tool(effect="read", name="one", timeout=timeout)(does.now)
    with pytest.raises(type(end)):
        tool()
    assert does.calls == 1
    assert tool() == "rain in Bern"


def test_a_paused_tool_is_not_called(guard: settled.Guard) -> None:
    does = Behaviour("rain")
    tool = guard.tool(effect="read", name="one")(does.now)
    guard.pause("one", by="kim", reason="being moved")
    with pytest.raises(settled.CallRejected, match="being moved"):
        tool()
    assert not does.calls


def test_an_open_breaker_turns_it_away_and_an_end_closes_it_again(
    guard: settled.Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    does = Behaviour(AwayError("away"), AwayError("away"), "rain")
    policy = settled.BreakerPolicy.static(failures=2, rate=None, cooldown=60)
    tool = guard.tool(effect="read", name="one", attempts=1, breaker=policy)(does.now)
    for _ in range(2):
        with pytest.raises(settled.CallNotDone):
            tool()
    with pytest.raises(settled.CallRejected) as turned_away:
        tool()
    assert turned_away.value.result.reason == "breaker_open"
    assert does.calls == 2
    now = guard.floor.now
    monkeypatch.setattr(guard.floor, "now", lambda: now() + 3600)
    assert [tool(), tool()] == ["rain in Bern"] * 2
    assert guard.breakers.of(tool)[0].state(now()) == "closed"


def test_it_draws_on_the_pool_of_retries(guard: settled.Guard) -> None:
    does = Behaviour(AwayError("away"))
    tool = guard.tool(effect="read", name="one", retry=QUICK, attempts=5)(does.now)
    guard._pools["one"] = Pools(process=Pool(capacity=1, deposit=0.001))  # no option makes it so small
    with pytest.raises(settled.CallNotDone) as given_up:
        tool()
    assert given_up.value.result.reason == "retry_budget:process"
    assert does.calls == 2


def test_what_it_raised_is_let_go_of_at_once(guard: settled.Guard) -> None:
    """An error that is kept by what it keeps would live until the garbage collector comes by."""
    raised: list[weakref.ref[AwayError]] = []

    def remembered(error: AwayError) -> AwayError:
        raised.append(weakref.ref(error))
        return error

    def fails() -> str:
        raise remembered(AwayError("away"))

    tool = guard.tool(effect="read", name="one", retry=QUICK)(fails)
    gc.disable()
    try:
        with contextlib.suppress(settled.CallNotDone):
            tool()
        assert [error() for error in raised] == [None, None, None]
    finally:
        gc.enable()


async def test_so_it_is_in_async_code(guard: settled.Guard) -> None:
    raised: list[weakref.ref[AwayError]] = []

    async def fails() -> str:
        error = AwayError("away")
        raised.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    tool = guard.tool(effect="read", name="one", retry=QUICK, timeout=None)(fails)
    gc.disable()
    try:
        with contextlib.suppress(settled.CallNotDone):
            await tool()
        assert [error() for error in raised] == [None, None, None]
    finally:
        gc.enable()


def test_what_fails_without_a_record_does_not_ask_the_journal_for_the_time(
    guard: settled.Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A journal that is far away would answer late, and hold up the loop of async code meanwhile."""
    tool = guard.tool(effect="read", name="one", retry=QUICK)(Behaviour(AwayError("away")).now)
    monkeypatch.setattr(guard.journal, "now", None)
    with pytest.raises(settled.CallNotDone):
        tool()


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_secret_in_its_last_error_is_not_shown(guard: settled.Guard, attempts: int) -> None:
    does = Behaviour(AwayError("https://kim:hunter2@shop/?token=hunter22"))
    tool = guard.tool(effect="read", name="one", retry=QUICK, attempts=attempts)(does.now)
    answer = tool.call()
    assert answer.attempts == attempts
    assert "hunter2" not in repr(answer)


async def test_who_waits_for_a_further_attempt_can_be_cancelled(guard: settled.Guard) -> None:
    does = Behaviour(AwayError("away"), "rain")
    tool = guard.tool(effect="read", name="one", retry=settled.Backoff(base=60.0, cap=60.0))(does.later)
    call = asyncio.ensure_future(tool())
    await auntil(lambda: does.calls, "the first attempt")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert does.calls == 1


def test_what_a_result_tells_of_it(guard: settled.Guard) -> None:
    tool = guard.tool(effect="read", name="one")(Behaviour("rain").now)
    result = tool.call(city="Thun")
    assert (result.status, result.value, result.message, result.next) == ("succeeded", "rain in Thun", "done", "done")
    assert (result.attempts, result.recorded, result.replayed, result.operation_id) == (1, False, False, "")


def test_what_cannot_be_copied_is_refused_as_such_and_raises_nothing_else(guard: settled.Guard) -> None:
    class Locked:
        def __init__(self) -> None:
            self.lock = threading.Lock()

    def look(thing: Locked) -> str:
        raise AssertionError("must not run")

    look.__annotations__["thing"] = Locked  # no name of the module, so no text that could be resolved
    tool = guard.tool(effect="read")(look)
    with pytest.raises(settled.InvalidArguments, match="TypeError"):
        tool(Locked())
    assert tool.call(Locked()).status == "invalid"
