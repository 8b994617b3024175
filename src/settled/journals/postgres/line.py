"""The connection that writes: statements travel together until an answer is asked for (libpq's pipeline mode).

Written over libpq's own calls, as psycopg passes them on: its cursors give up all prepared statements at a rollback.
"""

from __future__ import annotations

import select
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import psycopg
from msgspec import Struct
from psycopg.adapt import AdaptersMap, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, Format, TransactionStatus

from settled.journals.postgres.parameters import shape_of
from settled.journals.postgres.statements import AND_ANOTHER, BEGIN, in_schema
from settled.journals.postgres.texts import adapt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from psycopg.pq.abc import PGconn, PGresult

    from settled.journals.postgres.connect import Link
    from settled.journals.postgres.parameters import Shape

    Statement = tuple[str, Sequence[Any]]
    """With its values."""

HANGS: Final = 30.0
"""Seconds without a byte after which a server counts as gone."""
_BINARY: Final = Format.BINARY
_OK: Final = int(ConnStatus.OK)
_ROWS: Final = int(ExecStatus.TUPLES_OK)
_SYNC: Final = int(ExecStatus.PIPELINE_SYNC)
_FAILED: Final = (int(ExecStatus.FATAL_ERROR), int(ExecStatus.PIPELINE_ABORTED))


class Answer(Struct, eq=False):
    """What a statement will have found; waits for it when it is asked."""

    line: Line
    result: PGresult | None = None
    """``None``: it has not come yet."""
    rows: deque[Any] | None = None
    """Those that nobody has fetched yet."""

    def _found(self) -> deque[Any]:
        if self.rows is None:
            self.rows = deque(self.line.rows(self._come()))
        return self.rows

    def _come(self) -> PGresult:
        """Return the result, having waited for it. Raises ``psycopg.Error``."""
        if self.result is None:
            self.line.settle()
        assert self.result is not None  # noqa: S101 - for the type checker: else it has raised
        return self.result

    def fetchone(self) -> Any:
        """Return the next row, or ``None``. Raises ``psycopg.Error``."""
        found = self._found()
        return found.popleft() if found else None

    @property
    def empty(self) -> bool:
        """Whether there is no row. Raises ``psycopg.Error``."""
        return not self._come().ntuples

    def text(self) -> str:
        """Return the text at the start of the first row. Raises ``psycopg.Error``."""
        return (self._come().get_value(0, 0) or b"").decode()

    def number(self) -> int:
        """Return the ``bigint`` at the start of the last row; 0 if there is none. Raises ``psycopg.Error``."""
        result = self._come()
        last = result.ntuples - 1
        return int.from_bytes(result.get_value(last, 0) or b"", "big", signed=True) if last >= 0 else 0

    def fetchall(self) -> list[Any]:
        """Return the rows that are left. Raises ``psycopg.Error``."""
        rows = list(self._found())
        self.rows = deque()
        return rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fetchall())

    @property
    def failed(self) -> bool:
        """Whether this is what failed, as far as is known without waiting."""
        return self.result is not None and self.result.status == ExecStatus.FATAL_ERROR

    @property
    def rowcount(self) -> int:
        """How many rows were changed. Raises ``psycopg.Error``."""
        return self._come().command_tuples or 0

    @property
    def command(self) -> str:
        """What was done, in the server's words. Raises ``psycopg.Error``."""
        return (self._come().command_status or b"").decode()


class _Synced(Answer):
    """The answer to a sync: nothing but that all before it is done, or that what it was to commit failed."""


