"""The books of one SQLite transaction, and what is known from the ones before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from settled.journals.books import TableBooks

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from settled.core.call import Call, LogRow

_MOST_KNOWN: Final = 2048
_LARGE: Final = 16_384
"""Bytes of arguments and result from which on a call is read from the file instead."""


class SqliteBooks(TableBooks):
    """The look-ups and changes of one transaction.

    Args:
        connection: Where it was begun.
        known: Calls as they stand in the file, by operation id; kept up to date with what is written here.
    """

    def __init__(self, connection: sqlite3.Connection, known: dict[str, Call] | None = None) -> None:
        self.connection = connection
        self.known: dict[str, Call] = {} if known is None else known
        self.changed = False
        """Whether something was written."""

    def write(self, statement: str, *values: Any) -> sqlite3.Cursor:
        """Execute a statement that changes the journal."""
        self.changed = True
        return execute(self.connection, statement, values)

    def look(self, statement: str, *values: Any) -> sqlite3.Cursor:
        """Execute a statement that only reads."""
        return execute(self.connection, statement, values)

    def by_id(self, operation_id: str) -> Call | None:
        """Return the call with this operation id."""
        return self.known.get(operation_id) or super().by_id(operation_id)

    def put(self, call: Call, row: LogRow) -> None:
        """Keep a call and the log row of its change."""
        super().put(call, row)
        self._know(call)

    def prolong(self, call: Call) -> None:
        """Keep a longer lease; no log row, since no state changes."""
        super().prolong(call)
        self._know(call)

    def forget(self, call: Call) -> None:
        """Remove a call that nothing can ask for any more; its log stays."""
        super().forget(call)
        self.known.pop(call.operation_id, None)

    def _know(self, call: Call) -> None:
        if len(call.arguments) + len(call.result or b"") > _LARGE:
            self.known.pop(call.operation_id, None)
            return
        if len(self.known) >= _MOST_KNOWN:
            self.known.clear()
        self.known[call.operation_id] = call


class Reader:
    """A connection that only looks."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> sqlite3.Cursor:
        """Execute one statement."""
        return execute(self.connection, statement, values)


def execute(connection: sqlite3.Connection, statement: str, values: Sequence[Any]) -> sqlite3.Cursor:
    """Execute a statement; a text that UTF-8 cannot hold (a lone surrogate) goes as bytes, and never equals another."""
    try:
        return connection.execute(statement, values)
    except UnicodeEncodeError:
        return connection.execute(statement, [_storable(value) for value in values])


def _storable(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")
    return value
