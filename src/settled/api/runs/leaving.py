"""Leaving a run: it ends well, is kept as it stands, or is undone; whoever has joined it is waited for first."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from settled import host
from settled.api import secrets
from settled.api.runs import sagas
from settled.api.runs.entering import PAUSES, reason_of
from settled.api.steps import adrive, drive
from settled.core.books import RunState
from settled.core.runs.entering import LeaveRun
from settled.core.runs.joins import LanesAtWork, LeaveJoined
from settled.core.runs.lanes import lane_of
from settled.core.values import replace
from settled.errors import JournalError

if TYPE_CHECKING:
    from settled.api.runs.run import Run
    from settled.api.steps import Steps
    from settled.core.runs.rollback import Order


def leave(run: Run, error: BaseException | None) -> None:
    """End an entry; ``error``: what leaves the run. Raises what interrupts the wait for those who have joined it."""
    cut: BaseException | None = None
    if error is None and run.shared:
        error = cut = _leave_joined(run)
        if cut is None:
            return
    if error is not None and run.undoes:
        sagas.try_roll_back(run.guard, order_of(run, _reason(run, error)), error)
    else:
        with suppress(JournalError):  # what was done is on record; the lease will end
            run.guard.journal.perform(_ended(run, error))
    if cut is not None:
        raise cut


async def aleave(run: Run, error: BaseException | None) -> None:
    """Like ``leave``, without blocking the loop."""
    cut: BaseException | None = None
    if error is None and run.shared:
        error = cut = await _aleave_joined(run)
        if cut is None:
            return
    if error is not None and run.undoes:
        await sagas.atry_roll_back(run.guard, order_of(run, _reason(run, error)), error)
    else:
        with suppress(JournalError):
            await run.guard.journal.aperform(_ended(run, error))
    if cut is not None:
        raise cut


def order_of(run: Run, reason: str) -> Order:
    """Return the order to roll the run back in the name of this entry."""
    wait = run.saga.undo_within
    return sagas.order_for(run.guard, run.run_id, tenant=run.guard.tenant, reason=reason, entry=run.entry, wait=wait)


def spellings(run: Run) -> list[str]:
    """Return what no reason on record may show of the run's calls."""
    return secrets.spellings(tuple(run.hidden))  # a copy: calls that run on may add to it


def _reason(run: Run, error: BaseException) -> str:
    return reason_of(error, spellings(run))


def _ended(run: Run, error: BaseException | None) -> LeaveRun:
    state = RunState.COMPLETED if error is None else RunState.KEPT
    reason = "" if error is None else _reason(run, error)
    changes, tokens = run.state.changes(), run.unkept_tokens()
    return LeaveRun(run.record_id, run.guard.tenant, run.entry, state, reason, changes, tokens)


# --- a run that others may have joined ---


def _leave_joined(run: Run) -> BaseException | None:
    """End a run that has come to its end; return what interrupted the wait for who has joined, if anything did."""
    try:
        _tell(run, drive(run.guard, _waited(run)))
    except JournalError:
        return None
    except BaseException as cut:  # noqa: BLE001 - it is raised again once the run has ended
        return cut
    return None


async def _aleave_joined(run: Run) -> BaseException | None:
    """Like ``_leave_joined``, without blocking the loop."""
    try:
        _tell(run, await adrive(run.guard, _waited(run)))
    except JournalError:
        return None
    except BaseException as cut:  # noqa: BLE001 - it is raised again once the run has ended
        return cut
    return None


def _tell(run: Run, lanes: tuple[str, ...]) -> None:
    if lanes:
        run.guard.floor.tell("lanes_left", None, run=run.run_id, lanes=list(lanes))


def _waited(run: Run) -> Steps[tuple[str, ...]]:
    """Wait until no lane is at work, and end the run; return the lanes that were still at work.

    It waits as long as it would for another process that works on the run, and not beyond the run's own deadline.
    """
    until, pause = time.monotonic() + run.saga.wait, PAUSES[0]
    until = until if run.deadline is None else min(until, run.deadline)
    leave = _ended(run, None)
    transition = LeaveJoined(leave.run_id, leave.tenant, leave)
    while True:
        reply = yield transition
        if not isinstance(reply, LanesAtWork):
            return ()
        dead = {lane.claim for lane in reply.lanes if lane.owner is not None and host.alive(lane.owner) is False}
        if dead - transition.dead:
            transition = replace(transition, dead=transition.dead | dead)
        elif time.monotonic() >= until:
            break
        else:
            yield min(pause, max(0.0, until - time.monotonic()))
            pause = min(PAUSES[1], 2 * pause)
    names = tuple(lane_of(lane) for lane in reply.lanes)
    yield replace(leave, reason=f"still at work when it ended: {', '.join(names)}")
    return names
