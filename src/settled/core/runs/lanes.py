"""Lanes: where a joined agent works on another's run. Each has a record of its own beside the run's.

The calls stand in the run's own scope, so that one rollback finds them all, in the journal's order; entry, lease and
state are the lane's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from settled.core.books import RunRecord, RunState

if TYPE_CHECKING:
    from settled.core.books import Books

MARK: Final = "\x1f"
"""Between a run's id and a lane; no run's own id has it."""


def lane_id(run_id: str, lane: str) -> str:
    """Return the id of a lane's record."""
    return f"{run_id}{MARK}{lane}"


def lane_of(run: RunRecord) -> str:
    """Return the lane that a record is of; empty for a run's own."""
    start = f"{run.parent}{MARK}"
    return run.run_id.removeprefix(start) if run.parent and run.run_id.startswith(start) else ""


def lanes_of(books: Books, tenant: str, run_id: str) -> list[RunRecord]:
    """Return the lanes of a run."""
    return [inner for inner in books.runs_within(tenant, run_id) if lane_of(inner)]


def closed(run: RunRecord | None, entry: int) -> str:
    """Return why a run lets nobody work in a lane of it; empty: it does."""
    if run is None:
        return "unknown_run"
    if run.state in (RunState.ROLLING_BACK, RunState.COMPENSATED, RunState.PARTLY_COMPENSATED):
        return "rolled_back"
    if run.entry != entry:
        return "superseded"
    return "" if run.state is RunState.ACTIVE else "run_ended"
