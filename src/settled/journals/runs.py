"""Runs in tables: their records, their state, and what a rollback looks through."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final, cast

from settled.core.books import RunRecord, RunState
from settled.core.model import Moment, Owner
from settled.core.runs.saga import first_intents
from settled.journals.rows import COLUMNS, from_json, plain, spent_text, to_json
from settled.journals.unread import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from settled.core.books import Change, Step
    from settled.core.call import Call
    from settled.journals.books import Rows

SELECT_RUN: Final = "SELECT run_id, tenant, entry, turn, since, spent, state, body FROM runs"
RUN: Final = f"{SELECT_RUN} WHERE tenant = ? AND run_id = ?"
PUT_RUN: Final = (
    "INSERT INTO runs (run_id, tenant, entry, turn, since, spent, state, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (tenant, run_id) DO UPDATE SET entry = excluded.entry, turn = excluded.turn, "
    "since = excluded.since, spent = excluded.spent, state = excluded.state, body = excluded.body"
)
UNDOING: Final = f"{SELECT_RUN} WHERE state IN ('rolling_back', 'partly_compensated') ORDER BY seq LIMIT ?"
_CALLS: Final = f"SELECT {', '.join(COLUMNS)} FROM calls"  # noqa: S608 - made of constants
MOVED_IN: Final = "SELECT operation_id FROM moved WHERE scope = ?"
MOVED_AWAY: Final = (
    "SELECT operation_id FROM moved WHERE scope <> ? AND operation_id IN "
    "(SELECT operation_id FROM calls INDEXED BY calls_made WHERE scope = ? AND scope <> '')"
)
INTENTS_OF: Final = (
    "SELECT operation_id, attempt, id FROM log WHERE event IN ('claim', 'begin') AND operation_id = ? ORDER BY id"
)
PUT_MOVED: Final = (
    "INSERT INTO moved (operation_id, scope) VALUES (?, ?) "
    "ON CONFLICT (operation_id) DO UPDATE SET scope = excluded.scope"
)
IN_SCOPE: Final = f"{_CALLS} INDEXED BY calls_made WHERE scope = ? AND scope <> '' ORDER BY seq"
INTENTS: Final = (
    "SELECT operation_id, attempt, id FROM log WHERE event IN ('claim', 'begin') AND operation_id IN "
    "(SELECT operation_id FROM calls INDEXED BY calls_made WHERE scope = ? AND scope <> '') ORDER BY id"
)
_OPEN: Final = "scope = ? AND scope <> '' AND state IN ('unknown', 'processing')"
IN_DOUBT: Final = f"{_CALLS} INDEXED BY calls_made WHERE {_OPEN} ORDER BY seq"
WITHIN: Final = (
    f"{SELECT_RUN} WHERE tenant = ? AND run_id IN "  # noqa: S608 - made of constants
    "(SELECT run_id FROM inner_runs WHERE tenant = ? AND parent = ?) ORDER BY seq"
)
PUT_INNER: Final = "INSERT INTO inner_runs (tenant, parent, run_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
STATE: Final = "SELECT name, value FROM run_states WHERE tenant = ? AND run_id = ? AND since < ? ORDER BY since"
PUT_STATE: Final = (
    "INSERT INTO run_states (tenant, run_id, name, since, serial, value) VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (tenant, run_id, name, since) DO UPDATE SET serial = excluded.serial, value = excluded.value "
    "WHERE run_states.serial < excluded.serial"
)


class RunTables:
    """What a transition sees of runs, and changes of them."""

    @abstractmethod
    def look(self, statement: str, *values: Any) -> Rows:
        """Execute a statement that only reads."""

    @abstractmethod
    def write(self, statement: str, *values: Any) -> Rows:
        """Execute a statement that changes the journal."""

    @abstractmethod
    def calls(self, statement: str, *values: Any) -> list[Call]:
        """Return the calls that a statement finds."""

    @abstractmethod
    def by_id(self, operation_id: str) -> Call | None:
        """Return the call with this operation id."""

    def run(self, tenant: str, run_id: str) -> RunRecord | None:
        """Return the record of a run."""
        row = self.look(RUN, tenant, run_id).fetchone()
        return None if row is None else read_run(row)

    def put_run(self, run: RunRecord) -> None:
        """Keep the record of a run."""
        self.write(PUT_RUN, *run_values(run))
        if run.parent and run.entry == 1:
            self.write(PUT_INNER, run.tenant, run.parent, run.run_id)

    def begun_in(self, scope: str) -> Sequence[Step]:
        """Return the calls made in a scope, in the order in which they were begun."""
        away = {plain(op) for (op,) in self.look(MOVED_AWAY, scope, scope)}
        calls = [call for call in self.calls(IN_SCOPE, scope) if call.operation_id not in away]
        rows = (
            [(plain(op), int(attempt), int(place)) for op, attempt, place in self.look(INTENTS, scope)] if calls else []
        )
        for (operation_id,) in self.look(MOVED_IN, scope).fetchall():
            rows += [(plain(op), int(no), int(place)) for op, no, place in self.look(INTENTS_OF, operation_id)]
            calls += [call for call in [self.by_id(plain(operation_id))] if call is not None]
        return first_intents(rows, calls)

    def put_moved(self, call: Call, scope: str) -> None:
        """Note that a call of another scope, which was not done there, was begun anew in this one."""
        self.write(PUT_MOVED, call.operation_id, scope)

    def in_doubt(self, scope: str) -> Sequence[Call]:
        """Return the calls of a scope, of whatever tool, whose outcome is open."""
        return self.calls(IN_DOUBT, scope)

    def runs_within(self, tenant: str, run_id: str) -> Sequence[RunRecord]:
        """Return the runs that were entered first inside of this one."""
        return [read_run(row) for row in self.look(WITHIN, tenant, tenant, run_id)]

    def run_state(self, tenant: str, run_id: str, before: int) -> Mapping[str, bytes]:
        """Return the run's state as the turns that began before entry ``before`` left it."""
        found = {plain(name): value for name, value in self.look(STATE, tenant, run_id, before)}
        return {name: cast("bytes", value) for name, value in found.items() if value is not None}

    def put_run_state(self, run: RunRecord, changes: Sequence[Change]) -> None:
        """Keep what changed of a run's state in its open turn."""
        for change in changes:
            self.write(
                PUT_STATE,
                run.tenant,
                run.run_id,
                change.name,
                run.since,
                (run.entry << 32) + change.serial,
                change.value,
            )


