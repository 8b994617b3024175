"""What a person is to do, in the place of a call that did nothing: asked for, done, refused, or closed with its run.

It stands on record as a call that waits for somebody's leave, and is never made by a program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.call import Call, evolve
from settled.core.runs.closing import BY_ROLLBACK, WHY, refuse
from settled.core.states import Event, State
from settled.core.values import replace

if TYPE_CHECKING:
    from settled.core.books import Books
    from settled.core.model import Leave, Moment, Terms

BY_HAND = "by_hand"
"""Why a call waits; and why one that was done so is not undone by a program."""
SET_ASIDE = "its run was rewound before anybody did it"
NO_END = 253_402_300_799.0
"""Seconds since 1970: the end of the year 9999."""


def is_by_hand(call: Call) -> bool:
    """Whether a person, and no program, does it."""
    return call.leave is not None and bool(call.leave.by_hand)


def by_hand_terms(terms: Terms) -> Terms:
    """Return the terms of what a person does in a tool's place: what undoes the tool's own effect is not for this."""
    return replace(terms, compensate="", probed=False, drafted=False)


def ask_a_person(books: Books, bare: Call, wanted: Leave, now: Moment) -> Call:
    """Put on record what a person is to do; people are told in the same commit."""
    leave = replace(wanted, until=NO_END)
    detail = f"{leave.why}; {leave.by_hand}" if leave.why else leave.by_hand
    asked, row = evolve(bare, Event.ASK_LEAVE, now, detail=detail, reason=BY_HAND, leave=leave)
    books.put(asked, row)
    books.alert(asked, BY_HAND)
    return asked


def done(books: Books, call: Call, by: str, reason: str, now: Moment, *, result: bytes | None, note: str) -> Call:
    """Put on record that a person has done it, with what it brought."""
    changed, row = evolve(
        call,
        Event.SUCCEED,
        now,
        detail=f"done by hand by {by}: {reason}",
        epoch=call.epoch + 1,
        decided=f"person:{by}",
        reason=reason,
        asserted=True,
        result=result,
        note=note,
    )
    books.put(changed, row)
    return changed


def done_too_late(books: Books, call: Call, by: str, reason: str, now: Moment) -> Call:
    """A person has done what was refused, or belongs to a run that was undone: it is disputed, and people are told."""
    call = close(books, call, now)
    detail = f"done by hand by {by}, though it was not to be any more: {reason}"
    changed, row = evolve(call, Event.DISPUTE, now, detail=detail, disputed=True, held=False)
    books.put(changed, row)
    books.alert(changed, "disputed")
    return changed


def close(books: Books, call: Call, now: Moment, why: str = WHY, by: str = BY_ROLLBACK) -> Call:
    """Let nobody do it any more: its run is undone, or begins anew before it."""
    waits = call.state is State.AWAITING_APPROVAL and is_by_hand(call)
    return refuse(books, call, now, why, by) if waits else call
