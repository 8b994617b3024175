"""Giving up a call for good, so that something else may be done in its place: never both.

What is done in its place is on record as calls of their own, under keys that follow from its record. ``chain.py`` goes
from one to the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from settled.core.call import Call, evolve
from settled.core.encoding.keys import business_key
from settled.core.model import KeyKind
from settled.core.states import Event, State

if TYPE_CHECKING:
    from settled.core.books import Books
    from settled.core.model import Moment

FELL_BACK = "fell_back"
INSTEAD = "instead"
"""The identity of every call that is made in another one's place: it is like none that is asked for by itself."""
BY_OTHERS = ("late", "probe", "person")


def instead_key(tenant: str, tool: str, operation_id: str, no: int) -> str:
    """Return the key of what is done in the place of a call; ``no``: which of its fallbacks it is."""
    return business_key(tenant, tool, (operation_id, str(no)), "instead")


def is_instead(call: Call) -> bool:
    """Whether it was made in another call's place, under a key that follows from that one's record."""
    return call.identity == INSTEAD


def in_place_of(books: Books, call: Call) -> Call | None:
    """Return the call in whose place this one was made; ``None``: in nobody's, or under a key of its tool's own."""
    if not is_instead(call):
        return None
    kind, _, rest = call.fingerprint.partition(":")
    return books.by_id(rest.rpartition(":")[0]) if kind == INSTEAD else None


def note_step(books: Books, operation_id: str, no: int, call: Call) -> None:
    """Note, in the commit of its claim, which call is made in the place of another one."""
    books.put_step(f"instead:{operation_id}", str(no), call.operation_id)


def last_step(books: Books, operation_id: str, steps: int = 100) -> Call | None:
    """Return what was last begun in the place of a call; ``None``: nothing was."""
    found = None
    for no in range(steps):
        name = books.by_step(f"instead:{operation_id}", str(no))
        if name is None:
            return found
        found = books.by_id(name)
    return found


def give_way(books: Books, call: Call, now: Moment) -> Call:
    """Let a call that is proved not done fail for good; one that stands otherwise is left as it is."""
    if not call.asserted and call.state in (State.NOT_DONE, State.PARKED):
        if call.state is State.PARKED:
            call, row = evolve(call, Event.ABSENT, now, detail=FELL_BACK, not_before=None)
            books.put(call, row)
        changes = {"reason": call.reason or FELL_BACK, "epoch": call.epoch + 1, "decided": call.decided or "answer"}
        call, row = evolve(call, Event.FAIL, now, detail=FELL_BACK, **changes)
        books.put(call, row)
    if call.state is State.FAILED and call.kind is KeyKind.RANDOM:
        books.put_owed(call)  # whoever asks for a like one finds what was done in its place, while that is open
    return call


class GiveWay(Struct, frozen=True):
    """Let a call that is proved not done fail for good. One that stands otherwise by now is left as it is."""

    operation_id: str

    def apply(self, books: Books, now: Moment) -> Call | None:
        """Return the call as it stands then: only a failed one may be replaced by something else."""
        call = books.by_id(self.operation_id)
        return None if call is None else give_way(books, call, now)


class ChainHeard(Struct, frozen=True):
    """An asker is about to be given what became of a call and of what was done in its place."""

    operation_id: str

    def apply(self, books: Books, now: Moment) -> None:
        """Owe it no longer."""
        del now
        call = books.by_id(self.operation_id)
        if call is not None:
            books.drop_owed(call)


def stands_open(step: Call) -> bool:
    """Whether what was done in a call's place is in doubt, waits for a person, or ended when its asker was gone."""
    if step.state in (State.UNKNOWN, State.AWAITING_APPROVAL, State.REFUSED):
        return True
    return step.state in (State.SUCCEEDED, State.PARTIAL) and (
        step.decided.startswith(BY_OTHERS) or bool(step.doubtful)
    )
