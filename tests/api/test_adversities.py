"""What a clever or careless user does: each of these once made a lie, a duplicate or a lost action."""

from __future__ import annotations

import asyncio
import functools
import os
import sys
import threading
import time
from dataclasses import dataclass
from enum import Enum, IntEnum
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

import httpx
import pytest
from pydantic import AfterValidator, BaseModel, Field, PrivateAttr, SecretStr

import settled
from settled.api import secrets
from settled.core.model import Owner
from tests.waiting import given_up_once, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def guard() -> Iterator[settled.Guard]:
    with settled.Guard("memory://") as made:
        yield made


# --- functions that do nothing when they are called ---------------------------------------


def lazily() -> Iterator[int]:
    yield 1


async def lazily_async():
    yield 1


@pytest.mark.parametrize("function", [lazily, lazily_async, functools.wraps(lazily)(functools.partial(lazily))])
def test_a_generator_is_no_tool(guard: settled.Guard, function: Any) -> None:
    with pytest.raises(settled.DeclarationError, match="is a generator"):
        guard.tool(effect="write")(function)


def test_a_generator_that_is_returned_is_no_answer(guard: settled.Guard) -> None:
    act = guard.tool(effect="write", name="act")(lambda: iter(lazily()))
    result = act.call()
    assert result.status == "unknown"

    @guard.tool(effect="write")
    async def later() -> Any:
        return lazily_async()

    assert later.call().status == "unknown"


def test_a_plain_wrapper_around_an_async_function_is_awaited(guard: settled.Guard) -> None:
    effects: list[int] = []

    async def send(n: int) -> int:
        await asyncio.sleep(0)
        effects.append(n)
        return n

    @functools.wraps(send)
    def logged(*args: Any, **kwargs: Any) -> Any:
        return send(*args, **kwargs)

    wrapped = guard.tool(effect="write", name="wrapped")(logged)
    assert wrapped.call(n=1).value == 1

    def returns_a_coroutine(n: int) -> Any:
        return send(n)

    plain = guard.tool(effect="write")(returns_a_coroutine)
    assert plain.call(2).value == 2
    assert asyncio.run(plain.acall(3)).value == 3
    assert effects == [1, 2, 3]


# --- the tool's own looks at its answers --------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"verify": lambda value: value["ok"]},
        {"classify": lambda outcome: 1 / 0},
        {"classify": lambda outcome: "not a fault"},
    ],
    ids=["verify raises", "classify raises", "classify gives nonsense"],
)
def test_a_look_that_fails_after_the_effect_is_doubt(guard: settled.Guard, options: dict[str, Any]) -> None:
    effects: list[int] = []

    @guard.tool(effect="write", breaker=None, **options)
    def act() -> str:
        effects.append(1)
        return "done"

    first, again = act.call(), act.call()
    assert (first.status, first.reason) == ("unknown", "look_failed")
    assert again.operation_id == first.operation_id
    assert effects == [1]


