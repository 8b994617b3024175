"""Errors that are pinned, misread, or retried too much: the cases by id."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import settled
from settled.cli.app import main
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

QUICK = settled.Backoff(base=0.001, throttled_base=0.001)


def refusal(status: int, body: Any = None, **headers: str) -> httpx.HTTPStatusError:
    """An answer of a real client library."""
    request = httpx.Request("POST", "http://tool.test/")
    response = httpx.Response(status, json=body, headers=headers, request=request)
    return httpx.HTTPStatusError(f"{status}", request=request, response=response)


def scripted(guard: settled.Guard, outcomes: list[Any], **options: Any) -> tuple[Any, list[int]]:
    """A tool that gives or raises what the list says, and the attempts that reached it."""
    made: list[int] = []

    def act(n: int = 0) -> Any:
        made.append(n)
        outcome = outcomes[min(len(made), len(outcomes)) - 1]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    declared: dict[str, Any] = {"effect": "write", "breaker": None, "retry": QUICK} | options
    return guard.tool(**declared)(act), made


def test_case_005_a_conflict_on_a_repeat_may_be_our_own_write(guard: settled.Guard) -> None:
    seen = {"k": "v"}
    act, made = scripted(
        guard,
        [httpx.ReadTimeout("lost"), refusal(409)],
        effect="deduplicated",
        remote_retention=3600,
        probe=lambda call: settled.Happened(seen["k"]),
        max_request_lifetime=0.0,
    )
    result = act.call()
    assert (result.status, result.value) == ("succeeded", "v")
    assert len(made) == 2


def test_case_005_a_conflict_on_the_first_attempt_is_not_success(guard: settled.Guard) -> None:
    act, made = scripted(guard, [refusal(422)])
    assert act.call().status == "failed"
    assert len(made) == 1


def test_case_024_a_breaker_trip_is_not_pinned(guard: settled.Guard) -> None:
    trip = settled.BreakerPolicy.static(failures=1)
    act, made = scripted(guard, [httpx.ReadTimeout("x"), "fine"], breaker=trip, key="k:{n}")
    assert act.call(n=1).status == "unknown"
    assert act.call(n=2).reason == "breaker_open"
    guard.breakers.of(act)[0].reset()
    assert act.call(n=2).value == "fine"
    assert len(made) == 2


def test_case_024_what_proves_no_effect_is_not_stored_as_final(guard: settled.Guard) -> None:
    act, made = scripted(guard, [httpx.ConnectError("refused")] * 3 + ["fine"], key="k:{n}")
    assert act.call(n=1).status == "not_done"
    assert act.call(n=1).value == "fine"
    assert len(made) == 4


def test_case_024_a_definite_refusal_is_replayed(guard: settled.Guard) -> None:
    act, made = scripted(guard, [refusal(404, {"message": "no such order"})], key="k:{n}")
    first, again = act.call(n=1), act.call(n=1)
    assert (first.status, again.status, again.replayed) == ("failed", "failed", True)
    assert len(made) == 1


TURNED_AWAY = {
    "401": refusal(401),
    "expired token": refusal(400, {"__type": "ExpiredTokenException"}),
    "certificate": httpx.ConnectError("certificate verify failed"),
    "name": socket.gaierror(-2, "Name or service not known"),
}
TURNED_AWAY["certificate"].__cause__ = ssl.SSLCertVerificationError(1, "certificate verify failed")


@pytest.mark.parametrize("error", TURNED_AWAY.values(), ids=TURNED_AWAY)
def test_case_024_who_asks_was_turned_away_not_the_call(guard: settled.Guard, error: Exception) -> None:
    """It is not repeated meanwhile, and not pinned: once the token was renewed the same key, the same run goes on."""
    broken = True
    made: list[str] = []

    def bill(order: str) -> str:
        made.append(order)
        if broken:
            raise error
        return "billed"

    keyed = guard.tool(effect="write", breaker=None, retry=QUICK, key="bill:{order}", name="keyed")(bill)
    plain = guard.tool(effect="write", breaker=None, retry=QUICK, name="plain")(bill)

    def task() -> list[settled.Result[str]]:
        with guard.run("nightly"):
            return [keyed.call("k"), plain.call("p")]

    first = task()
    assert [(r.status, r.next, r.retryable) for r in first] == [("not_done", "ask_human", False)] * 2
    assert "before a person has put right" in first[0].message
    assert made in (["k", "p"], ["k", "k", "p", "p"]), "a name is looked up once more"
    broken = False
    assert [r.value for r in task()] == ["billed"] * 2
    assert made[-2:] == ["k", "p"]


def test_case_027_a_result_that_fails_validation_is_still_done(guard: settled.Guard) -> None:
    rows: list[int] = []

    @guard.tool(effect="write", key="k:{n}", attempts=5)
    def create(n: int) -> dict[str, str]:
        rows.append(n)
        return {"id": 5}  # type: ignore[dict-item]  # what the case is about

    first, again = create.call(n=1), create.call(n=1)
    assert (first.status, again.status) == ("succeeded", "succeeded")
    assert again.value == {"id": 5}
    assert rows == [1]


class Opaque:
    """A value that no codec knows."""


@pytest.mark.parametrize("value", [Opaque(), lambda: 1, {1, Opaque()}], ids=["object", "function", "set"])
def test_case_027_a_result_that_cannot_be_encoded_is_still_done(guard: settled.Guard, value: Any) -> None:
    act, made = scripted(guard, [value], key="k:{n}")
    first = act.call(n=1)
    assert first.status == "succeeded"
    assert first.value is value
    again = act.call(n=1)
    assert (again.status, again.value_available) == ("succeeded", False)
    with pytest.raises(settled.ResultUnavailable):
        act(n=1)
    assert len(made) == 1


def test_case_029_a_result_over_the_limit_is_done_and_never_run_again(tmp_path: Any) -> None:
    with settled.Guard(f"sqlite:///{tmp_path}/j.db", largest_result=10_000) as guard:
        noise = bytes((i * 7919 + i * i) % 251 for i in range(5_000_000))
        act, made = scripted(guard, [noise], key="k:{n}")
        assert act.call(n=1).value == noise
        again = act.call(n=1)
        assert (again.status, again.value_available) == ("succeeded", False)
        assert "bytes" in again.message
        assert len(made) == 1


def test_case_029_five_megabytes_come_back(tmp_path: Any) -> None:
    with settled.Guard(f"sqlite:///{tmp_path}/j.db") as guard:
        text = "long text " * 500_000
        act, made = scripted(guard, [text], key="k:{n}")
        act(n=1)
        assert act(n=1) == text
        assert len(made) == 1


AWKWARD = [
    None, 0, "", False, [], {}, (1, 2), {1: "x"}, {1, 2}, b"\x00\xff", "W\x00s\x00", "\\u0000", "ok \ud83d",
    float("inf"), 2**70, -0.0, {"k\x00": "\udfff"},
]  # fmt: skip


@pytest.mark.parametrize("address", ["memory://", "sqlite:///{}/j.db"])
@pytest.mark.parametrize("value", AWKWARD, ids=repr)
def test_case_030_and_032_every_value_comes_back_equal_in_type(tmp_path: Any, address: str, value: Any) -> None:
    with settled.Guard(address.format(tmp_path)) as guard:
        act, made = scripted(guard, [value], key="k:{n}")
        first, again = act.call(n=1), act.call(n=1)
        assert (again.value, type(again.value)) == (first.value, type(first.value))
        assert again.value_available
        assert len(made) == 1


def test_case_033_a_date_in_retry_after_is_waited_for_or_parked(guard: settled.Guard) -> None:
    act, made = scripted(guard, [refusal(429, **{"Retry-After": "Wed, 21 Oct 2037 07:28:00 GMT"}), "fine"], key="k:{n}")
    result = act.options(within=5.0).call(n=1)
    assert result.status == "not_done"
    assert result.retry_after is not None
    assert result.retry_after > 1e6
    assert len(made) == 1
    assert act.call(n=1).status == "not_done"  # not before its time
    assert len(made) == 1


@pytest.mark.parametrize("hint", ["9999999999", "86400", "1e400", "-5", "soon", "", "0"])
def test_case_035_no_hint_is_slept_that_does_not_fit(guard: settled.Guard, hint: str) -> None:
    act, _ = scripted(guard, [refusal(429, **{"Retry-After": hint}), "fine"])
    began = time.monotonic()
    result = act.options(within=2.0).call()
    assert time.monotonic() - began < 60  # the shortest of those that do not fit is a day
    assert result.status in ("not_done", "succeeded")


@pytest.mark.parametrize("hint", [86_400.0, 1e10, 1e13, 1e300])
def test_case_035_without_a_deadline_nothing_is_slept_for_hours_and_the_lists_still_show_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], hint: float
) -> None:
    address = f"sqlite:///{tmp_path}/journal.db"
    with settled.Guard(address) as guard:
        act, made = scripted(guard, [settled.NotExecuted("later", retryable=True, retry_after=hint)])
        result = act.call()
    assert (result.status, len(made)) == ("not_done", 1)
    assert result.retry_after is not None
    assert result.retry_after >= hint - 1
    for words in (["list"], ["list", "--json"], ["show", result.operation_id or ""]):
        assert main(["calls", *words, "--journal", address]) == 0
    assert "parked" in capsys.readouterr().out


def test_case_035_a_hint_that_fits_is_waited_in_full(guard: settled.Guard) -> None:
    act, _ = scripted(guard, [refusal(429, **{"Retry-After": "0.4"}), "fine"])
    began = time.monotonic()
    assert act.options(within=10.0).call().value == "fine"
    assert time.monotonic() - began >= 0.4


def test_case_037_a_spent_quota_is_permanent_and_does_not_open_the_breaker(guard: settled.Guard) -> None:
    body = {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}
    act, made = scripted(guard, [refusal(429, body)], breaker=settled.BreakerPolicy.static(failures=1))
    for n in range(3):
        assert act.call(n=n).status == "failed"
    assert len(made) == 3


def test_case_044_shifting_invalid_arguments_are_stopped(guard: settled.Guard) -> None:
    @guard.tool(effect="write")
    def book(city: str, nights: int) -> str:
        raise AssertionError("must not run")

    with guard.run("r"):
        steps = [
            guard.dispatch("book", {"city": f"c{i}", "nights": f"many {i}"}, step=f"m{i}/0").next for i in range(25)
        ]
    assert steps[:2] == ["fix_arguments", "fix_arguments"]
    assert steps[2] == "repair_prompt"
    assert set(steps[3:]) == {"give_up"}


def test_case_043_truncated_arguments_are_never_executed(guard: settled.Guard) -> None:
    act, made = scripted(guard, ["x"])
    for text in ('{"n": 1', '{"n": 1} and then', '{"n": 1, "n": 2}', "[1]", "", '{"n": NaN}', '{"n": "unfinished'):
        result = guard.dispatch(act.name, text)
        assert (result.status, result.recorded) == ("invalid", False)
    assert made == []


@pytest.mark.parametrize("nothing", ["", " \n", b""])
def test_an_empty_text_is_no_arguments_of_a_tool_that_takes_none(guard: settled.Guard, nothing: Any) -> None:
    """Models send it for such tools, however often they are told not to; elsewhere it may be what is left of more."""
    made: list[str] = []

    @guard.tool(effect="write")
    def lock() -> str:
        made.append("lock")
        return "locked"

    @guard.tool(effect="write")
    def wipe(folder: str = "/") -> str:
        made.append(folder)
        return "wiped"

    assert guard.dispatch("lock", nothing).value == "locked"
    assert guard.dispatch("wipe", nothing).status == "invalid"
    assert guard.dispatch("lock", "null").status == "invalid"
    assert made == ["lock"]


def test_case_041_an_unknown_tool_is_never_taken_for_a_near_one(guard: settled.Guard) -> None:
    act, made = scripted(guard, ["x"])
    assert guard.dispatch(act.name.upper(), "{}").reason == "unknown_tool"
    assert guard.dispatch(act.name + "s", "{}").status == "invalid"
    assert made == []


async def test_case_048_cancelled_calls_do_not_trip_the_breaker(guard: settled.Guard) -> None:
    @guard.tool(effect="read", breaker=settled.BreakerPolicy.static(failures=3))
    async def look(n: int) -> int:
        await asyncio.sleep(5)
        return n

    for n in range(10):
        task = asyncio.create_task(look.acall(n=n))
        await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert guard.breakers.of(look)[0].state(guard.floor.now()) == "closed"


@pytest.mark.parametrize("stands_in_the_way", ["breaker_open", "deadline", "paused"])
@pytest.mark.parametrize("effect", ["idempotent", "deduplicated"])
def test_what_bars_another_attempt_hides_no_doubt(guard: settled.Guard, effect: Any, stands_in_the_way: str) -> None:
    """A call that may have happened is unknown to who asks for it, not "nothing was tried": also to who asks later."""
    trip = settled.BreakerPolicy.static(failures=1, cooldown=60)
    more = {"remote_retention": 3600} if effect == "deduplicated" else {}
    act, made = scripted(
        guard, [httpx.ReadTimeout("lost")], effect=effect, key="k:{n}", attempts=1, breaker=trip, **more
    )
    first = act.call(n=1)
    if stands_in_the_way != "breaker_open":
        guard.breakers.of(act)[0].reset()
    if stands_in_the_way == "paused":
        guard.pause("act", by="ann", reason="ill")
    again = act.options(within=0.0 if stands_in_the_way == "deadline" else None).call(n=1)
    assert (first.status, again.status, again.operation_id) == ("unknown", "unknown", first.operation_id)
    assert "may have happened" in again.message
    assert made.count(1) == 1


def test_case_049_bad_requests_are_neutral(guard: settled.Guard) -> None:
    act, _ = scripted(guard, [refusal(400)], breaker=settled.BreakerPolicy.static(failures=3))
    for n in range(10):
        assert act.call(n=n).status == "failed"


def test_case_046_one_probe_of_many_callers(guard: settled.Guard) -> None:
    policy = settled.BreakerPolicy.static(failures=1, cooldown=0.05)
    entered: list[int] = []
    broken, go_on = True, threading.Event()

    @guard.tool(effect="read", breaker=policy, attempts=1)
    def look() -> str:
        entered.append(1)
        if broken:
            raise httpx.ReadTimeout("sick")
        assert go_on.wait(60)
        return "fine"

    assert look.call().status == "not_done"
    broken = False
    time.sleep(0.1)
    results: list[settled.Result[str]] = []
    threads = [threading.Thread(target=lambda: results.append(look.call())) for _ in range(50)]
    for thread in threads:
        thread.start()
    until(lambda: len(results) == 49, "all but the one that probes are turned away")
    go_on.set()
    for thread in threads:
        thread.join()
    assert [result.reason for result in results] == ["breaker_open"] * 49 + [""]
    assert len(entered) == 2


async def test_case_051_a_tool_that_raises_cancelled_is_unknown_and_the_process_lives(guard: settled.Guard) -> None:
    @guard.tool(effect="write")
    async def leaky() -> str:
        raise asyncio.CancelledError

    assert (await leaky.acall()).status == "unknown"


@pytest.mark.parametrize("timeout", [None, 5.0])
def test_case_051_so_it_is_in_plain_code(guard: settled.Guard, timeout: float | None) -> None:
    @guard.tool(effect="write", timeout=timeout)
    def leaky() -> str:
        raise asyncio.CancelledError

    result = guard.dispatch("leaky", {})
    assert (result.status, result.reason) == ("unknown", "cancelled")


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit, StopIteration])
@pytest.mark.parametrize("is_async", [False, True])
async def test_case_051_a_probe_that_raises_it_has_told_nothing_and_holds_up_no_other(
    guard: settled.Guard, error: type[BaseException], is_async: bool
) -> None:
    poison = True

    def seen(call: settled.Call) -> settled.Happened:
        if call.arguments["n"] == 1 and poison:
            raise error
        return settled.Happened("found")

    async def looked(call: settled.Call) -> settled.Happened:
        return seen(call)

    @guard.tool(effect="write", probe=looked if is_async else seen, max_request_lifetime=0.0, breaker=None)
    def send(n: int) -> str:
        raise TimeoutError

    assert (await send.acall(1)).status == "unknown"
    assert await asyncio.to_thread(lambda: send.call(1).status) == "unknown"
    assert (await send.acall(2)).status == "succeeded"
    assert (await guard.areconcile()).left == 1
    assert (await asyncio.to_thread(guard.reconcile)).probes_failed == 1
    poison = False
    assert (await guard.areconcile()).happened == 1


async def test_case_051_a_real_cancellation_is_re_raised_and_the_answer_recorded(guard: settled.Guard) -> None:
    effects: list[str] = []
    begun = asyncio.Event()

    @guard.tool(effect="write")
    async def act() -> str:
        begun.set()
        await asyncio.sleep(0.1)
        effects.append("x")
        return "done"

    keyed = act.options(key="k")
    task = asyncio.create_task(keyed.acall())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    result = await keyed.acall()
    assert (result.status, result.value, effects) == ("succeeded", "done", ["x"])


def test_case_037_the_fault_message_is_kept(guard: settled.Guard) -> None:
    act, _ = scripted(guard, [settled.NotExecuted("the account is closed")])
    assert "the account is closed" in act.call().message


Maker = Callable[..., settled.Guard]
