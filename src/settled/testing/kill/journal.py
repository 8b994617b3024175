"""The SQLite journal with a fuse before, inside and after each transition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from settled.journals.sqlite import SqliteJournal
from settled.testing.kill.fuse import channel_here

if TYPE_CHECKING:
    from settled.core.books import Books, Transition
    from settled.core.model import Moment
    from settled.testing.kill.fuse import Fuse

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Fused:
    """A transition that may be the last thing its process does: all is written, and nothing committed."""

    transition: Transition[Any]
    fuse: Fuse
    channel: str

    @property
    def name(self) -> str:
        """The transition's own name; for an errand of the journal, its function's."""
        errand = getattr(self.transition, "run", None)
        qualified: str = getattr(errand, "__qualname__", type(self.transition).__name__)
        return qualified.removesuffix(".<locals>.<lambda>").rpartition(".")[2]

    def apply(self, books: Books, now: Moment) -> Any:
        """Apply it, then cross the boundary before its commit."""
        reply = self.transition.apply(books, now)
        self.fuse.cross(f"inside {self.name}", self.channel)
        return reply


class FusedJournal(SqliteJournal):
    """Every transition crosses three boundaries, whichever transitions there are."""

    def __init__(self, path: str, fuse: Fuse, **options: Any) -> None:
        self._fuse = fuse
        super().__init__(path, **options)

    def perform(self, transition: Transition[R]) -> R:
        """Perform it between two boundaries."""
        fused = Fused(transition, self._fuse, channel_here())
        self._fuse.cross(f"before {fused.name}")
        reply: R = super().perform(fused)
        self._fuse.cross(f"after {fused.name}")
        return reply

    async def aperform(self, transition: Transition[R]) -> R:
        """Perform it between two boundaries."""
        fused = Fused(transition, self._fuse, channel_here())
        self._fuse.cross(f"before {fused.name}")
        reply: R = await super().aperform(fused)
        self._fuse.cross(f"after {fused.name}")
        return reply
