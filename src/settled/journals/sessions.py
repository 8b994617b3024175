"""A SQLAlchemy session over a connection that was lent: it writes, and the journal commits."""

from __future__ import annotations

from contextvars import ContextVar
from functools import cache
from typing import Any

_connection: ContextVar[Any] = ContextVar("settled_lent_connection")


def session_over(connection: Any, dialect: str) -> Any:
    """Return a ``sqlalchemy.orm.Session`` for ``connection``. Raises ``ImportError`` without SQLAlchemy."""
    from sqlalchemy.orm import Session  # noqa: PLC0415 - of the user's own, loaded only when it is used

    token = _connection.set(connection)
    try:
        bound = _engine(dialect).connect()
    finally:
        _connection.reset(token)
    return Session(bind=bound, join_transaction_mode="create_savepoint")


@cache
def _engine(dialect: str) -> Any:
    """Return an engine that takes the connection that is lent, and leaves it as it is when it has done."""
    from sqlalchemy import create_engine  # noqa: PLC0415 - see above
    from sqlalchemy.pool import NullPool  # noqa: PLC0415 - see above

    return create_engine(dialect, creator=_connection.get, poolclass=NullPool, pool_reset_on_return=None)
