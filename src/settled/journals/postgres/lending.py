"""Connections that tools get for a transaction of their own: as plain as any other of their program's."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from settled.errors import JournalError
from settled.journals.postgres.connect import leave_to_parent
from settled.journals.postgres.line import HANGS, Line
from settled.journals.sessions import session_over
from settled.transaction import EndedByTool, Transaction

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from settled.journals.postgres.connections import Connections
    from settled.ports import Joint

_abandoned: Final[list[Line]] = []


class Lending:
    """Lines for tools' transactions: at most ``most`` at a time."""

    def __init__(self, connections: Connections, most: int) -> None:
        self._connections, self._most = connections, most
        self._begin()

    def _begin(self) -> None:
        self._idle: list[Line] = []
        self._out: set[Line] = set()
        self._places = threading.BoundedSemaphore(self._most)
        self._closed = False

    @property
    def free(self) -> bool:
        """Whether there is one for who asks now."""
        return len(self._out) < self._most

    @contextmanager
    def line(self) -> Iterator[Line]:
        """Lend one. Raises ``JournalError`` where none can be had, ``psycopg.Error`` where the server is away."""
        if not self._places.acquire(timeout=self._connections.patience):
            raise JournalError(
                f"the journal {self._connections.address.shown}: tools hold all {self._most} connections for "
                "transactions; nothing was executed: raise pool="
            )
        line: Line | None = None
        try:
            line = self._tidy_one() or self._another()
            self._out.add(line)
            yield line
        finally:
            if line is not None:
                self._out.discard(line)
                self._take_back(line)
            self._places.release()

    def _tidy_one(self) -> Line | None:
        """Return one that was lent before, once it is as it was."""
        while self._idle:
            line = self._idle.pop()
            try:
                line.pushed()
            except psycopg.Error:
                line.close()
            else:
                return line
        return None

    def _another(self) -> Line:
        link = self._connections.another(lent=True)
        patience = self._connections.patience
        return Line(link, self._connections.address.schema, hangs=HANGS + patience, own=True)

    def _take_back(self, line: Line) -> None:
        link = line.connection
        if link.closed:
            return
        link.row_factory, link.cursor_factory = tuple_row, psycopg.Cursor
        if self._closed or not (line.pushing or _tidied(line)):
            line.close()
        else:
            self._idle.append(line)

    def close(self) -> None:
        """Close those that are idle; the others as they come back."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def forget(self) -> None:
        """Begin without any, in a forked child."""
        lines = [*self._idle, *self._out]  # one that is lent to the very tool that has forked, too
        for line in lines:
            leave_to_parent(line.connection)
        _abandoned.extend(lines)
        self._begin()


def _tidied(line: Line) -> bool:
    """Let what a tool has left in the session be taken away; return whether the session can be used again."""
    try:
        if line.connection.pgconn.transaction_status == TransactionStatus.IDLE:
            tidy(line)
            return True
    except psycopg.Error:
        pass  # it is closed: the next tool gets another
    return False


def tidy(line: Line) -> None:
    """Let what a tool has left in the session be taken away, behind the end of its transaction."""
    link = line.connection
    if not link.pooled:  # else it was done within
        _send_tidying(line, link.own_settings, within="false")
        line.push()


_TIDYING: Final = ("RESET SESSION AUTHORIZATION", "RESET ROLE", "CLOSE ALL", "UNLISTEN *", "DISCARD TEMP", "RESET ALL")


def _send_tidying(line: Line, settings: Mapping[str, str], *, within: str) -> None:
    """Send what makes a session as it was, and set it anew; ``within``: for the transaction alone, ``true``."""
    for statement in _TIDYING:
        line.send(statement)
    set_anew = "".join(f", set_config(?, ?, {within})" for _ in settings)
    line.send(f"SELECT pg_advisory_unlock_all(){set_anew}", [word for pair in settings.items() for word in pair])


def run_in(line: Line, work: Joint) -> Any:
    """Let a tool work in a transaction that was begun on ``line``; return what puts it on record.

    Raises:
        EndedByTool: It has ended the transaction itself.
    """
    link = line.connection
    with line.plain():
        link.lent = True
        try:
            made = work.run(Transaction(link, lambda lent: session_over(lent, "postgresql+psycopg://")))
        finally:
            link.lent = False
    status = link.pgconn.transaction_status
    if status == TransactionStatus.IDLE:
        raise EndedByTool
    if status != TransactionStatus.INTRANS:
        return None
    if link.pooled:  # from its commit on the session is anybody's
        _send_tidying(line, link.settings, within="true")
    return made
