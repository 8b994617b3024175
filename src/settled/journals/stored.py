"""What the journals in tables share: the port, over a group commit and connections that only look."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from settled.journals import lists, verify

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from settled.core.books import Books, RunRecord, Transition
    from settled.core.call import Call, LogRow
    from settled.core.model import Moment
    from settled.core.states import State
    from settled.journals.books import Look
    from settled.journals.commit import GroupCommit
    from settled.ports import Alert, CallQuery

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Errand:
    """Work of the journal's own, done in its turn among the transitions; safe to repeat, as they are."""

    run: Callable[[Any, Moment], Any]
    """Takes the books of the journal's own kind."""
    alone: bool = False
    """It needs a transaction of its own."""

    def apply(self, books: Books, now: Moment) -> Any:
        """Do it."""
        return self.run(books, now)


class GroupJournal(ABC):
    """Transitions through a group commit."""

    durable = True
    _commit: GroupCommit
    _pid: int

    @abstractmethod
    def after_fork_in_child(self) -> None:
        """Begin with an empty queue and no connection. What other threads of the parent asked for is the parent's."""

    def _mind_forks(self) -> None:
        """Notice a fork that Python was not told of."""
        if self._pid != os.getpid():
            self.after_fork_in_child()

    def perform(self, transition: Transition[R]) -> R:
        """Perform one transition; return after its commit. Raises ``JournalError``."""
        self._mind_forks()
        reply: R = self._commit.perform(transition)
        return reply

    async def aperform(self, transition: Transition[R]) -> R:
        """Perform one transition without blocking the event loop; it is performed also if the waiter is cancelled."""
        self._mind_forks()
        reply: R = await self._commit.aperform(transition)
        return reply


class StoredJournal(GroupJournal):
    """Calls on record in tables."""

    @abstractmethod
    def now(self) -> Moment:
        """Read the journal's clock."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Look]:
        """Lend a connection that only looks. Raises ``JournalError``."""

    # --- looking ---

    def get(self, operation_id: str) -> Call | None:
        """Return one call."""
        with self._reading() as look:
            return lists.get(look, operation_id)

    def find(self, query: CallQuery) -> Sequence[Call]:
        """List calls, newest first."""
        now = self.now()
        with self._reading() as look:
            return lists.find(look, query, now)

    def count(self) -> Mapping[State, int]:
        """Return how many calls stand in each state."""
        with self._reading() as look:
            return lists.count(look)

    def log(self, operation_id: str) -> Sequence[LogRow]:
        """Return the log of one call, oldest first."""
        with self._reading() as look:
            return lists.log(look, operation_id)

    def runs(self, limit: int = 100, *, named: str | None = None) -> Sequence[RunRecord]:
        """List runs, newest first; ``named``: those with this id, of whatever tenant."""
        with self._reading() as look:
            return lists.runs(look, limit, named)

    def run(self, tenant: str, run_id: str) -> RunRecord | None:
        """Return the record of a run."""
        with self._reading() as look:
            return lists.run(look, tenant, run_id)

    def undoing(self, limit: int = 100) -> Sequence[RunRecord]:
        """Return the runs that are being undone, or are undone in part, the oldest first."""
        with self._reading() as look:
            return lists.undoing(look, limit)

    def head(self) -> str:
        """Return the newest seal."""
        with self._reading() as look:
            return verify.head(look)

    # --- alerts and breakers ---

    def alerts(self, limit: int = 100) -> Sequence[Alert]:
        """Return alerts that were not delivered yet, oldest first."""
        with self._reading() as look:
            return lists.alerts(look, limit)

    def delivered(self, alert_ids: Sequence[int]) -> None:
        """Take delivered alerts out of the outbox."""
        self.perform(Errand(lambda books, _: lists.delivered(books, alert_ids)))

    def notes(self, kind: str) -> Mapping[str, str]:
        """Return what is noted of a kind beside the calls, by name."""
        with self._reading() as look:
            return lists.notes(look, kind)

    def save_breakers(
        self, snapshots: Mapping[str, Mapping[str, Any]], opened: Sequence[str] = ()
    ) -> Mapping[str, int]:
        """Keep the breakers' states; return for each name how often it was reset from outside."""
        return self.perform(Errand(lambda books, _: lists.save_breakers(books, snapshots, opened)))

    def breakers(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the breakers' last kept states."""
        with self._reading() as look:
            return lists.breakers(look)

    def agree(self, name: str, seen: int, text: str) -> tuple[int, str]:
        """Change a breaker's shared state if nobody has since it had changed ``seen`` times; return how it stands."""
        agreed: tuple[int, str] = self.perform(Errand(lambda books, _: lists.agree(books, name, seen, text)))
        return agreed

    def agreed(self) -> Mapping[str, tuple[int, str]]:
        """Return the shared states of breakers: how often each has changed, and how it stands."""
        with self._reading() as look:
            return lists.agreed(look)

    def reset_breakers(self, names: Sequence[str] | None = None) -> Sequence[str]:
        """Ask every process to reset these breakers (``None``: all); return the names."""
        return self.perform(Errand(lambda books, _: lists.reset_breakers(books, names)))
