"""Duplicates after time-outs, unstable keys, two executors: the cases by id, each for its whole kind of fault."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import httpx
import pytest

import settled
from settled.ports import CallQuery
from tests.waiting import until


def lost_answers() -> list[BaseException]:
    """All the ways in which an answer is lost after the request was sent."""
    return [
        httpx.ReadTimeout("no answer"),
        httpx.ReadError("reset"),
        httpx.RemoteProtocolError("closed"),
        TimeoutError("no answer"),
        ConnectionResetError("reset"),
        OSError("something"),
    ]


@pytest.mark.parametrize("error", lost_answers(), ids=lambda e: type(e).__name__)
def test_case_001_a_deadline_on_a_write_is_unknown_and_the_repeat_joins(guard: settled.Guard, error: Exception) -> None:
    effects: list[str] = []

    @guard.tool(effect="write", breaker=None)
    def scan(target: str) -> str:
        effects.append(target)
        raise error

    with guard.run("r"):
        first = scan.call(target="a")
        again = scan.call(target="a")
    assert (first.status, again.status) == ("unknown", "unknown")
    assert again.operation_id == first.operation_id
    assert effects == ["a"]


async def test_case_001_the_late_answer_is_stored_and_given_to_the_repeat(guard: settled.Guard) -> None:
    go_on = threading.Event()

    @guard.tool(effect="write", timeout=0.05)
    def scan(target: str) -> str:
        assert go_on.wait(30)
        return f"{target} is clean"

    first = await scan.options(key="k").acall(target="a")
    assert first.status == "unknown"
    go_on.set()
    again = await _until_settled(lambda: scan.options(key="k").acall(target="a"))
    assert (again.status, again.value, again.replayed) == ("succeeded", "a is clean", True)


async def _until_settled(ask: Any) -> settled.Result[Any]:
    async with asyncio.timeout(60):
        while (result := await ask()).status == "unknown":  # noqa: ASYNC110 - it is asked each time
            await asyncio.sleep(0.05)
    return result


def test_case_002_one_key_for_all_attempts_and_a_resubmit_shows_the_open_call(guard: settled.Guard) -> None:
    keys: list[str] = []

    @guard.tool(
        effect="deduplicated", remote_retention=3600, attempts=4, retry=settled.Backoff(base=0.001), breaker=None
    )
    def publish(text: str) -> str:
        keys.append(settled.current_call().headers["Idempotency-Key"])
        if len(keys) < 4:
            raise httpx.ReadTimeout("slow")
        return "published"

    assert publish(text="hello") == "published"
    assert len(keys) == 4
    assert len(set(keys)) == 1


def test_case_002_a_slightly_changed_resubmit_by_a_model_is_told_of_the_open_call(guard: settled.Guard) -> None:
    effects: list[str] = []

    @guard.tool(effect="write")
    def publish(text: str) -> str:
        effects.append(text)
        raise httpx.ReadTimeout("slow")

    with guard.run("r"):
        first = guard.dispatch("publish", {"text": "hello"}, step="m1/0")
        second = guard.dispatch("publish", {"text": "hello!"}, step="m2/0")
    assert (second.status, second.reason) == ("rejected", "unknown_before")
    assert second.earlier[0].operation_id == first.operation_id
    assert effects == ["hello"]


def test_case_004_key_and_arguments_are_fixed_outside_of_the_loop(guard: settled.Guard) -> None:
    seen: list[tuple[str, dict[str, Any]]] = []

    @guard.tool(effect="idempotent", retry=settled.Backoff(base=0.001), breaker=None)
    def put(body: dict[str, Any]) -> str:
        seen.append((settled.current_call().key, dict(body)))
        body["changed"] = len(seen)
        if len(seen) < 3:
            raise httpx.ReadTimeout("lost")
        return "ok"

    given = {"a": 1}
    with guard.run("r"):
        assert put(given) == "ok"
    assert len({key for key, _ in seen}) == 1
    assert [body for _, body in seen] == [{"a": 1}] * 3
    assert given == {"a": 1}


@pytest.mark.parametrize("option", ["key", "approve", "precheck", "identity"])
def test_case_062_what_a_declared_function_does_to_its_arguments_is_not_executed(
    guard: settled.Guard, option: str
) -> None:
    """What is on record, and what a person has agreed to, is what the tool gets."""
    asked: list[Any] = []

    def rule(items: list[str]) -> str:
        asked.append(items.pop())
        return asked[-1] if option == "key" else ""

    options: dict[str, Any] = {"key": {"key": rule}, "approve": {"approve": rule}}.get(option, {})
    if option == "precheck":
        options = {"irreversible": True, "precheck": rule}
    if option == "identity":
        options = {"partial": lambda answer, items: [settled.partial.done(item) for item in items], "item_key": _popped}

    @guard.tool(effect="write", **options)
    def send(items: list[Any]) -> list[Any]:
        return items

    given = [["a", "b"]] if option == "identity" else ["a", "b"]
    assert send.call(items=given).value == given
    assert asked == ([] if option == "identity" else ["b"])


def _popped(item: list[str]) -> str:
    return item.pop()


def test_case_008_and_054_a_slow_tool_keeps_its_lease(tmp_guard: Any) -> None:
    lease = 3.0
    first, second = tmp_guard(lease=lease), tmp_guard(lease=lease)
    begun, go_on, effects = threading.Event(), threading.Event(), []

    def work(n: int) -> int:
        effects.append(n)
        begun.set()
        assert go_on.wait(60)
        return n

    mine = first.tool(effect="write", key="job:{n}", name="work")(work)
    other = second.tool(effect="write", key="job:{n}", name="work")(work)
    results: list[Any] = []
    owner = threading.Thread(target=lambda: results.append(mine.call(n=1)))
    owner.start()
    assert begun.wait(30)
    [call] = second.journal.find(CallQuery())
    until(
        lambda: second.journal.get(call.operation_id).lease.since(call.lease) > lease,
        "it is at work for longer than one lease",
    )
    assert other.options(wait=0).call(n=1).status == "in_progress"
    go_on.set()
    owner.join()
    assert results[0].status == "succeeded"
    assert other.call(n=1).replayed
    assert effects == [1]


async def test_case_054_a_sync_tool_never_runs_on_the_loop(guard: settled.Guard) -> None:
    loop, loop_thread = asyncio.get_running_loop(), threading.get_ident()
    begun, the_loop_goes_on = asyncio.Event(), threading.Event()
    ran_in: list[int] = []

    @guard.tool(effect="write")
    def blocking() -> bool:
        ran_in.append(threading.get_ident())
        loop.call_soon_threadsafe(begun.set)
        return the_loop_goes_on.wait(60)

    async def go_on() -> None:
        await begun.wait()
        the_loop_goes_on.set()

    going_on = asyncio.create_task(go_on())
    result = await blocking.acall()
    await going_on
    assert (result.status, result.value) == ("succeeded", True)
    assert ran_in != [loop_thread]


def test_case_010_a_deadline_of_zero_is_over_not_missing(guard: settled.Guard) -> None:
    @guard.tool(effect="write")
    def act() -> str:
        raise AssertionError("must not run")

    for within in (0, 0.0):
        result = act.options(within=within).call()
        assert (result.status, result.reason) == ("rejected", "deadline")
        with guard.run(f"r{within}", within=within):
            assert act.call().reason == "deadline"
    with pytest.raises(settled.DeclarationError):
        act.options(within=-1)
    with pytest.raises(settled.DeclarationError, match="seconds from 0 on"):
        act.options(wait=float("nan"))
    with pytest.raises(settled.DeclarationError):
        settled.Guard("memory://", lease=0)


def test_case_011_a_live_call_without_a_deadline_is_not_an_orphan(tmp_guard: Any) -> None:
    first, second = tmp_guard(), tmp_guard()
    started, effects = threading.Event(), []

    def act(n: int) -> int:
        effects.append(n)
        started.set()
        time.sleep(0.5)
        return n

    mine = first.tool(effect="write", key="act:{n}", name="act")(act)
    other = second.tool(effect="write", key="act:{n}", name="act")(act)
    owner = threading.Thread(target=lambda: mine.call(n=1))
    owner.start()
    assert started.wait(60)
    assert other.options(wait=60).call(n=1).status == "succeeded"
    owner.join()
    assert effects == [1]


def test_case_013_no_second_attempt_while_the_first_may_still_write(guard: settled.Guard) -> None:
    running = 0
    most = 0
    go_on, effects = threading.Event(), []

    @guard.tool(
        effect="write", timeout=0.05, attempts=3, probe=lambda call: settled.NotHappened(), max_request_lifetime=0.0
    )
    def act(n: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        assert go_on.wait(30)
        effects.append(n)
        running -= 1
        return n

    first = act.options(wait=0.0).call(n=1)
    assert first.status == "unknown"  # the probe says "not there", but the thread still runs
    go_on.set()
    until(lambda: guard.look(first.operation_id).status == "succeeded", "its late answer")
    assert most == 1
    assert effects == [1]


def test_case_014_recovery_leaves_a_running_call_alone(guard: settled.Guard) -> None:
    started, go_on, effects = threading.Event(), threading.Event(), []

    @guard.tool(effect="write", key="k:{n}")
    def act(n: int) -> int:
        effects.append(n)
        started.set()
        assert go_on.wait(30)
        return n

    results: list[Any] = []
    owner = threading.Thread(target=lambda: results.append(act.call(n=1)))
    owner.start()
    assert started.wait(60)
    counts = guard.reconcile()
    go_on.set()
    owner.join()
    assert counts.orphans == 0
    assert results[0].status == "succeeded"
    assert effects == [1]


def test_case_022_a_key_is_used_by_exactly_one_call(guard: settled.Guard) -> None:
    made: list[tuple[str, str]] = []

    @guard.tool(effect="write")
    def create_invoice(n: int) -> str:
        made.append(("create", settled.current_call().key))
        return "invoice"

    @guard.tool(effect="write")
    def pay_invoice(n: int) -> str:
        made.append(("pay", settled.current_call().key))
        return "paid"

    assert create_invoice.options(key="K").call(n=1).value == "invoice"
    assert pay_invoice.options(key="K").call(n=1).value == "paid"
    assert pay_invoice.call(n=1).value == "paid"
    assert [name for name, _ in made] == ["create", "pay", "pay"]
    assert len({key for _, key in made}) == 3


def test_case_069_the_same_call_id_three_times_is_one_execution(guard: settled.Guard) -> None:
    effects: list[str] = []

    @guard.tool(effect="write")
    def act(text: str) -> str:
        effects.append(text)
        time.sleep(0.2)
        return text

    results: list[settled.Result[Any]] = []
    texts = ['{"text":"a"}', '{\n "text":  "a"}', '{"text":"a"}']
    threads = [
        threading.Thread(target=lambda t=t: results.append(guard.dispatch("act", t, step="call_1"))) for t in texts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [r.status for r in results] == ["succeeded"] * 3
    assert effects == ["a"]
    assert guard.dispatch("act", '{"text":"b"}', step="call_1").status == "conflict"
    assert effects == ["a"]
