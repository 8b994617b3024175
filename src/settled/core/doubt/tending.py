"""Who looks after calls without an owner: several workers share them, and each call has one of them at a time.

A call in doubt has no owner, so its lease is free to say until when it need not be looked at: a worker that takes it up
sets it, and so does one that lays it down again until its next look. What is settled meanwhile is settled by the same
fenced verdicts as ever; a lease only spares two workers the same probe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from settled.core import rules
from settled.core.doubt.settling import orphaned
from settled.core.states import State
from settled.core.values import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.core.books import Books
    from settled.core.call import Call
    from settled.core.model import Moment

LONGEST = 3600.0
"""Seconds between looks at the most; also for what a person holds."""


class AdoptLost(Struct, frozen=True):
    """Mark calls whose lease is over as what they are, the oldest first."""

    tenant: str
    limit: int

    def apply(self, books: Books, now: Moment) -> int:
        """Return how many there were; fewer than ``limit`` if no more are left to this worker."""
        lost = books.adrift(State.PROCESSING, self.tenant, None, now, self.limit)
        for call in lost:
            orphaned(books, call, now)
        return len(lost)


class TakeUp(Struct, frozen=True):
    """Take up calls in doubt that nobody looks after, the oldest first. A repetition takes up further ones."""

    tenant: str
    tools: Sequence[str]
    """Whose calls this worker can ask about."""
    limit: int
    seconds: float
    """For which nobody else will take them up."""

    def apply(self, books: Books, now: Moment) -> tuple[Call, ...]:
        """Return what was taken up; what a person holds is left alone for ``LONGEST``."""
        found = books.adrift(State.UNKNOWN, self.tenant, self.tools, now, self.limit)
        for call in found:
            books.prolong(replace(call, lease=now.plus(LONGEST if call.held else self.seconds)))
        return tuple(call for call in found if not call.held)


class LayDown(Struct, frozen=True):
    """Leave a call that is still in doubt alone for so many seconds, whoever may look next."""

    operation_id: str
    epoch: int
    seconds: float

    def apply(self, books: Books, now: Moment) -> None:
        """Set its lease so, if it still stands as it did."""
        call = books.by_id(self.operation_id)
        if call is not None and call.state is State.UNKNOWN and not rules.fenced(call, self.epoch):
            books.prolong(replace(call, lease=now.plus(self.seconds)))


def next_look(call: Call, now: Moment, shortest: float) -> float:
    """Return in how many seconds to look again: half as long as it has stood so, or when a probe can prove absence."""
    rest = max(shortest, min(LONGEST, (now.wall - call.changed.wall) / 2))
    since = rules.proof_time(call, now)
    passed = None if since is None else now.since(since)
    return rest if passed is None or passed >= 0 else max(shortest, min(rest, -passed))
