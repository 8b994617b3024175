"""What a tool may do with the connection that it is lent: write rows, and leave transaction and connection alone."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOT_FOR_TOOLS: Final = (
    *(sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH),
    *(sqlite3.SQLITE_CREATE_TEMP_TABLE, sqlite3.SQLITE_CREATE_TEMP_VIEW, sqlite3.SQLITE_CREATE_TEMP_TRIGGER),
)
"""What would end the transaction, or stand in front of the journal's own tables."""
_LASTING: Final = frozenset(
    {
        *("locking_mode", "journal_mode", "synchronous", "query_only", "writable_schema", "wal_autocheckpoint"),
        *("ignore_check_constraints", "secure_delete", "recursive_triggers", "reverse_unordered_selects"),
    }
)
"""Settings of a connection that would outlast the tool."""


class Lending:
    """Lends the writing connection; SQLite asks it about each statement that is prepared meanwhile."""

    def __init__(self) -> None:
        self._watched: sqlite3.Connection | None = None
        self._lent = False

    @contextmanager
    def lent(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Within this, a tool has the writing connection."""
        if self._watched is not connection:
            connection.set_authorizer(self._may)
            self._watched = connection
        self._lent = True
        try:
            yield
        finally:
            self._lent = False

    def _may(self, action: int, name: str | None, value: str | None, *_: object) -> int:
        """Whether a statement may be prepared: a tool may write, but transaction and connection are the journal's."""
        sets = action == sqlite3.SQLITE_PRAGMA and value is not None and str(name).lower() in _LASTING
        denied = self._lent and (sets or action in _NOT_FOR_TOOLS)
        return sqlite3.SQLITE_DENY if denied else sqlite3.SQLITE_OK