def test_a_driver_that_fails_after_the_effect_leaves_doubt_behind(
    guard: settled.Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects: list[int] = []

    @guard.tool(effect="write", breaker=None)
    def act() -> str:
        effects.append(1)
        return "done"

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr("settled.core.attempts.series.read", broken)
    with pytest.raises(RuntimeError):
        act()
    with pytest.raises(RuntimeError):
        asyncio.run(act.options(key="k").acall())
    monkeypatch.undo()
    assert act.call().status == "unknown"
    assert len(effects) == 2


# --- arguments ----------------------------------------------------------------------------


def test_validators_that_change_values_are_applied_once(guard: settled.Guard) -> None:
    sent: list[int] = []

    @guard.tool(effect="write", key="pay:{order}", breaker=None)
    def pay(order: str, amount: Annotated[int, AfterValidator(lambda cents: cents * 100)]) -> str:
        sent.append(amount)
        if len(sent) == 1:
            raise settled.NotExecuted("later", retryable=True, retry_after=0.0)
        return "paid"

    assert pay.options(within=0.4).call("o1", 5).ok or pay.call("o1", 5).ok
    assert sent == [500, 500]


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


@dataclass
class Wish:
    colour: Colour
    path: PurePosixPath


def test_enums_paths_and_secrets_are_arguments_like_others(guard: settled.Guard) -> None:
    made: list[Any] = []

    @guard.tool(effect="write", redact=("token",))
    def act(wish: Wish, level: Level, token: SecretStr) -> str:
        made.append((wish, level, token.get_secret_value()))
        return "done"

    wish = Wish(Colour.RED, PurePosixPath("/a/b"))
    with guard.run("r"):
        assert act.call(wish, Level.LOW, SecretStr("s3cret")).ok
    with guard.run("r"):
        assert act.call(wish, Level.LOW, SecretStr("s3cret")).replayed
    assert made == [(wish, Level.LOW, "s3cret")]
    result = guard.dispatch("act", {"wish": {"colour": "red", "path": "/a/b"}, "level": 1, "token": "other"})
    assert result.ok
    [*calls] = guard.journal.books.calls.values()  # type: ignore[attr-defined]  # a journal in memory
    assert not [call for call in calls if b"s3cret" in call.arguments]


# --- results ------------------------------------------------------------------------------


class Animal(BaseModel):
    name: str


class Dog(Animal):
    breed: str


class Hidden(BaseModel):
    shown: int
    kept_out: int = Field(default=0, exclude=True)
    _private: int = PrivateAttr(default=0)


@dataclass
class Base:
    n: int


@dataclass
class Derived(Base):
    more: int = 0


def secret() -> Hidden:
    made = Hidden(shown=1, kept_out=2)
    made._private = 3
    return made


CASES: dict[str, tuple[Any, Any]] = {
    "subclass in a list": (list[Animal], lambda: [Dog(name="a", breed="b")]),
    "dataclass subclass": (list[Base], lambda: [Derived(1, 2)]),
    "excluded field": (Hidden, secret),
    "int enum": (list[int], lambda: [Level.LOW]),
    "model in a dict of objects": (dict[str, object], lambda: {"a": Animal(name="x")}),
    "true for one": (list[int], lambda: [True, 1]),
}


@pytest.mark.parametrize(("annotation", "make"), list(CASES.values()), ids=list(CASES))
def test_a_replay_is_the_same_in_value_and_type_or_not_there(guard: settled.Guard, annotation: Any, make: Any) -> None:
    def act() -> Any:
        return make()

    act.__annotations__["return"] = annotation
    tool = guard.tool(effect="write")(act)
    first, again = tool.options(key="k").call(), tool.options(key="k").call()
    assert again.replayed
    if again.value_available:
        assert repr(again.value) == repr(first.value)
        assert [type(item) for item in again.value] == [type(item) for item in first.value]


# --- runs ---------------------------------------------------------------------------------


def test_a_run_that_is_entered_inside_a_tool_is_the_inner_one(guard: settled.Guard) -> None:
    paid: list[int] = []

    @guard.tool(effect="write")
    def pay(x: int) -> int:
        paid.append(x)
        return x

    @guard.tool(effect="write")
    def outer(n: int) -> int:
        with guard.run("trip-42"):
            return pay(x=1)

    outer(1)
    outer(2)
    assert paid == [1]


def test_gather_makes_its_calls_in_its_own_run(guard: settled.Guard) -> None:
    paid: list[int] = []

    @guard.tool(effect="write")
    def pay(x: int) -> int:
        paid.append(x)
        return x

    for _ in range(2):
        with guard.run("outer") as outer, guard.run("inner"):
            assert [r.value for r in outer.gather(pay.bind(1), pay.bind(2))] == [1, 2]
            results: list[Any] = []
            worker = threading.Thread(target=lambda: results.extend(outer.gather(pay.bind(3))))  # noqa: B023 - joined
            worker.start()
            worker.join()
            assert [r.value for r in results] == [3]
    assert sorted(paid) == [1, 2, 3]
    with pytest.raises(settled.DeclarationError, match="is not entered"):
        guard.run("x").gather(pay.bind(1))


async def test_gather_in_async_code_makes_its_calls_in_its_own_run(guard: settled.Guard) -> None:
    paid: list[int] = []

    @guard.tool(effect="write")
    async def pay(x: int) -> int:
        paid.append(x)
        return x

    for _ in range(2):
        async with guard.run("outer") as outer, guard.run("inner"):
            assert [r.value for r in await outer.gather(pay(1), pay(2))] == [1, 2]
    assert sorted(paid) == [1, 2]


def test_a_run_is_entered_by_one_at_a_time(guard: settled.Guard) -> None:
    run = guard.run("r")
    with run, pytest.raises(settled.DeclarationError, match="already entered"):
        run.__enter__()
    with run:
        assert run.entry == 2


def test_a_key_within_a_run_needs_a_run(guard: settled.Guard) -> None:
    greeted: list[str] = []

    @guard.tool(effect="write", key="welcome:{who}", key_scope="run")
    def greet(who: str) -> str:
        greeted.append(who)
        return who

    assert greet.call("ann").status == "invalid"
    for name in ("a", "b"):
        with guard.run(name):
            greet("ann")
    assert greeted == ["ann", "ann"]


def test_exceptions_that_cannot_say_what_they_are(guard: settled.Guard) -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    act = guard.tool(effect="write", breaker=None, name="act", not_executed=MuteError)(_raiser(MuteError()))
    assert act.call().status == "failed"
    other = guard.tool(effect="write", breaker=None, name="other")(_raiser(MuteError()))
    assert other.call().status == "unknown"
    group = guard.tool(effect="write", breaker=None, name="group")(
        _raiser(BaseExceptionGroup("g", [httpx.ReadTimeout("x"), ConnectionRefusedError()]))
    )
    assert group.call().status == "unknown"


def _raiser(error: BaseException) -> Any:
    def act() -> None:
        raise error

    return act


# --- several requests, forks, tenants -----------------------------------------------------


def refused_get() -> httpx.ConnectError:
    return httpx.ConnectError("refused", request=httpx.Request("GET", "http://tool.test/"))


def refused_post() -> httpx.ConnectError:
    return httpx.ConnectError("refused", request=httpx.Request("POST", "http://tool.test/"))


@pytest.mark.parametrize(
    ("error", "options", "status"),
    [
        (refused_post(), {}, "not_done"),
        (refused_get(), {}, "unknown"),  # a GET is not what has the effect: what was sent before it?
        (refused_post(), {"requests": "several"}, "unknown"),
        (ExceptionGroup("tasks", [refused_post()]), {}, "unknown"),
        (settled.NotExecuted("no", retryable=True), {"requests": "several"}, "not_done"),
        (refused_get(), {"effect": "read"}, "not_done"),
    ],
)
def test_a_refusal_proves_only_what_it_is_about(
    guard: settled.Guard, error: Exception, options: dict[str, Any], status: str
) -> None:
    declared: dict[str, Any] = {"effect": "write", "breaker": None, "retry": settled.Backoff(base=0.001)} | options
    act = guard.tool(**declared, name="act")(_raiser(error))
    assert act.call().status == status


@pytest.mark.parametrize("child", ["exit", "return"])
def test_a_child_that_a_tool_forks_records_nothing(tmp_path: Any, child: str) -> None:
    with settled.Guard(f"sqlite:///{tmp_path}/j.db") as guard:

        @guard.tool(effect="write", key="k:{n}")
        def act(n: int) -> str:
            pid = os.fork()
            if pid == 0 and child == "exit":
                os._exit(0) if n < 0 else sys.exit(0)
            if pid == 0:
                return "child"
            os.waitpid(pid, 0)
            return "parent"

        parent = os.getpid()
        try:
            result = act.call(1)
        except BaseException:
            if os.getpid() != parent:
                os._exit(0)
            raise
        assert (result.status, result.value) == ("succeeded", "parent")
        assert act(1) == "parent"


def test_a_declaration_that_was_tightened_holds_for_calls_on_record(guard: settled.Guard) -> None:
    effects: list[int] = []

    def act(n: int) -> str:
        effects.append(n)
        raise httpx.ReadTimeout("lost")

    guard.tool(effect="idempotent", key="k:{n}", attempts=1, breaker=None)(act).call(1)
    with settled.Guard(guard.journal) as today:
        assert today.tool(effect="write", key="k:{n}", breaker=None)(act).call(1).status == "unknown"
    assert effects == [1]


def test_a_probe_that_hangs_is_left(guard: settled.Guard) -> None:
    hung = threading.Event()

    def look(call: settled.Call) -> settled.Happened:
        hung.wait(30)
        return settled.Happened("late")

    @guard.tool(effect="write", probe=look, max_request_lifetime=0.0, breaker=None)
    def act() -> str:
        raise httpx.ReadTimeout("lost")

    with_time = longer(lambda within: act.options(within=within).call())
    assert with_time.status == "unknown"
    with_time = longer(lambda within: asyncio.run(act.options(within=within, key="k").acall()))
    assert with_time.status == "unknown"
    hung.set()


def longer(call: Callable[[float], settled.Result[Any]]) -> settled.Result[Any]:
    """Give a call ever more time until it is made: how much a busy machine needs nobody knows."""
    within = 0.3
    while (result := call(within)).status == "rejected":
        within *= 3
    return result


def test_another_tenants_call_is_as_if_there_were_none(guard: settled.Guard) -> None:
    act = guard.tool(effect="write", breaker=None, name="act")(_raiser(httpx.ReadTimeout("lost")))
    lost = act.call()
    with settled.Guard(guard.journal, tenant="other") as other:
        assert other.look(lost.operation_id) is None
        assert other.reconcile().left == 0
        with pytest.raises(settled.DeclarationError, match="no call of tenant 'other'"):
            other.resolve(lost.operation_id, "happened", by="ann", reason="x")
    assert guard.look(lost.operation_id) is not None


def test_a_changed_annotation_gives_no_substitute(guard: settled.Guard) -> None:
    def text() -> str:
        return "5"

    def number() -> int:
        return 5

    guard.tool(effect="write", name="act")(text).options(key="k").call()
    with settled.Guard(guard.journal) as later:
        result = later.tool(effect="write", name="act")(number).options(key="k").call()
    assert (result.status, result.replayed, result.value_available) == ("succeeded", True, False)


# --- outside of runs: who waits, who was told ---------------------------------------------


async def test_a_cancelled_askers_call_is_joined_not_made_again(guard: settled.Guard) -> None:
    begun: list[int] = []
    effects: list[int] = []

    @guard.tool(effect="write")
    async def act(n: int) -> int:
        begun.append(n)
        await asyncio.sleep(0.2)
        effects.append(n)
        return n

    with pytest.raises(TimeoutError):
        await given_up_once(lambda: begun == [6], act(6))
    assert await act(6) == 6
    with pytest.raises(TimeoutError):
        await given_up_once(lambda: begun == [6, 7], act.acall(7))
    assert (await act.acall(7)).replayed
    assert effects == [6, 7]


async def test_two_at_once_are_two_intentions(guard: settled.Guard) -> None:
    effects: list[int] = []

    @guard.tool(effect="write")
    async def act(n: int) -> int:
        await asyncio.sleep(0.1)
        effects.append(n)
        return n

    assert await asyncio.gather(act(1), act(1)) == [1, 1]
    assert effects == [1, 1]


def test_who_was_told_that_it_is_unknown_gets_its_late_answer_once(guard: settled.Guard) -> None:
    effects: list[int] = []
    told = threading.Event()

    @guard.tool(effect="write", timeout=0.1)
    def act(n: int) -> int:
        assert told.wait(60)
        effects.append(n)
        return n

    first = act.call(1)
    assert first.status == "unknown"
    told.set()
    until(lambda: guard.journal.get(first.operation_id).state == "succeeded", "its late answer")
    result = act.call(1)
    assert (result.status, result.value, result.replayed) == ("succeeded", 1, True)
    assert effects == [1]


def test_an_interrupted_call_is_in_doubt(guard: settled.Guard) -> None:
    effects: list[int] = []

    @guard.tool(effect="write")
    def act() -> str:
        effects.append(1)
        if len(effects) == 1:
            raise KeyboardInterrupt
        return "done"

    with pytest.raises(KeyboardInterrupt):
        act()
    assert act.call().status == "unknown"
    assert effects == [1]


def test_what_the_caller_changes_meanwhile_is_not_sent(guard: settled.Guard) -> None:
    sent: list[Any] = []
    body = {"a": {"n": 1}}

    @guard.tool(effect="write", retry=settled.Backoff(base=0.001))
    def post(body: dict[str, Any]) -> str:
        sent.append(body["a"]["n"])
        given["a"]["n"] += 1
        if len(sent) < 3:
            raise settled.NotExecuted("again", retryable=True)
        return "done"

    given = body
    post(body=given)
    assert sent == [1, 1, 1]


def test_gather_of_many_sync_calls_loses_none(guard: settled.Guard) -> None:
    tools = [guard.tool(effect="write", name=f"t{i}")(lambda x: x) for i in range(3)]
    for n in range(20):
        with guard.run(f"r{n}") as run:
            for _ in range(3):
                results = run.gather(*(tools[i % 3].bind(i) for i in range(60)))
                assert [r.value for r in results] == list(range(60))


async def look_later(value: Any) -> Any:
    return value


@pytest.mark.parametrize(
    "options",
    [{"verify": look_later}, {"classify": look_later}, {"key": look_later}, {"not_executed": OSError},
     {"not_executed": (Exception,)}, {"key": "k:{n}", "canonical": {"n": "lower"}}],
)  # fmt: skip
def test_declarations_that_would_lie_are_refused(guard: settled.Guard, options: dict[str, Any]) -> None:
    with pytest.raises(settled.DeclarationError):
        guard.tool(effect="write", **options)(lambda n: n)


def test_answered_is_a_sequence(guard: settled.Guard) -> None:
    with pytest.raises(settled.DeclarationError, match="answered must be a sequence"):
        guard.run("r", answered="m1/0")


def refuse(value: str) -> str:
    raise ValueError(f"not a token: {value}")


def test_a_validator_that_quotes_a_secret_is_cleaned(guard: settled.Guard) -> None:
    @guard.tool(effect="write", redact=("token",))
    def act(token: Annotated[str, AfterValidator(refuse)]) -> None:
        raise AssertionError("must not run")

    result = act.call(token="s3cret-token")
    assert result.status == "invalid"
    assert "s3cret" not in repr(result) + result.for_model()


def test_a_conflict_carries_no_value(guard: settled.Guard) -> None:
    act = guard.tool(effect="write", name="act")(lambda n: n)
    act.options(key="k").call(1)
    conflict = act.options(key="k").call(2)
    assert (conflict.status, conflict.value, conflict.value_available) == ("conflict", None, False)


def test_a_call_that_asks_for_itself_is_told_so(guard: settled.Guard) -> None:
    inner: list[settled.Result[Any]] = []

    @guard.tool(effect="write", key="k:{n}")
    def act(n: int) -> str:
        inner.append(act.call(n))
        return "done"

    assert act(1) == "done"
    assert (inner[0].status, inner[0].reason) == ("in_progress", "re_entrant")


def test_an_owner_that_cannot_be_seen_is_waited_for(guard: settled.Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    @guard.tool(effect="write")
    def act() -> str:
        raise AssertionError("must not run")

    begun, go_on = threading.Event(), threading.Event()
    elsewhere = settled.Guard(guard.journal)
    away = elsewhere.tool(effect="write", name="act")(lambda: begun.set() or (go_on.wait(60) and "there"))
    monkeypatch.setattr("settled.api.calls.asking.host.this_process", lambda: Owner("pod-1", "boot", "ns-1", 7, "1"))
    working = threading.Thread(target=away.call)
    working.start()
    assert begun.wait(60)
    monkeypatch.undo()
    result = act.options(wait=0.1).call()
    assert (result.status, result.replayed) == ("in_progress", True)
    go_on.set()
    working.join()


def test_long_messages_are_cleaned_in_no_time() -> None:
    began = time.process_time()
    text = secrets.clean("x" * 200_000 + " password=hunter2")
    assert time.process_time() - began < 5
    assert len(text) <= secrets.LONGEST + 1
    assert secrets.clean("MY_API_KEY=abcdef and Bearer abcdefghij") == "MY_API_KEY=[redacted] and Bearer [redacted]"


@pytest.mark.parametrize("key", ["", b"", []])
def test_an_empty_key_is_no_encryption_that_nobody_asked_for(key: Any) -> None:
    with pytest.raises(settled.DeclarationError, match="encryption_key is empty"):
        settled.Guard("memory://", encryption_key=key)


@pytest.mark.parametrize("options", [{"retry": 3}, {"breaker": 3}, {"verify": 3}, {"refresh": 3}, {"identity": ()}])
def test_options_of_the_wrong_kind_are_refused(guard: settled.Guard, options: dict[str, Any]) -> None:
    with pytest.raises(settled.DeclarationError):
        guard.tool(effect="write", **options)(lambda: None)


def test_options_for_a_journal_that_is_open_are_refused(guard: settled.Guard) -> None:
    with pytest.raises(settled.DeclarationError, match="must_exist"):
        settled.Guard(guard.journal, must_exist=True)
