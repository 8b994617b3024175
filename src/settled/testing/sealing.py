"""Sealing a log under test: whoever else works on the server may hold it up for a while."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from settled.ports import Journal


def sealed(journal: Journal, *, seconds: float = 10.0) -> bool:
    """Seal what is new; return whether there was any within so many seconds.

    On PostgreSQL any transaction that has written holds it up until it ends, also the server's own (autovacuum).
    """
    until = time.monotonic() + seconds
    while not journal.seal():
        if time.monotonic() >= until:
            return False
        time.sleep(0.02)
    return True
