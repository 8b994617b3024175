"""Calls through the front door: values and errors, options, results, runs."""

from __future__ import annotations

import asyncio
import functools
import json
import pickle
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

import httpx
import pytest
from pydantic import BaseModel

import settled

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def guard() -> Iterator[settled.Guard]:
    with settled.Guard("memory://") as made:
        yield made


class Ticket(BaseModel):
    id: int
    title: str
    at: datetime


@dataclass
class Point:
    x: int
    y: Decimal


class Colour(Enum):
    RED = "red"


TICKET = Ticket(id=1, title="t", at=datetime(2026, 1, 1, tzinfo=UTC))


def returns_ticket() -> Ticket:
    return TICKET


def returns_tickets() -> list[Ticket]:
    return [TICKET]


def returns_point() -> Point:
    return Point(1, Decimal("2.50"))


def returns_colour() -> Colour:
    return Colour.RED


def returns_mapping() -> dict[str, Point]:
    return {"a": Point(1, Decimal(2))}


def returns_optional() -> Ticket | None:
    return None


def returns_tuple() -> tuple[int, Ticket]:
    return 1, TICKET


@pytest.mark.parametrize(
    "function",
    [
        returns_ticket,
        returns_tickets,
        returns_point,
        returns_colour,
        returns_mapping,
        returns_optional,
        returns_tuple,
    ],
)
def test_a_typed_result_comes_back_in_its_type(guard: settled.Guard, function: Any) -> None:
    tool = guard.tool(effect="write")(function)
    first, again = tool.options(key="k").call(), tool.options(key="k").call()
    assert again.replayed
    assert again.value_available
    assert (again.value, type(again.value)) == (first.value, type(first.value))
    assert again.value is not first.value or first.value in (None, Colour.RED)


def test_a_replayed_value_is_a_copy(guard: settled.Guard) -> None:
    @guard.tool(effect="write")
    def act() -> list[int]:
        return [1]

    first = act.options(key="k").call().value
    assert first is not None
    first.append(2)
    again = act.options(key="k").call().value
    assert again == [1]
    again.append(3)
    assert act.options(key="k").call().value == [1]


ERRORS: list[tuple[Any, type[settled.CallError], str]] = [
    (settled.NotExecuted("no"), settled.CallFailed, "failed"),
    (settled.NotExecuted("later", retryable=True, retry_after=99), settled.CallNotDone, "not_done"),
    (httpx.ReadTimeout("lost"), settled.CallUnknown, "unknown"),
    (settled.PartlyDone(done=["a"], failed=["b"]), settled.CallPartial, "partial"),
    (KeyError("bug"), settled.CallUnknown, "unknown"),
]


@pytest.mark.parametrize(("error", "kind", "status"), ERRORS, ids=[e[2] for e in ERRORS])
def test_the_error_that_is_raised_carries_the_result(
    guard: settled.Guard, error: Exception, kind: type[settled.CallError], status: str
) -> None:
    @guard.tool(effect="write", breaker=None)
    def act() -> None:
        raise error

    with pytest.raises(kind) as raised:
        act.options(within=5)()
    assert raised.value.result.status == status
    assert raised.value.result.operation_id in str(raised.value)
    copy = pickle.loads(pickle.dumps(raised.value))
    assert type(copy) is kind
    assert copy.result == raised.value.result


def test_what_was_done_in_part_is_in_the_value(guard: settled.Guard) -> None:
    @guard.tool(effect="write")
    def act() -> None:
        raise settled.PartlyDone(done=["a"], failed=["b"])

    result = act.options(key="k").call()
    assert result.value == {"done": ["a"], "failed": ["b"]}
    assert act.options(key="k").call().value == {"done": ["a"], "failed": ["b"]}


def test_executed_is_a_success_whatever_path_led_there(guard: settled.Guard) -> None:
    @guard.tool(effect="write")
    def act() -> str:
        raise settled.Executed("found") from TimeoutError()

    assert act() == "found"


