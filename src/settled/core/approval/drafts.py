"""Drafts: what a call makes first, without an effect outside, so that the effect itself is one small step.

The call is put on record before its draft is made; the draft is a call of its own, under a key that follows from that
record. The attempts of the call itself confirm it. A draft that will never be confirmed is discarded, as a step of a
run is undone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from settled.core.call import Call, evolve
from settled.core.encoding.keys import business_key
from settled.core.states import Event, State
from settled.core.values import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.core.books import Books
    from settled.core.model import Moment, Terms

DRAFTING = "drafting"
"""The reason of a call that is on record so that its draft can be made."""
GONE = frozenset({State.COMPENSATING, State.COMPENSATED, State.EXPIRED})
DONE = frozenset({State.SUCCEEDED, State.PARTIAL})
UNCONFIRMED = frozenset({
    State.NOT_DONE, State.PARKED, State.AWAITING_APPROVAL, State.FAILED, State.REFUSED, State.EXPIRED,
})  # fmt: skip
"""A call that stands so has confirmed nothing."""


def scope_of_draft(operation_id: str) -> str:
    """Return the scope that a call's drafts are found under."""
    return f"draft:{operation_id}"


def is_draft(call: Call) -> bool:
    """Whether the call made a draft of another one."""
    return call.scope.startswith("draft:")


def draft_key(tenant: str, tool: str, operation_id: str, no: int) -> str:
    """Return the key of a call's draft; one that was discarded is followed by another."""
    return business_key(tenant, tool, (operation_id, str(no)), "draft")


def reserved(books: Books, bare: Call, now: Moment) -> Call:
    """Put a call on record of which nothing is done before its draft is made."""
    call, row = evolve(bare, Event.ABSENT, now, detail=DRAFTING, reason=DRAFTING, series=0)
    books.put(call, row)
    return call


def drafts_of(books: Books, operation_id: str) -> list[Call]:
    """Return a call's drafts, the newest last."""
    return [step.call for step in books.begun_in(scope_of_draft(operation_id))]


def drop(books: Books, call: Call, now: Moment) -> None:
    """Give up a call's drafts, in the commit in which it is decided that it is never confirmed."""
    if not call.terms.drafted:
        return
    for draft in drafts_of(books, call.operation_id):
        if draft.state in DONE:
            dropped, row = evolve(draft, Event.UNDO, now, detail="not to be confirmed", reason="", held=False)
            books.put(dropped, row)


def lapsed(call: Call, now: Moment) -> bool:
    """Whether nobody decided on it in time."""
    return call.state is State.AWAITING_APPROVAL and call.leave is not None and now.wall >= call.leave.until


class LookAtDraft(Struct, frozen=True):
    """Read how a call and its draft stand; changes nothing."""

    operation_id: str

    def apply(self, books: Books, now: Moment) -> tuple[Call | None, Call | None, int]:
        """Return the call, its draft if there is one that counts, and the number that a draft has or would have."""
        del now
        found = drafts_of(books, self.operation_id)
        live = found[-1] if found and found[-1].state not in GONE else None
        return books.by_id(self.operation_id), live, len(found) if live else len(found) + 1


class DropDrafts(Struct, frozen=True):
    """Give up the drafts of a call that is never confirmed: it failed, was refused, or nobody decided in time."""

    operation_id: str

    def apply(self, books: Books, now: Moment) -> Sequence[Call]:
        """Return the drafts that are to be discarded."""
        call = books.by_id(self.operation_id)
        if call is None or not call.terms.drafted:
            return ()
        if call.state in (State.FAILED, State.REFUSED) or lapsed(call, now):
            drop(books, call, now)
        return [draft for draft in drafts_of(books, call.operation_id) if draft.state is State.COMPENSATING]


class Discarded(Struct, frozen=True):
    """Put on record what became of discarding a draft: its compensation's own record must say that it is gone."""

    operation_id: str
    compensation: str
    reason: str = ""
    """Why it is not; empty if it is."""
    note: str = ""

    def apply(self, books: Books, now: Moment) -> Call | None:
        """Return the draft."""
        draft, undoing = books.by_id(self.operation_id), books.by_id(self.compensation)
        if draft is None or draft.state is not State.COMPENSATING:
            return draft
        if not self.reason and undoing is not None and undoing.state is State.SUCCEEDED:
            changed, row = evolve(draft, Event.UNDONE, now, detail=f"by {self.compensation}", reason="", note="")
        elif not self.reason or (draft.reason, draft.note) == (self.reason, self.note):
            return draft
        else:
            changed, row = evolve(draft, Event.NOTE, now, detail=self.reason, reason=self.reason, note=self.note)
            books.alert(changed, "undo")
        books.put(changed, row)
        return changed


def as_draft(terms: Terms, discard: str, kept: float | None) -> Terms:
    """Return the terms of a draft: it is undone by discarding it, and outlives the time that a person has."""
    retention = None if terms.retention is None or kept is None else max(terms.retention, kept)
    return replace(terms, compensate=discard, irreversible=False, waived=False, retention=retention)
