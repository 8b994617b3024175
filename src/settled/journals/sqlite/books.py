"""The books of one SQLite transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from settled.journals.books import TableBooks

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence


class SqliteBooks(TableBooks):
    """The look-ups and changes of one transaction, and which of its members wrote.

    With ``together``, each member that writes does so in a savepoint of its own, so that one that raises leaves
    nothing behind and harms no other.
    """

    def __init__(self, connection: sqlite3.Connection, *, together: bool) -> None:
        self.connection = connection
        self.changed = False
        """Whether a member that is kept has written."""
        self.together = together
        self._wrote = False

    def keep(self) -> None:
        """End a member whose writes are to stand."""
        if self._wrote:
            if self.together:
                self.connection.execute("RELEASE member")
            self.changed, self._wrote = True, False

    def undo(self) -> None:
        """End a member that raised: take its writes back."""
        if self._wrote and self.connection.in_transaction:
            if self.together:
                self.connection.execute("ROLLBACK TO member")
                self.connection.execute("RELEASE member")
            else:
                self.connection.execute("ROLLBACK")
        self._wrote = False

    def write(self, statement: str, *values: Any) -> sqlite3.Cursor:
        """Execute a statement that changes the journal."""
        if not self._wrote:
            self._wrote = True
            if self.together:
                self.connection.execute("SAVEPOINT member")
        return execute(self.connection, statement, values)

    def look(self, statement: str, *values: Any) -> sqlite3.Cursor:
        """Execute a statement that only reads."""
        return execute(self.connection, statement, values)


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