class CardDeclinedError(Exception):
    pass


def test_a_tools_own_exception_can_prove_that_nothing_happened(guard: settled.Guard) -> None:
    @guard.tool(effect="write", not_executed=CardDeclinedError)
    def pay() -> None:
        raise CardDeclinedError("no money")

    result = pay.call()
    assert (result.status, result.reason, result.next) == ("failed", "CardDeclinedError", "give_up")


def test_invalid_arguments_are_neither_recorded_nor_executed(guard: settled.Guard) -> None:
    @guard.tool(effect="write")
    def act(n: int, mode: Literal["a", "b"] = "a") -> None:
        raise AssertionError("must not run")

    result = act.call(n="many", mode="c", more=1)  # type: ignore[arg-type, call-arg]  # what the test is about
    assert result.status == "invalid"
    assert set(result.fields) == {"n", "mode", "more"}
    assert "many" not in result.message
    with pytest.raises(settled.InvalidArguments):
        act(n="many")  # type: ignore[arg-type]  # what the test is about
    assert act.call(1, 2, 3).fields == {"arguments": "takes 2, was given 3"}  # type: ignore[arg-type, call-arg]
    assert act.call(1, n=1).fields == {"n": "given twice"}  # type: ignore[misc]
    assert guard.journal.count() == {}


def test_a_tool_can_take_its_own_call_and_no_model_sees_that(guard: settled.Guard) -> None:
    @guard.tool(effect="write")
    def act(text: str, call: settled.Call) -> str:
        return f"{text} {call.key == settled.current_call().key} {call.attempt}"

    assert guard.dispatch("act", {"text": "x"}).value == "x True 1"
    assert set(act.json_schema()["properties"]) == {"text"}
    assert guard.dispatch("act", {"text": "x", "call": {"key": "mine"}}).status == "invalid"
    with pytest.raises(LookupError):
        settled.current_call()


@pytest.mark.parametrize(("form", "length"), [("hex32", 32), ("hex64", 64), ("uuid", 36), ("text36", 36)])
def test_the_key_comes_in_the_form_that_the_other_side_takes(guard: settled.Guard, form: str, length: int) -> None:
    keys: list[str] = []

    @guard.tool(effect="idempotent", key_format=form, retry=settled.Backoff(base=0.001))
    def act() -> None:
        keys.append(settled.current_call().headers["Idempotency-Key"])
        if len(keys) == 1:
            raise httpx.ReadTimeout("lost")

    act()
    assert len(set(keys)) == 1
    assert len(keys[0]) <= length


def test_two_tenants_never_meet(guard: settled.Guard) -> None:
    with settled.Guard(guard.journal, tenant="other") as other:
        made: list[str] = []

        def act(n: int) -> str:
            made.append("x")
            return f"{len(made)}"

        mine = guard.tool(effect="write", key="k:{n}")(act)
        theirs = other.tool(effect="write", key="k:{n}")(act)
        assert (mine(n=1), theirs(n=1), mine(n=1), theirs(n=1)) == ("1", "2", "1", "2")


def test_a_read_outside_of_a_run_records_nothing(guard: settled.Guard) -> None:
    @guard.tool(effect="read", retry=settled.Backoff(base=0.001))
    def look(n: int) -> int:
        return n

    assert look(1) == 1
    assert guard.journal.count() == {}
    with guard.run("r"):
        look(1)
    assert sum(guard.journal.count().values()) == 1


def test_a_default_that_a_later_release_adds_changes_nothing(guard: settled.Guard) -> None:
    made: list[Any] = []

    def before(to: str) -> str:
        made.append(to)
        return "sent"

    def after(to: str, priority: str = "normal") -> str:
        made.append(to)
        return "sent"

    with guard.run("r"):
        guard.tool(effect="write", name="send")(before)("ann")
    with settled.Guard(guard.journal) as later:
        send = later.tool(effect="write", name="send")(after)
        with later.run("r"):
            assert send.call("ann").replayed
            assert send.call("ann", priority="normal").replayed is False  # the second intended one
        with later.run("r"):
            assert send.call("ann", priority="high").replayed is False
    assert len(made) == 3


