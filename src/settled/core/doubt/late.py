"""Evidence is appended, never fenced: whoever brings it, whenever it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from settled.core import parts, rules
from settled.core.call import Call, attempt_of, evolve, standing_of, with_attempt
from settled.core.model import Effect, Fault, Standing
from settled.core.states import FINAL, TABLE, UNSETTLED, Event, State
from settled.core.values import replace

if TYPE_CHECKING:
    from settled.core.books import Books
    from settled.core.model import Attempt, Moment

HAPPENED = frozenset({State.SUCCEEDED, State.COMPENSATING, State.COMPENSATED})
"""It is settled that the call had its effect, whatever became of it since."""
EFFECT = frozenset({Standing.SOME, Standing.DONE})


class Evidence(Struct, frozen=True):
    """What became known of an attempt after its owner gave up, lost its lease, or could not record it."""

    operation_id: str
    no: int
    fault: Fault | None
    result: bytes | None = None
    note: str = ""
    over: bool = True
    claim: str = ""
    """If given: only of an attempt that this asker began. It may not have begun one; another may have, since."""

    def apply(self, books: Books, now: Moment) -> Call | None:
        """Add it, and let it settle what it can; return the call as it stands then."""
        call = books.by_id(self.operation_id)
        attempt = attempt_of(call, self.no) if call else None
        if call is None or attempt is None or (self.claim and call.claim != self.claim):
            return call
        standing = standing_of(self.fault)
        if _known(attempt, standing):
            return call
        changes = {"standing": standing, "ended": now, "fault": self.fault, "over": now if self.over else attempt.over}
        heard = replace(call, attempts=parts.on_record(with_attempt(call, self.no, **changes)))
        settle = self._success if standing is Standing.DONE else self._failure
        return settle(books, call, heard, now)

    def _success(self, books: Books, call: Call, heard: Call, now: Moment) -> Call:
        if call.terms.effect is Effect.READ and self.fault is not None:
            return _note(books, call, heard, now)
        if call.state in HAPPENED:
            return _note(books, call, heard, now, dispute=_twice(heard))
        if call.state in FINAL:
            return _note(books, call, heard, now, dispute=call.terms.effect is not Effect.READ)
        against = _held_for_proved(call, self.no) and call.terms.effect is not Effect.READ
        changed, row = evolve(
            call,
            Event.SUCCEED,
            now,
            detail="late answer",
            attempts=heard.attempts,
            epoch=call.epoch + 1,
            result=self.result,
            note=self.note,
            fault=self.fault,
            decided="late",
            reason="",
            held=False,
            disputed=call.disputed or against,
        )
        books.put(changed, row)
        if changed.disputed:
            books.alert(changed, "disputed")
        return changed

    def _failure(self, books: Books, call: Call, heard: Call, now: Moment) -> Call:
        """A failure settles only once every attempt is over and none is in doubt."""
        if call.state in HAPPENED:
            return _note(books, call, heard, now, dispute=_all_refused(heard))
        if rules.done_in_part(heard):
            return self._part(books, call, heard, now)
        if call.state is not State.UNKNOWN or heard.doubtful or not rules.all_over(heard, now):
            return _note(books, call, heard, now)
        event = Event.FAIL if self.fault is not None and self.fault.final else Event.ABSENT
        changes = {"attempts": heard.attempts, "epoch": call.epoch + 1, "fault": self.fault, "decided": "late"}
        changed, row = evolve(call, event, now, detail="late answer", **changes)
        books.put(changed, row)
        return changed

    def _part(self, books: Books, call: Call, heard: Call, now: Moment) -> Call:
        """A part was done: whatever else failed, the call is neither undone nor to be repeated as a whole."""
        against = _held_for_proved(call, self.no) or call.state is State.FAILED
        open_still = call.state is State.UNKNOWN and (heard.doubtful or not rules.all_over(heard, now))
        if open_still or Event.SPLIT not in TABLE[call.state] or call.state is State.PROCESSING:
            brought = {"result": self.result} if self.result is not None and call.state in UNSETTLED else {}
            self._items(books, heard, now)
            return _note(books, call, heard, now, dispute=against, **brought)
        fault = next(a.fault for a in reversed(heard.attempts) if a.standing is Standing.SOME)
        changes = {"attempts": heard.attempts, "epoch": call.epoch + 1, "fault": fault, "decided": "late"}
        result = call.result if self.result is None else self.result
        kept = {"result": result, "note": self.note, "disputed": call.disputed or against, "held": False, "reason": ""}
        changed, row = evolve(call, Event.SPLIT, now, detail="late answer", not_before=None, **changes, **kept)
        books.put(changed, row)
        self._items(books, changed, now)
        if changed.disputed:
            books.alert(changed, "disputed")
        return changed

    def _items(self, books: Books, call: Call, now: Moment) -> None:
        if self.fault is not None and self.fault.items:
            parts.doubt_items(books, call, self.fault, now)


def _all_refused(heard: Call) -> bool:
    """Whether every attempt of a call that counts as done (by a probe, by a person) has proved to do nothing."""
    return all(a.standing is Standing.NONE for a in heard.attempts) and heard.terms.effect is not Effect.READ


def _known(attempt: Attempt, standing: Standing) -> bool:
    """Whether this says nothing new: only an effect, whole or in part, speaks against what was held for proved."""
    told = attempt.ended is not None and attempt.over is not None and not attempt.in_doubt
    return told and (standing not in EFFECT or attempt.standing in (Standing.DONE, standing))


def _held_for_proved(call: Call, no: int) -> bool:
    """Whether it was held for proved that this attempt (or the call) did nothing."""
    attempt = attempt_of(call, no)
    absent = attempt is not None and attempt.standing is Standing.NONE
    return absent or call.state in (State.NOT_DONE, State.PARKED)


def _twice(heard: Call) -> bool:
    """Whether two attempts of a tool that is not safe to repeat both had their effect."""
    done = sum(a.standing is Standing.DONE for a in heard.attempts)
    return done > 1 and heard.terms.effect is Effect.WRITE


def _note(books: Books, call: Call, heard: Call, now: Moment, *, dispute: bool = False, **brought: Any) -> Call:
    event = Event.DISPUTE if dispute else Event.NOTE
    disputed, held = call.disputed or dispute, call.held and not dispute  # new evidence is to be seen anew
    changed, row = evolve(call, event, now, attempts=heard.attempts, disputed=disputed, held=held, **brought)
    books.put(changed, row)
    if dispute:
        books.alert(changed, "disputed")
    return changed
