"""The machine that undoes a run: bar its calls, settle what is open, then undo step by step, the last begun first.

Like the life of a call it is a generator of commands: a crash is a generator that is dropped, and whoever plays it
again finds on record how far it came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec import Struct

from settled.core import rules
from settled.core.answer import STATUS_OF
from settled.core.books import RunRecord, RunState
from settled.core.call import Call
from settled.core.commands import AwaitCall, CheckOwners, Owners, Reply, Sleep, Transact, expect
from settled.core.doubt.settle import see_over
from settled.core.doubt.settling import Adopt
from settled.core.instead.by_hand import BY_HAND, is_by_hand
from settled.core.matching.match import MADE_AGAIN
from settled.core.runs.entering import UNDONE, Held, held
from settled.core.runs.saga import (
    Ended,
    EndRollback,
    LookThrough,
    News,
    Rolling,
    StartRollback,
    StepUndone,
    Stuck,
    Undo,
    claim_within,
)
from settled.core.states import State

if TYPE_CHECKING:
    from collections.abc import Container, Generator, Mapping

    from settled.core.books import Transition
    from settled.core.model import Moment, Owner
    from settled.core.runs.saga import Outline

    T = TypeVar("T")
    Rolled = Generator[Any, Any, T]
    """Commands of the call's machine, ``SettleStep`` and ``Compensate`` go out; their events come in."""

PAUSES = (0.05, 1.0)
"""Seconds between looks at what another process does: the first and the longest."""


MAY_ARRIVE = "may_arrive"
"""Why a step is not undone: a request of an earlier attempt may still arrive, and would do it anew."""


class SettleStep(Struct, frozen=True):
    """Settle an unknown step by its tool's probe; answered with ``SettledStep``."""

    call: Call
    seconds: float
    """To wait for proof at the most."""


class SettledStep(Struct, frozen=True):
    """The step as it stands then."""

    call: Call
    at: float


class Compensate(Struct, frozen=True):
    """Make the call that undoes a step, under a key of its own; answered with ``Compensated``."""

    call: Call
    seconds: float
    """That are left to wait for whoever else is at it, or is to give leave."""


class Compensated(Struct, frozen=True):
    """What became of it."""

    status: str
    """As of any call; or ``stuck``: it was not made."""
    reason: str
    operation_id: str
    at: float
    note: str = ""
    retry_after: float | None = None


class Order(Struct, frozen=True):
    """Which run is to be rolled back, by whom."""

    run_id: str
    tenant: str
    reason: str
    claim: str
    """A fresh nonce."""
    owner: Owner
    lease: float
    entry: int | None = None
    """The entry that gives up; ``None``: somebody else orders it."""
    wait: float = 5.0
    """Seconds to wait, in all, for what is in flight, for proof, and for compensations that may be tried again."""


def rollback(order: Order, at: float) -> Rolled[RunRecord | Held | None]:
    """Undo a run; return its record, or who else is at it. ``None``: there is no such run."""
    return (yield from Rollback(order, at).run())


