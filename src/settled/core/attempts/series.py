"""The attempts of one asker: make them, read how they ended, and decide at one place what follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from settled.core.answer import STATUS_OF, Answer, by_itself, from_record, rejected
from settled.core.ask import BudgetSpent, Superseded
from settled.core.attempts.breaker import verdict_of
from settled.core.attempts.outcome import NEVER_SENT, TooLate, read
from settled.core.attempts.progress import Begin, Close, End, FencedOut
from settled.core.attempts.retry import Again, Stop, Tries, plan, why
from settled.core.commands import (
    ADMIT,
    REPORTS,
    Admitted,
    Ended,
    Invoke,
    Raised,
    Refund,
    Refused,
    Repeat,
    Reply,
    Returned,
    Shut,
    Spill,
    Tell,
    Transact,
    Woke,
    expect,
)
from settled.core.doubt.late import Evidence
from settled.core.doubt.settle import PROBE_LIMIT, settle
from settled.core.model import Effect, Fault
from settled.core.model import Evidence as Proof
from settled.core.runs.entering import Checkpoint
from settled.core.states import State
from settled.core.values import replace
from settled.core.wire import Wire
from settled.errors import JournalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.core.answer import Status
    from settled.core.ask import Ask
    from settled.core.attempts.charge import Charge
    from settled.core.attempts.metering import Share
    from settled.core.attempts.outcome import Clean
    from settled.core.books import Change
    from settled.core.call import Call
    from settled.core.commands import Event, Flow
    from settled.core.policy import Limits, Policy


class RunState(Protocol):
    """What a run remembers beside its calls."""

    def changes(self) -> tuple[Change, ...]:
        """Return what has changed since it was last saved. Never raises."""

    def kept(self, changes: Sequence[Change]) -> None:
        """These changes are on record."""


LEAST_TIME = 0.001
"""Seconds: no attempt starts with less than this left."""


_DONE = Stop("")
_IN_DOUBT = frozenset({Proof.MAYBE, Proof.DONE})
"""What an attempt proves that may have had its effect."""


class Series(Wire):
    """Makes the attempts for one asker, up to the policy's number, and answers for them."""

    made = 0
    """Attempts of this asker."""
    refreshed = False
    waited: float | None = None
    """Seconds before the last repeat."""
    late = False
    """The intent took longer than the lease: the next attempt must not be sent."""
    returned: Returned | None = None
    """What the last attempt gave, if it did not raise. (What it raised is held no longer than it is read.)"""
    fault: Fault | None = None
    """How the last attempt without a record has failed."""
    state: RunState | None = None
    """The state of the asker's run, saved with each end."""
    share: Share | None = None
    """What each attempt takes from the window of the asker's run."""

    def __init__(
        self,
        ask: Ask | None,
        policy: Policy,
        limits: Limits,
        at: float,
        *,
        budget: Charge | None = None,
        clean: Clean = str,
    ) -> None:
        self.limits, self.at = limits, at  # not by super(): on the path of every call
        self.ask, self.policy, self.budget, self.clean = ask, policy, budget, clean

    def shut(self) -> Flow[Answer | None]:
        """Ask deadline and breakers; ``None`` if an attempt may be made."""
        if self.limits.deadline is not None and not self._time_left():
            return rejected("deadline")
        event = yield ADMIT
        self.at = event.at
        return None if type(event) is Admitted else _turned_away(expect(event, Shut))

    def settle(self, call: Call) -> Flow[Call]:
        """Settle an unknown call by its probe, for as long as this asker waits."""
        patience = 0.0 if self.abandoned else self.cut(self.limits.wait)
        return (yield from self.through(settle(call, self.policy, patience, self.cut(PROBE_LIMIT))))

    def series(self, ask: Ask, call: Call) -> Flow[Answer]:
        """Make attempts until one succeeds, proves final, or may not be repeated."""
        while True:
            no, doubtful = len(call.attempts), call.doubted_before
            if self.late or (self.limits.deadline is not None and not self._time_left()):
                ended = self._too_late()  # the intent took too long: nothing was sent, and nothing may be
            else:
                ended = self._came_to((yield self._invocation(call, no)))
            fault = read(ended, self.policy, self.clean, attempt=no, doubtful=doubtful)
            event = yield REPORTS[verdict_of(fault)]
            self.at = event.at
            step = self._plan(fault, ended, doubtful=doubtful)
            recorded = yield from self._end(call, ended, fault, step)
            if isinstance(recorded, Answer):
                return recorded
            if recorded.state is not State.PROCESSING or not isinstance(step, Again):
                return (yield from self._closed(ask, recorded, fault, step))
            began = yield from self._next_attempt(ask, recorded, fault, step)
            if isinstance(began, Answer):
                return began
            call = began

    def unrecorded(self) -> Flow[Answer]:
        """Make a call that needs no record."""
        if not self._time_left():
            return rejected("deadline")
        return (yield from self.go_on((yield self._invocation(None, 1))))

    def go_on(self, event: Event) -> Flow[Answer]:
        """Go on with a call that needs no record, whose first attempt has come to ``event``."""
        step = self.after(event)
        while type(step) is Again:
            stop = yield from self._pause(step)
            if stop is not None:
                return self._given_up(stop)
            step = self.after((yield self._invocation(None, self.made + 1)))
        return expect(step, Answer)

    def after(self, event: Event) -> Again | Answer:
        """Decide what follows what an attempt without a record has come to."""
        if type(event) is not Ended:
            return _turned_away(expect(event, Shut))
        if event.fault is None:
            return by_itself(expect(event.outcome, Returned), self.made + 1)
        self.made, self.at, self.fault = self.made + 1, event.at, event.fault
        step = self._plan(event.fault, event, doubtful=False)
        return step if type(step) is Again else self._given_up(expect(step, Stop))

    def not_ready(self, step: Again, event: Event) -> Flow[Answer]:
        """Give such a call up, since asking for a repeat has come to ``event``."""
        stop = yield from self._asked(step, event)
        return self._given_up(expect(stop, Stop))

    def _invocation(self, call: Call | None, no: int) -> Invoke:
        deadline = self.limits.deadline
        timeout = self.policy.timeout if deadline is None else self._timeout(deadline)
        return Invoke(call, no, timeout, deadline, self.made == 0)

    def _came_to(self, event: Event) -> Ended:
        ended = event if type(event) is Ended else expect(event, Ended)
        self.at, self.made, outcome = ended.at, self.made + 1, ended.outcome
        self.returned = outcome if type(outcome) is Returned else None
        return ended

    def _too_late(self) -> Ended:
        self.made += 1
        what, self.late = "lease" if self.late else "asker's time", False
        error = TooLate(f"the {what} was over before the attempt could start")
        return Ended(Raised(error, not_sent=True), over=True, draw=0.5, at=self.at)

    def _time_left(self) -> bool:
        deadline = self.limits.deadline
        return deadline is None or deadline - self.at >= LEAST_TIME

    def _timeout(self, deadline: float) -> float | None:
        if not self.policy.interruptible:
            return self.policy.timeout
        left = max(LEAST_TIME, deadline - self.at)
        return left if self.policy.timeout is None else min(left, self.policy.timeout)

    def _plan(self, fault: Fault | None, ended: Ended, *, doubtful: bool) -> Again | Stop:
        if fault is None:
            return _DONE
        if ended.abandoned or self.abandoned:
            return Stop("cancelled")
        doubtful = doubtful or fault.evidence in _IN_DOUBT
        tries = Tries(self.made, self.at, ended.draw, doubtful, self.refreshed, self.waited)
        if fault.refresh:
            self.refreshed = True
        step = plan(fault, self.policy, self.limits, tries)
        if type(step) is Again:
            self.waited = step.delay
        return step

    def _end(self, call: Call, ended: Ended, fault: Fault | None, step: Again | Stop) -> Flow[Call | Answer]:
        """Put the attempt's end on record; a journal that fails now loses nothing."""
        data, note = ended.outcome.data, ended.outcome.note
        end = End(
            call.operation_id,
            call.attempts[-1].epoch,
            len(call.attempts),
            fault,
            data,
            note,
            over=ended.over,
            go_on=isinstance(step, Again),
            reason=why(fault, step),
            park=step.park if isinstance(step, Stop) else None,
            checkpoint=self._checkpoint(),
        )
        try:
            event = yield Transact(end)
        except JournalError:
            yield from self.do(Spill(Evidence(end.operation_id, end.no, fault, data, note, over=end.over)))
            return self._unwritten(call, fault)
        self.at = event.at
        reply: Call | FencedOut = expect(event, Reply).value
        if isinstance(reply, FencedOut):
            return from_record(reply.call) if reply.call else self._unwritten(call, fault)
        self._kept(end.checkpoint)
        return reply

    def _checkpoint(self) -> Checkpoint | None:
        """What has changed of the run's state, and of its window, since it was last saved."""
        if self.state is None or self.ask is None:
            return None
        changes = self.state.changes()
        tokens = 0 if self.share is None else self.share.meter.unkept()
        return Checkpoint(*self.ask.works_in, changes, tokens) if changes or tokens else None

    def _to_send(self, ask: Ask) -> Checkpoint | None:
        """What an intent says of the run's window."""
        tokens = 0 if self.share is None else self.share.meter.unkept()
        return Checkpoint(*ask.works_in, (), tokens) if tokens else None

    def _kept(self, checkpoint: Checkpoint | None) -> None:
        if checkpoint is None:
            return
        if self.state is not None:
            self.state.kept(checkpoint.changes)
        if self.share is not None:
            self.share.meter.kept(checkpoint.tokens)

    def _closed(self, ask: Ask, call: Call, fault: Fault | None, step: Again | Stop) -> Flow[Answer]:
        """The series has ended by its own record; what is in doubt is settled while the asker waits."""
        event = yield Tell("outcome", call, {"reason": step.reason if isinstance(step, Stop) else ""})
        self.at = event.at
        if call.state is State.SUCCEEDED:
            return self._success(call)
        if call.state is not State.UNKNOWN:
            return replace(from_record(call), fault=fault or call.fault)
        try:
            settled = yield from self.settle(call)
        except JournalError:
            settled = call  # it is on record as unknown, and stands in the queue
        if settled.state is State.NOT_DONE and self.made < self.policy.attempts and not self.abandoned:
            began = yield from self._next_attempt(ask, settled, fault, Again(0.0, 1.0))
            return began if isinstance(began, Answer) else (yield from self.series(ask, began))
        return from_record(settled)

    def _next_attempt(self, ask: Ask, call: Call, fault: Fault | None, step: Again) -> Flow[Call | Answer]:
        """Wait, ask the budgets and the breakers, and put the next intent on record."""
        blocked = yield from self._pause(step)
        if blocked:
            return (yield from self._give_up(call, fault, blocked))
        begin = self._intent(ask, call, step)
        asked_at = self.at
        try:
            reply = yield from self.transact(begin)
        except JournalError:  # nothing more is sent; what was sent before is not unsaid
            yield from self._give_back(step)
            yield from self.do(Spill(Evidence(begin.operation_id, begin.no, NEVER_SENT, claim=ask.operation_id)))
            return self._unwritten(call, fault)
        if isinstance(reply, BudgetSpent | Superseded | FencedOut):
            return (yield from self._not_begun(call, fault, step, reply))
        self.late = self.at - asked_at >= ask.lease
        self._kept(begin.checkpoint)
        return reply

    def _intent(self, ask: Ask, call: Call, step: Again) -> Begin:
        charge = self.budget if step.cost > 0 else None  # a run counts whole repeats; a pool weighs them
        return Begin(call.operation_id, call.epoch, len(call.attempts) + 1, ask, charge, self._to_send(ask))

    def _not_begun(
        self, call: Call, fault: Fault | None, step: Again, reply: BudgetSpent | Superseded | FencedOut
    ) -> Flow[Answer]:
        """The journal did not let the next attempt begin: what was taken for it is given back."""
        yield from self._give_back(step)
        if isinstance(reply, BudgetSpent):
            return (yield from self._give_up(call, fault, Stop(reply.pool)))
        if isinstance(reply, Superseded):
            yield from self.do(Tell("retry_not_made", call, {"reason": "superseded"}))
            return replace(from_record(call), status="in_progress", reason="superseded")  # the newer entry's to make
        return from_record(reply.call or call)

    def _pause(self, step: Again) -> Flow[Stop | None]:
        """Make ready for a repeat. Returns why there is none, having given back what was taken for it."""
        elsewhere = None if self.share is None else (yield from self._sent_elsewhere(self.share))
        return (yield from self._asked(step, (yield Repeat(step.cost, step.delay, elsewhere, step.refresh))))

    def _asked(self, step: Again, event: Event) -> Flow[Stop | None]:
        self.at = event.at
        if type(event) is Admitted:
            if not self.abandoned and (self.limits.deadline is None or self._time_left()):
                return None
            yield from self._give_back(step)
            return Stop("cancelled" if self.abandoned else "deadline")
        if type(event) is Refused:
            return Stop(event.pool)
        why = "breaker_open" if type(event) is Shut else "cancelled"
        if why == "cancelled":
            expect(event, Woke)
        yield from self.do(Refund(step.cost))
        return Stop(why)

    def _sent_elsewhere(self, share: Share) -> Flow[int | None]:
        """Look up what the other agents of the run have sent, before a repeat."""
        if not share.tokens or not share.meter.shared:
            return None
        try:
            return (yield from self.transact(share.meter.look)).elsewhere
        except JournalError:
            return None

    def _give_back(self, step: Again) -> Flow[None]:
        yield from self.report("neutral")
        yield from self.do(Refund(step.cost))

    def _give_up(self, call: Call, fault: Fault | None, stop: Stop) -> Flow[Answer]:
        """Close a call whose next attempt was not made."""
        yield from self.do(Tell("retry_not_made", call, {"reason": stop.reason}))
        if call.state is not State.PROCESSING:
            return replace(from_record(call), reason=stop.reason)
        try:
            reply = yield from self.transact(Close(call.operation_id, call.epoch, stop.reason))
        except JournalError:
            return self._unwritten(call, fault)
        closed = reply.call if isinstance(reply, FencedOut) else reply
        return replace(from_record(closed or call), fault=fault, reason=stop.reason)

    # --- answers ---------------------------------------------------------------------------

    def _success(self, call: Call) -> Answer:
        answer, fresh = from_record(call), self.returned is not None
        return replace(answer, fault=None, value=self.value, fresh=fresh)

    def _unwritten(self, call: Call, fault: Fault | None) -> Answer:
        """The journal failed after the effect: the result goes to the asker, marked as not recorded."""
        if call.state is not State.PROCESSING:  # how it ended is on record; that it is tried again is not
            return replace(from_record(call), reason="journal_failed")
        proved = fault is not None and fault.evidence is Proof.NONE and not call.doubted_before
        known = proved or self.policy.terms.effect is Effect.READ
        status: Status = "succeeded" if fault is None else ("not_done" if known else "unknown")
        answer = Answer(status, "journal_failed", call, fault=fault, recorded=False, attempts=self.made)
        return replace(answer, value=self.value, fresh=True) if fault is None else answer

    def _given_up(self, step: Stop) -> Answer:
        """Answer for a call without a record whose last attempt has failed."""
        assert self.fault is not None  # that is how it failed
        state = State.FAILED if self.fault.final else State.NOT_DONE
        reason, fault = why(self.fault, step), replace(self.fault, message=self.clean(self.fault.message))
        return Answer(STATUS_OF[state], reason, fault=fault, retry_after=step.park, recorded=False, attempts=self.made)

    @property
    def value(self) -> object:
        """What the last attempt gave."""
        return None if self.returned is None else self.returned.value


def _turned_away(shut: Shut) -> Answer:
    return rejected("breaker_open", retry_after=shut.retry_after)
