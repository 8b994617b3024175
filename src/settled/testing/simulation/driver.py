"""Performs the machine's commands in the simulated world, as the real drivers do in this one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, assert_never, cast

from settled.core.attempts.breaker import Rejection, Tickets, admit, verdict_of
from settled.core.attempts.outcome import AttemptTimeout, read
from settled.core.commands import (
    Admit,
    Admitted,
    AwaitCall,
    CheckOwners,
    Ended,
    Invoke,
    Join,
    Joined,
    Owners,
    Probe,
    Probed,
    Raised,
    Refund,
    Refused,
    Repeat,
    Reply,
    Report,
    Returned,
    Shut,
    Sleep,
    Spill,
    Tell,
    Transact,
    Woke,
)
from settled.core.doubt.late import Evidence
from settled.core.model import Fault
from settled.core.values import replace
from settled.errors import JournalError
from settled.testing.simulation.loop import Gate, Until
from settled.testing.simulation.rows import Cancelled, Rows
from settled.testing.simulation.tools import Failure

if TYPE_CHECKING:
    from settled.core.books import Transition
    from settled.core.commands import Command, Event, Flow
    from settled.core.machine import Life
    from settled.testing.simulation.loop import Steps
    from settled.testing.simulation.tools import ToolSpec
    from settled.testing.simulation.workers import Process
    from settled.testing.simulation.world import Intention, Request

T = TypeVar("T")

TRIES = 3
"""How often a driver performs one transition before it raises ``JournalError``."""
GRACE = 1.0
"""Seconds by which a lease outlives the attempt's own limit."""


def drive(flow: Flow[T], hand: Hand) -> Steps[T]:
    """Run a flow to its end; raises what the flow raises."""
    try:
        command = next(flow)
        while True:
            try:
                event = yield from hand.perform(command)
            except JournalError as error:
                command = flow.throw(error)
            else:
                command = flow.send(event)
    except StopIteration as stop:
        answer: T = stop.value
        return answer
    finally:
        hand.close()


def transact(process: Process, transition: Transition[T]) -> Steps[T]:
    """Perform one transition, again if its answer was lost; raise ``JournalError`` after ``TRIES``."""
    journal, dice = process.sim.journal, process.sim.dice
    for _ in range(TRIES):
        yield from process.stumble(dice.uniform(0.0, process.slowness))
        try:
            reply = journal.perform(transition)
        except JournalError:
            continue
        yield from process.stumble(dice.uniform(0.0, process.slowness))
        return reply
    raise JournalError("the journal does not answer")


def keep_evidence(process: Process, evidence: Evidence) -> Steps[None]:
    """Put evidence on record, or in the spill file if the journal is away."""
    try:
        yield from transact(process, evidence)
    except JournalError:
        process.sim.spill.append(evidence)
    process.wake(evidence.operation_id)


@dataclass(slots=True)
class Left:
    """Whether the caller of an attempt has left it, and whether the attempt was stopped by that."""

    left: bool = False
    stopped: bool = False


