"""Pruning: what is past its retention gives up its payload, many calls to a commit, in any journal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from settled.core.expiry import Expire
from settled.core.model import KeyKind
from settled.ports import CallQuery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.core.books import Books
    from settled.core.model import Moment
    from settled.ports import Journal

_BATCH: Final = 200
"""Calls in one transaction: others wait no longer than that takes."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many calls were pruned."""

    tombstones: int = 0
    """Their payload is gone; their key is known as expired."""
    removed: int = 0
    """Gone whole, since their random key cannot come again; their log stays."""

    @property
    def total(self) -> int:
        """All of them."""
        return self.tombstones + self.removed


@dataclass(frozen=True, slots=True)
class ExpireAll:
    """Expire each of these calls that is due."""

    operation_ids: Sequence[str]

    def apply(self, books: Books, now: Moment) -> frozenset[str]:
        """Return the ids of those that expired."""
        return frozenset(op for op in self.operation_ids if Expire(op).apply(books, now))


def prune(journal: Journal, *, limit: int | None = None) -> Pruned:
    """Expire the calls that are past their retention, at most ``limit`` of them; return how many there were.

    What was erased may still be read from a file until it is written over: see the journal's own way to compact.
    Raises ``JournalError``; what was pruned before stays pruned.
    """
    done = Pruned()
    while limit is None or done.total < limit:
        size = _BATCH if limit is None else min(_BATCH, limit - done.total)
        due = journal.find(CallQuery(past_retention=True, limit=size, readable=True))
        expired = journal.perform(ExpireAll([call.operation_id for call in due])) if due else frozenset()
        if not expired:
            break
        removed = sum(call.kind is KeyKind.RANDOM for call in due if call.operation_id in expired)
        done = Pruned(done.tombstones + len(expired) - removed, done.removed + removed)
    return done
