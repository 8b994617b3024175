"""The claim: one atomic operation that inserts a call with its first intent, or says what is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from settled.core import rules
from settled.core.approval.drafts import reserved
from settled.core.approval.leave import ask_for, asked_anew, given, needs_none, use, waits
from settled.core.ask import (
    Ask,
    Begun,
    BudgetSpent,
    Busy,
    ClaimReply,
    Doubtful,
    Stands,
    Superseded,
    Unsettled,
    Untold,
    WouldRun,
)
from settled.core.attempts.charge import debit
from settled.core.call import Call, evolve, opened
from settled.core.doubt.settling import orphaned
from settled.core.encoding.keys import scoped_key
from settled.core.instead.by_hand import ask_a_person, is_by_hand
from settled.core.instead.fallback import FELL_BACK, give_way, note_step
from settled.core.matching.match import Match, find, reserve
from settled.core.model import Effect, KeyKind
from settled.core.noted.pausing import paused_by
from settled.core.parts import OF
from settled.core.runs import entering as runs
from settled.core.states import Event, State
from settled.core.values import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.core.attempts.charge import Charge
    from settled.core.books import Books
    from settled.core.matching.match import Found
    from settled.core.model import Moment
    from settled.core.runs.entering import Checkpoint


FOUND = (Begun, Stands, Busy, Doubtful)
"""The replies that one call gives."""


class Claim(Struct, frozen=True):
    """Find what answers the ask; else, if ``begin``, put the call and its first intent on record."""

    ask: Ask
    begin: bool = True
    joined: str = ""
    """The claim that the asker has waited for: it shares that series' answer."""
    repeat: bool = False
    """Settling was tried: a tool that may be repeated may now run again."""
    forgo: bool = False
    """With ``begin`` false: where it would run, record instead that the call is given up, without an attempt."""
    drafting: bool = False
    """With ``begin`` false: put the call on record without an attempt, so that its draft can be made."""
    pinned: str = ""
    """This asker was matched to this call before: ask about that one."""
    charge: Charge | None = None
    """What beginning it costs in its run: it goes on with what was tried before."""
    checkpoint: Checkpoint | None = None
    """What it sends, where that is counted."""

    def apply(self, books: Books, now: Moment) -> ClaimReply:
        """Decide and, where something begins, record it."""
        ask = self.ask
        mine = books.by_id(ask.operation_id)
        if mine is not None and mine.claim == ask.operation_id and mine.attempts:
            return Begun(mine)  # the answer to this very claim was lost
        why = runs.barred(books, ask) if ask.run_id or ask.scope else ""
        if why:
            return Superseded(ask.run_id, why)
        reply = self._decided(books, mine, now)
        if self.checkpoint is not None and isinstance(reply, Begun):
            runs.keep_state(books, ask.tenant, self.checkpoint)
        return reply

    def _decided(self, books: Books, mine: Call | None, now: Moment) -> ClaimReply:
        if self.pinned and (pinned := books.by_id(self.pinned)) is not None:
            return self._answer(books, Match(pinned), now)
        found = find(books, self.ask, mine, now)
        reply = self._new(books, now) if found is None else self._answer(books, found, now)
        _remember(books, self.ask, reply)
        return reply

    def _answer(self, books: Books, found: Found, now: Moment) -> ClaimReply:
        if not isinstance(found, Match):
            return found
        call, like, ask_leave = found.call, found.like, self.ask.leave
        if call.state is State.PROCESSING:
            if call.claim == self.ask.operation_id:
                return Begun(call)  # our own new series: the answer to its claim was lost
            if not rules.lease_over(call, now):
                return Busy(call, like)
            call = orphaned(books, call, now)
        if call.state is State.UNKNOWN:
            may = self.repeat and self._may_repeat(call, now) and not call.held
            return self._begin_series(books, call, now) if may else Doubtful(call, like)
        if call.state is State.AWAITING_APPROVAL and not is_by_hand(call):
            if ask_leave is not None or waits(call, now):
                return Stands(asked_anew(books, call, ask_leave, now), like)
            call = needs_none(books, call, now)
        may = given(call, self.ask.terms, now) or self._new_series(call, now)
        if call.state in (State.NOT_DONE, State.PARKED) and may:
            return self._begin_series(books, call, now, like=like)
        return Stands(call, like)

    def _may_repeat(self, call: Call, now: Moment) -> bool:
        """Whether a repeat in doubt is harmless, by the record's terms and by today's declaration."""
        today = replace(call, terms=self.ask.terms)
        return rules.repeatable(call, now) and rules.repeatable(today, now)

    def _new_series(self, call: Call, now: Moment) -> bool:
        """Whether this asker starts a new series: not within the step, not for who waited for the last one."""
        entry = self.ask.entry
        fenced_out = entry is not None and call.kind is KeyKind.SCOPED and call.series != entry.no
        if self.joined and call.claim == self.joined and not fenced_out:  # else its owner may not go on, and we must
            return False
        if call.not_before is not None and now.wall < call.not_before:
            return False
        again = call.kind is not KeyKind.SCOPED and not self.ask.step
        return entry is None or again or call.series != entry.no

    def _held_up(self, books: Books, call: Call, now: Moment, *, like: bool) -> ClaimReply | None:
        """Return what keeps a further series of a call from beginning, whatever its run says."""
        if not rules.may_begin(call, now):
            return Stands(call, like)
        if self.forgo and not self.begin:
            return Stands(give_way(books, call, now), like)
        paused = paused_by(books, self.ask.tool)
        if paused is not None or self.begin:
            return paused
        return Stands(call, like) if self.drafting else WouldRun(call)

    def _begin_series(self, books: Books, call: Call, now: Moment, *, like: bool = False) -> ClaimReply:
        held_up = self._held_up(books, call, now, like=like)
        if held_up is not None:
            return held_up
        unsettled = _unsettled(books, self.ask, call.operation_id)
        if unsettled is not None:
            return unsettled
        undone = call.state in (State.NOT_DONE, State.PARKED)
        if self.ask.leave is not None and undone and not given(call, self.ask.terms, now):
            return Stands(ask_for(books, call, self.ask.leave, now), like)
        pool = debit(books, call.tenant, call.tool, self.charge)
        if pool:
            return BudgetSpent(pool)
        ask, epoch = self.ask, call.epoch + 1
        taken, row = evolve(
            call,
            Event.CLAIM,
            now,
            epoch=epoch,
            claim=ask.operation_id,
            owner=ask.owner,
            lease=now.plus(ask.lease),
            series=ask.entry.no if ask.entry else call.series,
            before=len(call.attempts),
            attempts=opened(call, ask.owner, epoch, now),
            not_before=None,
            fault=None,
            reason="",
            leave=use(call.leave),
        )
        books.put(taken, row)
        if ask.run_id and ask.scope != taken.scope:
            books.put_moved(taken, ask.scope)  # its effect, if any, is this run's to undo
        if taken.leave is not None or taken.terms.drafted:
            books.drop_owed(taken)
        return Begun(taken)

    def _new(self, books: Books, now: Moment) -> ClaimReply:
        ask, leave = self.ask, self.ask.leave
        if self.forgo and not self.begin:
            return self._forgone(books, now)
        if leave is not None and leave.by_hand:
            return _unsettled(books, ask) or Stands(ask_a_person(books, self._draft(books, now), leave, now))
        paused = paused_by(books, ask.tool)
        if paused is not None:
            return paused
        if not self.begin:
            return self._reserved(books, now) if self.drafting else WouldRun()
        unsettled = _unsettled(books, ask)
        if unsettled is not None:
            return unsettled
        bare = self._draft(books, now)
        if leave is not None:
            return Stands(ask_for(books, bare, leave, now))
        pool = "" if self.charge is None else debit(books, ask.tenant, ask.tool, self.charge)
        if pool:
            return BudgetSpent(pool)
        call, row = evolve(bare, Event.CLAIM, now, detail=ask.tool, attempts=opened(bare, ask.owner, 1, now))
        books.put(call, row)
        return Begun(call)

    def _forgone(self, books: Books, now: Moment) -> ClaimReply:
        bare = self._draft(books, now)
        call, row = evolve(bare, Event.FAIL, now, detail=FELL_BACK, reason=FELL_BACK, decided="answer")
        books.put(call, row)
        if call.kind is KeyKind.RANDOM:
            books.put_owed(call)  # as in ``give_way``
        return Stands(call)

    def _reserved(self, books: Books, now: Moment) -> ClaimReply:
        call = reserved(books, self._draft(books, now), now)
        if call.kind is KeyKind.RANDOM:
            books.put_owed(call)  # the next like ask, of whatever process, goes on with it
        return Stands(call)

    def _draft(self, books: Books, now: Moment) -> Call:
        ask, entry = self.ask, 0 if self.ask.entry is None else self.ask.entry.no
        n = books.last_n(ask.scope, ask.lane, ask.tool, ask.identity) + 1 if ask.kind is KeyKind.SCOPED else 1
        return Call(
            operation_id=ask.operation_id,
            key=ask.key or scoped_key(ask.tenant, ask.scope, ask.lane, ask.tool, ask.identity, n),
            kind=ask.kind,
            tenant=ask.tenant,
            tool=ask.tool,
            terms=ask.terms,
            scope=ask.scope,
            lane=ask.lane,
            identity=ask.identity,
            words=ask.words,
            fingerprint=ask.fingerprint,
            n=n,
            arguments=ask.arguments,
            state=State.PROCESSING,
            epoch=1,
            claim=ask.operation_id,
            owner=ask.owner,
            lease=now.plus(ask.lease),
            created=now,
            changed=now,
            entry=entry,
            series=entry,
            message=ask.message,
            step=ask.step,
            despite=tuple(sorted(ask.despite)) if ask.despite else (),
            sent_key=self._sent_key(books) if ask.run_id and ask.kind is KeyKind.BUSINESS else "",
        )

    def _sent_key(self, books: Books) -> str:
        """Return the key to be sent in a run that was rewound: under the old one the old effect may be found."""
        ask = self.ask
        own = not ask.message.startswith(OF)  # items are named by their batch's record
        run = books.run(ask.tenant, ask.run_id) if own else None
        return f"{ask.key}~{run.rewound}" if run is not None and run.rewound else ""


