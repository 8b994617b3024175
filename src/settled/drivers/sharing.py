"""Breakers that all processes on one journal share: what one of them learns by a change of state, all heed.

Each counts for itself. A trip, the choice of the one probe and its result are agreed on in the journal, by the number
of changes that whoever wants the next one has seen; who comes second follows the first. Between the changes nothing is
asked: those of others are heard of about once a second. Where the journal is away each process goes on alone.
"""

from __future__ import annotations

import json
from secrets import token_hex
from typing import TYPE_CHECKING

from settled.core.breaker import State
from settled.errors import JournalError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from settled.core.breaker import Breaker
    from settled.ports import Journal


Agreed = tuple[State, float]
"""A state, and the monotonic seconds of this process at which its cool-down, or the probe's lease, ends."""


class Sharing:
    """Agrees with other processes. It waits for the journal: nobody may hold the lock of the breakers meanwhile."""

    def __init__(self, journal: Journal, now: Callable[[], float]) -> None:
        self._journal, self._now = journal, now
        self._seen: dict[str, int] = {}

    def agree(self, breaker: Breaker) -> Agreed | None:
        """Tell how ``breaker`` has just changed; return what to follow instead, if somebody else was faster."""
        name = breaker.name
        clock = self._journal.now()
        until = clock.mono + breaker.until - self._now()
        state = breaker.state(self._now())
        text = json.dumps([state.value, clock.boot, until if state is not State.CLOSED else 0.0, token_hex(8)])
        try:
            count, stands = self._journal.agree(name, self._seen.get(name, 0), text)
        except JournalError:
            return None
        self._seen[name] = count
        return None if stands == text else self._read(stands)

    def news(self, names: Collection[str]) -> dict[str, Agreed]:
        """Return how these breakers stand that others have changed since it was last asked. Raises ``JournalError``."""
        agreed, found = self._journal.agreed(), {}
        for name in agreed.keys() & names:
            count, stands = agreed[name]
            state = self._read(stands) if count > self._seen.get(name, 0) else None
            self._seen[name] = max(count, self._seen.get(name, 0))
            if state is not None:
                found[name] = state
        return found

    def _read(self, stands: str) -> Agreed | None:
        try:
            state, boot, until, _ = json.loads(stands)
            clock = self._journal.now()
            return State(state), self._now() + (until - clock.mono if boot == clock.boot else 0.0)
        except (ValueError, TypeError):
            return None  # of a later release: its own processes heed it
