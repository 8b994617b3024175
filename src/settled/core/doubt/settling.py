"""Bringing a call in doubt to a final state: orphans, probes, people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from settled.core import rules
from settled.core.call import Call, evolve
from settled.core.instead import by_hand
from settled.core.instead.by_hand import is_by_hand
from settled.core.matching.owed import doubted
from settled.core.model import Effect, Standing
from settled.core.runs import entering as runs
from settled.core.states import Event, State
from settled.core.values import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.core.books import Books
    from settled.core.model import Attempt, Moment, Terms

Verdict = Literal["happened", "did_not_happen", "hold", "undone"]


def orphaned(books: Books, call: Call, now: Moment, *, dead: bool = False) -> Call:
    """Take the call from an owner who is lost: unknown if it may have had an effect.

    Neither the end of a lease nor the death of the owner is proof that nothing happened; but a dead
    owner's attempts can do nothing more.
    """
    doubt = call.doubtful and call.terms.effect is not Effect.READ
    event = Event.DOUBT if doubt else Event.SPLIT if rules.done_in_part(call) else Event.ABSENT
    changes = {"epoch": call.epoch + 1, "reason": "owner_lost", "series": 0, "decided": "" if doubt else "owner_lost"}
    if dead:
        changes["attempts"] = tuple(_over_now(a, now) if a.in_doubt else a for a in call.attempts)
    changed, row = evolve(call, event, now, detail="owner dead" if dead else "lease over", **changes)
    books.put(changed, row)
    if doubt:
        doubted(books, changed)
    return changed


class Adopt(Struct, frozen=True):
    """Mark an orphan as what it is; a call with a live owner stays as it is."""

    operation_id: str
    dead: int | None = None
    """The epoch whose owner was seen dead: then its lease need not be waited out."""

    def apply(self, books: Books, now: Moment) -> Call | None:
        """Return the call as it stands then."""
        call = books.by_id(self.operation_id)
        if call is None or call.state is not State.PROCESSING:
            return call
        dead = self.dead is not None and not rules.fenced(call, self.dead)
        return orphaned(books, call, now, dead=dead) if dead or rules.lease_over(call, now) else call


class Over(Struct, frozen=True):
    """Attempts that can do nothing more: their process was seen dead, or their clock began anew."""

    operation_id: str
    attempts: Sequence[int]

    def apply(self, books: Books, now: Moment) -> Call | None:
        """Start the wait for proof on this boot's clock; a wait that runs is left alone."""
        call = books.by_id(self.operation_id)
        if call is None:
            return None
        attempts = tuple(_over_now(a, now) if a.no in self.attempts else a for a in call.attempts)
        if attempts == call.attempts:
            return call
        changed, row = evolve(call, Event.NOTE, now, detail="attempts over", attempts=attempts)
        books.put(changed, row)
        return changed


def _over_now(attempt: Attempt, now: Moment) -> Attempt:
    running = attempt.over is not None and now.since(attempt.over) is not None
    return attempt if running else replace(attempt, over=now)


class Settle(Struct, frozen=True):
    """What a probe (or the tool's fence) said."""

    operation_id: str
    epoch: int
    happened: bool
    began: Moment
    """When the probe began, on the settler's clock."""
    result: bytes | None = None
    note: str = ""
    fence: bool = False
    """The tool promised that a later arrival of this key has no effect."""
    today: Terms | None = None
    """The tool's declaration as the settler has it."""

    def apply(self, books: Books, now: Moment) -> Call | None:
        """Settle by it if it is proof; else leave the call as it is."""
        call = books.by_id(self.operation_id)
        if call is None or call.state is not State.UNKNOWN or rules.fenced(call, self.epoch):
            return call
        if self.happened:
            return _settled(books, call, Event.SUCCEED, now, result=self.result, note=self.note)
        if not self.fence and not rules.proves_absence(rules.under(call, self.today), self.began, now):
            return call
        event = Event.SPLIT if rules.done_in_part(call) else Event.ABSENT
        return _settled(books, call, event, now, attempts=_all_none(call))


def _settled(books: Books, call: Call, event: Event, now: Moment, **changes: object) -> Call:
    changes.update(epoch=call.epoch + 1, decided="probe", held=False, reason="", fault=None)
    changed, row = evolve(call, event, now, detail="probe", **changes)
    books.put(changed, row)
    return changed


def _all_none(call: Call) -> tuple[Attempt, ...]:
    return tuple(replace(a, standing=Standing.NONE) if a.in_doubt else a for a in call.attempts)


class Refused(Struct, frozen=True):
    """A verdict that cannot be taken, and why."""

    why: str
    call: Call | None = None