def test_calls_inside_a_call_answer_its_next_attempt(guard: settled.Guard) -> None:
    made: list[str] = []

    @guard.tool(effect="write")
    def inner(text: str) -> str:
        made.append(text)
        return f"did {text}"

    @guard.tool(effect="idempotent", retry=settled.Backoff(base=0.001), breaker=None)
    def outer() -> list[str]:
        results = [inner("a"), inner("a"), inner("b")]
        if settled.current_call().attempt == 1:
            raise httpx.ReadTimeout("lost after all was done")
        return results

    assert outer() == ["did a", "did a", "did b"]
    assert made == ["a", "a", "b"]


def test_a_deadline_only_shrinks_inwards(guard: settled.Guard) -> None:
    seen: list[float | None] = []

    @guard.tool(effect="write")
    def inner() -> None:
        seen.append(settled.current_call().deadline)

    @guard.tool(effect="write")
    def outer() -> None:
        seen.append(settled.current_call().deadline)
        inner.options(within=500).call()

    with guard.run("r", within=60.0) as run:
        outer.options(within=30.0).call()
    assert run.deadline is not None
    assert seen[0] is not None
    assert seen[0] < run.deadline
    assert seen[1] == seen[0]


def test_the_runs_retry_budget_holds_over_entries(guard: settled.Guard) -> None:
    made: list[int] = []

    @guard.tool(effect="read", attempts=5, retry=settled.Backoff(base=0.001), breaker=None)
    def look() -> None:
        made.append(1)
        raise httpx.ReadTimeout("sick")

    budget = settled.RetryBudget(total=3, floor=0)
    for _ in range(3):
        with guard.run("r", retries=budget):
            result = look.call()
            assert result.status == "not_done"
    assert result.reason.startswith("retry_budget:run")
    assert len(made) == 3 + 3  # three first attempts, three retries


def test_for_model_is_short_json_that_says_what_next(guard: settled.Guard) -> None:
    @guard.tool(effect="write", breaker=None)
    def act(n: int) -> Ticket:
        if n == 1:
            return TICKET
        raise httpx.ReadTimeout("lost")

    done = json.loads(guard.dispatch("act", '{"n": 1}').for_model())
    assert done == {"status": "succeeded", "result": {"id": 1, "title": "t", "at": "2026-01-01T00:00:00Z"}}
    doubt = json.loads(guard.dispatch("act", '{"n": 2}').for_model())
    assert (doubt["status"], doubt["next"]) == ("unknown", "ask_human")
    assert "Do not do it again" in doubt["message"]
    assert "read_timeout" in doubt["message"]
    assert doubt["operation_id"].startswith("op_")


def test_a_person_settles_and_the_next_asker_gets_it(guard: settled.Guard) -> None:
    made: list[int] = []

    @guard.tool(effect="write", breaker=None)
    def act(n: int) -> Ticket:
        made.append(n)
        if len(made) < 3:
            raise httpx.ReadTimeout("lost")
        return TICKET

    keyed = act.options(key="k")
    first = keyed.call(1)
    for wrong in (
        {"by": "", "reason": "x"},
        {"by": "ann", "reason": " "},
    ):
        with pytest.raises(settled.DeclarationError):
            guard.resolve(first.operation_id, "happened", **wrong)
    with pytest.raises(settled.DeclarationError, match="no call of tenant"):
        guard.resolve("op_none", "happened", by="ann", reason="x")
    held = guard.resolve(first.operation_id, "hold", by="ann", reason="asked the bank")
    assert held.status == "unknown"
    again = guard.resolve(first.operation_id, "did_not_happen", by="ann", reason="not there", then="rerun", force=True)
    assert (again.status, again.asserted) == ("not_done", True)
    second = keyed.call(1)
    assert second.status == "unknown"
    done = guard.resolve(second.operation_id, "happened", result=TICKET, by="ann", reason="seen")
    assert done.value == TICKET
    assert keyed(1) == TICKET
    assert len(made) == 2


