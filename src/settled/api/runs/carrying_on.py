"""Going on with rollbacks that a lost process has left, and with what has become possible to undo since."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from settled import host
from settled.api.calls import drafting
from settled.api.runs.sagas import aroll_back, order_for, roll_back, undoing_of
from settled.api.steps import adrive, drive
from settled.core.books import RunRecord, RunState
from settled.core.noted.notes import PAUSED
from settled.core.runs.entering import UNDONE, Held
from settled.core.runs.rollback import worth_another
from settled.core.runs.saga import LookThrough
from settled.drivers.loops import aside
from settled.journals.unread import passing_over

if TYPE_CHECKING:
    from settled.api.guard import Guard

MOST_LOOKED_AT = 10_000
"""Runs that are undone in part, of which each has its turn."""


@dataclass(frozen=True, slots=True)
class CarriedOn:
    """What going on with unfinished rollbacks has brought, in runs."""

    compensated: int = 0
    partly: int = 0
    """Something of them stands in the queue."""
    elsewhere: int = 0
    """Another process is at them."""

    def sum(self, other: CarriedOn) -> CarriedOn:
        """Return the sum of two."""
        return CarriedOn(
            self.compensated + other.compensated, self.partly + other.partly, self.elsewhere + other.elsewhere
        )

    def plus(self, run: RunRecord | Held | None) -> CarriedOn:
        """Count one run by where it stands now."""
        if run is None:
            return self
        if isinstance(run, Held) or run.state not in UNDONE:
            return replace(self, elsewhere=self.elsewhere + 1)
        if run.state is RunState.COMPENSATED:
            return replace(self, compensated=self.compensated + 1)
        return replace(self, partly=self.partly + 1)


def carry_on(guard: Guard, *, limit: int = 100, wait: float = 5.0) -> CarriedOn:
    """Go on with the rollbacks that a dead process has left, and with what has become possible since.

    For a schedule or a worker: it makes compensations, never a call of a run. Raises ``JournalError``.
    """
    counts = CarriedOn()
    with passing_over():
        drive(guard, drafting.left(guard))
    for run in unfinished(guard, limit):
        with passing_over():
            counts = counts.plus(roll_back(guard, order_for(guard, run.run_id, tenant=run.tenant, wait=wait)))
    return counts


async def acarry_on(guard: Guard, *, limit: int = 100, wait: float = 5.0) -> CarriedOn:
    """Like ``carry_on``, without blocking the loop."""
    counts = CarriedOn()
    with passing_over():
        await adrive(guard, drafting.left(guard))
    for run in await aside(unfinished, guard, limit):
        with passing_over():
            counts = counts.plus(await aroll_back(guard, order_for(guard, run.run_id, tenant=run.tenant, wait=wait)))
    return counts


def unfinished(guard: Guard, limit: int = 100) -> list[RunRecord]:
    """Return the runs of this guard's tenant whose rollback another try may bring on.

    At most ``limit`` are looked at; the next time it goes on after them, so that each has its turn.
    """
    found = [run for run in guard.journal.undoing(MOST_LOOKED_AT) if run.tenant == guard.tenant]
    start = guard.runs_here.turn % len(found) if found else 0
    looked = (found[start:] + found[:start])[:limit]
    guard.runs_here.turn = start + len(looked)
    return [run for run in looked if _may_come_on(guard, run)]


def _may_come_on(guard: Guard, run: RunRecord) -> bool:
    """Whether another try may bring it on; not where what hangs on it cannot be read."""
    with passing_over():
        return _worth(guard, run)
    return False


def _worth(guard: Guard, run: RunRecord) -> bool:
    if run.state is RunState.ROLLING_BACK and run.owner is not None and host.alive(run.owner) is False:
        return True
    seen = guard.journal.perform(LookThrough(run.run_id, run.tenant))
    steps = [step for step in seen.undo if not isinstance(step, RunRecord)]
    undoings = {step.operation_id: undoing_of(guard, step) for step in steps}
    tools = guard.tools.keys() - guard.journal.notes(PAUSED).keys()
    return worth_another(run, seen, undoings, tools, guard.journal.now())
