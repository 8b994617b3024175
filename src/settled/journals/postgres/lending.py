"""Connections that tools get for a transaction of their own: as plain as any other of their program's."""

from __future__ import annotations

from queue import Empty, SimpleQueue
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
    from settled.journals.postgres.connect import Link
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
        self._places: SimpleQueue[None] = SimpleQueue()  # a semaphore of threading's is many steps of Python
        for _ in range(self._most):
            self._places.put(None)
        self._closed = False

    @property
    def free(self) -> bool:
        """Whether there is one for who asks now."""
        return not self._places.empty()

    def take(self) -> Line:
        """Lend one, until it is given back.

        Raises ``JournalError`` where none can be had, ``psycopg.Error`` where the server is away.
        """
        try:
            self._places.get(timeout=self._connections.patience)
        except Empty:
            raise JournalError(
                f"the journal {self._connections.address.shown}: tools hold all {self._most} connections for "
                "transactions; nothing was executed: raise pool="
            ) from None
        try:
            line = self._tidy_one() or self._another()
        except BaseException:
            self._places.put(None)
            raise
        self._out.add(line)
        return line

    def give_back(self, line: Line) -> None:
        """Let others have it."""
        if line not in self._out:
            return  # the parent's, in a child that was forked meanwhile
        self._out.remove(line)
        try:
            self._take_back(line)
        finally:
            self._places.put(None)

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
        line = Line(link, self._connections.address.schema, hangs=HANGS + patience, own=True)
        line.tidying = _tidying(link)
        return line

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
    if not line.connection.pooled:  # else it was done within
        line.send_all(line.tidying)
        line.push()


def _tidying(link: Link) -> list[tuple[str, list[str]]]:
    """Return what makes a session as it was, and sets it anew: behind a pooler for the transaction alone."""
    settings, within = (link.settings, "true") if link.pooled else (link.own_settings, "false")
    set_anew = "".join(f", set_config(?, ?, {within})" for _ in settings)
    last = f"SELECT {_AND_SO}, pg_advisory_unlock_all(){set_anew}"
    return [*((each, []) for each in _TIDYING), (last, [word for pair in settings.items() for word in pair])]


_TIDYING: Final = ("CLOSE ALL", "UNLISTEN *", "DISCARD TEMP", "RESET ALL")
# NULL: as RESET does it.
_AND_SO: Final = "set_config('session_authorization', NULL, false), set_config('role', NULL, false)"


def _session_over(link: Any) -> Any:
    return session_over(link, "postgresql+psycopg://")


def run_in(line: Line, work: Joint) -> Any:
    """Let a tool work in a transaction that was begun on ``line``; return what puts it on record.

    Raises:
        EndedByTool: It has ended the transaction itself.
    """
    link = line.connection
    line.lend()
    link.lent = True
    try:
        made = work.run(Transaction(link, _session_over))
    finally:
        link.lent = False
        line.take_back()
    status = link.pgconn.transaction_status
    if status == TransactionStatus.IDLE:
        raise EndedByTool
    if status != TransactionStatus.INTRANS:
        return None
    if link.pooled:  # from its commit on the session is anybody's
        line.send_all(line.tidying)
    return made
