"""The life of one call, for one asker: commands go out, events come in, an answer comes back.

Read ``Life.run`` first: admit, claim, then what the journal says. ``series.py`` makes the attempts.
Nothing here touches the world, so every interleaving and every crash can be simulated.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, assert_never

from settled.core.answer import Answer, from_record, rejected
from settled.core.ask import (
    Ask,
    Barred,
    Begun,
    BudgetSpent,
    Busy,
    ClaimReply,
    Conflict,
    Doubtful,
    Paused,
    Stands,
    Superseded,
    Suspect,
    Unsettled,
    Untold,
    WouldRun,
)
from settled.core.attempts.joint import Jointly
from settled.core.attempts.outcome import NEVER_SENT
from settled.core.commands import AwaitCall, CheckOwners, Owners, Reply, Spill, Transact, Woke, expect
from settled.core.doubt.late import Evidence
from settled.core.doubt.settling import Adopt
from settled.core.matching.claim import Claim
from settled.core.matching.family import may_be_noted
from settled.core.matching.owed import Heard, was_owed
from settled.core.model import Effect
from settled.core.states import UNSETTLED, State
from settled.core.values import replace
from settled.errors import JournalError

if TYPE_CHECKING:
    from settled.core.attempts.retry import Again
    from settled.core.call import Call
    from settled.core.commands import Flow

STILL_OWED = ("unknown", "in_progress", "rejected", "conflict")
POLL = (0.02, 1.0)
"""Seconds between looks at another process's call: the first wait and the longest."""
HEARD_LOOK = 5.0
"""Seconds between looks at another process's call whose end we hear of; of its death we do not."""
LOCAL_LOOK = 30.0
"""Seconds between looks at a call of this process, whose end wakes us anyway."""


