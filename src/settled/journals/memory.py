"""The journal in memory: for tests, for reads, and the model that the others must agree with."""

# ruff: noqa: D102 - what each method does is said once, in the protocols that it belongs to

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from settled.core.rules import lease_over
from settled.core.states import MAY_HAVE_EFFECT, UNSETTLED, State
from settled.journals.audit import (
    broken_chains,
    broken_seals,
    head_of,
    matches,
    missing_head,
    off_its_log,
    seal_over,
)
from settled.journals.memory_runs import UNDOING, MemoryRuns
from settled.ports import Alert, CallQuery, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from settled.core.books import RunRecord, Transition
    from settled.core.call import Call, LogRow
    from settled.core.model import Moment

R = TypeVar("R")


class MemoryBooks(MemoryRuns):
    """The records in dictionaries; the order of ``calls`` is the order of creation."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: dict[str, str] = {}
        self.steps: dict[tuple[str, str], str] = {}
        self.likes: dict[tuple[str, str, str, str], list[str]] = defaultdict(list)
        self.tools: dict[tuple[str, str], list[str]] = defaultdict(list)
        self.open_calls: dict[tuple[str, str, str], dict[str, None]] = defaultdict(dict)
        self.owed_calls: defaultdict[tuple[str, str, str], dict[str, None]] = defaultdict(dict)
        self.turns: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
        self.outbox: dict[int, Alert] = {}
        self.alert_count = 0
        self.noted: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self.places: dict[str, int] = {}

    def keep(self) -> None:
        """End a transition whose writes are to stand."""
        self.undo.clear()

    def take_back(self) -> None:
        """End a transition that raised: nothing of it stays."""
        while self.undo:
            self.undo.pop()()

    def by_id(self, operation_id: str) -> Call | None:
        return self.calls.get(operation_id)

    def by_key(self, key: str) -> Call | None:
        operation_id = self.keys.get(key)
        return self.calls.get(operation_id) if operation_id else None

    def by_step(self, scope: str, step: str) -> str | None:
        return self.steps.get((scope, step))

    def alike(self, scope: str, lane: str, tool: str, identity: str, entries: Sequence[int]) -> list[Call]:
        found = (self.calls[op] for op in self.likes.get((scope, lane, tool, identity), ()))
        return [call for call in found if call.entry in entries]

    def made(self, scope: str, tool: str, entries: Sequence[int]) -> list[Call]:
        found = (self.calls[op] for op in self.tools.get((scope, tool), ()))
        return [call for call in found if call.entry in entries and call.state in MAY_HAVE_EFFECT]

    def unsettled(self, tenant: str, scope: str, tool: str, identity: str | None = None) -> list[Call]:
        found = sorted(self.open_calls.get((tenant, scope, tool), ()), key=self.places.__getitem__)
        return [call for call in map(self.calls.__getitem__, found) if identity in (None, call.identity)]

    def adrift(self, state: State, tenant: str, tools: Sequence[str] | None, now: Moment, limit: int) -> list[Call]:
        found = (c for c in self.calls.values() if c.state is state and c.tenant == tenant and lease_over(c, now))
        return list(islice((call for call in found if tools is None or call.tool in tools), limit))

    def last_n(self, scope: str, lane: str, tool: str, identity: str) -> int:
        found = self.likes.get((scope, lane, tool, identity))
        return max((self.calls[op].n for op in found), default=0) if found else 0

    def owed(self, tenant: str, tool: str, fingerprint: str) -> Sequence[str]:
        return tuple(self.owed_calls.get((tenant, tool, fingerprint), ()))

    def turn(self, tenant: str, run_id: str, turn: str) -> Sequence[int]:
        return tuple(self.turns.get((tenant, run_id, turn), ()))

    def put(self, call: Call, row: LogRow) -> None:
        before = self.calls.get(call.operation_id)
        if before is None:
            self._add(call)
            self.undo.append(lambda: self._remove(call))
        else:
            self._set(call)
            self.undo.append(lambda: self._set(before))
        self.rows.append(row)
        self.undo.append(self.rows.pop)

    def put_key(self, call: Call) -> None:
        before = self.calls[call.operation_id]
        self._rekey(before, call)
        self.undo.append(lambda: self._rekey(call, before))

    def _rekey(self, before: Call, after: Call) -> None:
        self.keys.pop(before.key, None)
        self.keys[after.key] = after.operation_id
        self.calls[after.operation_id] = after

    def _add(self, call: Call) -> None:
        self.places[call.operation_id] = len(self.places)
        self.keys[call.key] = call.operation_id
        self.likes[call.scope, call.lane, call.tool, call.identity].append(call.operation_id)
        self.tools[call.scope, call.tool].append(call.operation_id)
        self.scopes[call.scope].append(call.operation_id)
        self._set(call)

    def _set(self, call: Call) -> None:
        self.calls[call.operation_id] = call
        unsettled = self.open_calls[call.tenant, call.scope, call.tool]
        if call.state in UNSETTLED:
            unsettled[call.operation_id] = None
        else:
            unsettled.pop(call.operation_id, None)

    def _remove(self, call: Call) -> None:
        del self.calls[call.operation_id]
        self.keys.pop(call.key, None)
        self.likes[call.scope, call.lane, call.tool, call.identity].remove(call.operation_id)
        self.tools[call.scope, call.tool].remove(call.operation_id)
        self.scopes[call.scope].remove(call.operation_id)
        self.open_calls[call.tenant, call.scope, call.tool].pop(call.operation_id, None)

    def prolong(self, call: Call) -> None:
        before = self.calls[call.operation_id]
        self.calls[call.operation_id] = call
        self.undo.append(lambda: self._set(before))

    def forget(self, call: Call) -> None:
        self.drop_owed(call)
        self._remove(call)
        self.undo.append(lambda: self._add(call))

    def put_step(self, scope: str, step: str, operation_id: str) -> None:
        if (scope, step) not in self.steps:
            self.steps[scope, step] = operation_id
            self.undo.append(lambda: self.steps.pop((scope, step)))

    def put_owed(self, call: Call) -> None:
        owed = self.owed_calls[call.tenant, call.tool, call.fingerprint]
        if call.operation_id not in owed:
            owed[call.operation_id] = None
            self.undo.append(lambda: self.owed_calls[call.tenant, call.tool, call.fingerprint].pop(call.operation_id))

    def drop_owed(self, call: Call) -> None:
        name = (call.tenant, call.tool, call.fingerprint)
        before = self.owed_calls[name]
        if call.operation_id in before:
            self.owed_calls[name] = {op: None for op in before if op != call.operation_id}
            self.undo.append(lambda: self.owed_calls.update({name: before}))

    def put_turn(self, tenant: str, run_id: str, turn: str, entry: int) -> None:
        entries = self.turns[tenant, run_id, turn]
        entries.append(entry)
        self.undo.append(entries.pop)

    def alert(self, call: Call, kind: str) -> None:
        self.alert_of(kind, call.operation_id, call.changed.wall)

    def alert_of(self, kind: str, subject: str, at: float) -> None:
        self.alert_count += 1
        self.outbox[self.alert_count] = Alert(self.alert_count, kind, subject, at)
        self.undo.append(self._unalert)

    def note(self, kind: str, name: str) -> str | None:
        return self.noted[kind].get(name)

    def notes(self, kind: str) -> dict[str, str]:
        return dict(sorted(self.noted[kind].items()))

    def put_note(self, kind: str, name: str, text: str | None) -> None:
        before = self.noted[kind].get(name)
        self._set_note(kind, name, text)
        self.undo.append(lambda: self._set_note(kind, name, before))

    def _set_note(self, kind: str, name: str, text: str | None) -> None:
        self.noted[kind].pop(name, None)
        if text is not None:
            self.noted[kind][name] = text

    def _unalert(self) -> None:
        del self.outbox[self.alert_count]
        self.alert_count -= 1


class MemoryJournal:
    """Nothing outlives the process: for tests, examples, and tools that only read."""

    url = "memory://"
    durable = False

    def __init__(self, clock: Callable[[], Moment], *, journal_id: str = "memory") -> None:
        self.books = MemoryBooks()
        self.journal_id = journal_id
        self._clock = clock
        self._lock = threading.RLock()
        self._breakers: dict[str, Mapping[str, Any]] = {}
        self._resets: Counter[str] = Counter()
        self._agreed: dict[str, tuple[int, str]] = {}
        self._seals: list[tuple[int, str]] = []

    def perform(self, transition: Transition[R]) -> R:
        with self._lock:
            try:
                reply = transition.apply(self.books, self._clock())
            except BaseException:
                self.books.take_back()
                raise
            self.books.keep()
            return reply

    async def aperform(self, transition: Transition[R]) -> R:
        return self.perform(transition)

    def now(self) -> Moment:
        return self._clock()

    def get(self, operation_id: str) -> Call | None:
        return self.books.by_id(operation_id)

    def find(self, query: CallQuery) -> list[Call]:
        with self._lock:
            newest = list(reversed(self.books.calls.values()))
        if query.after is not None:
            ids = [call.operation_id for call in newest]
            newest = newest[ids.index(query.after) + 1 :] if query.after in ids else []
        moment = self._clock()
        return [call for call in newest if matches(call, query, moment)][: query.limit]

    def count(self) -> dict[State, int]:
        with self._lock:
            return dict(Counter(call.state for call in self.books.calls.values()))

    def log(self, operation_id: str) -> list[LogRow]:
        with self._lock:
            return [row for row in self.books.rows if row.operation_id == operation_id]

    def runs(self, limit: int = 100, *, named: str | None = None) -> list[RunRecord]:
        with self._lock:
            newest_first = reversed(self.books.run_records.values())
            return [run for run in newest_first if named in (None, run.run_id)][:limit]

    def run(self, tenant: str, run_id: str) -> RunRecord | None:
        return self.books.run(tenant, run_id)

    def undoing(self, limit: int = 100) -> list[RunRecord]:
        with self._lock:
            return [run for run in self.books.run_records.values() if run.state in UNDOING][:limit]

    def alerts(self, limit: int = 100) -> list[Alert]:
        with self._lock:
            return list(self.books.outbox.values())[:limit]

    def delivered(self, alert_ids: Sequence[int]) -> None:
        with self._lock:
            for alert_id in alert_ids:
                self.books.outbox.pop(alert_id, None)

    def notes(self, kind: str) -> dict[str, str]:
        with self._lock:
            return self.books.notes(kind)

    def save_breakers(self, snapshots: Mapping[str, Mapping[str, Any]], opened: Sequence[str] = ()) -> dict[str, int]:
        with self._lock:
            self._breakers.update(snapshots)
            for name in opened:
                self.books.alert_of("breaker", name, float(snapshots[name].get("at", 0.0)))
            self.books.keep()
            return dict(self._resets)

    def breakers(self) -> dict[str, Mapping[str, Any]]:
        with self._lock:
            return dict(self._breakers)

    def reset_breakers(self, names: Sequence[str] | None = None) -> list[str]:
        with self._lock:
            chosen = [name for name in self._breakers if names is None or name in names]
            self._resets.update(chosen)
            return chosen

    def agree(self, name: str, seen: int, text: str) -> tuple[int, str]:
        with self._lock:
            if self._agreed.get(name, (0, ""))[0] == seen:
                self._agreed[name] = (seen + 1, text)
            return self._agreed[name]

    def agreed(self) -> dict[str, tuple[int, str]]:
        with self._lock:
            return dict(self._agreed)

    def seal(self) -> bool:
        with self._lock:
            sealed = self._seals[-1] if self._seals else (0, "")
            new = self.books.rows[sealed[0] :]
            if new:
                self._seals.append((len(self.books.rows), seal_over(sealed[1], map(head_of, new))))
            return bool(new)

    def head(self) -> str:
        with self._lock:
            return self._seals[-1][1] if self._seals else ""

    def verify(self, head: str | None = None) -> Report:
        with self._lock:
            rows, seals, calls = list(self.books.rows), list(self._seals), list(self.books.calls.values())
        logs: dict[str, list[LogRow]] = defaultdict(list)
        for row in rows:
            logs[row.operation_id].append(row)
        problems = [*broken_chains(row for log in logs.values() for row in log), *broken_seals(rows, seals)]
        found = (
            *(off_its_log(call, logs[call.operation_id]) for call in calls),
            missing_head(head, dict(seals).values()),
        )
        problems += filter(None, found)
        return Report(ok=not problems, facts={"rows": len(rows), "seals": len(seals)}, problems=problems)

    def check(self) -> Report:
        return Report(ok=True, facts={"journal": self.url, "durable": False, "calls": len(self.books.calls)})

    def close(self) -> None:
        """Nothing is held."""
