"""Past its retention a final record gives up its payload; where its key could come again, a tombstone stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from settled.core.call import Call, evolve
from settled.core.instead.by_hand import is_by_hand
from settled.core.model import KeyKind
from settled.core.states import TABLE, Event, State
from settled.core.values import replace

if TYPE_CHECKING:
    from settled.core.books import Books
    from settled.core.model import Moment


def due(call: Call, now: Moment) -> bool:
    """Whether the call is settled and past its retention. What is disputed or in doubt never expires."""
    if call.terms.retention is None or Event.EXPIRE not in TABLE[call.state] or call.disputed or call.doubtful:
        return False
    if call.state is State.AWAITING_APPROVAL and is_by_hand(call):
        return False  # somebody is still to do it
    return now.wall - call.changed.wall >= call.terms.retention


class Expire(Struct, frozen=True):
    """Expire one call, if it is due. A random key never comes again, so its record goes whole."""

    operation_id: str

    def apply(self, books: Books, now: Moment) -> bool:
        """Return whether it expired."""
        call = books.by_id(self.operation_id)
        if call is None or not due(call, now):
            return False
        bare = replace(call, arguments=b"", fault=None, note=f"was {call.state}")  # a rollback may come to ask
        changed, row = evolve(bare, Event.EXPIRE, now, result=None, reason="retention")
        books.put(changed, row)
        if call.kind is KeyKind.RANDOM:
            books.forget(changed)
        return True
