"""The books of one PostgreSQL transaction: reads wait for an answer, writes do not."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from settled.core.noted.notes import PAUSED
from settled.core.runs.entering import scope_of_run
from settled.core.states import State
from settled.journals.books import (
    BY_ID,
    BY_KEY,
    BY_STEP,
    LAST_N,
    NOTE,
    OWED,
    UNSETTLED,
    UNSETTLED_ALIKE,
    TableBooks,
    log_values,
    read_call,
)
from settled.journals.postgres.locks import channel_of, number_of, waiting_for
from settled.journals.postgres.parameters import Texts
from settled.journals.postgres.statements import (
    INSERT,
    LOCK_NOTES,
    PREFETCH,
    PROLONG,
    TRY_LOCK,
    UPDATE,
    UPDATE_AND_TELL,
)
from settled.journals.postgres.trouble import Conflict
from settled.journals.rows import changing, fixed
from settled.journals.runs import RUN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from settled.core.books import RunRecord, Step
    from settled.core.call import Call, LogRow
    from settled.core.model import Moment
    from settled.journals.postgres.line import Answer, Line
    from settled.journals.postgres.locks import Hints

_UNKNOWN: Final = object()


class PostgresBooks(TableBooks):
    """The look-ups and changes of one transaction.

    What a member writes is held back until it is kept, so that one that raises leaves nothing behind. Should it look
    up more meanwhile, its writes are sent in a savepoint first.
    """

    LOCKING = " FOR UPDATE SKIP LOCKED"
    changed = False
    """Whether a member that is kept has written."""
    log_row: Answer | None = None
    """Will hold the number of the last log row that was written."""
    _fetching: tuple[Answer, Sequence[str], Sequence[str]] | None = None
    _in_savepoint = False

    def __init__(self, line: Line, journal_id: str, locks: set[int]) -> None:
        self.line = line
        self.written: dict[str, Call | None] = {}
        """How the calls stand that it has changed."""
        self._journal_id = journal_id
        self._locks = locks
        self._calls: dict[str, Call | None] = {}
        """The calls as this transaction knows them to stand: what it writes is fenced by them."""
        self._keys: dict[str, str | None] = {}
        self._steps: dict[tuple[str, str], str | None] = {}
        self._notes: dict[tuple[str, str], str | None] = {}
        self._foreseen: dict[tuple[str, tuple[Any, ...]], Any] = {}
        """Look-ups that were sent ahead, and that nothing written since has changed."""
        self.statements: list[tuple[str, Sequence[Any]]] = []
        """What was written and is held back."""
        self._take_back: list[Callable[[], object]] = []

    # --- members ---

    def keep(self) -> None:
        """End a member whose writes are to stand."""
        self._send()
        if self._in_savepoint:
            self.line.send("RELEASE SAVEPOINT member")
        self._in_savepoint = False
        self._take_back.clear()

    def undo(self) -> None:
        """End a member that raised: take its writes back."""
        self.statements.clear()
        if self._in_savepoint:
            self.line.send("ROLLBACK TO SAVEPOINT member")
            self.line.send("RELEASE SAVEPOINT member")
        self._in_savepoint = False
        while self._take_back:
            self._take_back.pop()()

    def _send(self) -> None:
        for statement, values in self.statements:
            cursor = self.line.send(statement, values)
            if statement in (INSERT, UPDATE, UPDATE_AND_TELL):
                self.log_row = cursor
            self.changed = True
        self.statements.clear()

    # --- executing ---

    def look(self, statement: str, *values: Any) -> Answer:
        """Execute a statement that only reads, behind all that was written."""
        foreseen: Answer | None = self._foreseen.pop((statement, values), None)
        if foreseen is not None:
            return foreseen
        if self.statements:
            if not self._in_savepoint:
                self.line.send("SAVEPOINT member")
                self._in_savepoint = True
            self._send()
        return self.line.send(statement, values)

    def write(self, statement: str, *values: Any) -> Any:
        """Note a statement that changes the journal; it has no answer."""
        self.statements.append((statement, values))

    def _hold(self, name: str) -> None:
        """Hold a lock. Raises ``Conflict`` if somebody else does: then it must be waited for from the start."""
        number = number_of(self._journal_id, name)
        if number in self._locks:
            return
        row = self.look(TRY_LOCK, number).fetchone()
        if not row or not row[0]:
            raise Conflict(number)
        self._locks.add(number)
        self._take_back.append(lambda: self._locks.discard(number))  # a lock goes with its savepoint

    # --- calls ---

    def prefetch(self, hints: Hints) -> None:
        """Ask for what will be looked up."""
        ids, keys = Texts(hints.ids), Texts(hints.keys)
        if ids or keys:
            self._fetching = self.line.send(PREFETCH, (ids, keys)), ids, keys
        for statement, values in hints.look_ups:
            self._foreseen[statement, values] = self.line.send(statement, values)

    def _changes(self, call: Call) -> None:
        """Forget what was sent ahead and does not yet know this change of a call."""
        self._foreseen.pop((UNSETTLED_ALIKE, (call.tool, call.scope, call.tenant, call.identity)), None)
        if not call.scope:
            return
        self._foreseen.pop((UNSETTLED, (call.tool, call.scope, call.tenant)), None)
        about = [
            (statement, values)
            for statement, values in self._foreseen
            if statement not in (RUN, BY_STEP, OWED, UNSETTLED, UNSETTLED_ALIKE, NOTE)
            and values[0] == call.scope
            and not (statement == LAST_N and values[3] != call.identity)
        ]
        for look_up in about:
            del self._foreseen[look_up]

    def put_owed(self, call: Call) -> None:
        """Owe the outcome of a call to whoever asks for a like one; harmless when repeated."""
        self._foreseen.pop((OWED, (call.tenant, call.tool, call.fingerprint)), None)
        super().put_owed(call)

    def drop_owed(self, call: Call) -> None:
        """Owe it no longer."""
        self._foreseen.pop((OWED, (call.tenant, call.tool, call.fingerprint)), None)
        super().drop_owed(call)

    def note(self, kind: str, name: str) -> str | None:
        """Return what is noted under a name; all claims of a batch look for their tools' pauses, and ask once."""
        if (kind, name) not in self._notes:
            self._notes[kind, name] = super().note(kind, name)
        return self._notes[kind, name]

    def put_note(self, kind: str, name: str, text: str | None) -> None:
        """Note a text under a name; ``None``: nothing any more."""
        self._foreseen.pop((NOTE, (kind, name)), None)
        self._notes.pop((kind, name), None)
        self._take_back.append(lambda: self._notes.pop((kind, name), None))
        if kind == PAUSED:
            self.write(LOCK_NOTES)
        super().put_note(kind, name, text)

    def _fetch(self) -> None:
        if self._fetching is None:
            return
        cursor, ids, keys = self._fetching
        self._fetching = None
        self._calls.update(dict.fromkeys(ids))
        self._keys.update(dict.fromkeys(keys))
        for row in cursor.fetchall():
            self.know(read_call(row))

    def know(self, call: Call) -> Call:
        """Take note of a call that was read, and return it. Raises ``Conflict`` if it was another before."""
        known = self._calls.get(call.operation_id)
        if known is not None and (known.log_no, known.lease) != (call.log_no, call.lease):
            raise Conflict  # another process has changed it since it was read
        self._calls[call.operation_id] = call
        self._keys[call.key] = call.operation_id
        return call

    def calls(self, statement: str, *values: Any) -> list[Call]:
        """Return the calls that a statement finds."""
        self._fetch()
        return [self.know(read_call(row)) for row in self.look(statement, *values).fetchall()]

    def by_id(self, operation_id: str) -> Call | None:
        """Return the call with this operation id."""
        self._fetch()
        if operation_id not in self._calls:
            found = self.calls(BY_ID, operation_id)
            self._calls[operation_id] = found[0] if found else None
        return self._calls[operation_id]

    def by_key(self, key: str) -> Call | None:
        """Return the call with this key."""
        self._fetch()
        if key not in self._keys:
            found = self.calls(BY_KEY, key)
            self._keys[key] = found[0].operation_id if found else None
        operation_id = self._keys[key]
        return None if operation_id is None else self._calls[operation_id]

    def put(self, call: Call, row: LogRow) -> None:
        """Keep a call and the log row of its change."""
        self._fetch()
        operation_id = call.operation_id
        before = self._calls.get(operation_id)
        if row.no == 1:
            self._insert(call, row)
        elif before is None or before.log_no != row.no - 1:
            raise ValueError(f"{operation_id} does not stand at log row {row.no - 1}")
        else:
            self._update(before, call, row)
        self._now_stands(operation_id, call, call.key)
        self._changes(call)

    def _insert(self, call: Call, row: LogRow) -> None:
        self.statements.append((INSERT, (*fixed(call), *changing(call), *log_values(row)[1:])))

    def _update(self, before: Call, call: Call, row: LogRow) -> None:
        fence = (call.operation_id, before.log_no, before.lease.mono)
        values: tuple[Any, ...] = (*changing(call), *fence, *log_values(row)[1:])
        statement = UPDATE
        if call.state is not State.PROCESSING:
            told = waiting_for(self._journal_id, call.operation_id)
            statement, values = UPDATE_AND_TELL, (*values, told, channel_of(self._journal_id), told)
        self.statements.append((statement, values))

    def put_key(self, call: Call) -> None:
        """Keep the key that a call has now: the one that it had is free."""
        before = self._calls[call.operation_id]
        super().put_key(call)
        if before is not None:
            self._now_stands(call.operation_id, None, before.key)
        self._now_stands(call.operation_id, call, call.key)
        self._changes(call)

    def prolong(self, call: Call) -> None:
        """Keep a longer lease; no log row, since no state changes."""
        before = self._calls.get(call.operation_id) or call
        lease = call.lease
        self._changes(call)
        fence = (call.operation_id, before.log_no, before.lease.mono)
        self.write(PROLONG, lease.wall, lease.boot, lease.mono, *fence)
        self._now_stands(call.operation_id, call, call.key)

    def forget(self, call: Call) -> None:
        """Remove a call that nothing can ask for any more; its log stays."""
        super().forget(call)
        self._changes(call)
        self._now_stands(call.operation_id, None, call.key)

    def _now_stands(self, operation_id: str, call: Call | None, key: str) -> None:
        self._set(self._calls, operation_id, call)
        self._set(self._keys, key, None if call is None else operation_id)
        self._set(self.written, operation_id, call)

    def _set(self, known: dict[Any, Any], name: Any, value: Any) -> None:
        """Know something from now on, unless the member is undone."""
        self._take_back.append(partial(_reset, known, name, known.get(name, _UNKNOWN)))
        known[name] = value

    def adrift(self, state: State, tenant: str, tools: Sequence[str] | None, now: Moment, limit: int) -> Sequence[Call]:
        """Return the oldest calls in a state whose lease is over, but for those that another transaction is at."""
        self._fetch()
        return super().adrift(state, tenant, tools, now, limit)

    # --- what is looked through, under a lock of its scope ---

    def alike(self, scope: str, lane: str, tool: str, identity: str, entries: Sequence[int]) -> Sequence[Call]:
        """Return the calls of one identity made in ``entries``, in order of creation."""
        self._hold(f"scope {scope}")
        return super().alike(scope, lane, tool, identity, entries)

    def made(self, scope: str, tool: str, entries: Sequence[int]) -> Sequence[Call]:
        """Return the calls of one tool made in ``entries`` that may have had an effect."""
        self._hold(f"scope {scope}")
        return super().made(scope, tool, entries)

    def unsettled(self, tenant: str, scope: str, tool: str, identity: str | None = None) -> Sequence[Call]:
        """Return the calls of one tool in one scope whose outcome is open, in order of creation; of one identity."""
        if scope:
            self._hold(f"scope {scope}")
        return super().unsettled(tenant, scope, tool, identity)

    def last_n(self, scope: str, lane: str, tool: str, identity: str) -> int:
        """Return the highest number given to a call of this identity; 0 if none."""
        self._hold(f"scope {scope}")
        return super().last_n(scope, lane, tool, identity)

    def by_step(self, scope: str, step: str) -> str | None:
        """Return the operation id that a step stands for in a scope."""
        self._hold(f"scope {scope}")
        if (scope, step) not in self._steps:
            self._steps[scope, step] = super().by_step(scope, step)
        return self._steps[scope, step]

    def put_step(self, scope: str, step: str, operation_id: str) -> None:
        """Let a step stand for a call; the first one wins."""
        if self.by_step(scope, step) is None:
            self._foreseen.pop((BY_STEP, (scope, step)), None)
            super().put_step(scope, step, operation_id)
            self._set(self._steps, (scope, step), operation_id)

    def run(self, tenant: str, run_id: str) -> RunRecord | None:
        """Return the record of a run."""
        self._hold(f"scope {scope_of_run(tenant, run_id)}")
        return super().run(tenant, run_id)

    def put_run(self, run: RunRecord) -> None:
        """Keep the record of a run."""
        self._hold(f"scope {scope_of_run(run.tenant, run.run_id)}")
        self._foreseen.pop((RUN, (run.tenant, run.run_id)), None)
        super().put_run(run)

    def turn(self, tenant: str, run_id: str, turn: str) -> Sequence[int]:
        """Return the entries in which one turn of a run was worked on, in order."""
        self._hold(f"scope {scope_of_run(tenant, run_id)}")
        return super().turn(tenant, run_id, turn)

    def begun_in(self, scope: str) -> Sequence[Step]:
        """Return the calls made in a scope, in the order in which they were begun."""
        self._hold(f"scope {scope}")
        return super().begun_in(scope)

    def in_doubt(self, scope: str) -> Sequence[Call]:
        """Return the calls of a scope, of whatever tool, whose outcome is open."""
        self._hold(f"scope {scope}")
        return super().in_doubt(scope)

    def runs_within(self, tenant: str, run_id: str) -> Sequence[RunRecord]:
        """Return the runs that were entered first inside of this one."""
        self._hold(f"scope {scope_of_run(tenant, run_id)}")
        return super().runs_within(tenant, run_id)

    def run_state(self, tenant: str, run_id: str, before: int) -> Mapping[str, bytes]:
        """Return the run's state as the turns that began before entry ``before`` left it."""
        self._hold(f"scope {scope_of_run(tenant, run_id)}")
        return super().run_state(tenant, run_id, before)


def _reset(known: dict[Any, Any], name: Any, before: Any) -> None:
    if before is _UNKNOWN:
        known.pop(name, None)
    else:
        known[name] = before
