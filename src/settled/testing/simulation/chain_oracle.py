"""The judge of fallbacks: what stands in a call's place begins once nothing before it did, or can do, anything.

It knows which call was made in the place of which, and what happened in the world; none of the rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from settled.core.runs.entering import BARRED
from settled.core.states import Event, State

if TYPE_CHECKING:
    from settled.core.ask import Ask
    from settled.core.call import Call, LogRow
    from settled.testing.simulation.oracle import Oracle
    from settled.testing.simulation.shaky import ShakyJournal
    from settled.testing.simulation.world import Intention, Request

Path = tuple[int, ...]
"""Where a call stands in a chain: ``()`` is the call itself, ``(1,)`` its second fallback, ``(1, 0)`` that one's first.

In the order in which they are done; a tuple comes before those that it begins.
"""
BEGINS = (Event.CLAIM, Event.BEGIN, Event.ASK_LEAVE)


@dataclass(slots=True)
class ChainOracle:
    """Watches what is done in other calls' places."""

    oracle: Oracle
    asks: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Id of an ask -> the call that it is made in the place of, and which of its fallbacks it is."""
    paths: dict[str, tuple[str, Path]] = field(default_factory=dict)
    """Operation id -> the call that its chain begins with, and its own place."""
    chains: dict[str, dict[Path, str]] = field(default_factory=dict)
    """Operation id of the first call -> the calls of its chain."""

    def asked(self, ask: Ask, intention: Intention) -> None:
        """A step is asked for: it is meant to do what its call was meant to."""
        assert ask.instead is not None
        self.asks[ask.operation_id] = ask.instead
        self.oracle.meant[ask.operation_id] = intention

    def committed(self, before: Call | None, after: Call, row: LogRow) -> None:
        """One change of one call is on record."""
        op = after.operation_id
        if before is None and after.claim in self.asks:
            of, no = self.asks[after.claim]
            first, path = self.paths.setdefault(of, (of, ()))
            self.paths[op] = (first, (*path, no))
            chain = self.chains.setdefault(first, {(): first})
            if chain.setdefault((*path, no), op) != op:
                self.oracle.object_to(f"chain {op} ({after.tool}): a second record in one place of {first}'s chain")
        if row.event in BEGINS and op in self.paths:
            self._begins(after)
        if row.event is Event.ASK_LEAVE and is_by_hand(after):
            self.oracle.facts["left to a person"] += 1

    def _begins(self, call: Call) -> None:
        first, path = self.paths[call.operation_id]
        who = f"chain {call.operation_id} ({call.tool}) at {path} of {first}'s"
        self.oracle.facts["begun in a chain"] += 1
        for other_path, other in self.chains.get(first, {}).items():
            if other_path < path and self.done(other):
                self.oracle.object_to(f"{who}: begins, and {other} before it was done")
            if other_path < path and any(
                self._may_act(r) for r in self.oracle.world.requests if r.operation_id == other
            ):
                self.oracle.object_to(f"{who}: begins, and {other} before it may yet be done")
            if other_path > path:
                self.oracle.object_to(f"{who}: begins, and {other} in its place has begun before")

    def by_hand(self, call: Call) -> None:
        """Somebody does what was left to a person: the queue must not show what a rollback has barred."""
        now, run = self.oracle.known[call.operation_id], self.oracle.sagas.runs.get(call.scope)
        self.oracle.facts["done by hand"] += 1
        self.oracle.facts["done by hand too late"] += now.state is State.REFUSED
        if now.state is State.AWAITING_APPROVAL and run is not None and run.state in BARRED:
            self.oracle.object_to(
                f"by hand {call.operation_id} ({call.tool}): left to a person, and its run is {run.state}"
            )

    def done(self, op: str) -> int:
        """Return how many effects one record has had."""
        return sum(effect.operation_id == op for effect in self.oracle.world.effects)

    def _may_act(self, request: Request) -> bool:
        """Whether a request can still take effect, in truth."""
        world = self.oracle.world
        kept = world.stores.get(request.key) if request.tool.service == "store" else None
        if request.landed is None:
            barred = request.key in world.fences or (kept is not None and kept.answer is not None)
            return request.fate not in ("lost", "not_sent") and not barred
        return kept is not None and not request.executed and kept.answer is None

    def justified(self, call: Call) -> bool:
        """Whether a dispute about what was left to a person is true: it was done, and was not to be any more."""
        return is_by_hand(call) and call.state is State.REFUSED and self.done(call.operation_id) > 0

    def judge(self, journal: ShakyJournal) -> None:
        """Everything has landed: one effect at the most over all places, and nothing that was done by hand is lost."""
        for first, chain in self.chains.items():
            done = {op: self.done(op) for op in chain.values()}
            if sum(done.values()) > 1:
                self.oracle.object_to(f"chain of {first}: {sum(done.values())} effects, by {done}")
            self.oracle.facts["chains"] += 1
            self.oracle.facts["done by a later place of a chain"] += any(n for op, n in done.items() if op != first)
        for call in list(journal.books.calls.values()):
            if is_by_hand(call):
                self._judge_by_hand(call)

    def _judge_by_hand(self, call: Call) -> None:
        who, run = f"by hand {call.operation_id} ({call.tool}, {call.state})", self.oracle.sagas.runs.get(call.scope)
        done = self.done(call.operation_id)
        if run is not None and run.state in BARRED and call.state is State.AWAITING_APPROVAL:
            self.oracle.object_to(f"{who}: still left to a person, and its run is {run.state}")
        if call.state is State.REFUSED and done and not call.disputed:
            self.oracle.facts["done by hand, and nobody said so"] += 1
        if call.state is State.SUCCEEDED and not done:
            self.oracle.object_to(f"{who}: on record as done, and it is not")


def is_by_hand(call: Call) -> bool:
    """Whether the record is of what a person is to do."""
    return call.leave is not None and bool(call.leave.by_hand)
