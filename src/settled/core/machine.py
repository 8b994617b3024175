"""The life of one call, for one asker: commands go out, events come in, an answer comes back.

Read ``Life.run`` first: admit, claim, then what the journal says; ``_series`` makes the attempts.
Nothing here touches the world, so every interleaving and every crash can be simulated.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, assert_never

from settled.core.answer import STATUS_OF, Answer, from_record, rejected, with_value
from settled.core.ask import (
    Ask,
    Barred,
    Begun,
    Busy,
    ClaimReply,
    Conflict,
    Doubtful,
    Stands,
    Superseded,
    Untold,
    WouldRun,
)
from settled.core.breaker import verdict_of
from settled.core.claim import Claim
from settled.core.commands import (
    Admit,
    Admitted,
    AwaitCall,
    Ended,
    Granted,
    Invoke,
    Raised,
    Refresh,
    Refund,
    Reply,
    Report,
    Returned,
    Shut,
    Sleep,
    Spend,
    Spill,
    Tell,
    Transact,
    Woke,
    expect,
)
from settled.core.late import Evidence
from settled.core.model import Effect, Fault, FaultClass
from settled.core.model import Evidence as Proof
from settled.core.outcome import read
from settled.core.progress import Begin, BudgetSpent, Charge, Close, End, FencedOut
from settled.core.retry import Again, Stop, Tries, plan, why
from settled.core.settle import settle
from settled.core.states import State
from settled.errors import JournalError

if TYPE_CHECKING:
    from settled.core.books import Transition
    from settled.core.call import Call
    from settled.core.commands import Event, Flow
    from settled.core.outcome import Clean
    from settled.core.policy import Limits, Policy

R = TypeVar("R")
NEVER_SENT = Fault(FaultClass.RETRYABLE, Proof.NONE, "never_sent", local=True)
LEAST_TIME = 0.001
"""Seconds: no attempt starts with less than this left."""
POLL = (0.02, 1.0)
"""Seconds between looks at another process's call: the first wait and the longest."""
LOCAL_LOOK = 30.0
"""Seconds between looks at a call of this process, whose end wakes us anyway."""


