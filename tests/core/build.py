"""Records and asks for tests of the core, made by hand."""

from __future__ import annotations

from typing import Any

from settled.core.ask import Ask
from settled.core.call import Call
from settled.core.model import (
    Attempt,
    Effect,
    Evidence,
    Fault,
    FaultClass,
    KeyKind,
    Moment,
    Owner,
    Standing,
    Terms,
)
from settled.core.states import State
from settled.core.values import replace
from settled.journals.memory import MemoryJournal

ME = Owner("here", "boot-1", "ns", 7, "100")
OTHER = Owner("here", "boot-1", "ns", 8, "101")
REFUSED = Fault(FaultClass.PERMANENT, Evidence.NONE, "http_422", "no")
BUSY = Fault(FaultClass.RETRYABLE, Evidence.NONE, "http_503", "busy")
LOST = Fault(FaultClass.UNKNOWN, Evidence.MAYBE, "read_timeout", "lost")
SOME = Fault(FaultClass.PARTIAL, Evidence.SOME, "partly_done")
UNREADABLE = Fault(FaultClass.UNKNOWN, Evidence.DONE, "broken_answer")


def at(seconds: float, *, boot: str = "boot-1", wall: float | None = None) -> Moment:
    """An instant; the wall clock runs along unless given."""
    return Moment(1_000_000.0 + seconds if wall is None else wall, boot, seconds)


def attempt(no: int = 1, standing: Standing = Standing.OPEN, **changes: Any) -> Attempt:
    """An attempt begun at 0; one that has an outcome is over at 1."""
    done = {} if standing is Standing.OPEN else {"ended": at(1), "over": at(1)}
    return replace(Attempt(no=no, epoch=1, owner=ME, begun=at(0), standing=standing), **(done | changes))


def call(state: State = State.PROCESSING, *attempts: Attempt, **changes: Any) -> Call:
    """A record; its lease ends at 30."""
    terms = changes.pop("terms", {})
    made = Call(
        operation_id="op_1",
        key="key-1",
        kind=KeyKind.BUSINESS,
        tenant="",
        tool="pay",
        terms=replace(Terms(), **terms),
        scope="",
        lane="",
        identity="1:i",
        words="1:i",
        fingerprint="1:i",
        n=1,
        arguments=b"1j{}",
        state=state,
        epoch=1,
        claim="op_1",
        owner=ME,
        lease=at(30),
        created=at(0),
        changed=at(0),
        attempts=attempts,
    )
    return replace(made, **changes)


def ask(**changes: Any) -> Ask:
    """An ask for the same call, by another asker."""
    terms = changes.pop("terms", {})
    made = Ask(
        tenant="",
        tool="pay",
        terms=replace(Terms(), **terms),
        kind=KeyKind.BUSINESS,
        identity="1:i",
        words="1:i",
        fingerprint="1:i",
        arguments=b"1j{}",
        operation_id="op_2",
        owner=OTHER,
        lease=30.0,
        key="key-1",
    )
    return replace(made, **changes)


def own(**changes: Any) -> Ask:
    """The ask by which that call was claimed."""
    return ask(**({"operation_id": "op_1", "owner": ME} | changes))


class Clock:
    """A clock that tests set."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.moment = at(seconds)

    def __call__(self) -> Moment:
        return self.moment


def journal(*calls: Call, seconds: float = 2.0) -> MemoryJournal:
    """A journal that holds these records; their logs begin here."""
    made = MemoryJournal(Clock(seconds))
    for each in calls:
        made.books._add(each)
    return made


__all__ = ["Effect", "Standing", "State"]
