"""PostgreSQL: psycopg, psycopg2, asyncpg, and SQLAlchemy around them, read by SQLSTATE.

An error that the server sent rolled the transaction back, unless the statement commits on its way. A connection that
broke is another matter: the same class, even the same text, comes before and after a COMMIT that went through.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from settled.core.faults import look
from settled.core.faults.rules import (
    Situation,
    ambiguous,
    exists,
    local,
    refused,
    retryable,
    rules,
    unwritable,
    weakened,
)
from settled.core.values import replace

if TYPE_CHECKING:
    from settled.core.model import Fault

_NOT_CONNECTED = ("08001", "08004", "57P03", "57P05")
_ROLLED_BACK = ("40001", "40P01", "55006", "55P03", "57014", "25P03", "25P04")
_IN_DOUBT = ("57P01", "57P02", "08003", "08006", "08007", "40003")
_UNIQUE = "23505"
_FOR_NOW = ("25006", "26000", "42P05", "58030")
"""A standby, for as long as it is one; a prepared statement that another session of a pooler has, or has not."""
_NO_ROOM = "53"
_REFUSED_CLASSES = ("0A", "21", "22", "23", "25", "28", "3D", "3F", "42", "44", "54", "55", "P0")
_INTERNAL = "XX000"
"""PostgreSQL has rolled back, also where it passes ("tuple concurrently updated"). Its kin say so of all they have no
word for: of a COMMIT that took too long, of replicas that disagree."""
_CORRUPTED = ("XX001", "XX002")
"""What else begins so is theirs, too: CockroachDB's XXA00 comes after the commit."""
_LOGIN, _NO_RIGHTS = "28", "42501"
_OLD_PLAN = "cached plan must not change result type"
_CONNECTING = re.compile(
    r"connection failed: |connection is bad: |connection timeout expired|could not connect to server: "
    r"|connection to server at .{1,200} failed: "
)
"""How psycopg and libpq begin what they say of a connection that was never made."""
_NOT_PUT_TOGETHER = re.compile(
    r"the query has \d+ placeholders? but |cannot adapt type |query parameter missing: "
    r"|only '%s', '%b', '%t' are allowed as placeholders"
)
"""So for a query that psycopg cannot send."""


def of_database(error: BaseException, situation: Situation) -> Fault | None:
    """Read an error of a driver; ``None`` if it has no SQLSTATE and says nothing of the phase."""
    state = look.attr(error, "sqlstate") or look.attr(error, "pgcode")
    if not isinstance(state, str):
        return _of_words(look.text(error))
    fault = of_sqlstate(state, situation)
    if look.text(error).startswith(_OLD_PLAN):
        fault = retryable(fault.code)
    return weakened(fault) if may_have_committed(error) else fault


def of_sqlstate(state: str, situation: Situation) -> Fault:
    """Read a SQLSTATE."""
    code = f"sqlstate_{state.lower()}"
    if state == _UNIQUE:
        return exists(code, doubtful=situation.doubtful)
    if state in _IN_DOUBT:
        return ambiguous(code)
    if state in _NOT_CONNECTED or state in _ROLLED_BACK or state in _FOR_NOW or state[:2] == _NO_ROOM:
        return retryable(code)
    if state == _INTERNAL:
        return ambiguous(code, uncertain=True)
    if state[:2] in _REFUSED_CLASSES or state in _CORRUPTED:
        return replace(refused(code), refresh=state[:2] == _LOGIN, gate=state == _NO_RIGHTS)
    return ambiguous(code)


def _of_words(words: str) -> Fault | None:
    """Read what the drivers themselves say: that they never connected, or cannot put a query together."""
    if _CONNECTING.match(words):
        return retryable("connect_failed")
    return unwritable("invalid_request") if _NOT_PUT_TOGETHER.match(words) else None


def of_psycopg2s_pool(error: BaseException, _: Situation) -> Fault | None:
    """Read a PoolError: it comes before anything is sent only where a connection is asked for."""
    return local("pool_full") if look.came_through([error], "getconn") else None


# --- what commits on its way --------------------------------------------------------------

_COMMITS = re.compile(r";\s*(?:commit|end|prepare\s+transaction)\b", re.IGNORECASE)
_BODY = re.compile(r"\$(\w*)\$.*?\$\1\$", re.DOTALL)
_MAY_COMMIT = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*+(?:call|do)\b", re.IGNORECASE | re.DOTALL)
"""A procedure or a block, which may do so where it is in no transaction."""
_DRIVERS = frozenset({"psycopg", "asyncpg"})


def commits_within(words: str) -> bool:
    """Tell whether one of several statements at once commits; one in the body of a function is none of them."""
    return _COMMITS.search(_BODY.sub("", words)) is not None


def may_have_committed(error: BaseException) -> bool:
    """Tell whether the statement that failed, where it can be seen, may have committed its first half."""
    if (cursor := look.attr(error, "cursor")) is not None:  # psycopg2's
        return _commits(cursor, look.attr(cursor, "query")) or _of_many_rows(error, cursor)
    calls = [frame.f_locals for frame in look.frames(error) if look.package(frame) in _DRIVERS]
    return any(_commits(known.get("self"), known["query"]) for known in calls if "query" in known)


def _of_many_rows(error: BaseException, cursor: object) -> bool:
    """Tell whether psycopg2 may have committed rows before this one, of many.

    Its ``executemany`` is written in C and leaves no frame; that it was called shows in the names its caller uses.
    """
    callers = list(look.frames(error))[-1:]
    named = any("executemany" in caller.f_code.co_names for caller in callers)
    return named and look.attr(cursor, "connection", "autocommit") is True


def _commits(caller: object, query: object) -> bool:
    made = query if isinstance(query, str | bytes) else look.called(query, "as_string")
    words = made.decode("utf-8", "replace") if isinstance(made, bytes) else made
    if not isinstance(words, str):
        return False
    return _COMMITS.search(_BODY.sub("", words)) is not None or (
        _MAY_COMMIT.match(words) is not None and not _in_transaction(caller)
    )


def _in_transaction(caller: object) -> bool:
    """Tell whether a cursor's connection begins a transaction by itself, or asyncpg's connection is in one."""
    connection = look.attr(caller, "connection")
    holder = caller if connection is None else connection
    return look.attr(holder, "autocommit") is False or look.called(holder, "is_in_transaction") is True


RULES = {
    **rules(
        *("psycopg", "psycopg2"),
        final={
            "Error": of_database,
            "ConnectionTimeout": retryable("connect_timeout"),
            "PoolError": of_psycopg2s_pool,
        },
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
