"""Which record answers an ask: identity, steps, likeness, and the rule of doubt and repetition.

The rules are those of the design's chapter on keys; a simulation of models that mint new ids,
reword, reorder and plan differently shows what goes wrong without each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.ask import Barred, Conflict, Suspect, Untold
from settled.core.instead.by_hand import is_by_hand
from settled.core.instead.fallback import INSTEAD, in_place_of, is_instead, last_step
from settled.core.matching import family
from settled.core.matching.entry import Entry
from settled.core.matching.found import HARMLESS, Match, same_arguments
from settled.core.matching.outside import outside
from settled.core.matching.owed import DONE
from settled.core.model import KeyKind
from settled.core.parts import is_item
from settled.core.runs.rewind import is_set_aside
from settled.core.states import MAY_HAVE_EFFECT, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from settled.core.ask import Ask
    from settled.core.books import Books
    from settled.core.call import Call
    from settled.core.model import Moment

OPEN_STATES = (State.SUCCEEDED, State.UNKNOWN, State.PROCESSING, State.PARTIAL, State.AWAITING_APPROVAL)
STILL_WAITING = (State.PROCESSING, State.AWAITING_APPROVAL, State.PARTIAL)
MADE_AGAIN = (State.NOT_DONE, State.PARKED)


Found = Match | Conflict | Untold | Barred | Suspect


def find(books: Books, ask: Ask, mine: Call | None, now: Moment) -> Found | None:
    """Return what answers ``ask``; ``None`` if it is a new action. ``mine``: the call that this very ask has made."""
    kind = ask.kind
    if kind is KeyKind.SCOPED:
        entry = ask.entry or Entry()
        return _as_before(books, ask, entry) or _in_scope(books, ask, entry)
    call = mine if kind is KeyKind.RANDOM else books.by_key(ask.key)  # nobody else draws the same random key
    if call is not None:
        return Match(call) if same_arguments(call, ask) else Conflict(call)
    return outside(books, ask, now) if kind is KeyKind.RANDOM else None


def _as_before(books: Books, ask: Ask, entry: Entry) -> Match | Untold | None:
    """What this very asker was matched to when the journal's answer was lost, or its commit failed."""
    refused = entry.refused.get(ask.operation_id)
    operation_id, like = entry.waiting.get(ask.operation_id, ("", False))
    call = books.by_id(operation_id) if operation_id else None
    return Untold(refused) if refused else Match(call, like) if call else None


def _in_scope(books: Books, ask: Ask, entry: Entry) -> Match | Conflict | Untold | Barred | Suspect | None:
    found = _by_step(books, ask, entry) or _unfinished(books, ask, entry) or _old_words(books, ask, entry)
    found = found or _under_leave(books, ask, entry)
    begins = found is None or (
        isinstance(found, Match) and (_made_again(found.call, entry) or _goes_down(books, found.call, ask))
    )
    if not begins or ask.terms.effect in HARMLESS:
        return found
    open_calls = _unsettled(books, ask) if ask.by_model or ask.while_unknown != "allow" else ()
    left = _left_behind(books, open_calls, ask, entry)
    if left is not None:
        return left
    doubts = _doubts(open_calls, ask)
    own = next((like for c in doubts if c.lane == ask.lane and (like := _asked_for(books, c, ask))), None)
    if own is not None:
        return Match(own, like=True)  # of whatever turn: it is settled first
    return _not_told_of(books, ask, entry) or _bar(books, doubts, ask) or _elsewhere(books, ask, entry) or found


def _elsewhere(books: Books, ask: Ask, entry: Entry) -> Match | Barred | Suspect | None:
    """What is in doubt in another part of the same task bars too; what was done after all answers a like call, once."""
    if ask.while_unknown == "allow":
        return None
    if entry.wide is None:
        entry.wide = family.looked_at(books, ask.tenant, ask.scope, anew=entry.no > 1)
    if not (ask.by_model or entry.wide):
        return None
    found = family.elsewhere(books, ask.tenant, ask.scope, (ask.tool, *ask.falls_to))
    but = ask.despite | ask.around
    known = (c for c in found if _in_place(c) and (c.tool == ask.tool or is_instead(c)))
    calls = [c for c in known if c.operation_id not in but and not is_set_aside(c)]
    owed = (c for c in calls if c.state in DONE and entry.untold(c) and not _within_one_set_aside(books, c))
    done = (asked for c in owed if (asked := _asked_for(books, c, ask)))
    answers = next((asked for asked in done if not (is_item(asked) or entry.awaited(asked.operation_id))), None)
    if answers is not None:
        return Match(answers, like=True)  # who is told of it says so then (``owed.Heard``): it may yet be cut off
    at_work = [c for c in calls if c.state is State.PROCESSING and c.owner != ask.owner]
    like = [c for c in at_work if _bars_any(ask) or _asked_for(books, c, ask)]
    suspects = tuple(c for c in like if c.operation_id not in ask.alive)
    return Suspect(suspects) if suspects else _bar(books, [c for c in calls if c.state is State.UNKNOWN], ask)


