"""A world in which a rollback is played command by command against a journal in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from settled.core.attempts.progress import End
from settled.core.commands import AwaitCall, CheckOwners, Owners, Reply, Sleep, Transact, Woke
from settled.core.doubt.settling import Resolve
from settled.core.model import Terms
from settled.core.runs.rollback import Compensate, Compensated, Order, SettledStep, SettleStep, rollback
from settled.core.values import replace
from settled.journals.memory import MemoryJournal
from settled.testing.records import OWNER, FakeClock, begun, ended, entered, make_ask, scoped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from settled.core.books import RunRecord
    from settled.core.call import Call

BACK = Terms(compensate="refund", lifetime=0.0, probed=True)


class World:
    """Answers the machine's commands; time passes as it waits."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.journal = MemoryJournal(self.clock)
        self.entry = entered(self.journal, "r", owner=OWNER, claim="e1")
        self.outcomes: dict[str, list[str]] = {}
        """Operation id of a step -> statuses of its compensation, one for each try; then it succeeds."""
        self.alive: bool | None = True
        self.commands: list[str] = []
        self.probes: dict[str, bool] = {}

    def step(
        self, terms: Terms = BACK, *, fault: Any = None, entry: Any = None, run: str = "r", **changes: Any
    ) -> Call:
        call = begun(self.journal, scoped(run, entry or self.entry, terms=terms, **changes))
        if fault is not None:
            self.journal.perform(End(call.operation_id, 1, 1, fault))
            return self.of(call)
        return ended(self.journal, call)

    def of(self, call: Call) -> Call:
        found = self.journal.get(call.operation_id)
        assert found is not None
        return found

    def order(self, **changes: Any) -> Order:
        return replace(Order("r", "acme", "late", "c1", OWNER, 30.0, 1, 5.0), **changes)

    def play(self, **changes: Any) -> Any:
        flow = rollback(self.order(**changes), self.clock.mono)
        return self.to_its_end(flow, next(flow))

    def to_its_end(self, flow: Any, command: Any) -> Any:
        for _ in range(500):
            try:
                command = flow.send(self.answer(command))
            except StopIteration as stop:
                return stop.value
        pytest.fail("it does not come to its end")

    def answer(self, command: Any) -> Any:
        self.commands.append(type(command).__name__)
        match command:
            case Transact(transition):
                return Reply(self.journal.perform(transition), self.clock.mono)
            case CheckOwners(owners):
                return Owners(tuple(self.alive for _ in owners), self.clock(), self.clock.mono)
            case Sleep(seconds) | AwaitCall(_, seconds, _):
                self.clock.advance(seconds)
                return Woke(self.clock.mono)
            case SettleStep(call, _):
                return SettledStep(self.settled(call), self.clock.mono)
            case Compensate(call):
                return self.compensated(call)
        raise AssertionError(command)

    def settled(self, call: Call) -> Call:
        if call.operation_id in self.probes:
            verdict = "happened" if self.probes[call.operation_id] else "did_not_happen"
            self.journal.perform(Resolve(call.operation_id, verdict, "probe", "looked"))  # type: ignore[arg-type]  # as named
        return self.of(call)

    def compensated(self, call: Call) -> Compensated:
        left = self.outcomes.get(call.operation_id, [])
        status = left.pop(0) if left else "succeeded"
        if status == "stuck":
            return Compensated("stuck", "tool_missing", "", self.clock.mono, "no such tool")
        undoing = begun(self.journal, make_ask(tool="refund", scope=f"undo:{call.operation_id}"))
        if status == "succeeded":
            ended(self.journal, undoing)
        return Compensated(status, "why", undoing.operation_id, self.clock.mono, status)

    @property
    def run(self) -> RunRecord:
        found = self.journal.run("acme", "r")
        assert found is not None
        return found

    def undone(self) -> Iterator[str]:
        """Yield the steps in the order in which they began to be undone."""
        return (row.operation_id for row in self.journal.books.rows if row.event == "undo")
