"""Runs on Redis: their records, their state, and what a rollback looks through."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final

from settled.core.books import RunState
from settled.core.runs.saga import first_intents
from settled.journals.redis.cells import NEW, PLACE, name, packed, prefix, raw, run_data, run_of, text_of, unpack
from settled.journals.redis.held import Held

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from settled.core.books import Change, RunRecord, Step
    from settled.core.call import Call

_FIRST: Final = b"0" * PLACE
_BEHIND_ALL: Final = 9 * 10 ** (PLACE - 1)
"""The place of what this transaction makes, as ``members`` has it."""
UNDOING: Final = (RunState.ROLLING_BACK, RunState.PARTLY_COMPENSATED)


class RedisRuns(Held):
    """What a transition sees of runs, and changes of them."""

    def run(self, tenant: str, run_id: str) -> RunRecord | None:
        """Return the record of a run."""
        found = self.row(name("run", tenant, run_id))
        return None if found is None else run_of(found)

    def put_run(self, run: RunRecord) -> None:
        """Keep the record of a run."""
        field = name("run", run.tenant, run.run_id)
        before = self.row(field)
        if before is None:
            self.enter(prefix("runs"), field)
            self.enter(_place_of(run), field)
        if run.parent and run.entry == 1:
            ((place, _),) = self.members(_place_of(run))
            self.enter(prefix("within", run.tenant, run.parent), field, NEW if before is None else place)
        was = before is not None and run_of(before).state in UNDOING
        if was is not (run.state in UNDOING):
            self._list_undoing(run, field)
        self.set_row(field, run_data(run))

    def _list_undoing(self, run: RunRecord, field: bytes) -> None:
        """List it among those that are undone, in the order in which the runs began, or take it out."""
        ((place, _),) = self.members(_place_of(run))
        if run.state in UNDOING:
            self.enter(prefix("undoing"), field, place)
        else:
            self.leave(prefix("undoing"), field, place)

    def begun_in(self, scope: str) -> Sequence[Step]:
        """Return the calls that were begun last in a scope, in the order in which they were begun."""
        if not scope:
            return []
        own, came = self.calls(prefix("in", scope)), self.calls(prefix("moved to", scope))
        self.see_rows([name("moved", call.operation_id) for call in own])
        left = {call.operation_id for call in own if self._moved(call) not in (scope, "")}
        calls = [call for call in own if call.operation_id not in left]
        known = {call.operation_id for call in calls}
        calls += [call for call in came if call.operation_id not in known]
        return first_intents(self._intents(calls), calls)

    def _intents(self, calls: Sequence[Call]) -> list[tuple[str, int, int]]:
        """Return operation id, attempt and place of each intent of these calls, in the order of the log."""
        starts = {call.operation_id: prefix("intents", call.operation_id) for call in calls}
        self.see_ranges(list(starts.values()))
        found: list[tuple[str, int, int]] = []
        for number, call in enumerate(calls):
            op = call.operation_id
            listed = {int(attempt): int(place) for place, attempt in self.members(starts[op])}
            if call.attempts and 1 not in listed:  # its first was put on record with it
                stored = self.stored(op)
                listed[1] = int(stored.place) if stored and stored.place else _BEHIND_ALL + number
            found += [(op, attempt, place) for attempt, place in listed.items()]
        return sorted(found, key=itemgetter(2))

    def _moved(self, call: Call) -> str:
        found = self.row(name("moved", call.operation_id))
        return "" if found is None else text_of(found)

    def put_moved(self, call: Call, scope: str) -> None:
        """Note that a call was begun anew in another scope, which is the one to undo it now."""
        operation_id, before = raw(call.operation_id), self._moved(call)
        if before:
            self.leave(prefix("moved to", before), operation_id, _FIRST)
        self.enter(prefix("moved to", scope), operation_id, _FIRST)
        self.set_row(name("moved", call.operation_id), raw(scope))

    def in_doubt(self, scope: str) -> Sequence[Call]:
        """Return the calls of a scope, of whatever tool, whose outcome is open."""
        return self.calls(prefix("open in", scope)) if scope else ()

    def runs_within(self, tenant: str, run_id: str) -> Sequence[RunRecord]:
        """Return the runs that were entered first inside of this one."""
        fields = [raw(each) for _, each in self.members(prefix("within", tenant, run_id))]
        self.see_rows(fields)
        return [run_of(found) for field in fields if (found := self.row(field)) is not None]

    def run_state(self, tenant: str, run_id: str, before: int) -> Mapping[str, bytes]:
        """Return the run's state as the turns that began before entry ``before`` left it."""
        listed = [(place, raw(each)) for place, each in self.members(prefix("state of", tenant, run_id))]
        fields = [field for since, field in listed if int(since) < before]
        self.see_rows(fields)
        found: dict[str, bytes | None] = {}
        for field in fields:
            value = self.row(field)
            if value is not None:
                key, _, data = unpack(value)
                found[text_of(key)] = data
        return {key: data for key, data in found.items() if data is not None}

    def put_run_state(self, run: RunRecord, changes: Sequence[Change]) -> None:
        """Keep what changed of a run's state in its open turn."""
        for change in changes:
            field = name("state", run.tenant, run.run_id, str(run.since), change.name)
            serial = (run.entry << 32) + change.serial
            before = self.row(field)
            if before is not None and unpack(before)[1] >= serial:
                continue
            self.enter(prefix("state of", run.tenant, run.run_id), field, b"%020d" % run.since)
            self.set_row(field, packed((raw(change.name), serial, change.value)))


def _place_of(run: RunRecord) -> bytes:
    return prefix("place of run", run.tenant, run.run_id)