class _Ready(Struct):
    """A statement for values of some kinds, as it is sent."""

    send: Callable[[Sequence[bytes | None], Sequence[int], int], None]
    shape: Shape


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
        self._readable, self._either = select.poll(), select.poll()
        self._readable.register(self._server.socket, select.POLLIN)
        self._either.register(self._server.socket, select.POLLIN | select.POLLOUT)
        self._transformer = Transformer(_Own(connection) if own else connection)
        self._awaited: deque[Answer] = deque()
        self._ready: dict[tuple[str, tuple[type, ...]], _Ready] = {}
        """By statement and kinds of values."""
        self._unproven: list[tuple[str, tuple[type, ...]]] = []
        """Statements whose preparation may yet fail."""
        self._prepared = 0
        self._pushed: Answer | None = None
        self.tidying: Sequence[Statement] = ()
        """What makes the session as it was, where it is lent."""

    # --- sending ---

    def send(self, statement: str, values: Sequence[Any] = ()) -> Answer:
        """Send a statement without waiting. Raises ``psycopg.Error`` where there is no connection."""
        kinds = tuple(map(type, values))
        ready = self._ready.get((statement, kinds)) or self._make_ready(statement, kinds)
        shape = ready.shape
        ready.send(shape.dump(values) if values else (), shape.formats, _BINARY)
        answer = Answer(self)
        self._awaited.append(answer)
        return answer

    def send_all(self, statements: Iterable[Statement]) -> list[Answer]:
        """Send statements without waiting. Raises ``psycopg.Error`` where there is no connection."""
        return [self.send(statement, values) for statement, values in statements]

    def at_once(self, statements: Iterable[Statement]) -> list[Answer]:
        """Execute statements as one transaction, in one trip. Raises the first ``psycopg.Error`` of it.

        What is sent without ``BEGIN`` is one transaction up to the sync, which commits it.
        """
        if self.connection.pooled:  # its session may have other defaults
            self.begin()
        answers = self.send_all(statements)
        if self.connection.pooled:
            self.send("COMMIT")
        self.settle()
        return answers

    def begin(self, before: Statement | None = None) -> Answer | None:
        """Begin a transaction; ``before``: after one that looks only. Raises ``psycopg.Error`` without a connection."""
        self.send(BEGIN)
        found = None
        if before is not None:
            found = self.send(*before)
            self.send(AND_ANOTHER)
        settings = self.connection.settings
        if settings:
            calls = ", ".join(["set_config(?, ?, true)"] * len(settings))
            self.send(f"SELECT {calls}", [word for pair in settings.items() for word in pair])
        return found

    def lend(self) -> None:
        """Let others use the connection: it leaves pipeline mode."""
        if self._awaited:
            self.settle()
        self._server.exit_pipeline_mode()

    def take_back(self) -> None:
        """Use it again."""
        if self._server.status == _OK:
            self._server.enter_pipeline_mode()

    def _make_ready(self, statement: str, kinds: tuple[type, ...]) -> _Ready:
        shape = shape_of(kinds)
        text = in_schema(statement, self._schema, numbered=True).encode()
        if self.connection.pooled:  # what was prepared would be in another session
            ready = _Ready(partial(_send_whole, self._server, text, shape.types), shape)
        else:
            ready = _Ready(partial(self._server.send_query_prepared, self._prepare(text, shape)), shape)
            self._unproven.append((statement, kinds))
        self._ready[statement, kinds] = ready
        return ready

    def _prepare(self, text: bytes, shape: Shape) -> bytes:
        self._prepared += 1
        name = f"settled_{self._prepared}".encode()
        self._server.send_prepare(name, text, shape.types)
        self._awaited.append(Answer(self))
        return name

    # --- waiting ---

    def settle(self) -> None:
        """Wait until everything that was sent is done. Raises the first ``psycopg.Error`` of it.

        Not by a mere flush: only after a sync does the server count the time that we leave it idle.
        """
        self.reach(self.sync())
        self._unproven.clear()

    def push(self) -> None:
        """See that everything that was sent is done, without waiting: whoever waits next hears of trouble."""
        self._pushed = self.sync()

    @property
    def pushing(self) -> bool:
        """Whether something was pushed that nobody has waited for yet."""
        return self._pushed is not None and self._pushed.result is None

    def pushed(self) -> None:
        """Wait for what was pushed: most often it is done long since. Raises the first ``psycopg.Error`` of it."""
        if self._pushed is not None:
            self.reach(self._pushed)

    def sync(self) -> Answer:
        """Let what was sent go out; what is sent without ``BEGIN`` is one transaction up to here."""
        self._server.pipeline_sync()
        synced = _Synced(self)
        self._awaited.append(synced)
        return synced

    def reach(self, last: Answer) -> None:
        """Send and receive until ``last`` is there. Raises the first ``psycopg.Error`` of it."""
        server, awaited = self._server, self._awaited
        unsent = server.flush()
        while last.result is None:
            if server.is_busy():
                unsent = self._exchange(unsent)
                continue
            result = server.get_result()
            if result is None or not awaited:
                self._mind_silence(result)
                continue
            status = result.status
            if status != _SYNC:
                server.get_result()  # nothing: it has ended
            if status in _FAILED:
                self._fail(result)
            awaited.popleft().result = result

    def _mind_silence(self, result: PGresult | None) -> None:
        """Nothing has come, or what nobody waits for."""
        if result is not None:
            raise psycopg.OperationalError("the server answers what it was not asked")
        if self._server.status != _OK:
            raise psycopg.OperationalError("the connection is lost")

    def _fail(self, result: PGresult) -> None:
        """Raise what has failed. A sync that failed to commit is followed by its own end, nevertheless."""
        if type(self._awaited[0]) is not _Synced:
            self._awaited.popleft().result = result
        raise error_from_result(result)

    def _exchange(self, unsent: int) -> int:
        """Wait for the socket; return whether something is still to be sent."""
        if not (self._either if unsent else self._readable).poll(self._hangs * 1000):
            self.close()
            raise psycopg.OperationalError(f"the server has not answered for {self._hangs:g} s")
        self._server.consume_input()
        return self._server.flush()

    def rows(self, result: PGresult) -> list[Any]:
        """Return the rows of a result."""
        if result.status != _ROWS:
            return []
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, result.ntuples, tuple)

    # --- ending ---

    def roll_back(self) -> bool:
        """End the transaction; return whether the connection can serve another."""
        for statement in self._unproven:
            self._ready.pop(statement, None)
        try:
            if self._awaited:
                self._drain()
            if self._server.transaction_status != TransactionStatus.IDLE:
                self.send("ROLLBACK")
                self.settle()
        except psycopg.Error:
            return False
        return not self.connection.closed

    def _drain(self) -> None:
        """Let whatever failed, and all behind it, come in."""
        synced = self.sync()
        while synced.result is None:
            with suppress(psycopg.Error):
                self.reach(synced)
            if self.connection.closed:
                return

    def close(self) -> None:
        """Close the connection; the server rolls back what was under way."""
        with suppress(psycopg.Error):
            self.connection.close()


def _send_whole(  # noqa: PLR0917 - as libpq has them
    server: PGconn, text: bytes, types: Sequence[int], data: Sequence[bytes | None], formats: Sequence[int], of: int
) -> None:
    """Send a statement with all that is to be known of it."""
    server.send_query_params(text, data, types, formats, of)
