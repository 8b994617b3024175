"""Joining a run from elsewhere, and leaving one that others have joined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from settled.core.books import RunRecord, RunState
from settled.core.runs.entering import EnterRun, Held, LeaveRun, Undone, held
from settled.core.runs.lanes import closed, lane_id, lanes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.core.books import Books
    from settled.core.matching.entry import Entry
    from settled.core.model import Moment, Owner


class NotJoined(Struct, frozen=True):
    """The run takes nobody in any more by this token."""

    why: str
    """``expired``, ``unknown_run``, ``rolled_back``, ``superseded``, ``run_ended``."""
    run: RunRecord | None = None


class JoinRun(Struct, frozen=True):
    """Start an entry of a lane, if the run is still at work in the entry that gave the token."""

    run_id: str
    tenant: str
    lane: str
    run_entry: int
    until: float
    """When the token expires, by the journal's clock, seconds since the epoch."""
    answered: Sequence[str] = ()
    claim: str = ""
    owner: Owner | None = None
    lease: float = 30.0
    dead: str = ""

    def apply(self, books: Books, now: Moment) -> Entry | Held | Undone | NotJoined:
        """Return the memory of the lane's new entry; or who works in the lane, or why nobody may."""
        run = books.run(self.tenant, self.run_id)
        why = "expired" if now.wall >= self.until else closed(run, self.run_entry)
        if why:
            return NotJoined(why, run)
        enter = EnterRun(
            lane_id(self.run_id, self.lane),
            self.tenant,
            answered=self.answered,
            claim=self.claim,
            owner=self.owner,
            lease=self.lease,
            parent=self.run_id,
            parent_entry=self.run_entry,
            dead=self.dead,
        )
        return enter.apply(books, now)


class LookAtLanes(Struct, frozen=True):
    """Read how the lanes of a run stand; changes nothing."""

    run_id: str
    tenant: str

    def apply(self, books: Books, now: Moment) -> tuple[RunRecord, ...]:
        """Return their records."""
        del now
        return tuple(lanes_of(books, self.tenant, self.run_id))


class LanesAtWork(Struct, frozen=True):
    """Agents that joined are still at work: nothing was changed."""

    lanes: tuple[RunRecord, ...]


class LeaveJoined(Struct, frozen=True):
    """Complete a run that others may have joined: not while one of them is at work."""

    run_id: str
    tenant: str
    leave: LeaveRun
    dead: frozenset[str] = frozenset()
    """Claims whose owners were seen dead."""

    def apply(self, books: Books, now: Moment) -> RunRecord | LanesAtWork | None:
        """Return the run's record as it stands then; or whom it waits for."""
        run = books.run(self.tenant, self.run_id)
        if run is None or run.entry != self.leave.entry or run.state is not RunState.ACTIVE:
            return run
        lanes = [lane for lane in lanes_of(books, self.tenant, self.run_id) if self._at_work(lane, now)]
        return LanesAtWork(tuple(lanes)) if lanes else self.leave.apply(books, now)

    def _at_work(self, lane: RunRecord, now: Moment) -> bool:
        return lane.state is RunState.ACTIVE and lane.claim not in self.dead and held(lane, now)