def _unsettled(books: Books, ask: Ask, own: str = "") -> Unsettled | None:
    """What cannot be undone is done only once all that it may rest on is known to be done."""
    if not ask.terms.irreversible or not ask.run_id:
        return None
    but = ask.around | ask.despite | {own}
    open_ones = books.in_doubt(runs.scope_of_run(ask.tenant, ask.run_id))
    calls = tuple(c for c in open_ones if c.terms.effect is not Effect.READ and c.operation_id not in but)
    return Unsettled(calls) if calls else None


def _remember(books: Books, ask: Ask, reply: ClaimReply) -> None:
    """Note what is made in another call's place; and in the entry what this asker waits for or was told."""
    if ask.instead is not None and isinstance(reply, FOUND):
        note_step(books, *ask.instead, reply.call)
    entry = ask.entry
    if entry is None:
        return
    if isinstance(reply, Untold):
        if reply.once:
            entry.refuse(ask.step or ask.operation_id, ask, reply.calls)
    elif isinstance(reply, FOUND):
        like = not isinstance(reply, Begun) and reply.like
        entry.take(reply.call, ask.words, ask.operation_id, like=like, step=ask.step)
        if ask.step:
            books.put_step(ask.step_scope, ask.step, reply.call.operation_id)


class Reserve(Struct, frozen=True):
    """Match all calls of one message, in order, before any of them is claimed."""

    asks: Sequence[Ask]

    def apply(self, books: Books, now: Moment) -> None:
        """Note the matches in the entry; nothing is recorded."""
        del now
        reserve(books, self.asks)