class Hand:
    """Performs the commands of one asker."""

    def __init__(self, process: Process, tool: ToolSpec, intention: Intention | None, life: Life | None = None) -> None:
        self.process, self.sim, self.tool = process, process.sim, tool
        self.intention, self.life = intention, life
        self.here = ""
        self.tickets: Tickets | None = None
        self.no = self.sim.oracle.meet()

    @property
    def _gone(self) -> bool:
        return self.life is not None and self.life.abandoned

    @property
    def _at(self) -> float:
        return self.sim.loop.now

    def close(self) -> None:
        """Whoever waits for this call may look again."""
        if self.here and self.process.alive:
            self.process.leave(self.here)

    def perform(self, command: Command) -> Steps[Event]:
        """Perform one command."""
        match command:
            case Transact(transition):
                value = yield from transact(self.process, transition)
                return Reply(value, self._at)
            case Invoke():
                return (yield from self._invoke(command))
            case Join():
                return (yield from self._join(command))
            case Repeat():
                return (yield from self._repeat(command))
            case Sleep(seconds):
                yield seconds
                return Woke(self._at, abandoned=self._gone)
            case AwaitCall():
                return (yield from self._await(command))
            case Probe():
                return (yield from self._probe(command))
            case CheckOwners(owners):
                yield self._latency()
                alive = tuple(self.process.sees(owner) for owner in owners)
                return Owners(alive, self.sim.clock(), self._at)
            case Admit() | Report() | Refund() | Spill() | Tell():
                return self._at_once(command)
            case _ as never:
                assert_never(never)

    def _at_once(self, command: Admit | Report | Refund | Spill | Tell) -> Event:
        match command:
            case Admit():
                return self._admit()
            case Report(verdict):
                self._report(verdict)
            case Refund(cost):
                if cost > 0:
                    self.process.pool(self.tool).refund(cost)
                    self.sim.oracle.refunded(self, cost)
            case Spill(evidence):
                self.sim.spill.append(evidence)
            case Tell():
                pass
            case _ as never:
                assert_never(never)
        return Woke(self._at)

    def _latency(self) -> float:
        return self.sim.dice.uniform(0.0, self.process.slowness)

    # --- breakers and budgets --------------------------------------------------------------

    def _admit(self) -> Admitted | Shut:
        found = admit([self.process.breaker(self.tool)], self._at)
        if isinstance(found, Rejection):
            self.sim.oracle.shut(self)
            return Shut(found.breaker, found.retry_after, self._at)
        self.tickets = found
        self.sim.oracle.admitted(self)
        return Admitted(self._at)

    def _report(self, verdict: Any) -> None:
        tickets, self.tickets = self.tickets, None
        for ticket in tickets or ():
            self.process.breaker(self.tool).record(ticket, verdict, self._at, self.sim.dice.random())

    def _spend(self, cost: float) -> str:
        pool = self.process.pool(self.tool)
        if cost > 0 and not pool.grants(cost):
            return "retry_budget:process"
        if cost > 0:
            pool.debit(cost)
        self.sim.oracle.spent(self, cost)
        return ""

    def _repeat(self, command: Repeat) -> Steps[Admitted | Shut | Refused | Woke]:
        refused = self._spend(command.cost)
        if refused:
            return Refused(refused, self._at)
        yield command.seconds
        if self._gone:
            return Woke(self._at, abandoned=True)
        if command.refresh:
            yield self._latency()
        return self._admit()

    # --- waiting and looking ---------------------------------------------------------------

    def _await(self, command: AwaitCall) -> Steps[Woke]:
        local = command.operation_id in self.process.here
        gate = self.process.gate(command.operation_id)
        yield Until(gate, command.local if local else command.seconds)
        yield self._latency()
        return Woke(self._at, local=local, abandoned=self._gone)

    def _probe(self, command: Probe) -> Steps[Probed]:
        began, slow = self.sim.clock(), self.sim.profile.probe_time
        yield self._latency() + self.sim.dice.uniform(0.0, slow)
        happened, value = self.sim.world.probe(self.tool, command.call.key)
        yield self._latency() + self.sim.dice.uniform(0.0, slow)
        data = value.encode() if value is not None else None
        fence = self.tool.policy.fence and happened is False
        return Probed(happened, began, self.sim.clock(), self._at, data, fence=fence)

    # --- attempts --------------------------------------------------------------------------

    def _invoke(self, command: Invoke) -> Steps[Ended | Shut]:
        if command.call is not None:
            return (yield from self._attempt(command))
        if command.first and isinstance(shut := self._admit(), Shut):
            return shut
        ended = yield from self._attempt(command)
        fault = read(ended, self.tool.policy, str, attempt=command.no, doubtful=False)
        self._report(verdict_of(fault))
        return replace(ended, fault=fault)

    def _attempt(self, command: Invoke) -> Steps[Ended]:
        if self._gone:
            return self._ended(Raised(Cancelled(), not_sent=True), abandoned=True)
        self.sim.oracle.invoked(self, command)
        if command.first:
            self.process.pool(self.tool).first_attempt()
        if command.call is not None:
            self._hold(command)
        left, gate = Left(), Gate()
        self.sim.loop.start(self._function(command, left, gate), self.process)
        yield Until(gate, command.timeout)
        if command.call is not None:
            self.process.held.pop(command.call.operation_id, None)
        if gate.is_open:
            ended: Ended = gate.value
            return self._ended(ended.outcome)
        left.left = True
        left.stopped = not self.tool.threaded and self.sim.dice.random() < 0.9
        return self._ended(Raised(AttemptTimeout("no answer in time")), over=left.stopped)

    def _hold(self, command: Invoke) -> None:
        assert command.call is not None
        operation_id = command.call.operation_id
        if not self.here:
            self.here = operation_id
            self.process.enter(operation_id)
        until = None if command.timeout is None else self._at + command.timeout + GRACE
        self.process.held[operation_id] = (command.call.epoch, until)

    def _ended(self, outcome: Returned | Raised, *, over: bool = True, abandoned: bool = False) -> Ended:
        return Ended(outcome, over=over, draw=self.sim.dice.random(), at=self._at, abandoned=abandoned or self._gone)

    def _function(self, command: Invoke, left: Left, gate: Gate) -> Steps[None]:
        """The tool's function: it sends its request and waits for the answer, for ever if need be."""
        yield from self.process.stumble(self.sim.dithering(self.tool))
        if left.stopped:
            self.sim.oracle.cut.add((command.call.operation_id if command.call else "", command.no))
            return
        if self.tool.service == "nested":
            yield from self._nested(command, left, gate)
            return
        assert self.intention is not None
        op = command.call.operation_id if command.call else ""
        meant = self.sim.oracle.truth.get(op, self.intention)
        request = self.sim.world.send(self.tool, command.call, command.no, meant)  # what is on record is sent
        self.sim.oracle.sent(request, self.process)
        yield Until(request.answer)
        yield from self.process.stumble(self._latency())
        ended = self._ended(_outcome(request))
        if not left.left:
            request.heard = True
            self.sim.loop.open(gate, ended)
        elif command.call is not None and (not left.stopped or self.sim.dice.random() < 0.3):
            request.heard = True
            yield from self._late(command, ended)

    def _join(self, command: Join) -> Steps[Joined]:
        """The tool's function works in the journal's transaction: its effect is there once that is committed."""
        if self._gone:
            return Joined(None, self._ended(Raised(Cancelled(), not_sent=True), abandoned=True), self._at)
        yield from self.process.stumble(self.sim.dithering(self.tool))
        assert self.intention is not None
        rows = Rows(command, self.sim.world, self.tool, self.sim.oracle.truth, self.intention)
        rows.gone = self._gone
        reply: Any = self.sim.journal.perform(cast("Transition[Any]", rows))
        if rows.fate is not None:
            self.sim.oracle.invoked(self, Invoke(None, command.no, None, command.deadline, command.start))
            if command.start:
                self.process.pool(self.tool).first_attempt()
        yield from self.process.stumble(self._latency())
        return Joined(reply, self._ended(rows.fate) if rows.fate is not None else None, self._at)

    def _nested(self, command: Invoke, left: Left, gate: Gate) -> Steps[None]:
        """The tool's function makes calls of its own."""
        ended = self._ended((yield from self.process.sim.inside(self, command, left)))
        if not left.left:
            self.sim.loop.open(gate, ended)
        elif not left.stopped:
            yield from self._late(command, ended)

    def _late(self, command: Invoke, ended: Ended) -> Steps[None]:
        """Its caller has left: what came back is evidence (a stopped one is heard by its transport)."""
        assert command.call is not None
        fault = read(ended, self.tool.policy, str, attempt=command.no, doubtful=command.no > 1)
        outcome = ended.outcome
        yield from keep_evidence(
            self.process, Evidence(command.call.operation_id, command.no, fault, outcome.data, outcome.note)
        )


def _outcome(request: Request) -> Returned | Raised:
    answer = request.answer.value
    if isinstance(answer, Fault):
        return Raised(Failure(answer), not_sent=request.fate == "not_sent")
    return Returned(answer, answer.encode())