class Life:
    """One asker's way from the ask to the answer. ``ask`` is ``None`` for a call that needs no record."""

    __slots__ = (
        "abandoned",
        "ask",
        "at",
        "budget",
        "clean",
        "last",
        "late",
        "like",
        "limits",
        "made",
        "policy",
        "refreshed",
    )

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
        self.ask, self.policy, self.limits, self.at, self.budget, self.clean = ask, policy, limits, at, budget, clean
        self.made = 0
        self.refreshed = False
        self.late = False
        self.abandoned = False
        self.like = False
        self.last: Returned | Raised | None = None

    # --- the whole -----------------------------------------------------------------------

    def run(self) -> Flow[Answer]:
        """Make the call, or say what stands in its way."""
        if self.ask is None:
            shut = yield from self._shut()
            return shut or (yield from self._series(None))
        state = None
        try:
            answer = yield from self._recorded(self.ask)
            state = answer.call.state if answer.call and not self.abandoned else None
        finally:
            self._leave(state)
        return replace(answer, like=True) if self.like and answer.call is not None else answer

    def abandon(self) -> None:
        """The asker has gone: nothing more begins, and it is told nothing."""
        self.abandoned = True
        self._leave(None)

    def _leave(self, state: State | None) -> None:
        if self.ask is not None and self.ask.entry is not None:
            self.ask.entry.leave(self.ask.operation_id, state)

    def _recorded(self, ask: Ask) -> Flow[Answer]:
        claim = Claim(ask)
        while True:
            shut = yield from self._shut()
            asked_at = self.at
            reply = yield from self._claim(ask, replace(claim, begin=shut is None))
            if isinstance(reply, Begun | Stands | Busy | Doubtful):
                self.like |= not isinstance(reply, Begun) and reply.like
            if isinstance(reply, Begun):
                self.late = self.at - asked_at >= ask.lease
                return (yield from self._series(reply.call))
            if shut is None:
                yield from self._report("neutral")
            answer, again = yield from self._unbegun(claim, reply, shut)
            if again is None:
                return answer
            claim = again

    def _claim(self, ask: Ask, claim: Claim) -> Flow[ClaimReply]:
        """Claim. If the journal's answer is lost, nothing is sent, and the record will say so."""
        try:
            return (yield from self._transact(claim))
        except JournalError:
            yield from self._report("neutral")
            yield from self._do(Spill(Evidence(ask.operation_id, 1, NEVER_SENT)))
            raise

    def _unbegun(self, claim: Claim, reply: ClaimReply, shut: Answer | None) -> Flow[tuple[Answer, Claim | None]]:
        """Answer what needs no attempt; or return the claim to try again with."""
        match reply:
            case Stands(call, like):
                return from_record(call, like=like), None
            case WouldRun():
                return shut or rejected("deadline"), None
            case Busy(call, like):
                return (yield from self._busy(claim, call, like=like))
            case Doubtful(call, like):
                return (yield from self._doubtful(claim, call, like=like))
            case Conflict(call):
                return Answer("conflict", reason="other_arguments", call=call, earlier=(call,)), None
            case Untold(calls):
                return rejected("untold_before", calls=calls), None
            case Barred(calls):
                return (yield from self._barred(claim, calls))
            case Superseded():
                return rejected("superseded"), None
            case Begun():
                raise AssertionError("a begun call is not unbegun")
            case _ as never:
                assert_never(never)

    # --- what stands in the way ------------------------------------------------------------

    def _shut(self) -> Flow[Answer | None]:
        """Ask deadline and breakers; ``None`` if an attempt may be made."""
        if self.limits.deadline is not None and self.limits.deadline - self.at < LEAST_TIME:
            return rejected("deadline")
        event = yield from self._do(Admit())
        if isinstance(event, Shut):
            return rejected("breaker_open", retry_after=event.retry_after)
        expect(event, Admitted)
        return None

    def _busy(self, claim: Claim, call: Call, *, like: bool) -> Flow[tuple[Answer, Claim | None]]:
        """Wait for a live owner: as long as need be in this process, up to ``wait`` for another one."""
        pause, patience = POLL[0], self.limits.wait
        while True:
            before = self.at
            seconds = self._cut(min(pause, max(patience, POLL[0])))
            woke = expect((yield from self._do(AwaitCall(call.operation_id, seconds, self._cut(LOCAL_LOOK)))), Woke)
            patience -= 0.0 if woke.local else self.at - before
            pause = min(POLL[1], 2 * pause)
            again = replace(claim, pinned=call.operation_id, joined=call.claim)
            reply = yield from self._transact(replace(again, begin=False))
            if not isinstance(reply, Busy):
                return from_record(call), replace(again, joined=call.claim)
            if patience <= 0 or self._out_of_time():
                return from_record(reply.call, like=like), None

    def _doubtful(self, claim: Claim, call: Call, *, like: bool) -> Flow[tuple[Answer, Claim | None]]:
        """Settle first; then let the record answer, or run again what may be repeated."""
        settled = yield from self._settle(call)
        again = replace(claim, pinned=call.operation_id, repeat=True)
        if settled.state is not State.UNKNOWN:
            return from_record(settled, like=like), again
        if claim.repeat:
            return from_record(settled, like=like), None
        reply = yield from self._transact(replace(again, begin=False))
        if isinstance(reply, WouldRun):
            return from_record(settled), again
        return from_record(settled, like=like), None

    def _barred(self, claim: Claim, calls: tuple[Call, ...]) -> Flow[tuple[Answer, Claim | None]]:
        changed = False
        for call in calls:
            settled = yield from self._settle(call)
            changed |= settled.state is not State.UNKNOWN
        return rejected("unknown_before", calls=calls), claim if changed else None

    def _settle(self, call: Call) -> Flow[Call]:
        patience = self._cut(self.limits.wait)
        return (yield from self._through(settle(call, self.policy, 0.0 if self.abandoned else patience)))

    # --- the attempts ----------------------------------------------------------------------

    def _series(self, call: Call | None) -> Flow[Answer]:
        """Make attempts until one succeeds, proves final, or may not be repeated."""
        while True:
            ended = yield from self._invoke(call)
            doubtful = bool(call and any(a.in_doubt for a in call.attempts[:-1]))
            no = len(call.attempts) if call else self.made
            fault = read(ended, self.policy, self.clean, attempt=no, doubtful=doubtful)
            yield from self._report(verdict_of(fault))
            step = self._plan(fault, call, ended)
            if call is None:
                if not isinstance(step, Again):
                    return self._unrecorded(fault, step)
                blocked = yield from self._pause(step)
                if blocked:
                    return self._unrecorded(fault, blocked)
                continue
            recorded = yield from self._end(call, ended, fault, step)
            if isinstance(recorded, Answer):
                return recorded
            if recorded.state is not State.PROCESSING or not isinstance(step, Again):
                return (yield from self._closed(recorded, fault, step))
            began = yield from self._again(recorded, fault, step)
            if isinstance(began, Answer):
                return began
            call = began

    def _invoke(self, call: Call | None) -> Flow[Ended]:
        self.made += 1
        if self.late:  # the intent took longer than the lease: nothing was sent, and nothing may be
            self.late = False
            error = TimeoutError("the lease was over before the attempt could start")
            return Ended(Raised(error, not_sent=True), over=True, draw=0.5, at=self.at)
        timeout = self._timeout()
        event = yield from self._do(
            Invoke(call, len(call.attempts) if call else self.made, timeout, self.limits.deadline, first=self.made == 1)
        )
        ended = expect(event, Ended)
        self.last = ended.outcome
        return ended

    def _timeout(self) -> float | None:
        if self.limits.deadline is None or not self.policy.interruptible:
            return self.policy.timeout
        left = max(LEAST_TIME, self.limits.deadline - self.at)
        return left if self.policy.timeout is None else min(left, self.policy.timeout)

    def _plan(self, fault: Fault | None, call: Call | None, ended: Ended) -> Again | Stop:
        if fault is None:
            return Stop("")
        if ended.abandoned or self.abandoned:
            return Stop("cancelled")
        earlier = bool(call and any(a.in_doubt for a in call.attempts[:-1]))
        doubtful = earlier or fault.evidence in (Proof.MAYBE, Proof.DONE)
        tries = Tries(self.made, self.at, ended.draw, doubtful=doubtful, refreshed=self.refreshed)
        self.refreshed |= fault.refresh
        return plan(fault, self.policy, self.limits, tries)

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
        )
        try:
            reply = yield from self._transact(end)
        except JournalError:
            yield from self._do(Spill(Evidence(end.operation_id, end.no, fault, data, note, over=end.over)))
            return self._unwritten(call, fault)
        if isinstance(reply, FencedOut):
            return from_record(reply.call) if reply.call else self._unwritten(call, fault)
        return reply

    def _closed(self, call: Call, fault: Fault | None, step: Again | Stop) -> Flow[Answer]:
        """The series has ended by its own record; what is in doubt is settled while the asker waits."""
        yield from self._do(Tell("outcome", call, {"reason": step.reason if isinstance(step, Stop) else ""}))
        if call.state is State.SUCCEEDED:
            return self._success(call)
        if call.state is not State.UNKNOWN:
            return replace(from_record(call), fault=fault or call.fault)
        try:
            settled = yield from self._settle(call)
        except JournalError:
            settled = call  # it is on record as unknown, and stands in the queue
        if settled.state is State.NOT_DONE and self.made < self.policy.attempts and not self.abandoned:
            began = yield from self._again(settled, fault, Again(0.0, 1.0))
            return began if isinstance(began, Answer) else (yield from self._series(began))
        return from_record(settled)

    def _again(self, call: Call, fault: Fault | None, step: Again) -> Flow[Call | Answer]:
        """Wait, ask the budgets and the breakers, and put the next intent on record."""
        blocked = yield from self._pause(step)
        if blocked:
            return (yield from self._give_up(call, fault, blocked))
        charge = replace(self.budget, cost=round(step.cost)) if self.budget and step.cost >= 1 else None
        lease = self.ask.lease if self.ask else 0.0
        owner = self.ask.owner if self.ask else call.owner
        begin = Begin(call.operation_id, call.epoch, owner, lease, len(call.attempts) + 1, charge)
        asked_at = self.at
        reply = yield from self._transact(begin)
        if isinstance(reply, BudgetSpent):
            yield from self._unpause(step)
            return (yield from self._give_up(call, fault, Stop(reply.pool)))
        if isinstance(reply, FencedOut):
            yield from self._unpause(step)
            return from_record(reply.call or call)
        self.late = self.at - asked_at >= lease
        return reply

    def _pause(self, step: Again) -> Flow[Stop | None]:
        """Spend, sleep, ask the breakers. Returns why not, having given back what was spent."""
        granted = expect((yield from self._do(Spend(step.cost))), Granted)
        if granted.refused_by:
            return Stop(granted.refused_by)
        woke = expect((yield from self._do(Sleep(step.delay))), Woke)
        if self.abandoned or woke.abandoned:
            yield from self._do(Refund(step.cost))
            return Stop("cancelled")
        if step.refresh:
            yield from self._do(Refresh())
        shut = yield from self._shut()
        if shut is not None:
            yield from self._do(Refund(step.cost))
            return Stop(shut.reason)
        return None

    def _unpause(self, step: Again) -> Flow[None]:
        yield from self._report("neutral")
        yield from self._do(Refund(step.cost))

    def _give_up(self, call: Call, fault: Fault | None, stop: Stop) -> Flow[Answer]:
        """Close a call whose next attempt was not made."""
        yield from self._do(Tell("retry_not_made", call, {"reason": stop.reason}))
        if call.state is not State.PROCESSING:
            return replace(from_record(call), reason=stop.reason)
        try:
            reply = yield from self._transact(Close(call.operation_id, call.epoch, stop.reason))
        except JournalError:
            return self._unwritten(call, fault)
        closed = reply.call if isinstance(reply, FencedOut) else reply
        return replace(from_record(closed or call), fault=fault, reason=stop.reason)

    # --- answers ---------------------------------------------------------------------------

    def _success(self, call: Call) -> Answer:
        answer = replace(from_record(call), fault=None)
        return with_value(answer, self.last.value) if isinstance(self.last, Returned) else answer

    def _unwritten(self, call: Call, fault: Fault | None) -> Answer:
        """The journal failed after the effect: the result goes to the asker, marked as not recorded."""
        proved = fault is not None and fault.evidence is Proof.NONE and not any(a.in_doubt for a in call.attempts[:-1])
        known = proved or self.policy.terms.effect is Effect.READ
        status = "succeeded" if fault is None else ("not_done" if known else "unknown")
        answer = Answer(status, "journal_failed", call, fault=fault, recorded=False, attempts=self.made)
        return with_value(answer, self._value()) if fault is None else answer

    def _unrecorded(self, fault: Fault | None, step: Again | Stop) -> Answer:
        if fault is None:
            return with_value(Answer("succeeded", attempts=self.made, recorded=False), self._value())
        final = fault.kind in (FaultClass.PERMANENT, FaultClass.INVALID)
        state = State.FAILED if final else State.NOT_DONE
        reason = why(fault, step)
        wait = step.park if isinstance(step, Stop) else None
        return Answer(STATUS_OF[state], reason, fault=fault, retry_after=wait, recorded=False, attempts=self.made)

    def _value(self) -> object:
        return self.last.value if isinstance(self.last, Returned) else None

    # --- small change ----------------------------------------------------------------------

    def _do(self, command: Any) -> Flow[Event]:
        event = yield command
        self.at = event.at
        return event

    def _through(self, flow: Flow[Call]) -> Flow[Call]:
        """Run another flow, keeping the clock."""
        try:
            command = next(flow)
            while True:
                event = yield from self._do(command)
                command = flow.send(event)
        except StopIteration as stop:
            result: Call = stop.value
            return result

    def _transact(self, transition: Transition[R]) -> Flow[R]:
        event = yield from self._do(Transact(transition))
        value: R = expect(event, Reply).value
        return value

    def _report(self, verdict: str) -> Flow[None]:
        yield from self._do(Report(verdict))

    def _cut(self, seconds: float) -> float:
        deadline = self.limits.deadline
        return seconds if deadline is None else max(0.0, min(seconds, deadline - self.at))

    def _out_of_time(self) -> bool:
        return self.abandoned or (self.limits.deadline is not None and self.at >= self.limits.deadline)