class Life(Jointly):
    """One asker's way from the ask to the answer. ``ask`` is ``None`` for a call that needs no record."""

    like = False
    """The answer is an earlier like call's, however it was reached."""
    again: Again | None = None
    """The first attempt goes on with what another call has left: it waits, and costs, as a repeat does."""

    def run(self) -> Flow[Answer]:
        """Make the call, or say what stands in its way."""
        return self.unrecorded() if self.ask is None else self._on_record(self.ask)

    def _on_record(self, ask: Ask) -> Flow[Answer]:
        state, heard = None, False
        try:
            begun = yield from self._claimed(ask)
            answer = begun if isinstance(begun, Answer) else (yield from self.series(ask, begun))
            state, heard = (None, False) if self.abandoned else (_given(answer), True)
        finally:
            self._leave(state, heard=heard)
        call = answer.call
        told = heard and call is not None and answer.recorded and answer.status not in STILL_OWED
        if told and call is not None and (was_owed(call) or may_be_noted(call, ask)):
            yield from self._hear(call)
        return replace(answer, like=True) if self.like and call is not None else answer

    def _hear(self, call: Call) -> Flow[None]:
        """Put on record that the outcome of a call that was in doubt has reached somebody."""
        with suppress(JournalError):  # then the next like ask hears it too, marked as an earlier call's
            yield from self.transact(Heard(call.operation_id))

    def abandon(self) -> None:
        """The asker has gone: nothing more begins, and it is told nothing."""
        self.abandoned = True
        self._leave(None, heard=False)

    def _leave(self, state: State | None, *, heard: bool) -> None:
        if self.share is not None:
            self.share.forgo()
        if self.ask is not None and self.ask.entry is not None:
            self.ask.entry.leave(self.ask.operation_id, state, heard=heard)

    def _claimed(self, ask: Ask) -> Flow[Call | Answer]:
        """Claim until an attempt may begin; or return what answers without one."""
        claim = Claim(ask, charge=self.budget if self.again is not None and self.again.cost > 0 else None)
        while True:
            going = self.again
            shut = yield from (self.shut() if going is None else self._goes_on(going))
            asked_at = self.at
            begin = claim if shut is None else replace(claim, begin=False)
            if self.share is not None and shut is None:
                self.share.intend()
                begin = replace(begin, checkpoint=self._to_send(ask))
            joins = shut is None and ask.terms.effect is Effect.TRANSACTIONAL
            reply = yield from (self.jointly(ask, begin) if joins else self._claim(begin, going))
            if isinstance(reply, Answer):
                return reply
            if isinstance(reply, Begun):
                if begin.checkpoint is not None:
                    self._kept(begin.checkpoint)
                self.late = self.at - asked_at >= ask.lease
                return reply.call
            if self.share is not None:
                self.share.forgo()
            if isinstance(reply, Stands | Busy | Doubtful):
                self.like |= reply.like
            if shut is None:
                yield from self._not_used(going)
            following = yield from self._unbegun(claim, reply, shut)
            if isinstance(following, Answer):
                return following
            claim = following

    def _goes_on(self, step: Again) -> Flow[Answer | None]:
        """Wait, and ask budgets and breakers, as before any further attempt."""
        self.again = None
        stop = yield from self._pause(step)
        return None if stop is None else rejected(stop.reason)

    def _not_used(self, going: Again | None) -> Flow[None]:
        """Nothing began: what the breakers, and for one that goes on the budgets, were asked for is given back."""
        yield from (self.report("neutral") if going is None else self._give_back(going))

    def _claim(self, claim: Claim, going: Again | None = None) -> Flow[ClaimReply]:
        """Claim. If the journal's answer is lost, nothing is sent, and the record will say so."""
        try:
            event = yield Transact(claim)
        except JournalError:
            yield from self._not_used(going)
            yield from self.do(Spill(Evidence(claim.ask.operation_id, 1, NEVER_SENT)))
            raise
        self.at = event.at
        reply: ClaimReply = expect(event, Reply).value
        return reply

    def _unbegun(self, claim: Claim, reply: ClaimReply, shut: Answer | None) -> Flow[Answer | Claim]:
        """Answer what needs no attempt; or return the claim to try next."""
        match reply:
            case Stands(call):
                if call.state is State.AWAITING_APPROVAL:
                    return (yield from self._await_leave(claim, call))
                return from_record(call)
            case WouldRun(in_doubt) if in_doubt is not None and in_doubt.state is State.UNKNOWN:
                return replace(from_record(in_doubt), retry_after=shut.retry_after if shut else None)
            case WouldRun():
                return shut or rejected("deadline")
            case Busy(call):
                return (yield from self._busy(claim, call))
            case Doubtful(call):
                return (yield from self._doubtful(claim, call))
            case Conflict(call):
                return Answer("conflict", reason="other_arguments", call=call, earlier=(call,))
            case Untold(calls, once):
                return rejected("untold_before" if once else "untold_blocked", calls=calls)
            case Barred(calls):
                return (yield from self._barred(claim, calls))
            case Unsettled(calls):
                return rejected("unsettled_before", calls=calls)  # their own askers, or reconciliation, settle them
            case Suspect(calls):
                return (yield from self._suspect(claim, calls))
            case Superseded(_, why):
                return rejected(why)
            case BudgetSpent(pool):
                return rejected(pool)
            case Paused(_, reason):
                return replace(rejected("paused"), note=reason)
            case Begun():
                raise AssertionError("a begun call is not unbegun")
            case _ as never:
                assert_never(never)

    def _busy(self, claim: Claim, call: Call) -> Flow[Answer | Claim]:
        """Wait for a live owner: as long as need be in this process, up to ``wait`` for another one."""
        pause, patience = POLL[0], self.limits.wait
        if call.operation_id in claim.ask.around:
            return replace(from_record(call), reason="re_entrant")  # it would wait for itself
        while True:
            following = replace(claim, pinned=call.operation_id, joined=call.claim)
            if (yield from self._bury(call)):
                return replace(claim, pinned=call.operation_id)
            before = self.at
            left = max(patience, POLL[0])
            seconds, heard = self.cut(min(pause, left)), self.cut(min(HEARD_LOOK, left))
            wait = AwaitCall(call.operation_id, seconds, self.cut(LOCAL_LOOK), heard)
            woke = expect((yield from self.do(wait)), Woke)
            patience -= 0.0 if woke.local else self.at - before
            pause = min(POLL[1], 2 * pause)
            reply = yield from self.transact(replace(following, begin=False))
            if not isinstance(reply, Busy):
                return following
            if patience <= 0 or self.out_of_time:
                return from_record(reply.call)
            call = reply.call

    def _await_leave(self, claim: Claim, call: Call) -> Flow[Answer | Claim]:
        """Wait for a person, as long as the asker does: then it is told that the call waits, and may ask again."""
        pause, patience = POLL[0], self.cut(self.limits.wait)
        following = replace(claim, pinned=call.operation_id)
        while patience > 0 and not self.abandoned:
            before = self.at
            yield from self.do(AwaitCall(call.operation_id, min(pause, patience), patience))
            patience, pause = patience - (self.at - before), min(POLL[1], 2 * pause)
            reply = yield from self.transact(replace(following, begin=False))
            if not (isinstance(reply, Stands) and reply.call.state is State.AWAITING_APPROVAL):
                return following
            call = reply.call
        return from_record(call)

    def _bury(self, call: Call) -> Flow[bool | None]:
        """Take a call from an owner that is seen dead; its lease need not be waited out.

        Returns whether it was; ``None`` if it cannot be told from here.
        """
        owners = expect((yield from self.do(CheckOwners((call.owner,)))), Owners)
        [alive] = owners.alive
        if alive is False:
            yield from self.transact(Adopt(call.operation_id, dead=call.epoch))
        return None if alive is None else not alive

    def _doubtful(self, claim: Claim, call: Call) -> Flow[Answer | Claim]:
        """Settle first; then let the record answer, or run again what may be repeated."""
        settled = yield from self.settle(call)
        following = replace(claim, pinned=call.operation_id, repeat=True)
        if settled.state is not State.UNKNOWN:
            return following
        if claim.repeat:
            return from_record(settled)
        reply = yield from self.transact(replace(following, begin=False))
        return following if isinstance(reply, WouldRun) else from_record(settled)

    def _barred(self, claim: Claim, calls: tuple[Call, ...]) -> Flow[Answer | Claim]:
        settled: tuple[Call, ...] = ()
        for call in calls:  # what was done in the place of such a call has another tool's probe
            own = call.tool == claim.ask.tool
            settled += ((yield from self.settle(call)) if own else call,)
        changed = any(call.state is not State.UNKNOWN for call in settled)
        return claim if changed else rejected("unknown_before", calls=settled)

    def _suspect(self, claim: Claim, calls: tuple[Call, ...]) -> Flow[Answer | Claim]:
        """Calls of live processes are other actions; those of dead ones are in doubt, and may bar this one."""
        alive = set(claim.ask.alive)
        for call in calls:
            dead = yield from self._bury(call)
            seen = (yield from self._watch(call)) if dead is None else call
            if seen is None:
                same = call.identity == claim.ask.identity
                return from_record(call) if same else rejected("unknown_before", calls=(call,))
            if dead is False or seen.state not in UNSETTLED:
                alive.add(call.operation_id)
        return replace(claim, ask=replace(claim.ask, alive=frozenset(alive)))

    def _watch(self, call: Call) -> Flow[Call | None]:
        """Wait for a call whose owner cannot be seen: it ends, or its lease does. ``None``: neither, so far."""
        pause, patience = POLL[0], self.cut(self.limits.wait)
        while patience > 0:
            yield from self.do(AwaitCall(call.operation_id, pause, pause))
            patience, pause = patience - pause, min(POLL[1], 2 * pause)
            seen = yield from self.transact(Adopt(call.operation_id))
            if seen is None or seen.state is not State.PROCESSING:
                return seen or call
        return None


def _given(answer: Answer) -> State | None:
    """Return the outcome that an asker was given; a success is one also where the journal could not take it."""
    if answer.call is None:
        return None
    return State.SUCCEEDED if answer.status == "succeeded" else answer.call.state
