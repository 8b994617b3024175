"""Entering a run: a new entry fences the older one out and answers from what it did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from settled.core.books import RunRecord
from settled.core.entry import Entry
from settled.core.values import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.core.ask import Ask
    from settled.core.books import Books
    from settled.core.model import Moment


def scope_of_run(tenant: str, run_id: str) -> str:
    """Return the scope that a run's calls are found under; two tenants never share one."""
    return f"run:{len(tenant)}:{tenant}:{run_id}"


def superseded(books: Books, ask: Ask) -> bool:
    """Whether the asker's run, or the call that it is made inside of, has a later entry by now."""
    if ask.run_id:
        run = books.run(ask.tenant, ask.run_id)
        if run is None or run.entry != ask.run_entry:
            return True
    around = books.by_id(ask.scope.removeprefix("call:")) if ask.scope.startswith("call:") else None
    return around is not None and ask.entry is not None and len(around.attempts) > ask.entry.no


class EnterRun(Struct, frozen=True):
    """Start an entry of a run; ``answered`` are the steps that the history holds answers of."""

    run_id: str
    tenant: str
    turn: str | None = None
    answered: Sequence[str] = ()

    def apply(self, books: Books, now: Moment) -> Entry:
        """Return the memory of the new entry."""
        del now
        run = books.run(self.tenant, self.run_id) or RunRecord(self.run_id, self.tenant)
        no = run.entry + 1
        since = run.since if run.turn == self.turn else no
        entry = Entry(no, self._earlier(books, range(since, no)))
        books.put_run(replace(run, entry=no, turn=self.turn, since=since))
        if self.turn is not None:
            books.put_turn(self.tenant, self.run_id, self.turn, no)
        for step in self.answered:
            _mark(books, entry, scope_of_run(self.tenant, self.run_id), step)
        return entry

    def _earlier(self, books: Books, just_before: range) -> Sequence[int]:
        """Return the entries of this turn; another turn may have come between (a message that is delivered again)."""
        return just_before if self.turn is None else books.turn(self.tenant, self.run_id, self.turn)


def _mark(books: Books, entry: Entry, scope: str, step: str) -> None:
    operation_id = books.by_step(scope, step)
    call = books.by_id(operation_id) if operation_id else None
    if call is not None:
        entry.tell(call)