def _within_one_set_aside(books: Books, call: Call) -> bool:
    """Whether it was made inside of a call that an operator has set aside: that one is made anew with all in it."""
    outer = books.by_id(call.scope.removeprefix(family.INSIDE)) if call.scope.startswith(family.INSIDE) else None
    return outer is not None and (is_set_aside(outer) or _within_one_set_aside(books, outer))


def _bars_any(ask: Ask) -> bool:
    """Whether any call of the tool, of whatever arguments, may bar the ask if it is in doubt."""
    return ask.by_model or ask.while_unknown == "any"


def _asked_for(books: Books, call: Call, ask: Ask) -> Call | None:
    """Return the call that was asked for as this ask is, where this one is it, or is made in its place."""
    asked = in_place_of(books, call) or call
    like = (asked.tool, asked.identity) == (ask.tool, ask.identity)
    return asked if like and asked.operation_id not in ask.despite else None


def _left_behind(books: Books, open_calls: Sequence[Call], ask: Ask, entry: Entry) -> Match | Suspect | None:
    """Calls at work since an earlier entry, of whatever turn: where their process is dead they are in doubt.

    So they must be looked at before anything is said of them, and before something is done that they might bar.
    """
    at_work = (c for c in open_calls if c.state is State.PROCESSING and c.series != entry.no)
    calls = [c for c in at_work if c.lane == ask.lane and _may_bar(c, ask) and not _for_other_sibling(c, ask, entry)]
    same = [c for c in calls if _asked_for(books, c, ask)]
    here = next((c for c in same if c.owner == ask.owner and c.operation_id not in ask.here), None)
    if here is not None:
        return Match(here, like=True)  # it runs on in this process, and nobody waits for it
    known = [*(calls if _bars_any(ask) else same), *(c for c in open_calls if _in_another_lane(c, ask))]
    elsewhere = tuple(c for c in known if c.owner != ask.owner and c.operation_id not in ask.alive)
    return Suspect(elsewhere) if elsewhere else None


def _in_another_lane(call: Call, ask: Ask) -> bool:
    """Whether another agent has a like call at work, of whose process it can be seen here whether it lives.

    One that lives, or cannot be seen, means a call of its own.
    """
    theirs, own = call.owner, ask.owner
    seen = (theirs.host, theirs.boot, theirs.space) == (own.host, own.boot, own.space)
    like = call.lane != ask.lane and call.identity == ask.identity and _may_bar(call, ask)
    return call.state is State.PROCESSING and like and seen


def _old_words(books: Books, ask: Ask, entry: Entry) -> Match | Untold | None:
    """Return the best like call; a model is asked first where it has been answered by it in other words already.

    The old words may mean the same action, or the second of two intended ones: only the model knows.
    """
    found = _candidate(books, ask, entry)
    spoken_for = found is not None and found.call.operation_id in entry.answered
    if found is None or not spoken_for or not ask.by_model or ask.terms.effect in HARMLESS:
        return found
    return Untold((found.call,))


def _under_leave(books: Books, ask: Ask, entry: Entry) -> Match | None:
    """Return the same call that waits for a person's leave, or may begin under one, whatever turn has asked for it.

    Nothing was done yet, and people decide when they can: who asks after that asks for what was decided on.
    """
    if ask.leave is None or ask.leave.by_hand:
        return None
    for call in books.alike(ask.scope, ask.lane, ask.tool, ask.identity, range(1, entry.no)):
        waits = (
            call.leave is not None and not call.leave.used and call.state in (State.AWAITING_APPROVAL, State.NOT_DONE)
        )
        same = call.words == ask.words and entry.free(call, ask.words) and call.operation_id not in ask.despite
        if waits and same and not is_set_aside(call):
            return Match(call, like=True)
    return None


def _made_again(call: Call, entry: Entry) -> bool:
    """Whether to be answered from this call is to make it: then the rule of doubt holds as for a new one."""
    return call.state in MADE_AGAIN and call.series != entry.no


def _goes_down(books: Books, call: Call, ask: Ask) -> bool:
    """Whether to be answered from this call is to do something in its place."""
    if not ask.falls_to or call.state is not State.FAILED:
        return False
    step = last_step(books, call.operation_id)
    return step is None or step.state in (State.FAILED, *MADE_AGAIN)


