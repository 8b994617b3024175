"""Connections, and how those speak that only look."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from settled.errors import JournalError
from settled.journals.postgres.statements import in_schema
from settled.journals.postgres.texts import adapt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from psycopg import ServerCursor

    from settled.journals.postgres.address import Address

# A process that stops amid a transaction (SIGSTOP, a debugger) must not hold its locks for ever.
_TO_BE_LENT: Final = {"idle_in_transaction_session_timeout": "60s"}
_SETTINGS: Final = {
    # Rows that a policy hides would be calls that were never made: rather an error.
    "row_security": "off",
    # As ``BEGIN`` says it, where that is left out.
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "idle_in_transaction_session_timeout": "10s",
    # Statistics of a young table would lead to plans that do not fit when it has grown.
    "enable_seqscan": "off",
    "plan_cache_mode": "force_generic_plan",
}

_KEEPALIVE: Final = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""Seconds (the last: milliseconds) after which a server that no longer answers counts as gone."""


_LOOK: Final = (
    "SELECT pg_backend_pid(), current_setting('synchronous_commit'), current_setting('server_version_num')::int"
)
OLDEST: Final = 130000
"""The oldest server that has what the statements use."""


class Link(Connection):
    """A connection, to a server or to a pooler before it.

    A pooler in transaction mode gives each transaction another session of the server: nothing that belongs to a
    session may be relied upon - settings, prepared statements, ``LISTEN``.
    """

    of_journal = True
    """What goes over it is no tool's doing (settled.transports)."""
    pooled = False
    """Whether a pooler is between here and the server, of whatever mode."""
    settings: Mapping[str, str] = {}
    """What must hold in each transaction, where it cannot be set for the session."""
    own_settings: Mapping[str, str] = {}
    """What was set for the session."""
    lent = False
    """A tool works in the transaction, which is the journal's to end."""

    def commit(self) -> None:
        """Commit, unless a tool asks for it."""
        self._refuse()
        super().commit()

    def rollback(self) -> None:
        """Roll back, unless a tool asks for it."""
        self._refuse()
        super().rollback()

    def close(self) -> None:
        """Close, unless a tool asks for it: whoever lends the connection goes on with it."""
        if not self.lent:
            super().close()

    def _refuse(self) -> None:
        if self.lent:
            raise psycopg.ProgrammingError(
                "the transaction is the journal's: it is committed when the tool returns, rolled back when it raises"
            )


def connect(address: Address, patience: float, *, lent: bool = False) -> Link:
    """Open a connection, or a plain one to be lent to tools. Raises ``psycopg.Error``, ``JournalError``."""
    wishes: dict[str, Any] = {"connect_timeout": max(2, round(patience)), "application_name": "settled", **_KEEPALIVE}
    given = conninfo_to_dict(address.connect)
    words = make_conninfo(**{**wishes, **given, "client_encoding": "utf8"})
    link = Link.connect(words, autocommit=True)
    try:
        if not lent:
            adapt(link.adapters)
        _settle(link, address, patience, _TO_BE_LENT if lent else _SETTINGS)
    except BaseException:
        link.close()
        raise
    return link


def _settle(link: Link, address: Address, patience: float, wanted: Mapping[str, str]) -> None:
    pid, synchronous, version = link.execute(_LOOK).fetchone() or (0, "", 0)
    if version < OLDEST:
        raise JournalError(
            f"the server of {address.shown} is PostgreSQL {version // 10000}: it takes {OLDEST // 10000} or newer"
        )
    # A pooler makes up the number by which a client could cancel; a server gives that of the process itself.
    link.pooled = pid != link.pgconn.backend_pid
    settings = {**wanted, "lock_timeout": f"{max(1, round(patience * 1000))}ms"}
    # A role or database may be set to answer before a commit is durable; this journal may not. It is said in any case:
    # what is not, follows whatever the server is told while it runs.
    settings["synchronous_commit"] = "on" if synchronous == "off" else synchronous
    if link.pooled:
        link.settings, link.prepare_threshold = settings, None
        return
    link.own_settings = settings
    for name, value in settings.items():
        link.execute("SELECT set_config(%s, %s, false)", (name, value))


def leave_to_parent(connection: Connection) -> None:
    """In a forked child: let whatever the inherited connection still writes or closes reach nobody."""
    with suppress(OSError, psycopg.Error):
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, connection.fileno())
        os.close(nothing)


class Reader:
    """A connection that only looks, one answer at a time."""

    def __init__(self, connection: Connection, schema: str, *, whole: bool = False) -> None:
        self.connection = connection
        self._schema = schema
        self._whole = whole
        """Lists may be larger than memory: they are fetched piece by piece, within a transaction."""
        self._lists: list[ServerCursor[Any]] = []

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Any:
        """Execute one statement."""
        query = in_schema(statement, self._schema).encode()
        if not self._whole or " WHERE " in statement:
            return self.connection.execute(query, values, binary=True)
        cursor = self.connection.cursor(f"list_{len(self._lists)}", binary=True)
        cursor.itersize = 2000
        self._lists.append(cursor)
        return cursor.execute(query, values)

    @contextmanager
    def of_one_moment(self) -> Iterator[Reader]:
        """Show everything as it is now, however long that takes to read."""
        self.connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            # Reading all of a large log may take longer than others are allowed to pause.
            self.connection.execute("SELECT set_config('idle_in_transaction_session_timeout', '0', true)")
            whole = Reader(self.connection, self._schema, whole=True)
            yield whole
            for cursor in whole._lists:
                cursor.close()
        finally:
            if not self.connection.closed:
                self.connection.execute("ROLLBACK")
