"""How the journal's clock is asked for and put on record: the table ``clock``."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from settled.journals.clock import FRESH, UNWATCHED, ServerClock

_WALL: Final = "extract(epoch FROM clock_timestamp())::double precision"
_CLAIMED: Final = f"steady + {_WALL} - wall"
_READING: Final = f"{_WALL}, wall, steady, boot, mono"
ASK: Final = f"SELECT {_READING} FROM clock"  # noqa: S608 - made of constants
SURELY: Final = f"SELECT {_READING}, 1 / ({_CLAIMED} BETWEEN ? AND ?)::integer FROM clock"  # noqa: S608 - as above
"""The same, if it claims to be within these two; else it fails."""
SET: Final = "UPDATE clock SET wall = ?, steady = ?, boot = ?, mono = ? WHERE wall = ? AND steady = ?"
"""Only over the record that was read: who comes second has nothing to add."""


@lru_cache(maxsize=64)
def asking_also(*look_ups: str) -> str:
    """Return what asks for the time, and whether any of these finds anything."""
    found = " OR ".join(f"EXISTS ({look_up})" for look_up in look_ups) or "false"
    return f"SELECT {_READING}, {found} FROM clock"  # noqa: S608 - as above


__all__ = ["ASK", "FRESH", "SET", "SURELY", "UNWATCHED", "ServerClock", "asking_also"]