def _by_step(books: Books, ask: Ask, entry: Entry) -> Match | Conflict | Untold | None:
    if not ask.step:
        return None
    if ask.step in entry.refused:
        return Untold(entry.refused[ask.step])
    operation_id = books.by_step(ask.step_scope, ask.step)
    call = books.by_id(operation_id) if operation_id else None
    if (
        call is None
        or is_set_aside(call)
        or not _fits(call, ask)
        or _taken_by_another(call, ask, entry)
        or not entry.of_turn(call)
    ):
        return None
    if (call.tool, call.identity) != (ask.tool, ask.identity):
        return None if ask.by_model else Conflict(call)  # an adapter's ids may be used again
    better = _candidate(books, ask, entry) if _made_again(call, entry) else None
    return better if better and better.call.state in MAY_HAVE_EFFECT else Match(call, like=call.step != ask.step)


def _taken_by_another(call: Call, ask: Ask, entry: Entry) -> bool:
    """Whether the call was made for this very step, but has answered a like call of another step in this entry."""
    return call.step == ask.step and entry.steps.get(call.operation_id, ask.step) != ask.step


def _unfinished(books: Books, ask: Ask, entry: Entry) -> Match | None:
    """Return a like call of this entry whose final outcome the asker was not given.

    A call whose asker still waits is a concurrent intention of its own.
    """
    if ask.terms.effect in HARMLESS and ask.leave is None and not ask.falls_to:
        return None
    listed = () if ask.sibling in entry.reserved.values() else tuple(entry.listed)
    for operation_id in (*entry.open, *listed):  # a copy: other threads end calls meanwhile
        call = books.by_id(operation_id)
        if call is None or entry.awaited(operation_id) or not (_like(call, ask) and _may_bar(call, ask)):
            continue
        told = not entry.untold(call) and not entry.unread(call, ask.message)
        if call.state in STILL_WAITING or not told:  # being told that it is not at its end ends nothing
            return Match(call, like=True)
    return None


def _like(call: Call, ask: Ask) -> bool:
    return (call.lane, call.tool, call.identity) == (ask.lane, ask.tool, ask.identity)


def _may_bar(call: Call, ask: Ask) -> bool:
    """Whether the rule of doubt holds for this call: siblings, business keys and what the ask excludes are exempt."""
    at_once = ask.entry is None or call.series == ask.entry.no
    sibling = bool(ask.message) and call.message == ask.message and at_once
    return not sibling and _in_place(call) and call.operation_id not in ask.despite


def _in_place(call: Call) -> bool:
    return call.kind is KeyKind.SCOPED or is_instead(call) or is_item(call)


def _candidate(books: Books, ask: Ask, entry: Entry) -> Match | None:
    """Return the best like call of an earlier entry that this entry has not been answered from."""
    if not entry.earlier:
        return None
    likes = books.alike(ask.scope, ask.lane, ask.tool, ask.identity, entry.earlier)
    free = (c for c in likes if entry.free(c, ask.words) and not _for_other_sibling(c, ask, entry))
    usable = [c for c in free if _fits(c, ask) and not is_set_aside(c)]
    best = min(usable, key=lambda c: _preference(books, c, ask), default=None)
    return Match(best, like=True) if best else None


def _preference(books: Books, call: Call, ask: Ask) -> tuple[bool, int, bool, int]:
    """Order like calls; what was done in a call's place counts as done by it."""
    reserved, rank, reworded, n = preference(call, ask)
    return reserved, 0 if _stands_instead(books, call, ask) else rank, reworded, n


def _stands_instead(books: Books, call: Call, ask: Ask) -> bool:
    """Whether something that was done in the call's place stands, or may."""
    if not ask.falls_to or call.state is not State.FAILED:
        return False
    step = last_step(books, call.operation_id)
    return step is not None and step.state in OPEN_STATES


def _fits(call: Call, ask: Ask) -> bool:
    """Whether it may answer at all: what was not done is made again as it is on record, so in the same words only."""
    other_words = call.state in MADE_AGAIN and call.words != ask.words
    return not other_words and call.operation_id not in ask.despite


def preference(call: Call, ask: Ask) -> tuple[bool, int, bool, int]:
    """Order like calls: reserved for this sibling, what may have happened, the same words, position."""
    rank = 0 if call.state in OPEN_STATES else 2 if call.state in MADE_AGAIN else 1
    reserved = bool(ask.entry and ask.sibling and ask.entry.reserved.get(call.operation_id) == ask.sibling)
    return (not reserved, rank, call.words != ask.words, call.n)


