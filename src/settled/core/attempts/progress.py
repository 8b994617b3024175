"""What an owner records while it works: further intents, the end of each attempt, its lease."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from settled.core import parts, rules
from settled.core.approval.drafts import drop
from settled.core.ask import BudgetSpent, Superseded
from settled.core.attempts.charge import Charge, debit
from settled.core.call import Call, attempt_of, evolve, opened, standing_of
from settled.core.doubt.late import Evidence
from settled.core.matching.owed import doubted
from settled.core.model import Effect, Fault, Standing
from settled.core.model import Evidence as Proof
from settled.core.runs import entering as runs
from settled.core.states import Event, State
from settled.core.values import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.core.ask import Ask
    from settled.core.books import Books
    from settled.core.model import Attempt, Moment
    from settled.core.runs.entering import Checkpoint

EVENT_FOR = {
    State.UNKNOWN: Event.DOUBT,
    State.FAILED: Event.FAIL,
    State.NOT_DONE: Event.ABSENT,
    State.PARKED: Event.PARK,
    State.PARTIAL: Event.SPLIT,
}
ANSWERS = frozenset({Event.SUCCEED, Event.FAIL, Event.ABSENT, Event.SPLIT})
"""The attempt's own answer says how it stands."""


class FencedOut(Struct, frozen=True):
    """A later owner, evidence or a person has taken the call; this is how it stands."""

    call: Call | None


class Begin(Struct, frozen=True):
    """Put the intent of a further attempt on record, before its first byte leaves.

    A call that was proved not done meanwhile is nobody's: to go on with it is to claim it, as any other asker would.
    """

    operation_id: str
    epoch: int
    no: int
    ask: Ask
    charge: Charge | None = None
    checkpoint: Checkpoint | None = None
    """What it sends, where that is counted."""

    def apply(self, books: Books, now: Moment) -> Call | FencedOut | Superseded | BudgetSpent:
        """Record attempt ``no`` if the call is the caller's still, or may be, and the run's budget grants it."""
        call = books.by_id(self.operation_id)
        if call is not None and self._begun(call):
            return call  # the answer to this very transition was lost
        if call is None or rules.fenced(call, self.epoch):
            return FencedOut(call)
        anew = call.state is State.NOT_DONE
        if not (anew or call.state is State.PROCESSING) or not rules.may_begin(call, now):
            return FencedOut(call)
        why = runs.barred(books, self.ask) if anew or self.ask.run_id else ""
        if why in ("rolled_back", "run_ended"):
            return BudgetSpent(why)
        if anew and why:
            return Superseded(self.ask.run_id)
        pool = debit(books, call.tenant, call.tool, self.charge)
        if pool:
            return BudgetSpent(pool)
        event, epoch = (Event.CLAIM, call.epoch + 1) if anew else (Event.BEGIN, call.epoch)
        begun, row = evolve(call, event, now, **self._changes(call, epoch, now))
        books.put(begun, row)
        if self.checkpoint is not None:
            runs.keep_state(books, call.tenant, self.checkpoint)
        return begun

    def _begun(self, call: Call) -> bool:
        """Whether it was this asker that began attempt ``no``, and it is the caller's still."""
        attempt = attempt_of(call, self.no)
        return attempt is not None and call.claim == self.ask.operation_id and not rules.fenced(call, attempt.epoch)

    def _changes(self, call: Call, epoch: int, now: Moment) -> dict[str, Any]:
        ask = self.ask
        attempts = opened(call, ask.owner, epoch, now)
        claim = {"epoch": epoch, "claim": ask.operation_id, "owner": ask.owner, "lease": now.plus(ask.lease)}
        return claim | {"attempts": attempts}


