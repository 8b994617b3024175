"""PostgreSQL: psycopg, psycopg2, asyncpg, and SQLAlchemy around them, read by SQLSTATE.

An error that the server sent rolled the transaction back. A connection that broke is another matter: the same class,
even the same text, comes before and after a COMMIT that went through.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from settled.core.faults import look
from settled.core.faults.rules import Situation, ambiguous, exists, local, refused, retryable, rules

if TYPE_CHECKING:
    from settled.core.model import Fault

_NOT_CONNECTED = ("08001", "08004", "57P03", "53300")
_ROLLED_BACK = ("40001", "40P01", "55P03", "57014", "25P03", "25P04")
_IN_DOUBT = ("57P01", "57P02", "08003", "08006", "08007", "40003")
_UNIQUE = "23505"
_FOR_NOW = ("53100", "53200", "58030")
_REFUSED_CLASSES = ("22", "23", "28", "42")
_INTERNAL = "XX"
_CONNECTING = re.compile(
    r"connection failed: |connection is bad: |connection timeout expired|could not connect to server: "
    r"|connection to server at .{1,200} failed: "
)
"""How psycopg and libpq begin what they say of a connection that was never made."""


def of_database(error: BaseException, situation: Situation) -> Fault | None:
    """Read an error of a driver; ``None`` if it has no SQLSTATE and says nothing of the phase."""
    state = look.attr(error, "sqlstate") or look.attr(error, "pgcode")
    if isinstance(state, str):
        return of_sqlstate(state, situation)
    return retryable("connect_failed") if _connecting(error) else None


def of_sqlstate(state: str, situation: Situation) -> Fault:
    """Read a SQLSTATE."""
    code = f"sqlstate_{state.lower()}"
    if state == _UNIQUE:
        return exists(code, doubtful=situation.doubtful)
    if state in _IN_DOUBT:
        return ambiguous(code)
    if state in _NOT_CONNECTED or state in _ROLLED_BACK:
        return retryable(code)
    if state[:2] in _REFUSED_CLASSES or state[:2] == _INTERNAL or state in _FOR_NOW:
        return refused(code)
    return ambiguous(code)


def _connecting(error: BaseException) -> bool:
    return _CONNECTING.match(look.text(error)) is not None


RULES = {
    **rules(
        *("psycopg", "psycopg2"),
        final={"Error": of_database, "ConnectionTimeout": retryable("connect_timeout")},
        default=ambiguous("database_error"),
    ),
    **rules("asyncpg", final={"PostgresError": of_database, "InterfaceError": ambiguous("interface_error")}),
    **rules(
        "psycopg_pool",
        final={
            "PoolTimeout": local("pool_timeout"),
            "TooManyRequests": local("pool_full"),
            "PoolClosed": local("pool_closed"),
        },
    ),
    **rules(
        "sqlalchemy",
        final={"TimeoutError": local("pool_timeout")},
        wraps={"DBAPIError": ambiguous("database_error"), "SQLAlchemyError": ambiguous("database_error")},
    ),
}
