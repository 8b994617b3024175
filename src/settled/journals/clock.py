"""The journal's clock: the server's, kept from running fast by those who use it.

A server offers no clock that never jumps; each client has one, but two machines' cannot be compared. So the steady
clock of a journal is the server's wall clock since a moment on record, and every client checks with its own steady
clock that no more time has passed on it than has passed: what a step forward adds is taken off again before anything
is judged by it. Time that nobody could watch does not count. So the clock may run late, never fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from settled import host
from settled.core.model import Moment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DRIFT: Final = 0.01
"""How much faster than another an honest clock may run, as a share: one that is being slewed, say."""
JITTER: Final = 0.005
"""Seconds by which two readings may be off."""
FRESH: Final = 1.0
"""Seconds after which the record is written anew by whoever comes."""
UNWATCHED: Final = 2.0
"""Seconds since the record was written that are believed without a witness: as long as it takes to be written anew."""


class Reading(Struct, frozen=True):
    """One reading of the clock."""

    moment: Moment
    record: Sequence[Any] | None
    """What is to be put on record now: wall, steady, boot, mono, and the wall and steady that it replaces; ``None``:
    what is there will do."""


class ServerClock:
    """What one process knows of the journal's clock. ``name`` stands for the boot in every moment."""

    def __init__(
        self, name: str, mono: Callable[[], float] = host.steady, boot: Callable[[], str] = host.boot_id
    ) -> None:
        self.name, self.mono, self._boot = name, mono, boot
        self.last: Moment | None = None
        """The last reading."""
        self.last_at = 0.0
        """When it was taken, on this process's own clock."""
        self._witness: tuple[float, float] | None = None
        """A moment on this machine's steady clock, and what the journal's stood at no later than then."""

    def read(self, row: Sequence[Any], before: float, after: float) -> Reading:
        """Make a reading of a row (wall, and the record's wall, steady, boot, mono).

        It was asked for and answered then, on this machine's steady clock.
        """
        wall, seen, steady, boot, mono = row
        claimed = steady + wall - seen
        allowed = self._allowed(steady, boot, mono, after)
        now = min(max(steady, claimed), allowed)
        moment = Moment(wall, self.name, now)
        self._bear_witness(before, now, after)
        self.last, self.last_at = moment, after
        due = now != claimed or wall - seen >= FRESH or not boot
        return Reading(moment, (wall, now, self._boot(), before, seen, steady) if due else None)

    def _bear_witness(self, before: float, now: float, after: float) -> None:
        """Remember this reading rather than an earlier one if it allows less: a slow answer allows more."""
        if self._witness is None:
            self._witness = (before, now)
            return
        since, stood = self._witness
        if before - since >= FRESH and now + (after - before) * (1 + DRIFT) <= stood + (after - since) * (1 + DRIFT):
            self._witness = (before, now)

    def _allowed(self, steady: float, boot: str, mono: float, after: float) -> float:
        """Return the latest that the clock can truly stand at."""
        if self._witness is not None:
            since, stood = self._witness
        elif boot == self._boot():
            since, stood = mono, steady
        else:
            return steady + UNWATCHED
        return stood + (after - since) * (1 + DRIFT) + JITTER
