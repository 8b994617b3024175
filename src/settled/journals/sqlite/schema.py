"""The tables, as numbered steps from one version of the schema to the next.

A step that only adds is taken when a journal is opened; any other waits for ``settled journal migrate``. A journal of
a newer schema is refused. A step is never edited once released.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.errors import JournalError
from settled.journals.schema import Step

if TYPE_CHECKING:
    import sqlite3


# Moments have no declared type, so that SQLite keeps every number as it comes: the log's chain covers its exact form.
_CALLS = """
CREATE TABLE calls (
    seq INTEGER PRIMARY KEY,
    operation_id TEXT NOT NULL UNIQUE,
    key TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    tenant TEXT NOT NULL,
    tool TEXT NOT NULL,
    scope TEXT NOT NULL,
    lane TEXT NOT NULL,
    identity TEXT NOT NULL,
    n INTEGER NOT NULL,
    entry INTEGER NOT NULL,
    terms TEXT NOT NULL,
    state TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    disputed INTEGER NOT NULL,
    log_no INTEGER NOT NULL,
    log_head TEXT NOT NULL,
    lease_wall, lease_boot TEXT NOT NULL, lease_mono,
    due_at,
    arguments BLOB NOT NULL,
    result BLOB,
    body TEXT NOT NULL
)"""

_LOG = """
CREATE TABLE log (
    id INTEGER PRIMARY KEY,
    operation_id TEXT NOT NULL,
    no INTEGER NOT NULL,
    at,
    event TEXT NOT NULL,
    state TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    detail TEXT NOT NULL,
    digest TEXT NOT NULL,
    head TEXT NOT NULL,
    UNIQUE (operation_id, no)
)"""


def _append_only(table: str) -> tuple[str, str]:
    return (
        (
            f"CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table} "
            f"BEGIN SELECT RAISE(ABORT, 'the {table} is append-only'); END"
        ),
        (
            f"CREATE TRIGGER {table}_no_delete BEFORE DELETE ON {table} "
            f"BEGIN SELECT RAISE(ABORT, 'the {table} is append-only'); END"
        ),
    )


STEPS: tuple[Step, ...] = (
    Step(
        1,
        additive=True,
        statements=(
            (
                "CREATE TABLE meta (one INTEGER PRIMARY KEY CHECK (one = 1), journal_id TEXT NOT NULL, "
                "schema INTEGER NOT NULL, commits INTEGER NOT NULL, writer TEXT NOT NULL)"
            ),
            _CALLS,
            # Calls outside of any run or enclosing call are alike to none, so they stay out of these two.
            "CREATE INDEX calls_alike ON calls (scope, tool, lane, identity, n, entry) WHERE scope <> ''",
            "CREATE INDEX calls_made ON calls (scope, tool, entry) WHERE scope <> ''",
            "CREATE INDEX calls_open ON calls (state, tool, scope, tenant) WHERE state <> 'succeeded'",
            "CREATE INDEX calls_disputed ON calls (seq) WHERE disputed = 1",
            "CREATE INDEX calls_due ON calls (due_at) WHERE due_at IS NOT NULL",
            _LOG,
            *_append_only("log"),
            (
                "CREATE TABLE steps (scope TEXT NOT NULL, step TEXT NOT NULL, operation_id TEXT NOT NULL, "
                "PRIMARY KEY (scope, step)) WITHOUT ROWID"
            ),
            (
                "CREATE TABLE runs (seq INTEGER PRIMARY KEY, tenant TEXT NOT NULL, run_id TEXT NOT NULL, "
                "entry INTEGER NOT NULL, turn TEXT, since INTEGER NOT NULL, spent TEXT NOT NULL, state TEXT NOT NULL, "
                "UNIQUE (tenant, run_id))"
            ),
            (
                "CREATE TABLE outbox (alert_id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, "
                "operation_id TEXT NOT NULL, at)"
            ),
            (
                "CREATE TABLE breakers (seq INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, snapshot TEXT NOT NULL, "
                "resets INTEGER NOT NULL)"
            ),
            "CREATE TABLE seals (upto INTEGER PRIMARY KEY, at, text TEXT NOT NULL)",
            *_append_only("seals"),
            # A call that was removed whole, with its log kept: tells that from a row that somebody deleted.
            "CREATE TABLE forgotten (operation_id TEXT PRIMARY KEY) WITHOUT ROWID",
        ),
    ),
    Step(
        2,
        additive=True,
        statements=(
            (
                "CREATE TABLE turns (tenant TEXT NOT NULL, run_id TEXT NOT NULL, turn TEXT NOT NULL, "
                "entry INTEGER NOT NULL, PRIMARY KEY (tenant, run_id, turn, entry)) WITHOUT ROWID"
            ),
            (
                "CREATE TABLE owed (seq INTEGER PRIMARY KEY, tenant TEXT NOT NULL, tool TEXT NOT NULL, "
                "fingerprint TEXT NOT NULL, operation_id TEXT NOT NULL UNIQUE)"
            ),
            "CREATE INDEX owed_alike ON owed (tenant, tool, fingerprint)",
            # Of the turns before this step only the open one is known.
            (
                "INSERT INTO turns (tenant, run_id, turn, entry) "
                "WITH RECURSIVE open (tenant, run_id, turn, entry, last) AS ("
                "SELECT tenant, run_id, turn, since, entry FROM runs WHERE turn IS NOT NULL UNION ALL "
                "SELECT tenant, run_id, turn, entry + 1, last FROM open WHERE entry < last) "
                "SELECT tenant, run_id, turn, entry FROM open"
            ),
        ),
    ),
    Step(
        3,
        additive=True,
        statements=(
            # A new call asks whether a like one is open: the many others at work must cost it nothing.
            "DROP INDEX calls_open",
            "CREATE INDEX calls_open ON calls (state, tool, scope, tenant, identity) WHERE state <> 'succeeded'",
            # What processes agree on about a breaker, and how often that has changed.
            "CREATE TABLE agreed (name TEXT PRIMARY KEY, changes INTEGER NOT NULL, text TEXT NOT NULL) WITHOUT ROWID",
        ),
    ),
    Step(
        4,
        additive=True,
        statements=(
            "ALTER TABLE runs ADD COLUMN body TEXT NOT NULL DEFAULT ''",
            "CREATE INDEX runs_undoing ON runs (seq) WHERE state IN ('rolling_back', 'partly_compensated')",
            (
                "CREATE TABLE inner_runs (tenant TEXT NOT NULL, parent TEXT NOT NULL, run_id TEXT NOT NULL, "
                "PRIMARY KEY (tenant, parent, run_id)) WITHOUT ROWID"
            ),
            (
                "CREATE TABLE run_states (tenant TEXT NOT NULL, run_id TEXT NOT NULL, name TEXT NOT NULL, "
                "since INTEGER NOT NULL, serial INTEGER NOT NULL, value BLOB, "
                "PRIMARY KEY (tenant, run_id, name, since))"
            ),
        ),
    ),
    Step(
        5,
        additive=True,
        statements=(
            "CREATE TABLE moved (operation_id TEXT PRIMARY KEY, scope TEXT NOT NULL) WITHOUT ROWID",
            "CREATE INDEX moved_to ON moved (scope)",
        ),
    ),
    Step(
        6,
        additive=True,
        statements=(
            (
                "CREATE TABLE notes (kind TEXT NOT NULL, name TEXT NOT NULL, text TEXT NOT NULL, "
                "PRIMARY KEY (kind, name)) WITHOUT ROWID"
            ),
        ),
    ),
)
"""Every step there ever was, oldest first."""


def newest() -> int:
    """Return the version of the schema that this release writes."""
    return STEPS[-1].version


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of the schema in the file; 0 for an empty one."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'meta'").fetchone() is None:
        return 0
    return int(connection.execute("SELECT schema FROM meta").fetchone()[0])


def check_version(version: int, path: str, *, any_step: bool) -> None:
    """Refuse a schema that this release cannot take to its own version.

    Raises:
        JournalError: It is newer, or a step that changes what is there was not asked for (``any_step``).
    """
    if version > newest():
        raise JournalError(
            f"the journal {path} has schema version {version}, and this release knows versions up to {newest()}: "
            "it was written by a newer release of settled; upgrade this one"
        )
    changing = [step.version for step in STEPS if step.version > version > 0 and not step.additive]
    if changing and not any_step:
        raise JournalError(
            f"the journal {path} has schema version {version}; the step to version {changing[0]} changes what is "
            "there: stop every process that uses it, make a copy, and run `settled journal migrate`"
        )


def climb(connection: sqlite3.Connection, version: int, journal_id: str) -> None:
    """Take every step after ``version``, inside the caller's transaction; a new journal gets ``journal_id``."""
    for step in STEPS:
        if step.version > version:
            for statement in step.statements:
                connection.execute(statement)
    if version == 0:
        connection.execute("INSERT INTO meta VALUES (1, ?, ?, 0, '')", (journal_id, newest()))
    else:
        connection.execute("UPDATE meta SET schema = ?", (newest(),))
