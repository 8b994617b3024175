"""The run of a conversation that somebody else drives: entered anew when what it was told is lost, and only then.

A framework shows one call at a time, with the history that the model had before it. As long as that history holds
every answer that this process gave, one entry goes on. An answer that is missing (the process was restored from an
older state, the model was asked again), or a call that is asked for a second time, starts a new entry, which answers
from what was done before.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from settled.api.bound import BoundCall
from settled.api.run import Run, current_run
from settled.api.tool import by_model
from settled.current import current

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from settled.api.guard import Guard
    from settled.api.tool import Tool

    ToolOf = Callable[[str], Tool[Any, Any]]

MOST_CONVERSATIONS = 1000
"""Conversations of which one process remembers what it told; one that is forgotten is entered anew."""


class Asked(Struct, frozen=True):
    """One call as a framework brings it."""

    run: str = ""
    """Conversation, thread, session; empty if there is none."""
    turn: str = ""
    """The user message that is worked on."""
    message: str = ""
    """The model's message that asks for the call; empty if it cannot be told."""
    places: Sequence[int] = (0,)
    """Its place in that message; several where calls of one message cannot be told apart."""
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    """All calls of that message: tool and arguments."""
    seen: AbstractSet[str] | None = None
    """Steps of this turn whose answers the model saw before it asked; ``None`` if the history is not known."""


class _Live(Struct, eq=False):
    """What this process has told in one entry of a run."""

    run: Run
    turn: str
    message: str
    before: AbstractSet[str]
    """Steps that the history held when the entry began."""
    given: dict[str, str]
    """Step -> its message, once it was asked for."""
    told: set[str]
    """Steps whose answers were given."""
    ready: Future[None]
    """Done once the entry and the calls of the message at work are known to the journal."""

    def goes_on(self, asked: Asked) -> bool:
        """Whether the call belongs to this entry."""
        if asked.turn != self.turn or self.run.inside is not current.get():
            return False
        if not asked.message or asked.seen is None:
            return True
        if all(_step(asked, place) in self.told for place in asked.places):
            return False  # whoever asks for it again has lost the answer
        return asked.message == self.message or self._known(asked)

    def _known(self, asked: Asked) -> bool:
        """Whether the history holds what was told here, and nothing that was told elsewhere since."""
        seen = asked.seen or frozenset()
        lost = any(step not in seen and self.given[step] != asked.message for step in self.told)
        return not lost and all(step in self.given or step in self.before for step in seen)

    def take(self, asked: Asked) -> str:
        """Return the step of the call: of calls that cannot be told apart the first that was not asked for."""
        if not asked.message:
            return ""
        steps = [_step(asked, place) for place in asked.places]
        step = next((step for step in steps if step not in self.given), steps[0])
        self.given[step] = asked.message
        return step


class _Again(Exception):  # noqa: N818 - no error: whoever waited looks again
    """The asker that was to enter the run was stopped."""


class Conversations:
    """The conversations of one guard. Thread-safe; sync and async calls may meet in one."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._live: OrderedDict[str, _Live] = OrderedDict()
        self._lock = threading.Lock()

    def enter(self, asked: Asked, tool_of: ToolOf) -> tuple[Run, str]:
        """Return the run that the call belongs to, and its step. Raises ``JournalError``."""
        while True:
            live, step, work = self._find(asked)
            try:
                if work is None:
                    live.ready.result()
                    return live.run, step
                if work == "enter":
                    live.run.enter_here()
                if _to_match(live, asked):
                    live.run.reserve(_bound(asked, tool_of))
            except _Again:
                continue
            except BaseException as error:
                self._lost(asked.run, live, error)
                raise
            live.ready.set_result(None)
            return live.run, step

    async def aenter(self, asked: Asked, tool_of: ToolOf) -> tuple[Run, str]:
        """Like ``enter``, from async code."""
        while True:
            live, step, work = self._find(asked)
            try:
                if work is None:
                    if not live.ready.done():
                        await asyncio.shield(asyncio.wrap_future(live.ready))
                    live.ready.result()
                    return live.run, step
                if work == "enter":
                    await live.run.aenter_here()
                if _to_match(live, asked):
                    await live.run.areserve(_bound(asked, tool_of))
            except _Again:
                continue
            except BaseException as error:
                if work is not None:
                    self._lost(asked.run, live, error)
                raise
            live.ready.set_result(None)
            return live.run, step

    def told(self, asked: Asked, step: str) -> None:
        """The call's answer was given to the framework."""
        live = self._live.get(asked.run)
        if live is not None and step in live.given:
            live.told.add(step)

    def _find(self, asked: Asked) -> tuple[_Live, str, Literal["enter", "match"] | None]:
        """Return the live entry, the step, and what this asker must do before it may be asked."""
        with self._lock:
            live, work = self._live.get(asked.run), None
            if live is None or not live.goes_on(asked):
                live = self._live[asked.run] = self._begun(asked)
                work = "enter"
            elif live.message != asked.message:
                live.message, live.ready = asked.message, Future()
                work = "match"
            self._live.move_to_end(asked.run)
            if len(self._live) > MOST_CONVERSATIONS:
                self._live.popitem(last=False)
            return live, live.take(asked), work

    def _begun(self, asked: Asked) -> _Live:
        seen = asked.seen or frozenset()
        run = Run(self._guard, asked.run, turn=asked.turn, answered=tuple(seen), within=None, retries=None)
        return _Live(run, asked.turn, asked.message, seen, {}, set(), Future())

    def _lost(self, run_id: str, live: _Live, error: BaseException) -> None:
        with self._lock:
            if self._live.get(run_id) is live:
                del self._live[run_id]
        if not live.ready.done():
            live.ready.set_exception(error if isinstance(error, Exception) else _Again())


def _to_match(live: _Live, asked: Asked) -> bool:
    return len(asked.calls) > 1 and bool(live.run.memory.earlier)


def _bound(asked: Asked, tool_of: ToolOf) -> list[BoundCall[Any]]:
    return [
        by_model(BoundCall(tool_of(name), kwargs=given), _step(asked, place))
        for place, (name, given) in enumerate(asked.calls)
    ]


def _step(asked: Asked, place: int) -> str:
    return f"{asked.message}/{place}"


def own_run(guard: Guard) -> Run | None:
    """Return the run that the calling code has entered by itself, if it is this guard's."""
    run = current_run.get()
    return run if run is not None and run.guard is guard else None
