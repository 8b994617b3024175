"""A journal with a fuse before, inside and after each transition."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

from settled.journals.sqlite import SqliteJournal
from settled.journals.stored import GroupJournal
from settled.testing.kill.fuse import channel_here

if TYPE_CHECKING:
    from collections.abc import Callable

    from settled.core.books import Books, Transition
    from settled.core.model import Moment
    from settled.ports import Journal
    from settled.testing.kill.fuse import Fuse
    from settled.testing.kill.plan import Plan

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
        inner = getattr(self.transition, "transition", self.transition)  # a person's decision, under a claim
        errand = getattr(inner, "run", None)
        qualified: str = getattr(errand, "__qualname__", type(inner).__name__)
        return qualified.removesuffix(".<locals>.<lambda>").rpartition(".")[2]

    def apply(self, books: Books, now: Moment) -> Any:
        """Apply it, then cross the boundary before its commit."""
        reply = self.transition.apply(books, now)
        self.fuse.cross(f"inside {self.name}", self.channel)
        return reply


class Fusing(GroupJournal):
    """Every transition crosses three boundaries, whichever transitions there are."""

    _fuse: Fuse

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


class FusedJournal(Fusing, SqliteJournal):
    """In a file."""

    def __init__(self, path: str, fuse: Fuse, **options: Any) -> None:
        self._fuse = fuse
        super().__init__(path, **options)


def fused(plan: Plan, fuse: Fuse, clock: Callable[[], Moment]) -> Journal:
    """Open the journal of a plan: the file in its folder, or what lies on a server in its folder's place."""
    if not plan.journal:
        return FusedJournal(str(plan.home / "agent.db"), fuse, clock=clock)
    own = f"kill_{sha256(plan.folder.encode()).hexdigest()[:16]}"
    open_it = _on_postgres if plan.journal.startswith("postgres") else _on_redis
    return open_it(plan.journal, own, fuse, spill=plan.home / "spill", clock=clock)


def _on_postgres(url: str, own: str, fuse: Fuse, **options: Any) -> Journal:
    from settled.journals.postgres import PostgresJournal  # noqa: PLC0415 - an extra, loaded only when it is used

    class FusedPostgres(Fusing, PostgresJournal):
        _fuse = fuse

    return FusedPostgres(url, schema=own, **options)


def _on_redis(url: str, own: str, fuse: Fuse, **options: Any) -> Journal:
    from settled.journals.redis import RedisJournal  # noqa: PLC0415 - an extra, loaded only when it is used

    class FusedRedis(Fusing, RedisJournal):
        _fuse = fuse

    return FusedRedis(url, prefix=own, **options)
