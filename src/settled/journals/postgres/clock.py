"""How the journal's clock is asked for and put on record: the table ``clock``."""

from __future__ import annotations

from typing import Final

from settled.journals.clock import FRESH, UNWATCHED, ServerClock

ASK: Final = "SELECT extract(epoch FROM clock_timestamp())::double precision, wall, steady, boot, mono FROM clock"
SET: Final = "UPDATE clock SET wall = ?, steady = ?, boot = ?, mono = ? WHERE wall = ? AND steady = ?"
"""Only over the record that was read: who comes second has nothing to add."""

__all__ = ["ASK", "FRESH", "SET", "UNWATCHED", "ServerClock"]
