"""Attempts whose effect is rows beside the record: intent, effect and end are one commit, so none is ever in doubt.

An attempt that fails is rolled back, which proves that nothing happened; intent and end are then put on record alone.
A crash, or a commit that failed, leaves nothing at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from settled.core.answer import Answer, from_record
from settled.core.ask import Begun, WouldRun
from settled.core.attempts.breaker import verdict_of
from settled.core.attempts.outcome import NEVER_SENT, read
from settled.core.attempts.progress import Begin, End
from settled.core.attempts.retry import Again, Stop, why
from settled.core.attempts.series import Series
from settled.core.call import Call, attempt_of
from settled.core.commands import REPORTS, Join, Joined, Returned, Tell, expect
from settled.core.model import Evidence, Fault, FaultClass
from settled.core.states import State
from settled.core.values import replace
from settled.errors import JournalError

if TYPE_CHECKING:
    from typing import Any

    from settled.core.ask import Ask, ClaimReply
    from settled.core.books import Books
    from settled.core.commands import Ended, Flow
    from settled.core.matching.claim import Claim
    from settled.core.model import Moment
    from settled.core.runs.entering import Checkpoint


LOOSE = Fault(FaultClass.UNKNOWN, Evidence.MAYBE, "transaction_ended", uncertain=True)
"""Of a tool that has ended the journal's transaction itself."""


class Look(Struct, frozen=True):
    """See, before the function is called, what stands in the way of an attempt."""

    first: Claim | Begin

    def apply(self, books: Books, now: Moment) -> Any:
        """Return what the first step would say; the call, if this very attempt is on record; ``None``: go on."""
        if isinstance(self.first, Begin):
            return self._landed(books, self.first)
        mine = books.by_id(self.first.ask.operation_id)
        if mine is not None and mine.claim == self.first.ask.operation_id:
            return mine
        reply = replace(self.first, begin=False).apply(books, now)
        return None if isinstance(reply, WouldRun) else reply

    @staticmethod
    def _landed(books: Books, begin: Begin) -> Call | None:
        """Return the call if a further attempt's commit took effect, though its answer was lost."""
        call = books.by_id(begin.operation_id)
        attempt = None if call is None else attempt_of(call, begin.no)
        ours = call is not None and call.claim == begin.ask.operation_id
        return call if ours and attempt is not None and attempt.ended is not None else None


class Made(Struct, frozen=True):
    """Put intent and success on record; the rows of the attempt are in the same transaction."""

    first: Claim | Begin
    data: bytes | None
    note: str = ""
    checkpoint: Checkpoint | None = None

    def apply(self, books: Books, now: Moment) -> Any:
        """Return the call; or what stood in the way after all: then the rows must not be committed either."""
        end = End("", 0, 0, None, self.data, self.note, checkpoint=self.checkpoint)
        return _at_once(self.first, end, books, now)


class Unmade(Struct, frozen=True):
    """Put an attempt on record whose rows were rolled back.

    Where it is not known whether its commit took effect this finds out, and keeps it from taking effect later: both
    write under the same operation id.
    """

    first: Claim | Begin
    fault: Fault
    go_on: bool = False
    reason: str = ""
    park: float | None = None

    def apply(self, books: Books, now: Moment) -> Any:
        """Return the call as it stands now, or what the first step says where it does not begin."""
        end = End("", 0, 0, self.fault, go_on=self.go_on, reason=self.reason, park=self.park)
        return _at_once(self.first, end, books, now)


def _at_once(first: Claim | Begin, end: End, books: Books, now: Moment) -> Any:
    reply: Any = first.apply(books, now)
    call = reply.call if isinstance(reply, Begun) else reply
    if not isinstance(call, Call):
        return call
    if call.state is not State.PROCESSING or call.attempts[-1].ended is not None:
        return call  # the answer to this very transition was lost
    return replace(end, operation_id=call.operation_id, epoch=call.epoch, no=len(call.attempts)).apply(books, now)


def rolled_back(fault: Fault | None) -> Fault:
    """Return the fault of an attempt whose transaction was rolled back: whatever it says, nothing happened."""
    if fault is None:  # its function had succeeded, and its commit was refused
        return replace(NEVER_SENT, code="rolled_back")
    unsure = fault.kind is FaultClass.UNKNOWN
    final = fault.kind is FaultClass.PARTIAL
    kind = FaultClass.RETRYABLE if unsure else FaultClass.PERMANENT if final else fault.kind
    return replace(fault, kind=kind, evidence=Evidence.NONE, own_success=False)


class Jointly(Series):
    """Makes the attempts of one asker, each in one transaction with its record."""

    def jointly(self, ask: Ask, claim: Claim) -> Flow[Answer | ClaimReply]:
        """Make attempts until one succeeds or none may follow; or return why the claim does not begin."""
        first: Claim | Begin = claim
        before: tuple[Call, Fault, Again] | None = None
        while True:
            joined = yield from self._join(first)
            if isinstance(joined.reply, Call):
                return (yield from self._made(joined.reply, joined.ended))
            if joined.ended is None:
                return joined.reply if before is None else (yield from self._not_begun(*before, joined.reply))
            fault, step, call = yield from self._unmade(first, joined.ended, loose=joined.loose)
            if not isinstance(call, Call):  # somebody else began meanwhile
                return call if before is None else (yield from self._not_begun(*before, call))
            if call.state is not State.PROCESSING or not isinstance(step, Again):
                return (yield from self._closed(ask, call, fault, step))
            blocked = yield from self._pause(step)
            if blocked:
                return (yield from self._give_up(call, fault, blocked))
            first, before = self._intent(ask, call, step), (call, fault, step)

    def _join(self, first: Claim | Begin) -> Flow[Joined]:
        """Make one attempt. Where its commit may have been lost, the journal is asked what became of it."""
        checkpoint = self._checkpoint()
        command = Join(first, self.made + 1, self.limits.deadline, self.made == 0, checkpoint)
        try:
            joined = expect((yield from self.do(command)), Joined)
        except JournalError:
            yield from self.report("neutral")
            reply: Any = yield from self.transact(Unmade(first, NEVER_SENT, reason=NEVER_SENT.code))
            return Joined(reply, None, self.at)
        self.made += joined.ended is not None
        if joined.ended and isinstance(joined.reply, Call):
            self._kept(checkpoint)
        return joined

    def _made(self, call: Call, ended: Ended | None) -> Flow[Answer]:
        if ended is None:
            return from_record(call)  # on record from before, or its commit failed, and that is on record
        self._gave(ended)
        yield from self.do(REPORTS["success"])
        yield from self.do(Tell("outcome", call, {"reason": ""}))
        return self._success(call)

    def _gave(self, ended: Ended) -> None:
        self.returned = ended.outcome if isinstance(ended.outcome, Returned) else None

    def _unmade(self, first: Claim | Begin, ended: Ended, *, loose: bool) -> Flow[tuple[Fault, Again | Stop, Any]]:
        """Put an attempt on record that was rolled back."""
        self._gave(ended)
        read_as = None if loose else read(ended, self.policy, self.clean, attempt=self.made, doubtful=False)
        fault = LOOSE if loose else rolled_back(read_as)
        yield from self.do(REPORTS[verdict_of(fault)])
        step = self._plan(fault, ended, doubtful=False)
        again, park = isinstance(step, Again), step.park if isinstance(step, Stop) else None
        reply: Any = yield from self.transact(Unmade(first, fault, again, why(fault, step), park))
        return fault, step, reply
