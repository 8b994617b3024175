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
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from settled.api.runs.entering import Saga
from settled.api.runs.run import Run
from settled.api.tools.tool import by_model
from settled.current import current

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from settled.api.calls.bound import BoundCall
    from settled.api.guard import Guard
    from settled.api.tools.tool import Tool

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
    steps: Sequence[str] = ()
    """What the call may be in its run, as ``step_of`` names it: several where calls of one message are all alike."""
    calls: Sequence[tuple[str | None, str, Mapping[str, Any]]] = ()
    """All calls of that message: call id, tool, arguments."""
    seen: AbstractSet[str] | None = None
    """Steps of this turn whose answers the model saw before it asked; ``None`` if the history is not known."""
    turn_was: str = ""
    """What the turn was named by before its history was shortened."""
    after: Sequence[str] = ()
    """What was answered last before this turn: its id, and the steps that it may be. So turns are told apart."""
    cut_off: Sequence[str] = ()
    """The turns just before this one that ended without an answer to the user."""
    heard: AbstractSet[str] = frozenset()
    """Steps of those turns whose answers the model sees all the same."""
    follows: str = ""
    """The turn before this one, where the history shows it."""
    within: str = ""
    """The run that this one is a part of: another agent's, that has handed a task to this one."""
    made_in: str = ""
    """Which of the framework's runs made the message, where these can be told apart: ids come again in other runs."""


def step_of(message: str, place: int) -> str:
    """Return the step of a call by its place in the model's message."""
    return f"{message}/{place}"


class Live(Struct, eq=False):
    """What this process has told in one entry of a run."""

    run: Run
    turn: str
    after: Sequence[str]
    message: str
    before: AbstractSet[str]
    """Steps that the history held when the entry began."""
    given: set[str]
    """Steps that were asked for."""
    told: set[str]
    """Those whose answers were given to the framework."""
    ready: Future[None] | None
    """Done, and away, once the entry and the calls of the message at work are known to the journal."""

    def take(self, asked: Asked) -> str | None:
        """Return the step of the call; ``None`` if it does not belong to this entry.

        Of calls that cannot be told apart it is the first that was not asked for; empty if it has none.
        """
        if asked.turn != self.turn or asked.after != self.after or self.run.inside is not current.get():
            return None
        steps, seen = asked.steps, asked.seen
        if not steps:
            return ""
        if seen is not None:
            if self.told.issuperset(steps):
                return None  # whoever asks for it again has lost the answer
            if seen != self.given and not self._known(asked.message, seen):
                return None
        step = steps[0] if len(steps) == 1 else next((each for each in steps if each not in self.given), steps[0])
        self.given.add(step)
        return step

    def _known(self, message: str, seen: AbstractSet[str]) -> bool:
        """Whether the history holds all that was asked for here, and nothing that was told elsewhere since.

        What is under way counts too: whoever asks meanwhile has sent the same thing again, and waits for its answer.
        """
        if message == self.message:
            return True
        if not self.given <= seen and any(step.rpartition("/")[0] != message for step in self.given - seen):
            return False
        return seen <= self.given or not (seen - self.given - self.before)


class _Entries(Struct, eq=False):
    """Of one run, made in this process."""

    newest: int = 0
    underway: int = 0


class _Again(Exception):  # noqa: N818 - no error: whoever waited looks again
    """The asker that was to enter the run was stopped."""


