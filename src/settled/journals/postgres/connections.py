"""This process's connections: one that writes, and a small pool of those that look."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from random import uniform
from secrets import token_hex
from typing import TYPE_CHECKING, Final

import psycopg

from settled.errors import JournalError
from settled.journals.mark import not_there
from settled.journals.postgres import schema
from settled.journals.postgres.connect import Link, Reader, connect, leave_to_parent
from settled.journals.postgres.line import HANGS, Line
from settled.journals.postgres.statements import in_schema
from settled.journals.postgres.trouble import explained, worth_waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection

    from settled.journals.mark import Mark
    from settled.journals.postgres.address import Address
    from settled.journals.postgres.identity import Identity

_abandoned: Final[list[object]] = []
"""Inherited over a fork: never used again."""
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"


class Connections:
    """Connections to one journal."""

    def __init__(self, address: Address, identity: Identity, *, pool: int, patience: float) -> None:
        self.address, self.identity, self.patience = address, identity, patience
        self.pool = pool
        self._begin(closed=False)

    def _begin(self, *, closed: bool) -> None:
        self._line: Line | None = None
        self._idle: list[Connection] = []
        self._lent = 0
        self._free = threading.Condition()
        self._closed = closed

    def forget(self, *, closed: bool) -> None:
        """Begin without any, in a forked child."""
        for connection in (*self._idle, *([self._line.connection] if self._line else ())):
            leave_to_parent(connection)
        _abandoned.extend((*self._idle, self._line))
        self._begin(closed=closed)

    # --- opening ---

    def open(self, *, journal_id: str | None, must_exist: bool, any_step: bool = False) -> int:
        """Connect, bring the schema to this release's version, check that it is the right journal.

        Returns:
            The version of the schema that it had, 0 for a new one.

        Raises:
            JournalError: It cannot be used; the message says what to do.
        """
        mark = self.identity.look_first()
        required = must_exist or journal_id is not None
        try:
            connection = connect(self.address, self.patience)
        except psycopg.Error as fault:
            raise explained(fault, self.address.shown, doing="it cannot be opened; nothing was executed") from fault
        try:
            version = self._prepare(connection, mark, required=required, any_step=any_step)
            self._recognise(connection, mark, journal_id)
        except psycopg.Error as fault:
            connection.close()
            raise explained(fault, self.address.shown, doing="it cannot be opened; nothing was executed") from fault
        except BaseException:
            connection.close()
            raise
        self._line = self._line_over(connection)
        return version

    def _prepare(self, connection: Connection, mark: Mark | None, *, required: bool, any_step: bool) -> int:
        version, oldest = schema.version_of(connection, self.address.schema)
        schema.check_version(version, oldest, self.address.shown, any_step=any_step)
        if version >= schema.newest():
            return version
        if version == 0:
            self._check_creation(connection, mark, required=required)
        with connection.transaction():
            connection.execute("SELECT set_config('lock_timeout', '60s', true)")  # as long as a step may take
            connection.execute(_LOCK, (f"settled schema {self.address.schema}",))
            version, oldest = schema.version_of(connection, self.address.schema)  # another may have been faster
            schema.check_version(version, oldest, self.address.shown, any_step=any_step)
            if version < schema.newest():
                schema.climb(connection, self.address.schema, version, oldest, f"jn_{token_hex(16)}")
        return version

    def _check_creation(self, connection: Connection, mark: Mark | None, *, required: bool) -> None:
        if mark is not None:
            raise self.identity.gone()
        if required:
            raise not_there(self.address.shown)
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise JournalError(
                f"the database of {self.address.shown} is encoded in {encoding}: create one with ENCODING 'UTF8'"
            )

    def _recognise(self, connection: Connection, mark: Mark | None, journal_id: str | None) -> None:
        found, highest = self._identity(connection)
        if journal_id is not None and found != journal_id:
            raise JournalError(
                f"the journal {self.address.shown} is {found}, and journal_id= asks for {journal_id}: it is not the "
                "one that was in use; nothing was executed. Correct the address, or journal_id="
            )
        self.identity.check(found, highest, mark)
        self.identity.take(found, highest)
        self.identity.leave_mark(must=mark is None)

    def _identity(self, connection: Connection) -> tuple[str, int]:
        statement = "SELECT journal_id, coalesce((SELECT max(id) FROM log), 0) FROM meta"
        row = connection.execute(in_schema(statement, self.address.schema)).fetchone()
        if row is None:
            raise JournalError(f"the table meta of {self.address.shown} is empty: restore it from a backup")
        return str(row[0]), int(row[1])

    def another(self, *, lent: bool = False) -> Link:
        """Connect once more to the journal that was opened. Raises ``psycopg.Error``, ``JournalError``."""
        connection = connect(self.address, self.patience, lent=lent)
        try:
            known = self.identity.mark()  # before: others commit meanwhile
            self.identity.check(*self._identity(connection), known)
        except BaseException:
            connection.close()
            raise
        return connection

    # --- the one that writes ---

    def line(self) -> Line:
        """Return the line that writes; only the leader of the group commit may ask. Raises ``psycopg.Error``."""
        if self._line is not None and self._line.connection.closed:
            self.drop_line()
        if self._line is None:
            self._line = self._line_over(self.another())
        return self._line

    def _line_over(self, connection: Link) -> Line:
        return Line(connection, self.address.schema, hangs=HANGS + self.patience)  # it may wait that long for a lock

    def drop_line(self) -> None:
        """Close the line that writes; the next transaction opens another."""
        line, self._line = self._line, None
        if line is not None:
            line.close()

    # --- those that look ---

    @contextmanager
    def reader(self, *, patient: bool = True) -> Iterator[Reader]:
        """Lend a connection that only looks; ``patient``: waiting for one where all are lent, or the server is away.

        Raises:
            JournalError: None can be had, or the server ended it.
        """
        patience = self.patience if patient else 0.0
        self._enter(patience)
        connection: Connection | None = None
        try:
            connection = self._ready(patience)
            yield Reader(connection, self.address.schema)
        except psycopg.Error as fault:
            raise explained(fault, self.address.shown, doing="it cannot be read") from fault
        finally:
            self._leave(connection)

    def _enter(self, patience: float) -> None:
        deadline = time.monotonic() + patience
        with self._free:
            while self._lent >= self.pool and not self._closed:
                if not self._free.wait(deadline - time.monotonic()):
                    raise JournalError(
                        f"the journal {self.address.shown}: all {self.pool} connections are in use; raise pool="
                    )
            if self._closed:
                raise self.closed_error()
            self._lent += 1

    def _leave(self, connection: Connection | None) -> None:
        with self._free:
            self._lent -= 1
            if connection is not None and not connection.closed:
                if self._closed:
                    connection.close()
                else:
                    self._idle.append(connection)
            self._free.notify()

    def _ready(self, patience: float) -> Connection:
        """Return a connection that answers: the server may have been restarted since it was used."""
        while True:
            with self._free:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return self._patiently(patience)
            with suppress(psycopg.Error):
                connection.execute("SELECT 1")
                return connection
            connection.close()

    def _patiently(self, patience: float) -> Connection:
        deadline = time.monotonic() + patience
        while True:
            try:
                return self.another()
            except psycopg.Error as fault:
                if not worth_waiting(fault) or time.monotonic() >= deadline:
                    raise
            time.sleep(uniform(0.01, 0.05))  # noqa: S311 - spreads those that wait; no secret

    # --- the end ---

    def closed_error(self) -> JournalError:
        """Return the error for work on a journal that was closed."""
        return JournalError(f"the journal {self.address.shown} was closed; nothing was executed: open it anew")

    def close(self) -> None:
        """Close those that are idle; the others as they come back."""
        with self._free:
            self._closed = True
            self._free.notify_all()
            while self._idle:
                self._idle.pop().close()