def run_values(run: RunRecord) -> tuple[Any, ...]:
    """Return the values of a run's row, in the order of ``PUT_RUN``."""
    owner, lease = run.owner, run.lease
    body = to_json(
        [
            run.on_error,
            run.claim,
            None if owner is None else [owner.host, owner.boot, owner.space, owner.pid, owner.started],
            None if lease is None else [lease.wall, lease.boot, lease.mono],
            run.reason,
            run.parent,
            run.begun,
            run.changed,
            *([run.tokens, run.rewound] if run.rewound else [run.tokens] if run.tokens else []),  # else as before
        ]
    )
    return run.run_id, run.tenant, run.entry, run.turn, run.since, spent_text(run.spent), run.state.value, body


def read_run(row: Sequence[Any]) -> RunRecord:
    """Return the run of a row of ``SELECT_RUN``. Raises ``JournalError`` for one that this release cannot read."""
    try:
        return _run(row)
    except (LookupError, TypeError, ValueError) as fault:
        raise UnreadableError(f"run {plain(row[0])!r}", f"{type(fault).__name__}: {fault}") from fault


def _run(row: Sequence[Any]) -> RunRecord:
    """Return the run of a row; one of an older release says less."""
    run_id, tenant, entry, turn, since, spent, state, body = map(plain, row)
    bare = RunRecord(run_id, tenant, entry, turn, since, from_json(spent), RunState(state))
    if not body:
        return bare
    on_error, claim, owner, lease, reason, parent, begun, changed, *tokens = from_json(body)
    return RunRecord(
        run_id,
        tenant,
        entry,
        turn,
        since,
        bare.spent,
        bare.state,
        on_error,
        claim,
        None if owner is None else Owner(*owner),
        None if lease is None else Moment(*lease),
        reason,
        parent,
        begun,
        changed,
        *tokens,
    )
