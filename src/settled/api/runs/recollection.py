"""What a run that is entered again has on record, read once and kept for as long as it surely stands.

That is as long as the lease that the run was entered with: until then nobody undoes the run but the entry itself. After
that it is read again.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from settled.core.books import RunState
from settled.core.matching.recall import Recall
from settled.core.values import replace
from settled.errors import JournalError
from settled.host import steady
from settled.ports import CallQuery

if TYPE_CHECKING:
    from settled.api.runs.run import Run
    from settled.core.call import Call

_PAGE = 1000
MOST_CALLS = 8192
MOST_BYTES = 2**25
"""Of what is on record of a run, at the most; of a longer one each call is looked for in the journal."""
MOST_MISSES = 16
"""Calls in a row that are not answered so: the run has come to what is new."""


class Recollection:
    """What one entry of a run can be answered from. Safe for threads."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._lock = threading.Lock()
        self._recall: Recall | None = None
        self._until = 0.0
        self._misses = 0
        self._left: set[tuple[str, str]] = set()

    @property
    def is_read(self) -> bool:
        """Whether what was read still stands."""
        return self._recall is not None and steady() < self._until

    def read(self, run: Run) -> None:
        """Read the run; one that cannot be read, or is too long, is forgotten."""
        calls, until = _calls_of(run), _held_until(run)
        if calls is None or until is None:
            run.recollection, calls = None, None
        with self._lock:
            self._recall, self._until = Recall(calls or (), run.memory), until or 0.0
            for tool, identity in self._left:
                self._recall.leave(tool, identity)

    def leave(self, tool: str, identity: str) -> None:
        """Leave calls of one kind to the journal from now on: a claim that is being decided may take the same one."""
        with self._lock:
            self._left.add((tool, identity))
            if self._recall is not None:
                self._recall.leave(tool, identity)

    def take(self, run: Run, tool: str, identity: str, words: str) -> Call | None:
        """Return the call that answers; ``None``: the claim is to decide."""
        with self._lock:
            recall = self._recall
            if recall is None or steady() >= self._until:
                return None
            call = recall.take(tool, identity, words)
            self._misses = 0 if call is not None else self._misses + 1
            if not recall or self._misses >= MOST_MISSES:
                run.recollection = None
            return call


def _held_until(run: Run) -> float | None:
    """Return until when the entry surely holds the run, on ``steady``; ``None`` if it does not, or nobody can say.

    It is asked after the calls were read: what was undone before then is seen in one of the two.
    """
    began, journal = steady(), run.guard.journal
    try:
        record = journal.run(run.guard.tenant, run.record_id)
        left = None if record is None or record.lease is None else record.lease.since(journal.now())
    except JournalError:
        return None
    ours = record is not None and record.entry == run.entry and record.state is RunState.ACTIVE
    return began + left if ours and left is not None and left > 0 else None


def _calls_of(run: Run) -> list[Call] | None:
    """Return all calls of a run; ``None`` if it is too long, or cannot be read."""
    found: list[Call] = []
    query = CallQuery(scope=run.scope, limit=_PAGE)
    try:
        while page := run.guard.journal.find(query):
            found += page
            size = sum(len(call.arguments) + len(call.result or b"") for call in found)
            if len(found) > MOST_CALLS or size > MOST_BYTES:
                return None
            if len(page) < _PAGE:
                break
            query = replace(query, after=page[-1].operation_id)
    except JournalError:
        return None
    return found
