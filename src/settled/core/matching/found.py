"""What an ask is answered by, and what both kinds of matching go by (``match.py`` in runs, ``outside.py``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from settled.core.model import Effect

if TYPE_CHECKING:
    from settled.core.ask import Ask
    from settled.core.call import Call

HARMLESS = frozenset({Effect.READ, Effect.IDEMPOTENT})
"""What these tools do may be done again under another key; the other side de-duplicates on the same key only."""


class Match(Struct, frozen=True):
    """This record answers."""

    call: Call
    like: bool = False
    """By likeness; otherwise by key or step."""


def same_arguments(call: Call, ask: Ask) -> bool:
    """Whether the same key came with the same arguments (checked in every state, on every path)."""
    return call.tool == ask.tool and call.fingerprint == ask.fingerprint
