"""The caller with settled: each call of the model is dispatched inside the task's run."""

from __future__ import annotations

import inspect
import json
import time
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import httpx
import tenacity

import settled
from bench.pace import breaker_at
from bench.workloads.bare import is_transient
from bench.workloads.orders import ATTEMPTS, BASE, CAP, PACE, THROTTLED_BASE, Report
from bench.workloads.world import contract
from settled.core.encoding import codec
from settled.core.states import State
from settled.ports import CallQuery

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bench.workloads.client import Tools
    from bench.workloads.orders import Orders, Word

OPEN = (State.UNKNOWN, State.PROCESSING)
PATIENCE = 3
"""Times that a call is asked for again at the most, where the agent is told to."""
SETTLINGS = 10
"""Times that the queue is gone through at the most, as a schedule would."""
_BACKOFF = settled.Backoff(base=BASE, throttled_base=THROTTLED_BASE, cap=CAP)
_BREAKER = breaker_at(PACE)
_WORDS: dict[str, Word] = {
    "succeeded": "done",
    "failed": "failed",
    "not_done": "not_done",
    "rejected": "rejected",
    "unknown": "unknown",
}


def journal_of(folder: Path) -> str:
    """Return the address of a seed's journal."""
    return f"sqlite:///{folder / 'agent.db'}"


def open_guard(orders: Orders, tools: Tools, plan: Mapping[str, Any]) -> settled.Guard:
    """Open the guard of a seed, with all tools of the plan declared."""
    guard = settled.Guard(journal_of(orders.folder))
    for tool in plan["tools"]:
        declare(guard, tools, tool, orders, probes=orders.row == "settled-probes")
    return guard


def declare(guard: settled.Guard, tools: Tools, tool: Mapping[str, Any], orders: Orders, *, probes: bool) -> None:
    """Declare one tool: a read where it changes nothing; else a write, with all arguments as its identity."""
    parameters = [
        inspect.Parameter(p["name"], inspect.Parameter.KEYWORD_ONLY, default=p.get("default", inspect.Parameter.empty))
        for p in tool["parameters"]
    ]

    def act(**arguments: Any) -> Any:
        return tools.call(tool["name"], arguments, settled.current_call().key)

    act.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # functions are open
    options: dict[str, Any] = {"name": tool["name"], "attempts": ATTEMPTS, "retry": _BACKOFF, "breaker": _BREAKER}
    if tool["changes"]:
        options |= {"effect": "write", "identity": tuple(p.name for p in parameters) or None}
        if probes:
            options |= {"probe": _probe(tools, orders), "max_request_lifetime": contract.LIFETIME}
    else:
        options |= {"effect": "read"}
    guard.tool(**options)(act)


def _probe(tools: Tools, orders: Orders) -> Any:
    retried = tenacity.retry(
        retry=tenacity.retry_if_exception(is_transient),
        wait=tenacity.wait_random_exponential(multiplier=BASE, max=CAP),
        stop=tenacity.stop_after_attempt(ATTEMPTS),
        reraise=True,
    )

    def look_up(call: settled.Call) -> settled.Happened | settled.NotHappened | settled.Inconclusive:
        try:
            found = retried(tools.effects)(f"{orders.row}/{orders.seed}", call.key)
        except httpx.HTTPError as error:
            return settled.Inconclusive(str(error))
        return settled.Happened(found[0]) if found else settled.NotHappened()

    return look_up


class Guarded:
    """Dispatches calls with step ids that are new at each start, as a model that is sampled anew mints them."""

    resumes = True

    def __init__(self, orders: Orders, tools: Tools, plan: Mapping[str, Any]) -> None:
        self._tools, self._guard = tools, open_guard(orders, tools, plan)

    def begin(self, task: str, entry: int) -> None:
        """Begin a task, or go on with it."""
        self._task, self._entry, self._message = task, entry, token_hex(4)
        self._run = self._guard.run(task)
        self._run.__enter__()

    def end(self) -> None:
        """Leave the run."""
        self._run.__exit__(None, None, None)

    def make(self, mark: int, tool: str, arguments: Mapping[str, Any]) -> Report:
        """Make one call; return what the agent is told."""
        began, before = time.monotonic(), self._tools.took
        result = self._ask(mark, 0, tool, arguments)
        asked = 1
        while (pause := _pause(result)) is not None and asked <= PATIENCE:
            time.sleep(pause)
            result = self._ask(mark, asked, tool, arguments)
            asked += 1
        took = time.monotonic() - began - (self._tools.took - before)
        plain = asked == 1 and result.ok and result.attempts == 1 and not result.replayed and self._tools.took > before
        return Report(
            self._task,
            self._entry,
            mark,
            _WORDS.get(result.status, "no_answer"),
            result.value if result.value_available else None,
            result.reason or result.message,
            result.operation_id,
            asked=asked,
            added=took if plain else None,
        )

    def _ask(self, mark: int, time: int, tool: str, arguments: Mapping[str, Any]) -> settled.Result[Any]:
        return self._guard.dispatch(tool, json.dumps(arguments), step=f"{self._message}-{mark}-{time}/0")


def _pause(result: settled.Result[Any]) -> float | None:
    """Return how long to wait before the call is asked for again; ``None``: the agent goes on.

    It does what it is told: told what it has done, it means its call all the same; told that the tool is left alone for
    a moment, it waits for that moment. A call whose tries are used up it does not ask for again.
    """
    if result.reason == "breaker_open":
        return _BREAKER.cooldown if result.retry_after is None else result.retry_after
    return 0.0 if result.reason in ("untold_before", "unknown_before") else None


def settle(orders: Orders, tools: Tools, plan: Mapping[str, Any]) -> None:
    """Note what stands in the queue now, settle what can be settled, and note how every call stands then."""
    with open_guard(orders, tools, plan) as guard:
        before = [_fact(guard, call) for call in guard.journal.find(CallQuery(states=OPEN, limit=100_000))]
        for _ in range(SETTLINGS):
            if not guard.journal.find(CallQuery(states=OPEN, limit=1)):
                break
            guard.reconcile()
            if orders.row != "settled-probes":
                break
        after = [_fact(guard, call) for call in guard.journal.find(CallQuery(limit=100_000))]
    (orders.folder / "journal.json").write_text(json.dumps({"queue": before, "calls": after}))


def _fact(guard: settled.Guard, call: Any) -> dict[str, Any]:
    return {
        "operation_id": call.operation_id,
        "task": call.scope.rpartition(":")[2],
        "tool": call.tool,
        "key": call.key,
        "effect": call.terms.effect.value,
        "state": call.state.value,
        "attempts": len(call.attempts),
        "arguments": codec.loads(guard.vault.unlock(call.arguments)),
    }
