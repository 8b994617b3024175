"""Going down a chain of fallbacks: what is done in a call's place, one after the other, and never two of them.

A generator as the life of a call is: transitions and ``Instead`` go out, what came of them comes in. Played again, by
whoever asks for the call again, it finds on record how far it came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from settled.core.ask import Stands, WouldRun
from settled.core.instead.fallback import ChainHeard, GiveWay
from settled.core.matching.claim import Claim
from settled.core.model import Effect, KeyKind
from settled.core.states import State

if TYPE_CHECKING:
    from collections.abc import Generator

    from settled.core.ask import Ask
    from settled.core.call import Call

NOT_TRIED = ("breaker_open", "paused")
CONTROL_FLOW = "control_flow"
"""Reason of a call that a framework took over before it was done, for an approval: it is to be made after that."""
ENDS = ("succeeded", "failed", "not_done", "partial", "refused", "compensated", "expired")


class Outcome(Protocol):
    """What came of one call, as its asker is told."""

    @property
    def status(self) -> str:
        """As of any result."""

    @property
    def reason(self) -> str:
        """Why."""

    @property
    def operation_id(self) -> str:
        """Of its record; empty if it has none."""

    @property
    def asserted(self) -> bool:
        """Whether it rests on a person's word."""

    @property
    def disputed(self) -> bool:
        """Whether evidence speaks against it."""


class Instead(Struct, frozen=True):
    """Do what stands at one place of the chain; answered with what came of it, and its ask if it is put on record."""

    no: int
    given_up: Call | None
    """The call that it replaces; ``None``: that one is not on record."""
    before: tuple[tuple[int, Any], ...]
    """Places, and what came of each: -1 is the call itself."""


class Came(Struct, frozen=True):
    """How a chain has ended."""

    no: int
    """The place that answers; -1: the call itself."""
    outcome: Any
    before: tuple[tuple[int, Any], ...] = ()
    exhausted: bool = False
    """It is proved that nothing in the chain did anything."""


class Overtaken(Struct, frozen=True):
    """The call stands otherwise by now, or cannot be given up now: what its record says counts."""

    call: Call | None
    again: bool = False
    """To ask again may bring more."""


def may_give_way(outcome: Outcome) -> bool:
    """Whether it is proved, and not only said by a person, that nothing was done, nor is to be done by itself yet."""
    if outcome.asserted or outcome.disputed or outcome.reason == CONTROL_FLOW:
        return False
    untried = outcome.status == "rejected" and outcome.reason in NOT_TRIED
    return untried or outcome.status in ("failed", "not_done")


def go_down(outcome: Outcome, ask: Ask | None, steps: int) -> Generator[Any, Any, Came | Overtaken]:
    """Do what stands in the chain of a call, as long as it is proved that nothing before it did anything.

    ``steps``: how many of its fallbacks are to be done.
    """
    if not may_give_way(outcome):
        return Came(-1, outcome)
    waits = _Waits(ask)
    waits.go_on(outcome.operation_id)  # before anything can fail: till the chain ends, the call is not answered
    try:
        given_up = yield from _given_up(outcome, ask)
        if isinstance(given_up, Overtaken):
            waits.state = given_up.call.state if given_up.call is not None else None
            return given_up
        waits.go_on(given_up.operation_id if given_up is not None else "")
        came = yield from _in_turn(outcome, given_up, steps)
        if isinstance(came, Came) and came.outcome.status in ENDS:
            waits.state = State.FAILED
        return came
    finally:
        waits.end()


class _Waits:
    """What the entry is told of an asker whose call is replaced."""

    def __init__(self, ask: Ask | None) -> None:
        self.ask = ask
        self.operation_id = ""
        self.state: State | None = None
        """How the call stands for the asker in the end; ``None``: it has not come to an end."""

    def go_on(self, operation_id: str) -> None:
        """It waits for what is done in the place of this call."""
        if self.ask is not None and self.ask.entry is not None and operation_id:
            self.operation_id = operation_id
            self.ask.entry.go_on(self.ask.operation_id, operation_id)

    def end(self) -> None:
        """It waits no longer."""
        if self.ask is not None and self.ask.entry is not None and self.operation_id:
            self.ask.entry.came_to(self.ask.operation_id, self.operation_id, self.state)


def _in_turn(outcome: Outcome, given_up: Call | None, steps: int) -> Generator[Any, Any, Came | Overtaken]:
    before: tuple[tuple[int, Any], ...] = ((-1, outcome),)
    for no in range(steps):
        came, ask = yield Instead(no, given_up, before)
        if not may_give_way(came):
            yield from _heard(given_up, came)
            return Came(no, came, before)
        passed = yield from _given_up(came, ask)
        if isinstance(passed, Overtaken):
            return passed
        before = (*before, (no, came))
    yield from _heard(given_up, outcome)
    return Came(-1, outcome, before, exhausted=True)


def _given_up(outcome: Outcome, ask: Ask | None) -> Generator[Any, Any, Call | Overtaken | None]:
    """Put on record that it is given up, so that nobody makes it after all. ``None``: nobody asks for it again."""
    if outcome.operation_id:
        call: Call | None = yield GiveWay(outcome.operation_id)
    elif ask is None or (ask.kind is KeyKind.RANDOM and ask.terms.effect is Effect.READ):
        return None
    else:
        reply = yield Claim(ask, begin=False, forgo=True)
        if ask.entry is not None:
            ask.entry.leave(ask.operation_id, None, heard=False)
        if not isinstance(reply, Stands):
            return Overtaken(None, again=not isinstance(reply, WouldRun))
        call = reply.call
    return call if call is None or call.state is State.FAILED else Overtaken(call)


def _heard(given_up: Call | None, outcome: Outcome) -> Generator[Any, Any, None]:
    if given_up is not None and given_up.kind is KeyKind.RANDOM and outcome.status in ENDS:
        yield ChainHeard(given_up.operation_id)
