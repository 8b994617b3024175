"""Breakers that all processes on one journal share: what one of them learns by a change of state, all heed.

Each counts for itself. A trip, the choice of the one probe and its result are agreed on in the journal, by the number
of changes that whoever wants the next one has seen; who comes second follows the first. Between the changes nothing is
asked: those of others are heard of about once a second. Where the journal is away each process goes on alone.
"""

from __future__ import annotations

import json
from secrets import token_hex
from typing import TYPE_CHECKING

from settled.core.attempts.breaker import State
from settled.errors import JournalError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from settled.core.attempts.breaker import Breaker
    from settled.ports import Journal


Agreed = tuple[State, float]
"""A state, and the monotonic seconds of this process at which its cool-down, or the probe's lease, ends."""


News = tuple[int, Agreed | None]
"""The number of a change, and what to follow; ``None``: it is this process's own, or a later release's."""


class Sharing:
    """Agrees with other processes. It waits for the journal: nobody may hold the lock of the breakers meanwhile."""

    def __init__(self, journal: Journal, now: Callable[[], float]) -> None:
        self._journal, self._now = journal, now
        self._seen: dict[str, int] = {}
        self._said: dict[str, str] = {}
        """What was told last of each breaker: it is no news when it is read again."""

    def seen(self, name: str) -> int:
        """Return the number of changes of a breaker up to which it was followed here.

        To be read under the lock under which the breaker changes: whoever reads it later may have seen a change that
        the breaker did not heed, and take its place all the same.
        """
        return self._seen.get(name, 0)

    def saw(self, name: str, count: int) -> bool:
        """Note, under the same lock, that a breaker follows this change; return whether it was not seen before."""
        later = count > self.seen(name)
        if later:
            self._seen[name] = count
        return later

    def agree(self, breaker: Breaker, seen: int) -> News | None:
        """Tell how ``breaker`` has just changed, having ``seen`` so many changes; ``None``: the journal is away.

        The news are what to follow instead, if somebody else was faster.
        """
        name = breaker.name
        clock = self._journal.now()
        until = clock.mono + breaker.until - self._now()
        state = breaker.state(self._now())
        text = json.dumps([state.value, clock.boot, until if state is not State.CLOSED else 0.0, token_hex(8)])
        self._said[name] = text
        try:
            count, stands = self._journal.agree(name, seen, text)
        except JournalError:
            return None
        return count, None if stands == text else self._read(stands)

    def news(self, names: Collection[str]) -> dict[str, News]:
        """Return how these breakers stand that have changed since they were last followed. Raises ``JournalError``."""
        agreed = self._journal.agreed()
        later = {name: agreed[name] for name in agreed.keys() & names if agreed[name][0] > self.seen(name)}
        return {
            name: (count, None if stands == self._said.get(name) else self._read(stands))
            for name, (count, stands) in later.items()
        }

    def _read(self, stands: str) -> Agreed | None:
        try:
            state, boot, until, _ = json.loads(stands)
            clock = self._journal.now()
            return State(state), self._now() + (until - clock.mono if boot == clock.boot else 0.0)
        except (ValueError, TypeError):
            return None  # of a later release: its own processes heed it
