"""A journal whose answers get lost, whose commits get rolled back, and which is away for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from settled.errors import JournalError
from settled.journals.memory import MemoryBooks, MemoryJournal

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from settled.core.books import RunRecord, Transition
    from settled.core.call import Call, LogRow
    from settled.core.model import Moment
    from settled.testing.simulation.loop import Loop

R = TypeVar("R")


class WatchedBooks(MemoryBooks):
    """Notes each change, for the oracle to look at once it is committed."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: list[tuple[Call | None, Call, LogRow]] = []
        self.prolonged: Callable[[Call], None] = lambda _call: None
        self.run_changes: list[RunRecord] = []

    def put(self, call: Call, row: LogRow) -> None:
        """Keep a change, and note it."""
        self.changes.append((self.calls.get(call.operation_id), call, row))
        super().put(call, row)

    def put_run(self, run: RunRecord) -> None:
        """Keep the record of a run, and note it."""
        self.run_changes.append(run)
        super().put_run(run)

    def prolong(self, call: Call) -> None:
        """Keep a longer lease, and note it."""
        super().prolong(call)
        self.prolonged(call)


class ShakyJournal(MemoryJournal):
    """The memory journal with the faults of a real one."""

    def __init__(self, clock: Callable[[], Moment], loop: Loop, dice: Random, fault_rate: float) -> None:
        super().__init__(clock)
        self.books: WatchedBooks = WatchedBooks()
        self.loop, self.dice, self.fault_rate = loop, dice, fault_rate
        self.down_until = 0.0
        self.watch: Callable[[Call | None, Call, LogRow], None] = lambda _before, _after, _row: None
        self.watch_run: Callable[[RunRecord], None] = lambda _run: None

    @property
    def is_down(self) -> bool:
        """Whether it can be reached."""
        return self.loop.now < self.down_until

    def perform(self, transition: Transition[R]) -> R:
        """Perform one transition, unless today is a bad day for it."""
        if self.is_down:
            raise JournalError("away")
        draw = self.dice.random() if self.fault_rate else 1.0
        if draw < self.fault_rate / 2:
            self._roll_back(transition)
        reply = super().perform(transition)
        for change in self.books.changes:
            self.watch(*change)
        for run in self.books.run_changes:
            self.watch_run(run)
        self.books.changes.clear()
        self.books.run_changes.clear()
        if draw < self.fault_rate:
            raise JournalError("committed, but the answer was lost")
        return reply

    def _roll_back(self, transition: Transition[R]) -> None:
        """The rules were followed, then the commit failed: nothing stays."""
        transition.apply(self.books, self.now())
        self.books.take_back()
        self.books.changes.clear()
        self.books.run_changes.clear()
        raise JournalError("rolled back")
