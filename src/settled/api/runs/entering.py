"""Entering a run: wait for whoever works on it, see who is dead, and leave alone what was rolled back."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from settled import host
from settled.api import secrets
from settled.api.opening import refusal
from settled.api.runs import sagas
from settled.api.steps import adrive, drive
from settled.api.tools.drafted import of_drafts
from settled.api.tools.undoing import demand_undoing, name_of
from settled.core.faults import look
from settled.core.matching.entry import Entry
from settled.core.runs.entering import BARRED, EnterRun, Held, Undone
from settled.core.runs.joins import JoinRun, NotJoined
from settled.core.runs.lanes import MARK, lane_of
from settled.core.values import replace
from settled.errors import DeclarationError, RunError, RunInProgress, RunUndone, TokenRefused
from settled.transaction import lent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.api.guard import Guard
    from settled.api.steps import Steps
    from settled.core.books import RunRecord
    from settled.core.runs.rollback import Order

Reply = Entry | Held | Undone | NotJoined
PAUSES = (0.02, 1.0)
"""Seconds between looks at a run that another process works on."""
LONGEST_REASON = 500
"""Characters."""


def check_name(run_id: str) -> None:
    """Refuse what names no run. Raises ``DeclarationError``."""
    if not run_id or not isinstance(run_id, str):
        raise DeclarationError("a run needs an id that stays the same when it starts again: guard.run('trip-42')")
    if MARK in run_id:
        raise DeclarationError("a run's id has no control characters: U+001F stands between a run and a lane of it")


def check_limits(within: float | None, answered: Sequence[str]) -> None:
    """Refuse a time that is none, and one step where several may stand. Raises ``DeclarationError``."""
    if within is not None and not within >= 0:  # so that NaN is refused too
        raise DeclarationError(f"within must be a number of seconds from 0 on, not {within!r}")
    if isinstance(answered, str):
        raise DeclarationError(f"answered must be a sequence of steps: answered=[{answered!r}]")


@dataclass(frozen=True, slots=True)
class Saga:
    """How a run is entered, and what becomes of it when it fails. Times are seconds."""

    on_error: str = "keep"
    tools: frozenset[str] | None = None
    wait: float = 5.0
    undo_within: float = 30.0
    take_over: bool = False

    def __post_init__(self) -> None:
        if self.on_error not in ("keep", "compensate"):
            raise DeclarationError(f"on_error={self.on_error!r} is neither 'keep' nor 'compensate'")
        if not (self.wait >= 0 and self.undo_within >= 0):  # so that NaN is refused too
            raise DeclarationError("wait and undo_within are seconds from 0 on")

    def check(self, guard: Guard) -> None:
        """Refuse a run to be undone whose tools do not say how. Raises ``DeclarationError`` before any effect."""
        unknown = sorted((self.tools or frozenset()) - guard.tools.keys())
        if unknown:
            raise DeclarationError(f"tools names {unknown[0]!r}, which this guard has not")
        if self.on_error != "compensate":
            return
        why = refusal(guard.journal, "compensate")
        if why:
            raise DeclarationError(f"on_error='compensate': {why}")
        undoing = {name_of(tool.checked.options.compensate) for tool in guard.tools.values()} | of_drafts(guard)
        for name, tool in guard.tools.items():
            if name in self.tools if self.tools is not None else name not in undoing:
                demand_undoing(tool)
                _demand_known(guard, name, tool.checked.policy.terms.compensate)


def _demand_known(guard: Guard, name: str, compensate: str) -> None:
    if compensate and compensate not in guard.tools:
        raise DeclarationError(f"{name} is undone by {compensate!r}, which this guard has not: guard.add({compensate})")


def reason_of(error: BaseException, hidden: Sequence[str] = ()) -> str:
    """Return in a line, without secrets, why a run ended."""
    name, said = type(error).__name__, look.text(error)
    return secrets.clean(f"{name}: {said}" if said else name, hidden)[:LONGEST_REASON]


class Entering:
    """One entering of a run or of a lane, sync or async: the steps are the same, and only the waiting differs."""

    def __init__(self, guard: Guard, saga: Saga, transition: EnterRun | JoinRun) -> None:
        if lent.get() is not None:
            raise DeclarationError(
                f"run {transition.run_id!r} is entered inside of a transactional tool: enter it around the call"
            )
        self.guard, self.saga, self.claim = guard, saga, sagas.new_claim()
        self.transition = replace(transition, claim=self.claim, owner=host.this_process(), lease=guard.lease)

    def enter(self) -> Entry:
        """Enter; raises ``RunInProgress`` or ``RunUndone``."""
        reply = drive(self.guard, self._steps())
        order = self._left_over(reply)
        return self._memory(reply, None if order is None else sagas.roll_back(self.guard, order))

    async def aenter(self) -> Entry:
        """Like ``enter``, without blocking the loop."""
        reply = await adrive(self.guard, self._steps())
        order = self._left_over(reply)
        return self._memory(reply, None if order is None else await sagas.atry_roll_back(self.guard, order, None))

    def _steps(self) -> Steps[Reply]:
        """Ask for the run until it is had, or the time to wait is over; return how it came out."""
        until, pause = time.monotonic() + self.saga.wait, PAUSES[0]
        transition = self.transition
        while True:
            reply: Reply = yield transition
            if not isinstance(reply, Held):
                return reply
            run = reply.run
            if self.saga.take_over or (run.owner is not None and host.alive(run.owner) is False):
                transition = replace(transition, dead=run.claim)
            elif time.monotonic() >= until:
                return reply
            else:
                yield min(pause, max(0.0, until - time.monotonic()))
                pause = min(PAUSES[1], 2 * pause)

    def _left_over(self, reply: Reply) -> Order | None:
        """Return the order to see a rollback through that a dead process has left, if that is what is found."""
        if not isinstance(reply, Undone) or reply.run.state != "rolling_back":
            return None
        run = reply.run
        return sagas.order_for(self.guard, run.run_id, tenant=run.tenant, wait=self.saga.undo_within)

    def _memory(self, reply: Reply, ended: RunRecord | Held | None) -> Entry:
        """Return what is known of the run; ``ended``: how a rollback ended that was seen through now."""
        if isinstance(reply, NotJoined):
            raise not_joined(self.transition.run_id, reply)
        if isinstance(reply, Held):
            run = reply.run
            message = f"{_who(run)} works on {shown(run)}; nothing was done here"
            raise RunInProgress(run.run_id, str(run.state), message)
        if isinstance(reply, Undone) and reply.run.state not in BARRED:
            run = reply.run
            message = f"{_who(run)} works on run {run.run_id!r}, inside of which this one is entered"
            raise RunInProgress(run.run_id, str(run.state), message)
        if isinstance(reply, Undone):
            run = ended.run if isinstance(ended, Held) else ended or reply.run
            look = f": settled queue list --run {shlex.quote(run.run_id)}" if run.state == "partly_compensated" else ""
            because = f" ({run.reason})" if run.reason else ""
            message = (
                f"run {run.run_id!r} was rolled back{because}: it is {run.state}{look}. Nothing was done now, "
                "nor will be under this id: to try the task again, enter a run of another id"
            )
            raise RunUndone(run.run_id, str(run.state), message)
        return reply


_REFUSED = {
    "expired": "the token has expired: the run must give another one",
    "unknown_run": "this journal does not know the run",
    "superseded": "the run was entered again since it gave this token: it must give another one",
    "run_ended": "the run has ended",
}


def not_joined(run_id: str, reply: NotJoined) -> RunError:
    """Return the error that says why a run is not joined."""
    if reply.why == "rolled_back" and reply.run is not None:
        run = reply.run
        because = f" ({run.reason})" if run.reason else ""
        message = f"run {run_id!r} was rolled back{because}: it is {run.state}. Nothing was done now"
        return RunUndone(run_id, str(run.state), message)
    return TokenRefused(run_id, reply.why, f"run {run_id!r} is not joined: {_REFUSED[reply.why]}. Nothing was done")


def shown(run: RunRecord) -> str:
    """Return in words which run, or which lane of one, this is the record of."""
    lane = lane_of(run)
    return f"lane {lane!r} of run {run.parent!r}" if lane else f"run {run.run_id!r}"


def _who(run: RunRecord) -> str:
    if run.owner is None:
        return "another process"
    if run.owner == host.this_process():
        return "this process, in another thread or task or around this entry,"
    return f"another process ({run.owner.pid} on {run.owner.host})"
