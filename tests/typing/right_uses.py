"""Right uses of the public names: mypy and pyright accept each, and see the types that are written here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_type

import settled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
    from datetime import datetime

guard = settled.Guard("memory://", tenant="acme", lease=10.0)


def find(call: settled.Call) -> settled.Happened | settled.NotHappened | settled.Inconclusive:
    """A probe."""
    return settled.Happened(1) if call.key else settled.NotHappened()


@guard.tool(effect="write", probe=find, max_request_lifetime=30.0, timeout=10.0, attempts=2, not_executed=ValueError)
def pay(order: str, amount: int = 1) -> int:
    """A sync tool."""
    return amount


@guard.tool
async def look(order: str) -> str:
    """An async tool."""
    return order


@settled.tool(effect="read")
def declared_elsewhere(n: int) -> list[int]:
    """A tool without a guard yet."""
    return [n]


guard.add(declared_elsewhere)

assert_type(pay(order="a"), int)
assert_type(pay("a", amount=2), int)
assert_type(pay.call(order="a"), settled.Result[int])
assert_type(pay.bind("a"), settled.BoundCall[int])
assert_type(pay.options(step="m/1", key="k", despite="op", wait=1.0).call("a"), settled.Result[int])
assert_type(declared_elsewhere(1), list[int])
assert_type(look("a"), settled.PendingCall[str])
assert_type(guard.dispatch("pay", '{"order": "a"}', step="m/1"), settled.Result[Any])
assert_type(settled.current_call().attempt, int)


async def in_async_code() -> None:
    """Awaiting an async tool gives its value; ``acall`` gives the result."""
    assert_type(await look("a"), str)
    assert_type(await look.acall("a"), settled.Result[str])
    assert_type(await pay.acall(order="a"), settled.Result[int])
    waited: Awaitable[str] = look("a")
    await waited
    async with guard.run("r", within=10.0, retries=settled.RetryBudget(total=3, per_tool={"pay": 1})) as run:
        assert_type(run, settled.Run)


with guard.run("r", turn="m", answered=["s"]) as entered:
    assert_type(entered.entry, int)


def is_known(order: str, amount: int) -> bool:
    """A precheck, or a rule for leave."""
    return bool(order) and amount > 0


def undo(call: settled.Call, result: int) -> dict[str, Any]:
    """What a compensation is called with."""
    return {"order": call.arguments["order"], "amount": result}


@guard.tool(effect="write", approve={"amount": 5}, approvers=2, irreversible=True, precheck=is_known)
def wire(order: str, amount: int) -> None:
    """What needs leave, and cannot be undone."""


def sorry(result: settled.Result[Any]) -> str:
    """What is said where nothing was done."""
    return f"sorry: {result.status}"


@guard.tool(
    effect="write",
    compensate=pay,
    undo=undo,
    fallback=[wire, settled.Person("by hand"), settled.Say(sorry)],
    approve=is_known,
)
def order_it(order: str, amount: int) -> int:
    """What can be undone."""
    return len(order) + amount


with guard.run("trip", on_error="compensate", tools=["order_it"], wait=1.0, take_over=True, undo_within=5.0) as trip:
    trip.state["days"] = [1, 2]
    assert_type(trip.save(), bool)
    assert_type(trip.saved_state, dict[str, Any])
    assert_type(trip.status, str)
    assert_type(guard.approve("op", by="eva"), settled.Result[Any])
    assert_type(guard.refuse("op", by="eva", reason="no"), settled.Result[Any])
    guard.resolve("op", "undone", by="ann", reason="by hand")


async def ask(call: settled.Call) -> settled.Happened | settled.NotHappened:
    """An async probe."""
    return settled.Happened(len(call.arguments)) if call.key else settled.NotHappened()


def listed(since: datetime) -> Iterator[settled.Effect]:
    """A ledger."""
    yield settled.Effect(at=since, key="k")


async def listed_later(since: datetime) -> AsyncIterator[settled.Effect]:
    """An async one."""
    yield settled.Effect(at=since, key="k")


@guard.tool(
    effect="write",
    probe=ask,
    ledger=listed,
    max_request_lifetime=30,
    compensate="pay",
    undo=lambda call, result: {"order": call.arguments["order"], "amount": result},
    fallback="wire",
)
async def book(order: str) -> int:
    """What a lambda undoes: it is told what it takes."""
    return len(order)


@guard.tool(
    effect="write",
    probe=lambda call: settled.Happened(call.key),
    ledger=listed_later,
    max_request_lifetime=1,
    draft=pay,
)
def confirmed(order: str) -> str:
    """A draft first."""
    return order


def tell(event: str, facts: Mapping[str, Any]) -> None:
    """What is told of events."""


settled.Guard("memory://", alerts=tell)