class End(Struct, frozen=True):
    """Put the end of an attempt on record, before any sleep.

    ``fault`` is ``None`` for success. ``go_on``: the owner will try again. ``over``: the attempt can
    do nothing more (its function returned).
    """

    operation_id: str
    epoch: int
    no: int
    fault: Fault | None
    result: bytes | None = None
    note: str = ""
    over: bool = True
    go_on: bool = False
    reason: str = ""
    park: float | None = None
    """Seconds from now before which it is not to be tried again."""
    checkpoint: Checkpoint | None = None

    def apply(self, books: Books, now: Moment) -> Call | FencedOut:
        """Record it if the caller still owns the call; else keep it as evidence."""
        call = books.by_id(self.operation_id)
        if call is None:
            return FencedOut(None)
        attempt = attempt_of(call, self.no)
        told = attempt is not None and attempt.ended is not None and attempt.epoch == self.epoch
        at_work = call.state is State.PROCESSING and not rules.fenced(call, self.epoch)
        if attempt is not None and told and (not at_work or self.go_on) and attempt.standing is standing_of(self.fault):
            late = call.state is State.SUCCEEDED and rules.fenced(call, self.epoch)  # by another attempt: its result
            return FencedOut(call) if late else call  # recorded before; the answer was lost
        if not at_work:
            return FencedOut(self._late().apply(books, now))
        late_first = told and self.fault is not None  # its late answer was faster, and knows as much
        fault = parts.bare(self.fault)
        attempts = call.attempts if late_first else self._ended(call, attempt, fault, now)
        event = self._event(call, attempts, now)
        changed, row = evolve(
            call,
            event,
            now,
            detail="" if fault is None else f"{fault.code}/{fault.evidence}",
            attempts=attempts,
            fault=fault,
            result=self.result,
            note=self.note,
            reason=_why_in_doubt(attempts, fault, self.reason) if event is Event.DOUBT else self.reason,
            not_before=now.wall + (self.park or 0.0) if event is Event.PARK else None,
            decided="answer" if event in ANSWERS else "",
        )
        books.put(changed, row)
        if event is Event.DOUBT:
            doubted(books, changed)
        if event is Event.SPLIT:
            parts.doubt_items(books, changed, self.fault, now)
        if event is Event.FAIL:
            drop(books, changed, now)
        if self.checkpoint is not None:
            runs.keep_state(books, call.tenant, self.checkpoint)
        return changed

    def _late(self) -> Evidence:
        return Evidence(self.operation_id, self.no, self.fault, self.result, self.note, over=self.over)

    def _ended(self, call: Call, attempt: Attempt | None, fault: Fault | None, now: Moment) -> tuple[Attempt, ...]:
        if attempt is None:
            return call.attempts
        over = now if self.over else None
        ended = structs.replace(attempt, standing=standing_of(fault), ended=now, over=over, fault=fault)
        attempts = tuple([ended if each is attempt else each for each in call.attempts])
        if fault is not None and rules.clears(call, fault):
            attempts = tuple(replace(a, standing=Standing.NONE) for a in attempts)
        return attempts

    def _event(self, call: Call, attempts: tuple[Attempt, ...], now: Moment) -> Event:
        if self.fault is None or (self.fault.evidence is Proof.DONE and call.terms.effect is not Effect.READ):
            return Event.SUCCEED
        ended = replace(call, attempts=attempts)
        if self.go_on and (not ended.doubtful or rules.repeatable(ended, now)):
            return Event.ENDED
        if self.fault.evidence is Proof.SOME:
            return Event.SPLIT
        state = rules.closing_state(ended, final=self.fault.final)
        parked = state is State.NOT_DONE and self.park is not None
        return EVENT_FOR[State.PARKED if parked else state]


def _why_in_doubt(attempts: Sequence[Attempt], fault: Fault | None, reason: str) -> str:
    """Return why a call is in doubt: by an attempt that may have had its effect, not by one that surely had none."""
    if fault is None or fault.evidence is not Proof.NONE or reason != fault.code:
        return reason
    faults = [a.fault for a in attempts if a.fault is not None and a.standing is Standing.MAYBE]
    return faults[-1].code if faults else reason


class Close(Struct, frozen=True):
    """End a call whose next attempt was not made, by what its attempts so far have shown."""

    operation_id: str
    epoch: int
    reason: str

    def apply(self, books: Books, now: Moment) -> Call | FencedOut:
        """Close it if the caller still owns it."""
        call = books.by_id(self.operation_id)
        if call is None or rules.fenced(call, self.epoch) or call.state is not State.PROCESSING:
            return FencedOut(call)
        event = EVENT_FOR[rules.closing_state(call, final=False)]
        closed, row = evolve(call, event, now, detail=self.reason, reason=self.reason, decided="answer")
        books.put(closed, row)
        if event is Event.DOUBT:
            doubted(books, closed)
        return closed


class Renew(Struct, frozen=True):
    """Prolong leases; never shorten one, never revive a call that was taken over."""

    claims: Sequence[tuple[str, int, float]]
    """Operation id, epoch, seconds from now."""

    def apply(self, books: Books, now: Moment) -> tuple[str, ...]:
        """Return the operation ids whose lease is lost."""
        return tuple(op for op, epoch, seconds in self.claims if not _renew(books, op, epoch, now.plus(seconds)))


def _renew(books: Books, operation_id: str, epoch: int, until: Moment) -> bool:
    call = books.by_id(operation_id)
    if call is None or rules.fenced(call, epoch) or call.state is not State.PROCESSING:
        return False
    longer = until.since(call.lease)
    if longer is not None and longer <= 0:
        return True
    books.prolong(replace(call, lease=until))
    return True
