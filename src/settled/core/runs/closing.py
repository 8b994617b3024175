"""What a run still waits for when it is undone: nobody gives leave any more for what is never to be done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from settled.core.approval.drafts import scope_of_draft
from settled.core.call import Call, evolve
from settled.core.states import Event, State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from settled.core.books import Books
    from settled.core.model import Moment

BY_ROLLBACK: Final = "rollback"
"""What has decided on a call that was closed so."""
WHY: Final = "the run was rolled back"


def close_waiting(books: Books, scope: str, now: Moment) -> tuple[str, ...]:
    """Refuse what waits for leave in a scope, however deep; return the operation ids.

    Their drafts are steps of the run, and discarded as the others are undone.
    """
    waiting = [call for call in _all_in(books, scope) if call.state is State.AWAITING_APPROVAL]
    for call in waiting:
        refuse(books, call, now)
    return tuple(call.operation_id for call in waiting)


def refuse(books: Books, call: Call, now: Moment, why: str = WHY, by: str = BY_ROLLBACK) -> Call:
    """Refuse one call that waits; ``by``: what has decided so, as its record tells it. Return it as it stands then."""
    closed, row = evolve(call, Event.REFUSE, now, detail=why, reason=why, epoch=call.epoch + 1, decided=by)
    books.put(closed, row)
    return closed


def _all_in(books: Books, scope: str) -> Iterator[Call]:
    for step in books.begun_in(scope):
        call = step.call
        yield call
        if call.attempts:
            yield from _all_in(books, f"call:{call.operation_id}")
        if call.terms.drafted:
            yield from _all_in(books, scope_of_draft(call.operation_id))
