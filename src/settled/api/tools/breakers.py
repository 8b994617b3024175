"""The breakers of a guard: one for each tool, perhaps one over all, kept in the journal from process to process."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from settled.core.attempts.breaker import Breaker
from settled.core.attempts.threshold import BreakerPolicy
from settled.errors import JournalError

if TYPE_CHECKING:
    from settled.api.tools.tool import Tool
    from settled.core.attempts.breaker import Snapshot
    from settled.drivers.floor import Floor


class KeptBreakers:
    """Makes each breaker once, going on where the last process (or another one) kept it. Thread-safe."""

    def __init__(self, floor: Floor, over_all: Breaker | None = None) -> None:
        self._floor = floor
        self._of_tools: dict[str, tuple[Breaker, ...]] = {}
        self._resets: dict[str, int] = {}
        self._found: dict[str, object] = {}
        """Name -> the gist of what a breaker was found to be when it was made."""
        self._open: set[str] = set()
        """Breakers that were not closed when they were kept, or found, last."""
        self._lock = threading.Lock()
        self._over_all = () if over_all is None else (self._restored(over_all),)

    def forked(self) -> None:
        """In a forked child: the lock may be held by a thread that is not here."""
        self._lock = threading.Lock()

    def of(self, tool: Tool[Any, Any]) -> tuple[Breaker, ...]:
        """Return the breakers that a call of ``tool`` must pass."""
        found = self._of_tools.get(tool.name)
        if found is None:
            with self._lock:
                found = self._of_tools.setdefault(tool.name, self._make(tool))
        return found

    def _make(self, tool: Tool[Any, Any]) -> tuple[Breaker, ...]:
        policy = tool.checked.options.breaker
        chosen = BreakerPolicy() if policy == "default" else policy
        own = () if chosen is None else (self._restored(Breaker(f"tool:{tool.name}", chosen)),)
        return (*own, *self._over_all)

    def _restored(self, breaker: Breaker) -> Breaker:
        journal, kept = self._floor.journal, None
        with suppress(JournalError):  # what matters more will say that the journal is away
            kept = journal.breakers().get(breaker.name)
        if self._floor.sharing is not None:
            self._floor.keeper.wake()
        if kept is not None:
            self._resets[breaker.name] = kept.get("resets", 0)
            self._floor.keeper.wake()  # it may have been reset while nobody was there
            passed = max(0.0, journal.now().wall - kept["at"])
            aged = [(age + passed, failed) for age, failed in kept["outcomes"]]
            snapshot = {**kept, "wait": max(0.0, kept["wait"] - passed), "outcomes": aged}
            breaker.restore(cast("Snapshot", snapshot), self._floor.now())
        with suppress(JournalError):
            self._floor.heed({breaker.name: breaker})
        if kept is not None and kept["state"] != "closed":
            self._open.add(breaker.name)
        self._found[breaker.name] = _gist(breaker.snapshot(self._floor.now()))
        return breaker

    def keep(self, *, changed: bool = False) -> None:
        """Put them on record, and heed resets. Raises ``JournalError``.

        ``changed``: only those that have learnt something here. A process that came to look must not put what it
        found over what another has learnt meanwhile.
        """
        now = self._floor.now()
        breakers = {b.name: b for each in list(self._of_tools.values()) for b in each}
        self._floor.heed(breakers)
        snapshots = {name: breaker.snapshot(now) for name, breaker in breakers.items()}
        if changed:
            snapshots = {name: s for name, s in snapshots.items() if _gist(s) != self._found[name]}
        if not snapshots:
            return
        at = self._floor.journal.now().wall
        told = {name: {**s, "at": at, "resets": self._resets.get(name, 0)} for name, s in snapshots.items()}
        open_ones = {name for name, snapshot in snapshots.items() if snapshot["state"] != "closed"}
        opened = sorted(name for name in open_ones - self._open if snapshots[name]["state"] == "open")
        counts = self._floor.journal.save_breakers(told, opened)
        self._open = (self._open - snapshots.keys()) | open_ones
        if opened:
            self._floor.attend()
        for name, count in counts.items():
            if name in breakers and self._resets.get(name, 0) != count:
                breakers[name].reset()
                self._floor.share(breakers[name])
            self._resets[name] = count


def _gist(snapshot: Snapshot) -> object:
    """Return what of a breaker does not change by time alone."""
    return snapshot["state"], snapshot["generation"], snapshot["trips"], [failed for _, failed in snapshot["outcomes"]]