def _not_told_of(books: Books, ask: Ask, entry: Entry) -> Untold | None:
    """A model must know of what it has already done with this tool before it does something else."""
    if not ask.by_model:
        return None
    made = (*books.made(ask.scope, ask.tool, entry.told_of()), *_made_instead(books, ask, entry))
    earlier = [c for c in made if c.lane == ask.lane and _unheard(c, ask, entry)]
    told = {c.operation_id for c in earlier}
    since = [c for c in _open_calls(books, entry) if c.tool == ask.tool and c.operation_id not in told]
    news = (*earlier, *(c for c in since if entry.untold(c) and c.state in MAY_HAVE_EFFECT))
    calls = tuple(c for c in news if _may_bar(c, ask) and not (_for_sibling(c, ask, entry) and _surely(c, entry)))
    return Untold(calls, once=ask.untold == "tell") if calls else None


def _made_instead(books: Books, ask: Ask, entry: Entry) -> list[Call]:
    """Return what earlier entries did, or left to a person, in the place of calls of this tool."""
    entries = entry.told_of()
    if not entries:
        return []
    found = (c for tool in ask.falls_to for c in books.alike(ask.scope, ask.lane, tool, INSTEAD, entries))
    waits = (State.AWAITING_APPROVAL,)
    return [
        c for c in found if (c.state in MAY_HAVE_EFFECT and c.tool != ask.tool) or (c.state in waits and is_by_hand(c))
    ]


def _unheard(call: Call, ask: Ask, entry: Entry) -> bool:
    """Whether the asker was not told of this call: what a sibling was answered with, this one had not read.

    Unless it answers the sibling for sure (by its step, or in its words): then it is nobody else's.
    """
    guessed = _for_other_sibling(call, ask, entry) and not _surely(call, entry)
    return guessed or call.operation_id not in entry.answered or entry.unread(call, ask.message)


def _surely(call: Call, entry: Entry) -> bool:
    return call.operation_id not in entry.loose


def _open_calls(books: Books, entry: Entry) -> Iterable[Call]:
    calls = (books.by_id(operation_id) for operation_id in list(entry.open) if not entry.awaited(operation_id))
    return [call for call in calls if call is not None]


def _for_other_sibling(call: Call, ask: Ask, entry: Entry) -> bool:
    """Whether it is kept for another call of this message. When that message is over it is anybody's again."""
    return _for_sibling(call, ask, entry) and entry.reserved[call.operation_id] != ask.sibling


def _for_sibling(call: Call, ask: Ask, entry: Entry) -> bool:
    return bool(ask.message) and entry.reserved.get(call.operation_id, "").startswith(ask.message + "\x1f")


def _doubts(open_calls: Sequence[Call], ask: Ask) -> list[Call]:
    """Return what is unknown, as far as it may bar others."""
    if ask.while_unknown == "allow":
        return []
    unknown = (c for c in open_calls if c.state is State.UNKNOWN and _may_bar(c, ask))
    return [c for c in unknown if ask.entry is None or not _for_other_sibling(c, ask, ask.entry)]


def _bar(books: Books, doubts: Sequence[Call], ask: Ask) -> Barred | None:
    """What is unknown bars like calls; for a model without declared identity, any call of the tool."""
    same = tuple(c for c in doubts if _asked_for(books, c, ask))
    if same:
        return Barred(same)  # another agent's: it answers nobody here, and must be settled first
    any_call = ask.while_unknown == "any" or (ask.by_model and not ask.identity_declared)
    return Barred(tuple(doubts)) if doubts and any_call else None


def _unsettled(books: Books, ask: Ask) -> Sequence[Call]:
    instead = [c for tool in ask.falls_to for c in books.unsettled(ask.tenant, ask.scope, tool, INSTEAD)]
    return [*books.unsettled(ask.tenant, ask.scope, ask.tool), *(c for c in instead if c.tool != ask.tool)]


def reserve(books: Books, asks: Sequence[Ask]) -> None:
    """Match all calls of one message before any is answered: first by steps, then in the same words, then the rest."""
    scoped = [(ask, ask.entry) for ask in asks if ask.entry is not None and ask.kind is KeyKind.SCOPED]
    for ask, entry in scoped:
        operation_id = books.by_step(ask.step_scope, ask.step) if ask.step else None
        call = books.by_id(operation_id) if operation_id else None
        if call is not None and _like(call, ask) and entry.of_turn(call):
            entry.reserve(call, ask.sibling, loose=False)
    for same_words in (True, False):
        for ask, entry in scoped:
            found = _candidate(books, ask, entry)
            if found is not None and (_same_words(found.call, ask) or not same_words):
                entry.reserve(found.call, ask.sibling, loose=found.call.words != ask.words)


def _same_words(call: Call, ask: Ask) -> bool:
    return call.words == ask.words and call.state not in MADE_AGAIN


__all__ = ["HARMLESS", "MADE_AGAIN", "Found", "Match", "find", "preference", "reserve", "same_arguments"]