def test_despite_says_that_it_is_another_action(guard: settled.Guard) -> None:
    made: list[int] = []

    @guard.tool(effect="write", breaker=None)
    def act() -> str:
        made.append(1)
        if len(made) == 1:
            raise httpx.ReadTimeout("lost")
        return "done"

    first = act.call()
    assert act.call().operation_id == first.operation_id  # outside of runs the same arguments are barred too
    assert act.options(despite=first.operation_id).call().value == "done"
    assert len(made) == 2


def test_reconcile_settles_by_the_probe_and_makes_no_attempt(guard: settled.Guard) -> None:
    made: list[str] = []
    away = True

    def look(call: settled.Call) -> Any:
        if away:
            return settled.Inconclusive("the service is away")
        return settled.Happened("found") if call.arguments["n"] == 1 else settled.NotHappened()

    @guard.tool(effect="write", breaker=None, max_request_lifetime=0.0, probe=look)
    def act(n: int) -> str:
        made.append(settled.current_call().key)
        raise httpx.ReadTimeout("lost")

    away = True
    results = [act.options(key=f"k{n}", wait=0).call(n) for n in (1, 2)]
    assert [r.status for r in results] == ["unknown", "unknown"]
    away = False
    counts = guard.reconcile()
    assert (counts.orphans, counts.happened, counts.did_not_happen, counts.left) == (0, 1, 1, 0)
    assert [guard.look(r.operation_id).status for r in results] == ["succeeded", "not_done"]  # type: ignore[union-attr]
    assert len(made) == 2


def test_the_same_from_async_code(guard: settled.Guard) -> None:
    @guard.tool(effect="write", breaker=None)
    async def act(n: int) -> int:
        await asyncio.sleep(0)
        if n < 0:
            raise httpx.ReadTimeout("lost")
        return n

    async def main() -> None:
        assert await act(1) == 1
        assert (await act.acall(2)).value == 2
        with pytest.raises(settled.CallUnknown):
            await act(-1)
        assert (await guard.adispatch("act", '{"n": 3}')).value == 3
        assert (await guard.areconcile()).left == 1
        with pytest.raises(settled.DeclarationError, match="is async"):
            act.call(1)

    asyncio.run(main())
    assert act.call(4).value == 4


def test_alerts_reach_the_sinks() -> None:
    heard: list[tuple[str, Any]] = []
    with settled.Guard("memory://", alerts=lambda event, facts: heard.append((event, facts))) as guard:

        @guard.tool(effect="write", breaker=None)
        def act() -> None:
            raise httpx.ReadTimeout("lost")

        result = act.call()
        guard._deliver_alerts()
        guard._deliver_alerts()
    alerts = [facts for event, facts in heard if event == "alert"]
    assert [(a["kind"], a["operation_id"]) for a in alerts] == [("unknown", result.operation_id)]


def test_an_async_wrapper_around_a_plain_function_is_async(guard: settled.Guard) -> None:
    def plain(n: int) -> int:
        return n + 1

    @functools.wraps(plain)
    async def act(n: int) -> int:
        await asyncio.sleep(0)
        return plain(n)

    tool = guard.tool(effect="write")(act)
    assert tool.is_async
    assert asyncio.run(tool.acall(1)).value == 2


