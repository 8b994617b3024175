"""How the journal's clock is asked for and put on record: the table ``clock``."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from settled.journals.clock import FRESH, UNWATCHED, ServerClock

_WALL: Final = "extract(epoch FROM clock_timestamp())::double precision"
_SURE: Final = f"1 / (steady + {_WALL} - wall BETWEEN ? AND ?)::integer"
_READING: Final = f"{_WALL}, wall, steady, boot, mono"
ASK: Final = f"SELECT {_READING} FROM clock"  # noqa: S608 - made of constants
SURELY: Final = f"SELECT {_READING}, {_SURE} FROM clock"  # noqa: S608 - as above
"""The same, if it claims to be within these two; else it fails."""
SET: Final = "UPDATE clock SET wall = ?, steady = ?, boot = ?, mono = ? WHERE wall = ? AND steady = ?"
"""Only over the record that was read: who comes second has nothing to add."""


@lru_cache(maxsize=64)
def surely(statement: str) -> str:
    """Return a statement that ends with what it returns, and fails as ``SURELY`` does if it returns anything."""
    return f"{statement}, (SELECT {_SURE} FROM clock)"  # noqa: S608 - as above


@lru_cache(maxsize=64)
def asking_also(*look_ups: str) -> str:
    """Return what asks for the time, and whether any of these finds anything."""
    found = " OR ".join(f"EXISTS ({look_up})" for look_up in look_ups) or "false"
    return f"SELECT {_READING}, {found} FROM clock"  # noqa: S608 - as above


__all__ = ["ASK", "FRESH", "SET", "SURELY", "UNWATCHED", "ServerClock", "asking_also", "surely"]
