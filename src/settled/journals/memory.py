"""The journal in memory: for tests, for reads, and the model that the others must agree with."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

from settled.core.call import Call, LogRow, chain
from settled.core.expiry import due
from settled.core.rules import lease_over
from settled.core.states import MAY_HAVE_EFFECT, State
from settled.ports import Alert, CallQuery, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from settled.core.books import RunRecord, Transition
    from settled.core.model import Moment

R = TypeVar("R")


class MemoryBooks:
    """The records in dictionaries; the order of ``calls`` is the order of creation."""

    def __init__(self) -> None:
        self.calls: dict[str, Call] = {}
        self.keys: dict[str, str] = {}
        self.steps: dict[tuple[str, str], str] = {}
        self.likes: dict[tuple[str, str, str, str], list[str]] = defaultdict(list)
        self.tools: dict[tuple[str, str], list[str]] = defaultdict(list)
        self.doubts: dict[tuple[str, str, str], dict[str, None]] = defaultdict(dict)
        self.run_records: dict[tuple[str, str], RunRecord] = {}
        self.rows: list[LogRow] = []
        self.outbox: dict[int, Alert] = {}
        self.alert_count = 0

    def by_id(self, operation_id: str) -> Call | None:
        return self.calls.get(operation_id)

    def by_key(self, key: str) -> Call | None:
        operation_id = self.keys.get(key)
        return self.calls.get(operation_id) if operation_id else None

    def by_step(self, scope: str, step: str) -> str | None:
        return self.steps.get((scope, step))

    def alike(self, scope: str, lane: str, tool: str, identity: str, entries: range) -> list[Call]:
        found = (self.calls[op] for op in self.likes.get((scope, lane, tool, identity), ()))
        return [call for call in found if call.entry in entries]

    def made(self, scope: str, tool: str, entries: range) -> list[Call]:
        found = (self.calls[op] for op in self.tools.get((scope, tool), ()))
        return [call for call in found if call.entry in entries and call.state in MAY_HAVE_EFFECT]

    def unknown(self, tenant: str, scope: str, tool: str) -> list[Call]:
        return [self.calls[op] for op in self.doubts.get((tenant, scope, tool), ())]

    def last_n(self, scope: str, lane: str, tool: str, identity: str) -> int:
        found = self.likes.get((scope, lane, tool, identity))
        return max((self.calls[op].n for op in found), default=0) if found else 0

    def run(self, tenant: str, run_id: str) -> RunRecord | None:
        return self.run_records.get((tenant, run_id))

    def put(self, call: Call, row: LogRow) -> None:
        if call.operation_id not in self.calls:
            self.keys[call.key] = call.operation_id
            self.likes[call.scope, call.lane, call.tool, call.identity].append(call.operation_id)
            self.tools[call.scope, call.tool].append(call.operation_id)
        self.calls[call.operation_id] = call
        self._index_doubt(call)
        self.rows.append(row)

    def _index_doubt(self, call: Call) -> None:
        doubts = self.doubts[call.tenant, call.scope, call.tool]
        if call.state is State.UNKNOWN:
            doubts[call.operation_id] = None
        else:
            doubts.pop(call.operation_id, None)

    def prolong(self, call: Call) -> None:
        self.calls[call.operation_id] = call

    def forget(self, call: Call) -> None:
        del self.calls[call.operation_id]
        self.keys.pop(call.key, None)
        self.likes[call.scope, call.lane, call.tool, call.identity].remove(call.operation_id)
        self.tools[call.scope, call.tool].remove(call.operation_id)

    def put_step(self, scope: str, step: str, operation_id: str) -> None:
        self.steps.setdefault((scope, step), operation_id)

    def put_run(self, run: RunRecord) -> None:
        self.run_records[run.tenant, run.run_id] = run

    def alert(self, call: Call, kind: str) -> None:
        self.alert_count += 1
        self.outbox[self.alert_count] = Alert(self.alert_count, kind, call.operation_id, call.changed.wall)


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
        self._seals: list[tuple[int, str]] = []

    def perform(self, transition: Transition[R]) -> R:
        with self._lock:
            return transition.apply(self.books, self._clock())

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

    def runs(self, limit: int = 100) -> list[RunRecord]:
        with self._lock:
            return list(reversed(self.books.run_records.values()))[:limit]

    def alerts(self, limit: int = 100) -> list[Alert]:
        with self._lock:
            return list(self.books.outbox.values())[:limit]

    def delivered(self, alert_ids: Sequence[int]) -> None:
        with self._lock:
            for alert_id in alert_ids:
                self.books.outbox.pop(alert_id, None)

    def save_breakers(self, snapshots: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
        with self._lock:
            self._breakers.update(snapshots)
            return dict(self._resets)

    def breakers(self) -> dict[str, Mapping[str, Any]]:
        with self._lock:
            return dict(self._breakers)

    def reset_breakers(self, names: Sequence[str] | None = None) -> list[str]:
        with self._lock:
            chosen = [name for name in self._breakers if names is None or name in names]
            self._resets.update(chosen)
            return chosen

    def seal(self) -> bool:
        with self._lock:
            sealed = self._seals[-1] if self._seals else (0, "")
            new = self.books.rows[sealed[0] :]
            if new:
                self._seals.append((len(self.books.rows), seal_over(sealed[1], new)))
            return bool(new)

    def head(self) -> str:
        with self._lock:
            return self._seals[-1][1] if self._seals else ""

    def verify(self, head: str | None = None) -> Report:
        with self._lock:
            rows, seals = list(self.books.rows), list(self._seals)
        problems = broken_chains(rows)
        if head and head not in {text for _, text in seals}:
            problems.append("the given head is not in this log: it was cut off or replaced")
        return Report(ok=not problems, facts={"rows": len(rows), "seals": len(seals)}, problems=problems)

    def check(self) -> Report:
        return Report(ok=True, facts={"journal": self.url, "durable": False, "calls": len(self.books.calls)})

    def close(self) -> None:
        """Nothing is held."""


def matches(call: Call, query: CallQuery, now: Moment) -> bool:
    """Whether a call is among those that are asked for."""
    wanted = (
        query.states is None or call.state in query.states,
        query.tool is None or call.tool == query.tool,
        query.tenant is None or call.tenant == query.tenant,
        query.scope is None or call.scope == query.scope,
        query.disputed is None or call.disputed is query.disputed,
        not query.lease_over or (call.state is State.PROCESSING and lease_over(call, now)),
        not query.past_retention or due(call, now),
    )
    return all(wanted)


def seal_over(previous: str, rows: Iterable[LogRow]) -> str:
    """Return the seal that chains the heads of ``rows`` to the seal before."""
    text = "\n".join((previous, *(f"{row.operation_id} {row.no} {row.head}" for row in rows)))
    return sha256(text.encode()).hexdigest()


def broken_chains(rows: Iterable[LogRow]) -> list[str]:
    """Return a line for each row that does not follow from the row before it."""
    heads: dict[str, tuple[int, str]] = {}
    problems = []
    for row in rows:
        no, head = heads.get(row.operation_id, (0, ""))
        if row.no != no + 1 or chain(head, replace(row, head="")) != row.head:
            problems.append(f"{row.operation_id}: row {row.no} does not follow from row {no}")
        heads[row.operation_id] = (row.no, row.head)
    return problems
