"""The connection that writes: statements travel together until an answer is asked for (libpq's pipeline mode).

Written over libpq's own calls, as psycopg passes them on: its cursors give up all prepared statements at a rollback.
"""

from __future__ import annotations

import select
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.adapt import AdaptersMap, PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format

from settled.journals.postgres.statements import BEGIN, in_schema
from settled.journals.postgres.texts import adapt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from psycopg.pq.abc import PGresult

    from settled.journals.postgres.connect import Link

HANGS: Final = 30.0
"""Seconds without a byte after which a server counts as gone."""
_FAILED: Final = (ExecStatus.FATAL_ERROR, ExecStatus.PIPELINE_ABORTED)


class Answer:
    """What a statement will have found; waits for it when it is asked."""

    __slots__ = ("_line", "_rows", "done", "result")

    def __init__(self, line: Line) -> None:
        self._line = line
        self._rows: deque[Any] | None = None
        self.result: PGresult | None = None
        self.done = False

    def _found(self) -> deque[Any]:
        if self._rows is None:
            self._line.wait(self)
            self._rows = deque(self._line.rows(self.result))
        return self._rows

    def fetchone(self) -> Any:
        """Return the next row, or ``None``. Raises ``psycopg.Error``."""
        found = self._found()
        return found.popleft() if found else None

    def kept(self) -> Any:
        """Return the first row, and leave it there to be asked for again. Raises ``psycopg.Error``."""
        found = self._found()
        return found[0] if found else None

    def fetchall(self) -> list[Any]:
        """Return the rows that are left. Raises ``psycopg.Error``."""
        rows = list(self._found())
        self._rows = deque()
        return rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fetchall())

    @property
    def rowcount(self) -> int:
        """How many rows were changed. Raises ``psycopg.Error``."""
        self._found()
        return (self.result.command_tuples or 0) if self.result else 0

    @property
    def command(self) -> str:
        """What was done, in the server's words."""
        return ((self.result.command_status if self.result else None) or b"").decode()


class _Own:
    """How values travel for the journal, on a connection where a tool's go as ever."""

    def __init__(self, connection: Link) -> None:
        self.connection = connection
        self.adapters = AdaptersMap(connection.adapters)
        adapt(self.adapters)


class Line:
    """One connection, kept in pipeline mode. ``hangs``: see ``HANGS``; ``own``: it is lent to tools in between."""

    def __init__(self, connection: Link, schema: str, *, hangs: float = HANGS, own: bool = False) -> None:
        self.connection = connection
        self._schema, self._hangs = schema, hangs
        self._server = connection.pgconn
        self._server.enter_pipeline_mode()
        self._transformer = Transformer(_Own(connection) if own else connection)
        self._awaited: deque[Answer] = deque()
        self._names: dict[tuple[str, tuple[int, ...]], bytes] = {}
        self._unproven: list[tuple[str, tuple[int, ...]]] = []
        """Statements whose preparation may yet fail."""
        self._prepared = 0

    # --- sending ---

    def send(self, statement: str, values: Sequence[Any] = ()) -> Answer:
        """Send a statement without waiting. Raises ``psycopg.Error`` where there is no connection."""
        transformer = self._transformer
        data = transformer.dump_sequence(values, [PyFormat.AUTO] * len(values))
        types = transformer.types or ()
        if self.connection.pooled:  # what was prepared would be in another session
            text = in_schema(statement, self._schema, numbered=True).encode()
            self._server.send_query_params(text, data, types, transformer.formats, result_format=Format.BINARY)
            return self._await()
        name = self._names.get((statement, types)) or self._prepare(statement, types)
        self._server.send_query_prepared(name, data, transformer.formats, result_format=Format.BINARY)
        return self._await()

    def begin(self) -> None:
        """Begin a transaction. Raises ``psycopg.Error`` where there is no connection."""
        self.send(BEGIN)
        settings = self.connection.settings
        if settings:
            calls = ", ".join(["set_config(?, ?, true)"] * len(settings))
            self.send(f"SELECT {calls}", [word for pair in settings.items() for word in pair])

    @contextmanager
    def plain(self) -> Iterator[None]:
        """Within this, the connection is out of pipeline mode."""
        self.settle()
        self._server.exit_pipeline_mode()
        try:
            yield
        finally:
            if not self.connection.closed:
                self._server.enter_pipeline_mode()

    def _prepare(self, statement: str, types: tuple[int, ...]) -> bytes:
        self._prepared += 1
        name = f"settled_{self._prepared}".encode()
        self._server.send_prepare(name, in_schema(statement, self._schema, numbered=True).encode(), types)
        self._await()
        self._names[statement, types] = name
        self._unproven.append((statement, types))
        return name

    def _await(self) -> Answer:
        answer = Answer(self)
        self._awaited.append(answer)
        return answer

    # --- waiting ---

    def wait(self, answer: Answer) -> None:
        """Wait for one answer, and so for all that was sent. Raises the first ``psycopg.Error`` of it."""
        if not answer.done:
            self._sync()

    def settle(self) -> None:
        """Wait until everything that was sent is done. Raises the first ``psycopg.Error`` of it."""
        self._sync()

    def _sync(self) -> None:
        """Wait for all. Not by a mere flush: only after a sync does the server count the time that we leave it idle."""
        self._server.pipeline_sync()
        synced = self._await()
        self._pump(lambda: synced.done)
        self._unproven.clear()

    def _pump(self, done: Callable[[], bool]) -> None:
        """Send and receive until ``done``."""
        server = self._server
        unsent = server.flush()
        while not done():
            if server.is_busy():
                unsent = self._exchange(unsent)
            else:
                self._receive(server.get_result())

    def _exchange(self, unsent: int) -> int:
        """Wait for the socket; return whether something is still to be sent."""
        poll = select.poll()
        poll.register(self._server.socket, select.POLLIN | (select.POLLOUT if unsent else 0))
        if not poll.poll(self._hangs * 1000):
            self.close()
            raise psycopg.OperationalError(f"the server has not answered for {self._hangs:g} s")
        self._server.consume_input()
        return self._server.flush()

    def _receive(self, result: PGresult | None) -> None:
        if not self._awaited:
            raise psycopg.OperationalError("the server answers what it was not asked")
        answer = self._awaited[0]
        if result is None:
            answer.done = answer.result is not None
        else:
            answer.result = result
            answer.done = result.status == ExecStatus.PIPELINE_SYNC
        if answer.done:
            self._awaited.popleft()
            if answer.result is not None and answer.result.status in _FAILED:
                raise error_from_result(answer.result)
        elif result is None and self._server.status != psycopg.pq.ConnStatus.OK:
            raise psycopg.OperationalError("the connection is lost")

    def rows(self, result: PGresult | None) -> list[Any]:
        """Return the rows of a result."""
        if result is None or result.status != ExecStatus.TUPLES_OK:
            return []
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, result.ntuples, tuple)

    # --- ending ---

    def roll_back(self) -> bool:
        """End the transaction; return whether the connection can serve another."""
        for statement in self._unproven:
            self._names.pop(statement, None)
        try:
            self._drain()
            self.send("ROLLBACK")
            self.settle()
        except psycopg.Error:
            return False
        return not self.connection.closed

    def _drain(self) -> None:
        """Let whatever failed, and all behind it, come in."""
        self._server.pipeline_sync()
        synced = self._await()
        while not synced.done:
            with suppress(psycopg.Error):
                self._pump(lambda: synced.done)
            if self.connection.closed:
                return

    def close(self) -> None:
        """Close the connection; the server rolls back what was under way."""
        with suppress(psycopg.Error):
            self.connection.close()