def test_an_async_call_is_a_coroutine_for_everything_that_takes_one(guard: settled.Guard) -> None:
    @guard.tool(effect="write")
    async def act(n: int) -> int:
        await asyncio.sleep(0)
        return n

    async def main() -> None:
        assert await asyncio.gather(act(1), act(1), act(2)) == [1, 1, 2]
        assert await asyncio.create_task(act(3)) == 3
        assert await asyncio.wait_for(act(4), 5) == 4
        async with asyncio.TaskGroup() as group:
            task = group.create_task(act(5))
        assert task.result() == 5
        async with guard.run("r") as run:
            assert [r.value for r in await run.gather(act(6), act(6), act.bind(7))] == [6, 6, 7]

    asyncio.run(main())
    assert asyncio.run(act(8)) == 8


def test_a_forgotten_await_is_told_of(guard: settled.Guard) -> None:
    @guard.tool(effect="write")
    async def act() -> None:
        raise AssertionError("must not run")

    with pytest.warns(RuntimeWarning, match="the call of act was never awaited"):
        act()


@pytest.mark.parametrize("arguments", [None, 42, [("a", 1)], object()])
def test_dispatch_takes_whatever_a_model_sends(guard: settled.Guard, arguments: Any) -> None:
    guard.tool(effect="write", name="act")(lambda: None)
    result = guard.dispatch("act", arguments)
    assert (result.status, result.recorded) == ("invalid", False)


def test_a_persons_mistake_can_be_put_right_while_nothing_was_made_of_it(guard: settled.Guard) -> None:
    @guard.tool(effect="write", breaker=None)
    def act() -> str:
        raise httpx.ReadTimeout("lost")

    lost = act.options(key="k").call()
    wrong = {"by": "ann", "reason": "looked in the wrong list", "force": True}
    guard.resolve(lost.operation_id, "did_not_happen", **wrong, then="rerun")
    right = guard.resolve(lost.operation_id, "happened", result="done", by="bob", reason="it is there")
    assert (right.status, right.value, right.asserted) == ("succeeded", "done", True)
    final = act.options(key="k2").call()
    guard.resolve(final.operation_id, "did_not_happen", by="ann", reason="sure", then="fail", force=True)
    with pytest.raises(settled.DeclarationError, match="failed, not unknown"):
        guard.resolve(final.operation_id, "happened", by="bob", reason="it is there")


def test_numbers_beyond_all_measure_are_invalid_not_an_error(guard: settled.Guard) -> None:
    @guard.tool(effect="write")
    def act(n: int) -> None:
        raise AssertionError("must not run")

    for text in ("9" * 5_000 + ".5", "-" + "9" * 20_000, "1e99999"):
        assert guard.dispatch("act", f'{{"n": {text}}}').status == "invalid"


@pytest.mark.parametrize(("effect", "means"), [("write", "only looks it up"), ("idempotent", "does no harm, and may")])
def test_what_is_unknown_says_what_to_ask_again_would_do(effect, means):
    tries = []
    with settled.Guard("memory://") as guard:

        @guard.tool(effect=effect, attempts=1)
        def put(what: str) -> str:
            tries.append(what)
            if len(tries) == 1:
                raise TimeoutError("slow")
            return "put"

        first, again = put.call("a"), put.call("a")
    assert (first.status, f"the same call again {means}" in first.message) == ("unknown", True)
    assert len(tries) == (1 if effect == "write" else 2), again.status


class Mute:
    def __repr__(self) -> str:
        raise ValueError("says nothing")


def cyclic() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


WITHOUT_JSON = [10**5000, cyclic(), {("a", 1): 2}, float("nan"), {"x": [float("inf")]}, Mute()]


@pytest.mark.parametrize("value", WITHOUT_JSON, ids=["long", "cyclic", "keyed", "nan", "endless", "mute"])
def test_a_model_is_told_of_a_success_whatever_the_value_is(value: object) -> None:
    """The effect is done: that its value has no JSON must not be taken for a failure."""
    told = json.loads(settled.Result(tool="t", status="succeeded", value=value, value_available=True).for_model())
    assert told["status"] == "succeeded"
    assert told["result"]
