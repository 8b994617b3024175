"""Pausing a tool: nothing of it begins, in any process on the journal, until it is resumed. What has begun ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from settled.core.ask import Paused
from settled.core.doubt.settling import Refused
from settled.core.noted.notes import PAUSED, PAUSES, noted, put

if TYPE_CHECKING:
    from settled.core.books import Books
    from settled.core.model import Moment

_KEPT: Final = 100
"""Pauses and resumptions of a tool that are remembered at the most."""


def paused_by(books: Books, tool: str) -> Paused | None:
    """Return who has paused a tool, and why; ``None`` if nobody has."""
    text = books.note(PAUSED, tool)
    if text is None:
        return None
    facts = noted(books, PAUSED, tool)
    return Paused(facts.get("by", ""), facts.get("reason", ""))


class Pause(Struct, frozen=True):
    """Pause a tool, or resume it. ``nonce``: fresh; it recognises a repetition."""

    tool: str
    by: str
    reason: str
    resume: bool
    nonce: str

    def apply(self, books: Books, now: Moment) -> dict[str, Any] | Refused:
        """Return what was done; or why nothing was."""
        history = noted(books, PAUSES, self.tool).get("history", [])
        if history and history[-1]["nonce"] == self.nonce:
            return dict(history[-1])
        before = paused_by(books, self.tool)
        if self.resume == (before is None):
            return Refused(f"{self.tool} is {f'paused already, by {before.by}' if before else 'not paused'}")
        what = "resumed" if self.resume else "paused"
        done = {"what": what, "by": self.by, "reason": self.reason, "at": now.wall, "nonce": self.nonce}
        put(books, PAUSED, self.tool, None if self.resume else done)
        put(books, PAUSES, self.tool, {"history": [*history, done][-_KEPT:]})
        return done


__all__ = ["Pause", "paused_by"]
