"""Giving up a call for good, so that something else may be done in its place: never both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from settled.core.call import Call, evolve
from settled.core.states import Event, State

if TYPE_CHECKING:
    from settled.core.books import Books
    from settled.core.model import Moment

FELL_BACK = "fell_back"


class GiveWay(Struct, frozen=True):
    """Let a call that is proved not done fail for good. One that stands otherwise by now is left as it is."""

    operation_id: str

    def apply(self, books: Books, now: Moment) -> Call | None:
        """Return the call as it stands then: only a failed one may be replaced by something else."""
        call = books.by_id(self.operation_id)
        if call is None or call.asserted or call.state not in (State.NOT_DONE, State.PARKED):
            return call
        if call.state is State.PARKED:
            call, row = evolve(call, Event.ABSENT, now, detail=FELL_BACK, not_before=None)
            books.put(call, row)
        changes = {"reason": call.reason or FELL_BACK, "epoch": call.epoch + 1, "decided": call.decided or "answer"}
        changed, row = evolve(call, Event.FAIL, now, detail=FELL_BACK, **changes)
        books.put(changed, row)
        return changed
