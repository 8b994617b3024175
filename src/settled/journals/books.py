"""The records in tables, as a transition sees them: one statement per look-up and per change.

Statements are written for SQLite; another store reads them in its own tongue (see ``Look``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, Protocol

from settled.core.call import LogRow
from settled.core.states import MAY_HAVE_EFFECT, Event, State
from settled.journals.rows import CHANGING, COLUMNS, call_of, changing, fixed, plain
from settled.journals.runs import RunTables
from settled.journals.unread import UnreadableError, readable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from settled.core.call import Call
    from settled.core.model import Moment
    from settled.journals.audit import Head

_COLUMNS: Final = ", ".join(COLUMNS)
_TEXTS: Final = len(COLUMNS) - 3  # the columns before the two payloads and the body

SELECT_CALL: Final = f"SELECT {_COLUMNS} FROM calls"  # noqa: S608 - made of constants
SELECT_LOG: Final = "SELECT operation_id, no, at, event, state, epoch, attempt, detail, digest, head FROM log"
SELECT_HEAD: Final = "SELECT operation_id, no, head FROM log"

BY_ID: Final = f"{SELECT_CALL} WHERE operation_id = ?"
BY_KEY: Final = f"{SELECT_CALL} WHERE key = ?"
BY_STEP: Final = "SELECT operation_id FROM steps WHERE scope = ? AND step = ?"
_MAY_HAVE_EFFECT: Final = ", ".join(f"'{state}'" for state in sorted(MAY_HAVE_EFFECT))
# INDEXED BY: the plan is part of the promise that cost does not grow with the journal; SQLite refuses any other.
_ALIKE: Final = "INDEXED BY calls_alike WHERE scope = ? AND scope <> '' AND tool = ? AND lane = ? AND identity = ?"
ALIKE: Final = f"{SELECT_CALL} {_ALIKE} AND entry >= ? AND entry <= ? ORDER BY seq"
LAST_N: Final = f"SELECT max(n) FROM calls {_ALIKE}"  # noqa: S608 - made of constants
MADE: Final = (
    f"{SELECT_CALL} INDEXED BY calls_made WHERE scope = ? AND scope <> '' AND tool = ? AND entry >= ? AND entry <= ? "
    f"AND state IN ({_MAY_HAVE_EFFECT}) ORDER BY seq"
)
_UNSETTLED: Final = (
    f"{SELECT_CALL} INDEXED BY calls_open WHERE state IN ('unknown', 'processing') AND state <> 'succeeded' "
    "AND tool = ? AND scope = ? AND tenant = ?"
)
UNSETTLED: Final = f"{_UNSETTLED} ORDER BY seq"
UNSETTLED_ALIKE: Final = f"{_UNSETTLED} AND identity = ? ORDER BY seq"
ADRIFT: Final = (
    f"{SELECT_CALL} INDEXED BY calls_open WHERE state = ? AND state <> 'succeeded' AND tenant = ? "
    "AND (lease_boot <> ? OR lease_mono <= ?)"
)
OF_FEW: Final = "+seq"
"""The order of a call, where few among many are looked for: not by the index of all calls, which is in this order.

