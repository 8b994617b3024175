"""The journal's transaction, as a transactional tool gets it: its rows and the record are committed together."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from settled.errors import DeclarationError, JournalError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class EndedByTool(JournalError):  # noqa: N818 - the name says what happened
    """A tool has ended the journal's transaction itself: its rows may stand, without their record."""

    code = "transaction_ended"

    def __init__(self) -> None:
        super().__init__("the tool has ended the journal's transaction itself, by a COMMIT or ROLLBACK of its own")


class Transaction:
    """The transaction in which a tool of ``effect="transactional"`` writes its rows.

    It is the journal's to end: it is committed with the record when the tool returns, and rolled back when the tool
    raises. ``connection`` refuses ``commit()`` and ``rollback()``; savepoints are the tool's own.
    """

    def __init__(self, connection: Any, session: Callable[[Any], Any]) -> None:
        self._connection, self._new_session = connection, session
        self._session: Any = None
        self._over = False

    @property
    def connection(self) -> Any:
        """The database's own connection: a ``sqlite3.Connection`` or a ``psycopg.Connection``."""
        if self._over:
            raise RuntimeError("the transaction is over: a tool must not keep it")
        return self._connection

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """Execute one statement with the database's own placeholders; return its cursor."""
        return self.connection.execute(statement, values)

    @property
    def session(self) -> Any:
        """A ``sqlalchemy.orm.Session`` over the connection, within a savepoint that ends well when the tool returns.

        Raises:
            DeclarationError: SQLAlchemy is not installed.
        """
        if self._session is None:
            try:
                self._session = self._new_session(self.connection)
            except ImportError as error:
                raise DeclarationError(f"a session needs SQLAlchemy, which cannot be loaded: {error}") from error
        return self._session

    def finish(self) -> None:
        """Send what the session holds back."""
        if self._session is not None:
            self._session.commit()

    def end(self) -> None:
        """Let go of the connection."""
        self._over = True
        if self._session is not None:
            bound = self._session.get_bind()
            self._session.close()
            bound.close()


lent: ContextVar[Transaction | None] = ContextVar("settled_transaction", default=None)
"""Set while a transactional tool runs."""
