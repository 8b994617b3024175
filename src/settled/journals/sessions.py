"""A SQLAlchemy session over a connection that was lent: it writes, and the journal commits."""

from __future__ import annotations

from contextvars import ContextVar
from functools import cache
from typing import Any, Final

_connection: ContextVar[Any] = ContextVar("settled_lent_connection")
_OPTIONS: Final = {"postgresql+psycopg://": {"use_native_hstore": False}}
"""Of an engine; hstore would be looked for through psycopg itself, which knows its own connections only."""


class _Lent:
    """A connection as an engine sees it: to end its transaction, or itself, is not the engine's to do."""

    def __init__(self, connection: Any) -> None:
        self.__dict__["_own"] = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._own, name, value)

    def commit(self) -> None:
        """Leave it to the journal."""

    def rollback(self) -> None:
        """Leave it to the journal."""

    def close(self) -> None:
        """Leave it to the journal."""


def session_over(connection: Any, dialect: str) -> Any:
    """Return a ``sqlalchemy.orm.Session`` for ``connection``: its ``commit`` ends a savepoint.

    Raises ``ImportError`` without SQLAlchemy.
    """
    from sqlalchemy.orm import Session  # noqa: PLC0415 - of the user's own, loaded only when it is used

    token = _connection.set(_Lent(connection))
    try:
        bound = _engine(dialect).connect()
    finally:
        _connection.reset(token)
    bound.begin()
    return Session(bind=bound, join_transaction_mode="create_savepoint")


@cache
def _engine(dialect: str) -> Any:
    """Return an engine that takes the connection that is lent."""
    from sqlalchemy import create_engine  # noqa: PLC0415 - see above
    from sqlalchemy.pool import NullPool  # noqa: PLC0415 - see above

    return create_engine(dialect, creator=_connection.get, poolclass=NullPool, **_OPTIONS.get(dialect, {}))
