"""Runs in memory: their records, their state, and what a rollback looks through."""

# ruff: noqa: D102 - what each method does is said once, in the protocol that it belongs to

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from settled.core.books import RunState
from settled.core.runs.saga import first_intents
from settled.core.states import UNSETTLED, Event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from settled.core.books import Change, RunRecord, Step
    from settled.core.call import Call, LogRow

UNDOING = (RunState.ROLLING_BACK, RunState.PARTLY_COMPENSATED)


class MemoryRuns:
    """The runs' part of the records in dictionaries."""

    def __init__(self) -> None:
        self.calls: dict[str, Call] = {}
        self.rows: list[LogRow] = []
        self.moved: dict[str, str] = {}
        """Operation id -> the scope in which the call was begun anew last."""
        self.scopes: defaultdict[str, list[str]] = defaultdict(list)
        self.run_records: dict[tuple[str, str], RunRecord] = {}
        self.states: dict[tuple[str, str], dict[tuple[int, str], tuple[int, bytes | None]]] = defaultdict(dict)
        """Tenant and run -> first entry of the turn and name -> serial and value."""
        self.undo: list[Callable[[], object]] = []
        """How to take back what the transition under way has written, last first."""

    def run(self, tenant: str, run_id: str) -> RunRecord | None:
        return self.run_records.get((tenant, run_id))

    def put_run(self, run: RunRecord) -> None:
        name = (run.tenant, run.run_id)
        before = self.run_records.get(name)
        self.run_records[name] = run
        self.undo.append(lambda: self.run_records.update({name: before}) if before else self.run_records.pop(name))

    def begun_in(self, scope: str) -> list[Step]:
        own = [op for op in self.scopes.get(scope, ()) if self.moved.get(op, scope) == scope] if scope else []
        came = [op for op, where in self.moved.items() if where == scope and op not in own and op in self.calls]
        calls = [self.calls[op] for op in (*own, *came)]
        ids = {call.operation_id for call in calls}
        rows = [
            (row.operation_id, row.attempt, place)
            for place, row in enumerate(self.rows, 1)  # 0 stands for: no attempt was begun
            if row.operation_id in ids and row.event in (Event.CLAIM, Event.BEGIN)
        ]
        return first_intents(rows, calls)

    def put_moved(self, call: Call, scope: str) -> None:
        before = self.moved.get(call.operation_id)
        self.moved[call.operation_id] = scope
        self.undo.append(
            lambda: self.moved.update({call.operation_id: before}) if before else self.moved.pop(call.operation_id)
        )

    def in_doubt(self, scope: str) -> list[Call]:
        calls = (self.calls[op] for op in self.scopes.get(scope, ())) if scope else ()
        return [call for call in calls if call.state in UNSETTLED]

    def runs_within(self, tenant: str, run_id: str) -> list[RunRecord]:
        return [run for run in self.run_records.values() if (run.tenant, run.parent) == (tenant, run_id)]

    def run_state(self, tenant: str, run_id: str, before: int) -> dict[str, bytes]:
        kept = sorted(self.states.get((tenant, run_id), {}).items())
        found = {name: value for (since, name), (_, value) in kept if since < before}
        return {name: value for name, value in found.items() if value is not None}

    def put_run_state(self, run: RunRecord, changes: Sequence[Change]) -> None:
        kept = self.states[run.tenant, run.run_id]
        for change in changes:
            name, serial = (run.since, change.name), (run.entry << 32) + change.serial
            before = kept.get(name)
            if before is None or before[0] < serial:
                kept[name] = (serial, change.value)
                self.undo.append(lambda name=name, before=before: _restore(kept, name, before))  # type: ignore[misc]  # defaults bind the loop's values


def _restore(
    kept: dict[tuple[int, str], tuple[int, bytes | None]],
    name: tuple[int, str],
    before: tuple[int, bytes | None] | None,
) -> None:
    if before is None:
        kept.pop(name, None)
    else:
        kept[name] = before
