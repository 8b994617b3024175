"""Which turn of which run a call of the OpenAI Agents SDK belongs to, told from the input of the run that makes it.

A call is named by its id within its turn: to the SDK that is one call. The ids of a run are kept with its state.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from contextvars import ContextVar
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from agents.handoffs import history as nested
from msgspec import Struct, field

from settled.adapters.history import MOST_HISTORIES, Histories, History
from settled.api.conversation import Asked, step_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

_within: ContextVar[str] = ContextVar("settled_agent_within", default="")
"""The run of the agent that works as a tool here."""
_flat = getattr(nested, "_flatten_nested_history_messages", list)
"""Takes apart the one message that ``nest_handoff_history`` makes of a history."""


class _Run(Struct, eq=False):
    """One run of the SDK: as long as it lasts, it works on one message of the user."""

    invocations: Any
    """Its own object: call id -> what the SDK knows of that call."""
    asked: set[str] = field(default_factory=set)
    """Calls that were asked for here; those of one message are made side by side."""


class Turns:
    """The turns of one guarded agent and those that it hands off to. Thread-safe."""

    def __init__(self) -> None:
        self._histories, self._lock = Histories(_tell), threading.Lock()
        self._runs: OrderedDict[int, _Run] = OrderedDict()

    def asked(self, context: Any) -> Asked:
        """Return which call it is.

        A call that was cut off is on the state's list too; the model did not see its answer, and may want it anew.
        """
        work = self._run(context)
        run, turn, was, answered = self._turn(context, work)
        own, prefix = context.tool_call_id, was or turn
        completed = {name for name, each in work.invocations.items() if each.completed}
        seen = {step_of(_name(prefix, each), 0) for each in (answered | completed | work.asked) - {own}}
        work.asked.add(own)
        return Asked(run, turn, _name(prefix, own), [step_of(_name(prefix, own), 0)], seen=seen, turn_was=was)

    @contextlib.contextmanager
    def within(self, context: Any, raw: str) -> Iterator[None]:
        """Let an agent that is a tool work in a run of its own, the same when its asker is asked anew."""
        work = self._run(context)
        run, turn, was, _ = self._turn(context, work)
        if not run:
            yield
            return
        invocations = work.invocations
        own = invocations.get(context.tool_call_id)
        alike = [name for name, each in invocations.items() if own and each.fingerprint == own.fingerprint]
        place = alike.index(context.tool_call_id) if own else 0
        what = sha256(f"{context.tool_name}\x1f{raw}".encode(errors="surrogatepass")).hexdigest()[:16]
        token = _within.set(f"{run}|{was or turn}|{what}|{place}")
        try:
            yield
        finally:
            _within.reset(token)

    def _run(self, context: Any) -> _Run:
        invocations = context._tool_invocations  # noqa: SLF001 - nothing else is the same for all calls of a run
        with self._lock:
            found = self._runs.get(id(invocations))
            if found is None or found.invocations is not invocations:
                found = self._runs[id(invocations)] = _Run(invocations)
                if len(self._runs) > MOST_HISTORIES:
                    self._runs.popitem(last=False)
            return found

    def _turn(self, context: Any, work: _Run) -> tuple[str, str, str, AbstractSet[str]]:
        run = _within.get() or (context.run_config.group_id if context.run_config else None) or ""
        items = _flat([item for item in context.turn_input if isinstance(item, dict)])
        return run, *self._histories.turn(run, items, work)


def _name(turn: str, call_id: str) -> str:
    return f"{turn}:{call_id}"


def _tell(history: History, item: dict[str, Any]) -> None:
    role = item.get("role")
    if role == "user":
        history.says(str(item.get("content")))
        return
    if item.get("type") == "function_call_output":
        history.answered = history.answered.union([item["call_id"]])
        history.seen = history.seen.union([item["call_id"]])
    history.closed = role == "assistant"  # a call that goes with such a message is kept after it, and answered