PostgreSQL, asked for the first few in that order, else hopes to meet them soon on its way through all there are.
"""
OWED: Final = "SELECT operation_id FROM owed WHERE tenant = ? AND tool = ? AND fingerprint = ? ORDER BY seq"
TURN: Final = "SELECT entry FROM turns WHERE tenant = ? AND run_id = ? AND turn = ? ORDER BY entry"

_PLACES: Final = ", ".join("?" * len(COLUMNS))
INSERT_CALL: Final = f"INSERT INTO calls ({_COLUMNS}) VALUES ({_PLACES})"  # noqa: S608 - made of constants
_CHANGES: Final = ", ".join(f"{name} = ?" for name in CHANGING)
UPDATE_CALL: Final = f"UPDATE calls SET {_CHANGES} WHERE operation_id = ? AND log_no = ?"  # noqa: S608 - made of constants
INSERT_LOG: Final = (
    "INSERT INTO log (operation_id, no, at, event, state, epoch, attempt, detail, digest, head) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
PROLONG: Final = "UPDATE calls SET lease_wall = ?, lease_boot = ?, lease_mono = ? WHERE operation_id = ?"
PUT_STEP: Final = "INSERT INTO steps (scope, step, operation_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
PUT_OWED: Final = (
    "INSERT INTO owed (tenant, tool, fingerprint, operation_id) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
DROP_OWED: Final = "DELETE FROM owed WHERE operation_id = ?"
PUT_TURN: Final = "INSERT INTO turns (tenant, run_id, turn, entry) VALUES (?, ?, ?, ?)"
NOTE: Final = "SELECT text FROM notes WHERE kind = ? AND name = ?"
NOTES: Final = "SELECT name, text FROM notes WHERE kind = ? ORDER BY name"
PUT_NOTE: Final = (
    "INSERT INTO notes (kind, name, text) VALUES (?, ?, ?) ON CONFLICT (kind, name) DO UPDATE SET text = excluded.text"
)
DROP_NOTE: Final = "DELETE FROM notes WHERE kind = ? AND name = ?"
ALERT: Final = "INSERT INTO outbox (kind, operation_id, at) VALUES (?, ?, ?)"


class Rows(Protocol):
    """What a statement has found."""

    @property
    def rowcount(self) -> int:
        """How many rows were changed."""

    def fetchone(self) -> Any:
        """Return the next row, or ``None``."""

    def fetchall(self) -> Sequence[Any]:
        """Return the rows that are left."""

    def __iter__(self) -> Iterator[Any]:
        """Go through the rows that are left."""


class Look(Protocol):
    """A way to execute the statements that the journals share; texts come and go as they are, whatever is in them."""

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Rows:
        """Execute one statement with a value for each ``?``."""


class TableBooks(RunTables, ABC):
    """The look-ups and changes of one transaction."""

    LOCKING = ""
    """What of a statement passes over rows that another transaction is at."""

    @abstractmethod
    def look(self, statement: str, *values: Any) -> Rows:
        """Execute a statement that only reads."""

    @abstractmethod
    def write(self, statement: str, *values: Any) -> Rows:
        """Execute a statement that changes the journal."""

    def calls(self, statement: str, *values: Any) -> list[Call]:
        """Return the calls that a statement finds."""
        return [read_call(row) for row in self.look(statement, *values)]

    def know(self, call: Call) -> Call:
        """Take note of a call that was read, and return it."""
        return call

    def by_id(self, operation_id: str) -> Call | None:
        """Return the call with this operation id."""
        return next(iter(self.calls(BY_ID, operation_id)), None)

    def by_key(self, key: str) -> Call | None:
        """Return the call with this key."""
        return next(iter(self.calls(BY_KEY, key)), None)

    def by_step(self, scope: str, step: str) -> str | None:
        """Return the operation id that a step stands for in a scope."""
        row = self.look(BY_STEP, scope, step).fetchone()
        return None if row is None else plain(row[0])

    def alike(self, scope: str, lane: str, tool: str, identity: str, entries: Sequence[int]) -> Sequence[Call]:
        """Return the calls of one identity made in ``entries``, in order of creation."""
        if not entries:
            return ()
        found = self.calls(ALIKE, scope, tool, lane, identity, entries[0], entries[-1])
        return [call for call in found if call.entry in entries]

    def made(self, scope: str, tool: str, entries: Sequence[int]) -> Sequence[Call]:
        """Return the calls of one tool made in ``entries`` that may have had an effect."""
        if not entries:
            return ()
        found = self.calls(MADE, scope, tool, entries[0], entries[-1])
        return [call for call in found if call.entry in entries]

    def unsettled(self, tenant: str, scope: str, tool: str, identity: str | None = None) -> Sequence[Call]:
        """Return the calls of one tool in one scope whose outcome is open, in order of creation; of one identity."""
        if identity is None:
            return self.calls(UNSETTLED, tool, scope, tenant)
        return self.calls(UNSETTLED_ALIKE, tool, scope, tenant, identity)

    def adrift(self, state: State, tenant: str, tools: Sequence[str] | None, now: Moment, limit: int) -> Sequence[Call]:
        """Return the oldest calls in a state whose lease is over; ``tools``: of these alone.

        What cannot be read is passed over, and told of.
        """
        if tools is not None and not tools:
            return ()
        passed_over = 0
        while True:
            rows = self.look(*adrift(state, tenant, tools, now, limit + passed_over, locking=self.LOCKING)).fetchall()
            found = readable(read_call, rows)
            if len(found) >= limit or len(rows) < limit + passed_over:
                return [self.know(call) for call in found[:limit]]
            passed_over = len(rows) - len(found)

    def last_n(self, scope: str, lane: str, tool: str, identity: str) -> int:
        """Return the highest number given to a call of this identity; 0 if none."""
        return self.look(LAST_N, scope, tool, lane, identity).fetchone()[0] or 0

    def owed(self, tenant: str, tool: str, fingerprint: str) -> Sequence[str]:
        """Return the operation ids of like calls whose outcome is owed, the oldest first."""
        return tuple(plain(operation_id) for (operation_id,) in self.look(OWED, tenant, tool, fingerprint))

    def turn(self, tenant: str, run_id: str, turn: str) -> Sequence[int]:
        """Return the entries in which one turn of a run was worked on, in order."""
        return tuple(entry for (entry,) in self.look(TURN, tenant, run_id, turn))

    def put(self, call: Call, row: LogRow) -> None:
        """Keep a call and the log row of its change."""
        if row.no == 1:
            self.write(INSERT_CALL, *fixed(call), *changing(call))
        elif self.write(UPDATE_CALL, *changing(call), call.operation_id, row.no - 1).rowcount != 1:
            # Fenced by the log's number: a record that was not read in this transaction is never overwritten.
            raise ValueError(f"{call.operation_id} does not stand at log row {row.no - 1}")
        self.write(INSERT_LOG, *log_values(row))

    def put_key(self, call: Call) -> None:
        """Keep the key that a call has now: the one that it had is free."""
        self.write("UPDATE calls SET key = ? WHERE operation_id = ?", call.key, call.operation_id)

    def prolong(self, call: Call) -> None:
        """Keep a longer lease; no log row, since no state changes."""
        self.write(PROLONG, call.lease.wall, call.lease.boot, call.lease.mono, call.operation_id)

    def forget(self, call: Call) -> None:
        """Remove a call that nothing can ask for any more; its log stays."""
        self.write("DELETE FROM calls WHERE operation_id = ?", call.operation_id)
        self.write("INSERT INTO forgotten (operation_id) VALUES (?) ON CONFLICT DO NOTHING", call.operation_id)
        self.drop_owed(call)

    def put_step(self, scope: str, step: str, operation_id: str) -> None:
        """Let a step stand for a call; the first one wins."""
        if self.by_step(scope, step) is None:  # asked first: a replay of the step then writes nothing
            self.write(PUT_STEP, scope, step, operation_id)

    def put_owed(self, call: Call) -> None:
        """Owe the outcome of a call to whoever asks for a like one; harmless when repeated."""
        self.write(PUT_OWED, call.tenant, call.tool, call.fingerprint, call.operation_id)

    def drop_owed(self, call: Call) -> None:
        """Owe it no longer."""
        self.write(DROP_OWED, call.operation_id)

    def put_turn(self, tenant: str, run_id: str, turn: str, entry: int) -> None:
        """Note that a turn of a run is worked on in an entry."""
        self.write(PUT_TURN, tenant, run_id, turn, entry)

    def alert(self, call: Call, kind: str) -> None:
        """Put an alert into the outbox, in the same commit."""
        self.alert_of(kind, call.operation_id, call.changed.wall)

    def alert_of(self, kind: str, subject: str, at: float) -> None:
        """Put an alert that is about no call into the outbox, in the same commit."""
        self.write(ALERT, kind, subject, at)

    def note(self, kind: str, name: str) -> str | None:
        """Return what was noted of this kind under a name."""
        row = self.look(NOTE, kind, name).fetchone()
        return None if row is None else plain(row[0])

    def notes(self, kind: str) -> Mapping[str, str]:
        """Return all that was noted of this kind, by name."""
        return {plain(name): plain(text) for name, text in self.look(NOTES, kind)}

    def put_note(self, kind: str, name: str, text: str | None) -> None:
        """Note a text under a name; ``None``: nothing any more."""
        if text is None:
            self.write(DROP_NOTE, kind, name)
        else:
            self.write(PUT_NOTE, kind, name, text)


def adrift(
    state: State, tenant: str, tools: Sequence[str] | None, now: Moment, limit: int, *, locking: str = ""
) -> tuple[Any, ...]:
    """Return the statement for calls whose lease is over, and its values."""
    these = "" if tools is None else f" AND tool IN ({', '.join('?' * len(tools))})"
    statement = f"{ADRIFT}{these} ORDER BY {OF_FEW} LIMIT ?{locking}"
    return statement, state.value, tenant, now.boot, now.mono, *(tools or ()), limit


def read_call(row: Sequence[Any]) -> Call:
    """Return the call of a row of ``SELECT_CALL``. Raises ``JournalError`` for one that this release cannot read."""
    if bytes in map(type, row[:_TEXTS]) or type(row[-1]) is bytes:
        row = [*map(plain, row[:_TEXTS]), *row[_TEXTS:-1], plain(row[-1])]
    try:
        return call_of(row)
    except (LookupError, TypeError, ValueError) as fault:
        raise UnreadableError(str(row[0]), f"{type(fault).__name__}: {fault}") from fault


def read_log(row: Sequence[Any]) -> LogRow:
    """Return the log row of a row of ``SELECT_LOG``. Raises ``JournalError`` for one that this release cannot read."""
    operation_id, no, at, event, state, epoch, attempt, detail, digest, head = map(plain, row)
    try:
        return LogRow(operation_id, no, at, Event(event), State(state), epoch, attempt, detail, digest, head)
    except ValueError as fault:
        raise UnreadableError(f"{operation_id}, row {no} of its log,", str(fault)) from fault


def read_head(row: Sequence[Any]) -> Head:
    """Return the head of a row of ``SELECT_HEAD``."""
    operation_id, no, head = row
    return plain(operation_id), no, plain(head)


def log_values(row: LogRow) -> tuple[Any, ...]:
    """Return the values of a row of the log, in the order of ``INSERT_LOG``."""
    return (
        row.operation_id,
        row.no,
        row.at,
        row.event._value_,
        row.state._value_,
        row.epoch,
        row.attempt,
        row.detail,
        row.digest,
        row.head,
    )