_STILL = "it can still take effect: wait for max_request_lifetime, or force it"
_NEVER = "its tool declares no max_request_lifetime, so nothing ever proves that it cannot take effect: force it"


class Resolve(Struct, frozen=True):
    """A person's verdict on an unknown call, under an optimistic lock (``epoch``).

    On a settled call that is disputed, ``hold`` says that somebody has seen why. On a step of a run that could not be
    undone, ``undone`` says that somebody has done it by hand, ``hold`` that it is to stay.
    """

    operation_id: str
    verdict: Verdict
    by: str
    reason: str
    then: Literal["rerun", "fail"] = "fail"
    result: bytes | None = None
    note: str = ""
    force: bool = False
    epoch: int | None = None

    def apply(self, books: Books, now: Moment) -> Call | Refused:
        """Take the verdict, or say why it cannot be taken."""
        call = books.by_id(self.operation_id)
        if call is None:
            return Refused("no call has this operation id")
        if self.epoch is not None and rules.fenced(call, self.epoch):
            return Refused("the call has changed since it was looked at", call)
        if call.state is State.PROCESSING and rules.lease_over(call, now):
            call = orphaned(books, call, now)
        if call.state is State.COMPENSATING:
            return self._undoing(books, call, now)
        if is_by_hand(call) and call.state in (State.AWAITING_APPROVAL, State.REFUSED) and not self._only_seen(call):
            return self._by_hand(books, call, now)
        if self._only_seen(call):
            return self._seen(books, call, now)
        revised = call.state is State.NOT_DONE and call.asserted and self.verdict == "happened"
        if call.state is not State.UNKNOWN and not revised:
            return Refused(f"the call is {call.state}, not unknown", call)
        if self.verdict == "undone":
            return Refused("what is not being undone cannot be said to be undone", call)
        if self.verdict == "did_not_happen":
            return self._absent(books, call, now)
        event = Event.SUCCEED if self.verdict == "happened" else Event.HOLD
        held = self.verdict == "hold"
        return self._decide(books, call, event, now, result=self.result, note=self.note, held=held, asserted=not held)

    def _undoing(self, books: Books, call: Call, now: Moment) -> Call | Refused:
        """On a step that was not undone: it is, by a person's hand; or it is to stay."""
        if self.verdict not in ("undone", "hold"):
            return Refused("the call is being undone: undone or hold", call)
        if not call.reason:
            return Refused("its compensation is under way", call)
        by_hand = self.verdict == "undone"
        event, detail = Event.UNDONE if by_hand else Event.HOLD, f"{self.verdict} by {self.by}: {self.reason}"
        more = {"asserted": True, "decided": f"person:{self.by}"} if by_hand else {}
        changed, row = evolve(call, event, now, detail=detail, held=not by_hand, epoch=call.epoch + 1, **more)
        books.put(changed, row)
        return changed

    def _only_seen(self, call: Call) -> bool:
        return call.disputed and call.state is not State.UNKNOWN and self.verdict == "hold"

    def _by_hand(self, books: Books, call: Call, now: Moment) -> Call | Refused:
        """On what a person is to do: it is done. What was not to be done any more is disputed then."""
        if self.verdict != "happened":
            return Refused("a person is to do it: say that it happened once it is done, or refuse it", call)
        if call.state is State.REFUSED or runs.of_a_run_undone(books, call):
            return by_hand.done_too_late(books, call, self.by, self.reason, now)
        return by_hand.done(books, call, self.by, self.reason, now, result=self.result, note=self.note)

    def _absent(self, books: Books, call: Call, now: Moment) -> Call | Refused:
        """Wait until a probe could prove it; a forced verdict is kept apart as asserted."""
        ripe = rules.proves_absence(call, now, now)
        if not ripe and not self.force:
            return Refused(_STILL if call.terms.lifetime is not None else _NEVER, call)
        event = Event.ABSENT if self.then == "rerun" else Event.FAIL
        attempts = tuple(replace(a, over=a.over or now) for a in _all_none(call))
        return self._decide(books, call, event, now, attempts=attempts, asserted=self.force or not ripe, held=False)

    def _seen(self, books: Books, call: Call, now: Moment) -> Call:
        """Note that a person has seen the evidence against a settled call, which stays as it is."""
        changed, row = evolve(call, Event.NOTE, now, detail=f"seen by {self.by}: {self.reason}", held=True)
        books.put(changed, row)
        return changed

    def _decide(self, books: Books, call: Call, event: Event, now: Moment, **changes: object) -> Call:
        changes.update(epoch=call.epoch + 1, decided=f"person:{self.by}", reason=self.reason)
        changed, row = evolve(call, event, now, detail=f"{self.verdict} by {self.by}: {self.reason}", **changes)
        books.put(changed, row)
        return changed