class Rollback:
    """One process's work on one rollback."""

    def __init__(self, order: Order, at: float) -> None:
        self.order, self.at = order, at
        self.until = at + order.wait
        self.settled: set[str] = set()
        self.tried: set[str] = set()

    def run(self) -> Rolled[RunRecord | Held | None]:
        """Take it on and see it through; what another process has taken over is left to it."""
        started = yield from self._start()
        if isinstance(started, Held):
            return started
        if isinstance(started, Ended):
            return started.run
        while True:
            seen = yield from self._look()
            yield from self._settle(seen)
            seen = yield from self._look()
            left = [step for step in seen.undo if _name(step) not in self.tried]
            if not left:
                break
            open_ones = tuple(call.operation_id for call in seen.open)
            for step in left:
                going = yield from self._undo(step, open_ones)
                if going is None:
                    return (yield from self._taken())
                if not going:
                    break  # look again: the order may be another now
        ended = yield from self._transact(EndRollback(self.order.run_id, self.order.tenant, self.order.claim))
        return ended or (yield from self._taken())

    # --- beginning ---

    def _start(self) -> Rolled[Rolling | Held | Ended]:
        """Wait for whoever works on the run, as long as patience lasts; who is seen dead need not be waited for."""
        pause, dead = PAUSES[0], ""
        while True:
            started = yield from self._transact(self._starting(dead))
            if not isinstance(started, Held):
                return started
            dead = yield from self._dead(started.run)
            if not dead:
                if self.at >= self.until:
                    return started
                yield from self._sleep(pause)
                pause = min(PAUSES[1], 2 * pause)

    def _starting(self, dead: str) -> StartRollback:
        order = self.order
        return StartRollback(
            order.run_id, order.tenant, order.reason, order.claim, order.owner, order.lease, order.entry, dead
        )

    def _dead(self, run: RunRecord) -> Rolled[str]:
        if run.owner is None:
            return ""
        owners = expect((yield CheckOwners((run.owner,))), Owners)
        self.at = owners.at
        return run.claim if owners.alive[0] is False else ""

    def _taken(self) -> Rolled[Held | RunRecord | None]:
        """Another process has taken the rollback over: it goes on there."""
        started = yield from self._transact(self._starting(""))
        if isinstance(started, Rolling):  # ours again: whoever had it has died since
            self.tried.clear()  # what became of the step that it was lost at is not on record
            return (yield from self.run())
        return started if isinstance(started, Held) else started.run

    # --- settling ---

    def _settle(self, seen: Outline) -> Rolled[None]:
        """Settle what is open; what stays so is queued, and undone once it is known to have happened."""
        for call in seen.open:
            if call.operation_id not in self.settled:
                self.settled.add(call.operation_id)
                yield from self._settle_one(call)

    def _settle_one(self, call: Call) -> Rolled[None]:
        found: Call | None = call
        if call.state is State.PROCESSING:
            found = yield from self._outlast(call)
        if found is not None and found.state is State.UNKNOWN and not found.held:
            settled = expect((yield SettleStep(found, max(0.0, self.until - self.at))), SettledStep)
            self.at = settled.at

    def _outlast(self, call: Call) -> Rolled[Call | None]:
        """Wait for a call at work: it ends, its lease does, or patience does."""
        pause, found = PAUSES[0], cast("Call | None", call)
        while found is not None and found.state is State.PROCESSING:
            owners = expect((yield CheckOwners((found.owner,))), Owners)
            self.at = owners.at
            dead = found.epoch if owners.alive[0] is False else None
            found = yield from self._transact(Adopt(call.operation_id, dead=dead))
            if found is None or found.state is not State.PROCESSING or self.at >= self.until:
                return found
            left = self.until - self.at
            woke = yield AwaitCall(call.operation_id, min(pause, left), left)
            self.at, pause = woke.at, min(PAUSES[1], 2 * pause)
        return found

    # --- undoing ---

    def _undo(self, step: Call | RunRecord, open_ones: tuple[str, ...]) -> Rolled[bool | None]:
        """Undo one step. False: something else may have to go first; ``None``: the rollback is another's now."""
        if isinstance(step, RunRecord):
            self.tried.add(_name(step))
            return (yield from self._undo_run(step))
        call = yield from self._transact(Undo(*self._fence, step.operation_id, open_ones))
        if call is None or isinstance(call, News):
            return None if call is None else False
        self.tried.add(_name(step))
        if call.state is not State.COMPENSATING or call.held:
            return True
        if not call.terms.compensate:
            why = "irreversible" if call.terms.irreversible else BY_HAND if is_by_hand(call) else "no_compensation"
            return (yield from self._stuck(call, why))
        if not (yield from self._outwait(call)):
            return (yield from self._stuck(call, MAY_ARRIVE))
        done = yield from self._compensate(call)
        if done.status == "succeeded":
            undone = StepUndone(*self._fence, call.operation_id, done.operation_id)
            return (yield from self._transact(undone)) is not None or None
        return (yield from self._stuck(call, _why(done), done.note))

    def _outwait(self, call: Call) -> Rolled[bool]:
        """Let a request of an earlier attempt arrive first, if that can be waited for."""
        if not rules.may_arrive(call):
            return True
        call = yield from see_over(call)
        owners = expect((yield CheckOwners(())), Owners)
        self.at = owners.at
        wait = rules.seconds_to_rest(call, owners.now)
        if wait is None or (wait > 0 and self.at + wait > self.until):
            return False
        if wait > 0:
            yield from self._sleep(wait + 0.001)
        return True

    def _compensate(self, call: Call) -> Rolled[Compensated]:
        """Make the compensation; what may be tried again (an open breaker, say) is delayed, never dropped."""
        pause = PAUSES[1]
        while True:
            done = expect((yield Compensate(call, max(0.0, self.until - self.at))), Compensated)
            self.at = done.at
            again = done.status in ("not_done", "in_progress", "rejected") and done.reason != "paused"
            wait = pause if done.retry_after is None else max(done.retry_after, PAUSES[0])
            if not again or self.at + wait > self.until:
                return done
            yield from self._sleep(wait)
            pause *= 2

    def _undo_run(self, inner: RunRecord) -> Rolled[bool]:
        order = self.order
        nested = Order(
            inner.run_id,
            inner.tenant,
            order.reason,
            claim_within(order.claim, inner),
            order.owner,
            order.lease,
            wait=max(0.0, self.until - self.at),
        )
        work = Rollback(nested, self.at)
        yield from work.run()
        self.at = work.at
        return True

    def _stuck(self, call: Call, reason: str, note: str = "") -> Rolled[bool | None]:
        stuck = Stuck(*self._fence, call.operation_id, reason, note)
        return (yield from self._transact(stuck)) is not None or None

    # --- small things ---

    @property
    def _fence(self) -> tuple[str, str, str]:
        return self.order.run_id, self.order.tenant, self.order.claim

    def _look(self) -> Rolled[Outline]:
        return (yield from self._transact(LookThrough(self.order.run_id, self.order.tenant)))

    def _transact(self, transition: Transition[T]) -> Rolled[T]:
        reply = expect((yield Transact(transition)), Reply)
        self.at = reply.at
        return cast("T", reply.value)

    def _sleep(self, seconds: float) -> Rolled[None]:
        woke = yield Sleep(seconds)
        self.at = woke.at


