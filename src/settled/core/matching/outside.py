"""Which record answers an ask outside of runs: what is in doubt, or at work in a process that may be dead, or owed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.ask import Barred, Suspect
from settled.core.instead.fallback import last_step, stands_open
from settled.core.matching.found import HARMLESS, Match, same_arguments
from settled.core.matching.owed import owed_to
from settled.core.model import KeyKind
from settled.core.rules import lease_over
from settled.core.states import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.core.ask import Ask
    from settled.core.books import Books
    from settled.core.call import Call
    from settled.core.model import Moment


def outside(books: Books, ask: Ask, now: Moment) -> Match | Barred | Suspect | None:
    """Outside of runs the same arguments bar: while they are in doubt, or at work in a process that may be dead.

    Once settled, what nobody was told of answers one like call.
    """
    instead = _given_way(books, ask, now) if ask.falls_to else None
    if instead is not None:
        return instead
    if ask.while_unknown == "allow" or ask.terms.effect in HARMLESS:
        owed = owed_to(books, ask) if ask.leave is not None else None
        return None if owed is None else Match(owed, like=True)
    # Of this identity only, where that is enough: many other calls of the tool may be at work.
    identity = None if ask.while_unknown == "any" else ask.identity
    found = books.unsettled(ask.tenant, ask.scope, ask.tool, identity)
    calls = [c for c in found if c.kind is KeyKind.RANDOM and c.operation_id not in ask.despite]
    same = [c for c in calls if c.fingerprint == ask.fingerprint]
    doubt = next((c for c in same if _open_for(c, ask, now)), None) if same else None
    doubt = doubt or _told_open(books, ask) or owed_to(books, ask)
    if doubt is not None:
        return Match(doubt, like=True)
    return _bar_outside(ask, calls, same) if calls else None


def _bar_outside(ask: Ask, calls: Sequence[Call], same: Sequence[Call]) -> Barred | Suspect | None:
    elsewhere = tuple(c for c in same if c.owner != ask.owner and c.operation_id not in ask.alive)
    if elsewhere:
        return Suspect(elsewhere)
    unknown = tuple(c for c in calls if c.state is State.UNKNOWN)
    return Barred(unknown) if ask.while_unknown == "any" and unknown else None


def _given_way(books: Books, ask: Ask, now: Moment) -> Match | Suspect | None:
    """Return a like call that did nothing, while what was done in its place is in doubt, or nobody was told of it."""
    elsewhere = []
    for operation_id in books.owed(ask.tenant, ask.tool, ask.fingerprint):
        call, step = books.by_id(operation_id), last_step(books, operation_id)
        if call is None or step is None or call.state is not State.FAILED or operation_id in ask.despite:
            continue
        if stands_open(step) or (step.state is State.PROCESSING and _open_for(step, ask, now)):
            return Match(call, like=True)
        if step.state is State.PROCESSING and step.owner != ask.owner and step.operation_id not in ask.alive:
            elsewhere.append(step)
    return Suspect(tuple(elsewhere)) if elsewhere else None


def _open_for(call: Call, ask: Ask, now: Moment) -> bool:
    """Whether the call is in doubt, or at work in this process with nobody waiting for it any more."""
    left = call.owner == ask.owner and call.operation_id not in ask.here
    return call.state is State.UNKNOWN or lease_over(call, now) or left


def _told_open(books: Books, ask: Ask) -> Call | None:
    """What was told as open and has been settled since answers the next like ask: it is not done again."""
    call = books.by_id(ask.told) if ask.told and ask.told not in ask.despite else None
    return call if call is not None and same_arguments(call, ask) else None
