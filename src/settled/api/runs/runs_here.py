"""The runs that this process works on: their leases are renewed with those of its calls."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from settled.core.runs.entering import RenewRuns

if TYPE_CHECKING:
    from settled.core.attempts.metering import Meter
    from settled.drivers.floor import Floor


class RunsHere:
    """Claim -> tenant, run id, what counts its tokens. A chore of the keeper's renews them every third of the lease."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._held: dict[str, tuple[str, str, Meter | None]] = {}
        self._renewed = 0.0
        self.turn = 0
        """Of the runs that are undone in part, which is looked at next."""

    def add(self, tenant: str, run_id: str, claim: str, meter: Meter | None = None) -> None:
        """An entry or a rollback begins."""
        if not self._held:
            self._renewed = time.monotonic()
        self._held[claim] = (tenant, run_id, meter)
        self._floor.keeper.start()

    def drop(self, claim: str) -> None:
        """It has ended."""
        self._held.pop(claim, None)

    def forked(self) -> None:
        """In a forked child: the parent holds its runs itself."""
        self._held = {}

    def renew(self) -> None:
        """Prolong the leases, if it is time. Raises ``JournalError``."""
        now = time.monotonic()
        if not self._held or now - self._renewed < self._floor.lease / 3:
            return
        self._renewed = now
        working = list(self._held.items())
        held = [(tenant, run_id, claim) for claim, (tenant, run_id, _) in working]
        tokens = {claim: meter.unkept() for claim, (_, _, meter) in working if meter is not None}
        for lost in self._floor.journal.perform(RenewRuns(held, self._floor.lease, tokens)):
            self.drop(lost)
