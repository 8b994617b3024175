"""Outcomes that nobody was given: outside of runs the next like ask is answered with such a one, once.

A process that dies in a call is started again and asks again, under another random key. What it did in doubt may have
been settled meanwhile, by a schedule or a person; who comes first must make no difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from settled.core.approval.drafts import DRAFTING
from settled.core.instead.fallback import BY_OTHERS, last_step
from settled.core.matching.family import heard, note_doubt
from settled.core.model import Effect, KeyKind
from settled.core.states import State

if TYPE_CHECKING:
    from settled.core.ask import Ask
    from settled.core.books import Books
    from settled.core.call import Call
    from settled.core.model import Moment

DONE = (State.SUCCEEDED, State.PARTIAL)


def doubted(books: Books, call: Call) -> None:
    """A call is in doubt now: tell people, and all of its run; owe its outcome to whoever asks for a like one."""
    books.alert(call, "unknown")
    note_doubt(books, call)
    if call.kind is KeyKind.RANDOM and call.terms.effect not in (Effect.READ, Effect.IDEMPOTENT):
        books.put_owed(call)


def owed_to(books: Books, ask: Ask) -> Call | None:
    """Return a like call that was done, and that nobody knows of."""
    for operation_id in books.owed(ask.tenant, ask.tool, ask.fingerprint):
        call = books.by_id(operation_id)
        if call is not None and _is_owed(call, ask) and operation_id not in ask.despite:
            return call
    return None


def _is_owed(call: Call, ask: Ask) -> bool:
    """Whether it was done, waits for leave, may begin under one that was given, was refused, or left at its draft."""
    if call.state is State.NOT_DONE and call.reason == DRAFTING:
        return call.claim not in ask.here
    by_leave = call.leave is not None and call.state in (State.AWAITING_APPROVAL, State.NOT_DONE, State.REFUSED)
    return by_leave or call.state in DONE


def was_owed(call: Call) -> bool:
    """Whether the call has been in doubt, so that its outcome may be owed."""
    if call.kind is not KeyKind.RANDOM or call.state is State.AWAITING_APPROVAL:
        return False
    return call.decided.startswith(BY_OTHERS) or bool(call.doubtful)


class Heard(Struct, frozen=True):
    """An asker is about to be given the outcome of a call."""

    operation_id: str

    def apply(self, books: Books, now: Moment) -> None:
        """Owe it no longer; unless something was begun in its place, which is heard of by itself."""
        del now
        call = books.by_id(self.operation_id)
        if call is None:
            return
        if call.kind is not KeyKind.RANDOM:
            heard(books, call)
        elif last_step(books, call.operation_id, 1) is None:
            books.drop_owed(call)
