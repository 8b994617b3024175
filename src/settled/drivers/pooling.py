"""Retry pools that all processes on one journal share: one amount for all, instead of one for each.

Each process grants by what it saw last; what moved is brought together in the journal about once a second, and nothing
is asked for a call. Where the journal is away each process goes on with what it has.
"""

from __future__ import annotations

import json
import threading
from secrets import token_hex
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from settled.core.attempts.budget import Pool
    from settled.ports import Journal

OF_RETRIES: Final = "retries:"
"""Begins the names under which levels are agreed on, apart from those of breakers."""
_TRIES: Final = 5
"""Of one round, where others are faster; the next round goes on."""


class PoolSharing:
    """Brings the pools of this process together with those of the others."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._seen: dict[str, tuple[int, int | None]] = {}
        """Name -> how often the level had changed when it was last seen, and the level."""
        self._untold: dict[str, tuple[str, int]] = {}
        """Name -> what was told last, and what of it moved here, where the journal's answer was lost."""
        self.forked()

    def forked(self) -> None:
        """In a forked child: the lock may be held by a thread that is not here."""
        self._untold = {}
        self._alone = threading.Lock()  # else two threads tell the same twice

    def agree(self, pools: Mapping[str, Pool], lock: threading.Lock) -> None:
        """Tell what moved in the pools of tools, and follow what moved elsewhere. Raises ``JournalError``."""
        with self._alone:
            stands = self._journal.agreed()
            for tool, pool in pools.items():
                name = OF_RETRIES + tool
                if name in stands:
                    self._see(name, *stands[name])
                    self._has_stood(name, stands[name][1], pool, lock)
                self._agree(name, pool, lock)

    def _has_stood(self, name: str, text: str, pool: Pool, lock: threading.Lock) -> None:
        """Count what was told although its answer was lost: else it would be told twice."""
        told, moved = self._untold.pop(name, ("", 0))
        level = self._seen.get(name, (0, None))[1]
        if told == text and level is not None:
            with lock:
                pool.follow(level, moved)

    def _agree(self, name: str, pool: Pool, lock: threading.Lock) -> None:
        with lock:
            moved = pool.moved
        for _ in range(_TRIES if moved else 0):
            changes, level = self._seen.get(name, (0, None))
            text = json.dumps([pool.with_moved(level, moved), token_hex(8)])
            self._untold[name] = text, moved
            self._see(name, *(told := self._journal.agree(name, changes, text)))
            del self._untold[name]
            if told[1] == text:
                break
        else:
            moved = 0
        level = self._seen.get(name, (0, None))[1]
        if level is not None:
            with lock:
                pool.follow(level, moved)

    def _see(self, name: str, changes: int, text: str) -> None:
        try:
            level = int(json.loads(text)[0])
        except (ValueError, TypeError, LookupError):
            return  # nobody has told one yet, or a later release did: its own processes heed it
        if changes >= self._seen.get(name, (0, None))[0]:
            self._seen[name] = changes, level
