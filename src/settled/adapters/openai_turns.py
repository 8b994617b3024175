"""Which turn of which run a call of the OpenAI Agents SDK belongs to, told from the input of the run that makes it.

A call is named by its id within its turn: to the SDK that is one call. The ids of a run are kept with its state.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter, OrderedDict
from contextvars import ContextVar
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from agents import get_current_trace
from agents.handoffs import history as nested
from msgspec import Struct, field
from msgspec.structs import replace

from settled.adapters.history import MOST_HISTORIES, Histories, History
from settled.api.runs.conversation import Asked, step_of
from settled.api.runs.current_run import current_run
from settled.current import current

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_within: ContextVar[tuple[str, str]] = ContextVar("settled_agent_within", default=("", ""))
"""The run of the agent that works as a tool here, and that of the one which asks it."""
_flat = getattr(nested, "_flatten_nested_history_messages", list)
"""Takes apart the one message that ``nest_handoff_history`` makes of a history."""


class _Run(Struct, eq=False):
    """What is known of one run of the SDK, as long as it works on the same input."""

    invocations: Any
    """Its own object: call id -> what the SDK knows of that call."""
    given: tuple[str, int, Any] = ("", 0, None)
    """The run's id, and the input: how many items, and the last."""
    turn: Asked = Asked()
    prefix: str = ""
    """Of the names of its messages."""
    asked: set[str] = field(default_factory=set)
    """Ids of calls that were asked for here; those of one message are made side by side."""
    parts: Counter[str] = field(default_factory=Counter)
    """Of them those that are made one by one: how many were."""
    seen: set[str] = field(default_factory=set)
    """Steps: of these, and of what was answered before."""
    no: int = 0
    """Its number, from 0 on, among those that are told the same in one run of the program's, or inside of one call."""


class Turns:
    """The turns of one guarded agent and those that it hands off to. Thread-safe."""

    def __init__(self) -> None:
        self._histories, self._lock = Histories(_tell, _Ids), threading.Lock()
        self._runs: OrderedDict[int, _Run] = OrderedDict()

    def asked(self, context: Any, call_id: str, *, several: bool = False) -> Asked:
        """Return which call it is; without an id only which turn. ``several``: it may be the next of its parts.

        A call that was cut off is on the state's list too; the model did not see its answer, and may want it anew.
        """
        work = self._run(context)
        turn = work.turn
        if not call_id:
            return turn
        name = f"{work.prefix}:{call_id}"
        step, seen = step_of(name, work.parts[call_id] if several else 0), set(work.seen)
        seen.discard(step)
        if several:
            work.parts[call_id] += 1
        work.asked.add(call_id)
        work.seen.add(step)
        made_in = str(work.no) if work.no and not _is_approved(context, call_id) else ""
        return replace(turn, message=name, steps=[step], seen=seen, made_in=made_in)

    @contextlib.contextmanager
    def within(self, context: Any, raw: str) -> Iterator[None]:
        """Let an agent that is a tool work in a run of its own, the same when its asker is asked anew."""
        work = self._run(context)
        run, invocations = work.given[0], work.invocations
        if not run:
            yield
            return
        own = invocations.get(context.tool_call_id)
        alike = [name for name, each in invocations.items() if own and each.fingerprint == own.fingerprint]
        place = alike.index(context.tool_call_id) if own else 0
        what = sha256(f"{context.tool_name}\x1f{raw}".encode(errors="surrogatepass")).hexdigest()[:16]
        token = _within.set((f"{run}|{work.prefix}|{what}|{place}", run))
        try:
            yield
        finally:
            _within.reset(token)

    def _run(self, context: Any) -> _Run:
        invocations = context._tool_invocations  # noqa: SLF001 - nothing else is the same for all calls of a run
        run = _within.get()[0] or _group(context)
        given = (run, len(context.turn_input), context.turn_input[-1] if context.turn_input else None)
        with self._lock:
            work = self._runs.get(id(invocations))
            if work is None or work.invocations is not invocations:
                work = self._runs[id(invocations)] = _Run(invocations)
                if len(self._runs) > MOST_HISTORIES:
                    self._runs.popitem(last=False)
            if work.given != given:
                known, work.given = bool(work.prefix), given
                self._read(context, work)
                if not known:
                    work.no = _number(work.prefix)
            return work

    def _read(self, context: Any, work: _Run) -> None:
        items = _flat([item for item in context.turn_input if isinstance(item, dict)])
        turn, answered = self._histories.turn(work.given[0], items, work.asked)
        work.turn = replace(turn, within=_within.get()[1])
        work.prefix = work.turn.turn_was or work.turn.turn
        completed = {name for name, each in work.invocations.items() if each.completed}
        work.seen = {step_of(f"{work.prefix}:{each}", 0) for each in answered | completed | work.asked}


_numbers: OrderedDict[tuple[object, ...], int] = OrderedDict()
"""By what it was told and where (an entry of the program's run, an attempt): the number of the SDK's last run."""
_numbering = threading.Lock()


def _is_approved(context: Any, call_id: str) -> bool:
    """Whether a person has approved it. Its run is resumed for that, perhaps twice, and it stays one call."""
    return bool(context.is_tool_approved(getattr(context, "tool_name", ""), call_id))


def _number(told: str) -> int:
    """Return the number of a run of the SDK that was told this. A program that is started again counts the same."""
    run, inside = current_run.get(), current.get()
    around = () if run is None else (id(run.guard), run.scope, run.lane, run.entry, run.lane_entry)
    place = (*around, *(() if inside is None else (inside.operation_id, inside.attempt)), told)
    with _numbering:
        _numbers[place] = no = _numbers.pop(place, -1) + 1
        if len(_numbers) > MOST_HISTORIES:
            _numbers.popitem(last=False)
    return no


class _Ids(History):
    """A history in which answers are known by the ids of their calls alone."""

    def shown(self) -> Iterable[str]:
        """Return them as steps."""
        return [step_of(f"{self.prefix}:{each}", 0) for each in self.answered]


def _group(context: Any) -> str:
    """Return what the caller has named the run by. Tools that are no functions are shown it in the trace alone."""
    config = getattr(context, "run_config", None)
    group = config.group_id if config is not None else getattr(get_current_trace(), "group_id", None)
    return group or ""


def _tell(history: History, items: Sequence[dict[str, Any]]) -> None:
    for item in items:
        role = item.get("role")
        if role == "user":
            history.says(str(item.get("content")))
            continue
        kind, call_id = str(item.get("type")), item.get("call_id")
        if call_id and kind.endswith("_call_output"):
            history.answered = history.answered.union([call_id])
            history.seen = history.seen.union([call_id])
            history.calls = history.calls or ((call_id, "", {}),)  # what asked for it may have been cut off
        elif call_id:
            history.calls = ((call_id, "", {}),)
        history.closed = role == "assistant"  # a call that goes with such a message is kept after it, and answered
