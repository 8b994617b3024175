"""Statements of PostgreSQL's own, and the shared ones in its tongue.

A change that was decided on a record that has changed since must not be committed. The fence is the number of its last
log row and its lease, both as the rule saw them; where the fence fails the statement itself fails, so that a commit
that travels behind it becomes a rollback, and no answer has to be waited for in between.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from settled.journals.books import SELECT_CALL
from settled.journals.rows import CHANGING, COLUMNS

if TYPE_CHECKING:
    from collections.abc import Sequence

TABLES: Final = (
    *("meta", "clock", "calls", "log", "steps", "runs", "turns", "owed"),
    *("outbox", "breakers", "agreed", "seals", "forgotten", "inner_runs", "run_states", "moved", "notes"),
)
_TABLE: Final = re.compile(rf"\b(FROM|INTO|UPDATE|ON|LOCK) ({'|'.join(TABLES)})\b")
_INDEX: Final = re.compile(r"\s+INDEXED BY \w+")  # PostgreSQL's planner is asked by settings instead

_LOG: Final = "no, at, event, state, epoch, attempt, detail, digest, head"
_NINE: Final = ", ".join("?" * 9)
_PLACES: Final = ", ".join("?" * len(COLUMNS))
_CHANGES: Final = ", ".join(f"{name} = ?" for name in CHANGING)
_FENCE: Final = "operation_id = ? AND log_no = ? AND lease_mono = ?"

_CALL: Final = ", ".join(COLUMNS)
_INSERTED: Final = (
    f"RETURNING operation_id) INSERT INTO log (operation_id, {_LOG}) "  # noqa: S608 - made of constants
    f"SELECT one.operation_id, {_NINE} FROM one RETURNING id"
)
# The log's id is drawn after the row of ``calls`` is written, and so after the transaction has its number: see seal.py.
INSERT: Final = f"WITH one AS (INSERT INTO calls ({_CALL}) VALUES ({_PLACES}) {_INSERTED}"  # noqa: S608 - made of constants
# A fence that fails leaves no operation_id, which the log refuses (23502).
UPDATE: Final = (
    f"WITH one AS (UPDATE calls SET {_CHANGES} WHERE {_FENCE} RETURNING operation_id) "  # noqa: S608 - made of constants
    f"INSERT INTO log (operation_id, {_LOG}) "
    f"SELECT one.operation_id, {_NINE} FROM (VALUES (1)) AS always (there) LEFT JOIN one ON true RETURNING id"
)
# Whoever waits for the call holds this lock with others: where it cannot be had alone, they are told at the commit.
# NOTIFY for every change would let all commits of the database wait for each other.
UPDATE_AND_TELL: Final = (
    f"{UPDATE}, CASE WHEN pg_try_advisory_xact_lock(?::bigint) THEN NULL ELSE pg_notify(?, (?::bigint)::text) END"
)
PROLONG: Final = (
    "WITH one AS (UPDATE calls SET lease_wall = ?, lease_boot = ?, lease_mono = ? "  # noqa: S608 - made of constants
    f"WHERE {_FENCE} RETURNING 1) SELECT 1 / count(*) FROM one"
)
PREFETCH: Final = f"{SELECT_CALL} WHERE operation_id = ANY (?) OR key = ANY (?)"
WHICH: Final = "SELECT pg_current_xact_id()::text"
# Fails where the transaction is another one.
_THIS_ONE: Final = "1 / (pg_current_xact_id() = ?::xid8)::integer"
STILL: Final = f"SELECT {_THIS_ONE}"
BECAME: Final = "SELECT pg_xact_status(?::xid8)"
LOCK: Final = "SELECT pg_advisory_xact_lock(number) FROM unnest(?::bigint[]) AS number"
TRY_LOCK: Final = "SELECT pg_try_advisory_xact_lock(?::bigint)"
# Waits for every transaction that has read a note, and bars new ones: what is noted then counts for all that follow.
LOCK_NOTES: Final = "LOCK notes IN ACCESS EXCLUSIVE MODE"
BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
AND_ANOTHER: Final = "COMMIT AND CHAIN"


@lru_cache(maxsize=512)
def in_schema(statement: str, schema: str, *, numbered: bool = False) -> str:
    """Return a statement with its tables named in full and its places as psycopg writes them, or ``numbered``."""
    named = _TABLE.sub(rf'\1 "{schema}".\2', _INDEX.sub("", statement))
    if not numbered:
        return named.replace("%", "%%").replace("?", "%s")
    first, *rest = named.split("?")
    return first + "".join(f"${number}{piece}" for number, piece in enumerate(rest, 1))


@lru_cache(maxsize=64)
def inserted_unless(*look_ups: str) -> str:
    """Return what does as ``INSERT`` does, unless one of these finds anything: then it inserts, and returns, nothing.

    The values of the look-ups stand between those of the call and those of its row of the log.
    """
    return f"{_inserting(_nothing(look_ups))} {_INSERTED}"


@lru_cache(maxsize=64)
def inserted_whole(rows: int, *look_ups: str) -> str:
    """Return what inserts a call with so many rows of its log, and fails where one of these finds anything.

    It also fails where the transaction is another one than that whose number stands before the look-ups' values.
    """
    here = f"CASE WHEN {_THIS_ONE} = 1 THEN {_nothing(look_ups)} END"  # in this order
    return (
        f"{_inserting(here)} RETURNING operation_id) INSERT INTO log (operation_id, {_LOG}) "  # noqa: S608 - as above
        f"SELECT one.operation_id, rows.* FROM (VALUES {', '.join([f'({_NINE})'] * rows)}) AS rows "
        "LEFT JOIN one ON true RETURNING id"
    )


def _inserting(condition: str) -> str:
    return f"WITH one AS (INSERT INTO calls ({_CALL}) SELECT {_PLACES} WHERE {condition}"


def _nothing(look_ups: Sequence[str]) -> str:
    return " AND ".join(f"NOT EXISTS ({look_up})" for look_up in look_ups) or "true"