class Conversations:
    """The conversations of one guard. Thread-safe; sync and async calls may meet in one."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._live: OrderedDict[str, Live] = OrderedDict()
        self._entries: OrderedDict[str, _Entries] = OrderedDict()
        self._lock = threading.Lock()

    def enter(self, asked: Asked, tool_of: ToolOf) -> tuple[Live, str]:
        """Return the entry that the call belongs to, and its step. Raises ``JournalError``."""
        while True:
            turn = self._find(asked)
            if not isinstance(turn, _Turn):
                return turn
            try:
                if turn.before is not None:
                    turn.before.result()
                if turn.enters:
                    try:
                        turn.live.run.enter_here()
                    finally:
                        self._entered(turn.live.run)
                if turn.matches():
                    turn.live.run.reserve(_bound(asked, tool_of))
            except _Again:
                self._lost(turn)
            except BaseException as error:
                self._lost(turn, error)
                raise
            else:
                return turn.done()

    async def aenter(self, asked: Asked, tool_of: ToolOf) -> tuple[Live, str]:
        """Like ``enter``, from async code."""
        while True:
            turn = self._find(asked)
            if not isinstance(turn, _Turn):
                return turn
            try:
                if turn.before is not None:
                    await _result(turn.before)
                if turn.enters:
                    try:
                        await turn.live.run.aenter_here()
                    finally:
                        self._entered(turn.live.run)
                if turn.matches():
                    await turn.live.run.areserve(_bound(asked, tool_of))
            except _Again:
                self._lost(turn)
            except BaseException as error:
                self._lost(turn, error)
                raise
            else:
                return turn.done()

    def passed_by(self, asked: Asked, entry: Live) -> bool:
        """Whether another turn of the same conversation was entered here since; then the next ask enters this one anew.

        Which of two is entered last is up to the journal: it need not be the one that is remembered as the last. Where
        another process has entered the run, the asker is told so once: the next ask enters it anew, since nothing
        here would ever tell that the other one has ended.
        """
        with self._lock:
            made = self._entries.get(asked.run)
            if self._live.get(asked.run) is entry:
                del self._live[asked.run]
            return made is not None and (made.underway > 0 or made.newest > entry.run.entry)

    def _entered(self, run: Run) -> None:
        with self._lock:
            made = self._entries[run.run_id]
            made.newest, made.underway = max(made.newest, run.entry), made.underway - 1

    def _find(self, asked: Asked) -> tuple[Live, str] | _Turn:
        """Return the entry and the step; or what this asker must do before its call may be made."""
        with self._lock:
            live = self._live.get(asked.run)
            step = None if live is None else live.take(asked)
            if live is None or step is None:
                return self._anew(asked)
            self._live.move_to_end(asked.run)
            if live.message != asked.message:
                live.message = asked.message
                if len(asked.calls) > 1:
                    before, live.ready = live.ready, Future()
                    return _Turn(asked, live, step, live.ready, before)
            return (live, step) if live.ready is None else _Turn(asked, live, step, None, live.ready)

    def _anew(self, asked: Asked) -> _Turn:
        live = self._live[asked.run] = self._begun(asked)
        if len(self._live) > MOST_CONVERSATIONS:
            self._live.popitem(last=False)
        self._enters(asked.run)
        step = asked.steps[0] if asked.steps else ""
        if step:
            live.given.add(step)
        return _Turn(asked, live, step, live.ready, enters=True)

    def _enters(self, run: str) -> None:
        made = self._entries.setdefault(run, _Entries())
        made.underway += 1
        self._entries.move_to_end(run)
        oldest = next(iter(self._entries))
        if len(self._entries) > MOST_CONVERSATIONS and not self._entries[oldest].underway:
            del self._entries[oldest]

    def _begun(self, asked: Asked) -> Live:
        seen = asked.seen or frozenset()
        told = (*seen, *asked.heard)
        run = Run(self._guard, asked.run, turn=asked.turn, answered=told, within=None, retries=None, saga=Saga())
        run.turn_was, run.after, run.cut_off = asked.turn_was, asked.after, asked.cut_off
        run.follows, run.within = asked.follows, asked.within
        return Live(run, asked.turn, asked.after, asked.message, seen, set(), set(), Future())

    def _lost(self, turn: _Turn, error: BaseException | None = None) -> None:
        """Whoever waits for this asker gets its error, or looks again where it was stopped."""
        if turn.ready is None:
            return
        with self._lock:
            if self._live.get(turn.asked.run) is turn.live:
                del self._live[turn.asked.run]
        turn.ready.set_exception(error if isinstance(error, Exception) else _Again())


class _Turn(Struct, frozen=True, eq=False):
    """What one asker must do before its call may be made."""

    asked: Asked
    live: Live
    step: str
    ready: Future[None] | None
    """To be done by this asker, once the journal knows the entry, or the calls of the message."""
    before: Future[None] | None = None
    """To be waited for."""
    enters: bool = False

    def matches(self) -> bool:
        """Whether all calls of the message are to be matched: where there is something to match them to."""
        several = self.ready is not None and len(self.asked.calls) > 1
        return several and bool(self.live.run.memory.earlier)

    def done(self) -> tuple[Live, str]:
        """Let the others go on."""
        if self.ready is not None:
            self.ready.set_result(None)
            if self.live.ready is self.ready:
                self.live.ready = None
        return self.live, self.step


async def _result(future: Future[None]) -> None:
    if not future.done():
        await asyncio.shield(asyncio.wrap_future(future))
    future.result()


def _bound(asked: Asked, tool_of: ToolOf) -> list[BoundCall[Any]]:
    named = enumerate(asked.calls)
    return [by_model(tool_of(name), given, step_of(asked.message, place)) for place, (_, name, given) in named]