def _name(step: Call | RunRecord) -> str:
    return step.operation_id if isinstance(step, Call) else f"run {step.run_id}"


def _why(done: Compensated) -> str:
    if (done.status, done.reason) == ("rejected", "paused"):
        return "undo_paused"
    return done.reason if done.status == "stuck" else f"undo_{done.status}"


def worth_another(
    run: RunRecord, seen: Outline, undoings: Mapping[str, Call | None], tools: Container[str], now: Moment
) -> bool:
    """Whether playing a partly undone run's rollback again may bring it on.

    ``undoings``: by operation id of a step, its compensation's record; ``tools``: those that are known here.
    """
    if run.state is RunState.ROLLING_BACK:
        return not held(run, now)
    return seen.is_undone or any(_worth(step, undoings, tools, now) for step in seen.undo)


def _worth(step: Call | RunRecord, undoings: Mapping[str, Call | None], tools: Container[str], now: Moment) -> bool:
    if isinstance(step, RunRecord):
        return step.state not in UNDONE
    if step.held or (step.state is State.COMPENSATING and not step.terms.compensate):
        return False
    if step.state is not State.COMPENSATING or not step.reason:
        return True
    if step.reason == MAY_ARRIVE and rules.seconds_to_rest(step, now):
        return False
    undoing = undoings.get(step.operation_id)
    if undoing is None or undoing.state in MADE_AGAIN:
        return step.terms.compensate in tools
    if undoing.state is State.PROCESSING:
        return rules.lease_over(undoing, now)
    if undoing.state is State.UNKNOWN:
        may_be_settled = undoing.terms.probed or rules.repeatable(undoing, now)
        return step.reason != "undo_unknown" or (may_be_settled and not undoing.held)
    return step.reason != f"undo_{STATUS_OF[undoing.state]}"
