"""Programs whose runs are undone when they fail: they take steps, fail, die, and start again from the top."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from settled.core.books import RunRecord, RunState
from settled.core.commands import AwaitCall, CheckOwners, Owners, Reply, Sleep, Transact, Woke
from settled.core.doubt.settle import settle
from settled.core.machine import Life
from settled.core.policy import Limits
from settled.core.runs.entering import BARRED, UNDONE, EnterRun, Held, LeaveRun, Undone, scope_of_run
from settled.core.runs.lanes import lane_of
from settled.core.runs.rollback import Compensate, Compensated, Order, SettledStep, SettleStep, rollback, worth_another
from settled.core.runs.saga import LookThrough
from settled.core.values import replace
from settled.errors import JournalError
from settled.testing.simulation.asking import Place, driven, make_ask
from settled.testing.simulation.chains import call
from settled.testing.simulation.driver import Hand, drive, transact
from settled.testing.simulation.guests import Guest, leave
from settled.testing.simulation.loop import Until
from settled.testing.simulation.plans import TENANT, Intent, Words
from settled.testing.simulation.tools import TOOLS

if TYPE_CHECKING:
    from settled.core.call import Call
    from settled.core.matching.entry import Entry
    from settled.core.runs.rollback import Rolled
    from settled.testing.simulation.loop import Steps
    from settled.testing.simulation.simulation import Simulation
    from settled.testing.simulation.workers import Process

PATIENCE = 20.0
"""Seconds that a rollback waits."""


@dataclass(slots=True)
class Trip:
    """One run over all its entries, by one or two workers at once."""

    sim: Simulation
    run_id: str
    groups: list[list[Intent]] = field(default_factory=list)
    """What is done side by side, group after group."""
    over: bool = False
    guests: list[Guest] = field(default_factory=list)
    children: dict[str, Trip] = field(default_factory=dict)
    """Runs inside of this one, by their place in its plan."""

    def plan(self) -> None:
        """Draw what it means to do."""
        dice = self.sim.dice
        for no in range(dice.randrange(1, 6)):
            size = dice.choices((1, 2, 3), (6, 2, 1))[0]
            tools = [TOOLS[dice.choice(self.sim.profile.steps)] for _ in range(size)]
            self.groups.append([Intent(tool, f"{self.run_id}.{no}.{i}", "w") for i, tool in enumerate(tools)])
        for group in self.groups:
            for intent in group:
                self.sim.oracle.intended[intent.intention] += 1
        self.guests = [Guest(self.sim, self, f"g{no}") for no in range(self.sim.profile.guests)]
        for guest in self.guests:
            guest.plan()

    def inner(self, place: str) -> Trip | None:
        """Return the run that is entered at a place of the plan, inside of this one; none for a child's own plan."""
        if "in" in self.run_id or self.sim.profile.inner == 0:
            return None
        if place not in self.children:
            child = Trip(self.sim, f"{self.run_id}in{place}")
            child.plan_short()
            self.children[place] = child
            self.sim.oracle.sagas.inside[scope_of_run(TENANT, child.run_id)] = scope_of_run(TENANT, self.run_id)
        return self.children[place]

    def plan_short(self) -> None:
        """Draw a small plan."""
        dice = self.sim.dice
        for no in range(dice.randrange(1, 3)):
            intent = Intent(TOOLS[dice.choice(self.sim.profile.steps)], f"{self.run_id}.{no}.0", "w")
            self.groups.append([intent])
            self.sim.oracle.intended[intent.intention] += 1

    def visit(self, process: Process, outer: str, entry: int) -> Steps[bool]:
        """Be entered inside of another run; return whether all was done."""
        self.over = False
        yield from self._entry(process, outer, entry)
        return self.over

    def supervise(self) -> Steps[None]:
        """Start entry after entry until it is done, or undone."""
        sim = self.sim
        for _ in range(sim.profile.entries):
            process = sim.some_process()
            task = sim.loop.start(self._entry(process), process)
            while not task.done.is_open and process.alive and sim.loop.now < sim.profile.ends:
                yield Until(task.done, 20.0)
            if self.over or sim.loop.now > sim.profile.ends:
                return
            yield sim.dice.uniform(0.1, 2 * sim.profile.lease)

    def _entry(self, process: Process, outer: str = "", outer_entry: int = 0) -> Steps[None]:
        claim = self.sim.mint("entry")
        try:
            entry = yield from self._enter(process, claim, outer, outer_entry)
            if entry is not None:
                process.runs[claim] = self.run_id
                yield from self._work(process, entry)
        except JournalError:
            self.sim.oracle.facts["trip cut short"] += 1
        finally:
            process.runs.pop(claim, None)

    def _enter(self, process: Process, claim: str, outer: str, outer_entry: int) -> Steps[Entry | None]:
        enter = EnterRun(
            self.run_id,
            TENANT,
            claim=claim,
            owner=process.owner,
            lease=self.sim.profile.lease,
            on_error="compensate",
            parent=outer,
            parent_entry=outer_entry,
        )
        while True:
            reply = yield from transact(process, enter)
            if isinstance(reply, Held) and reply.run.owner is not None and process.sees(reply.run.owner) is False:
                enter = replace(enter, dead=reply.run.claim)
            elif isinstance(reply, Held):
                self.sim.oracle.facts["told that a run is held"] += 1
                return None
            elif isinstance(reply, Undone):
                if reply.run.state is RunState.ROLLING_BACK:
                    yield from self._undo(process, None)
                self.over = self.over or reply.run.state in UNDONE
                return None
            else:
                return reply

    def _work(self, process: Process, entry: Entry) -> Steps[None]:
        dice = self.sim.dice
        place = Place(scope_of_run(TENANT, self.run_id), self.run_id, entry, entry.no)
        for guest in self.guests:
            guest.hear(entry.no)
        fails_at = dice.randrange(len(self.groups) + 1) if dice.random() < 0.6 else -1
        for no, group in enumerate(self.groups):
            inner = self.inner(str(no)) if self.sim.profile.inner and dice.random() < self.sim.profile.inner else None
            if inner is not None and not (yield from inner.visit(process, self.run_id, entry.no)):
                self.sim.oracle.facts["a child was not done"] += 1
            if no == fails_at or not (yield from self._group(process, place, group)):
                yield from self._undo(process, entry.no)
                return
            yield dice.uniform(0.0, 5.0)
        if fails_at == len(self.groups):
            yield from self._undo(process, entry.no)
            return
        completed = LeaveRun(self.run_id, TENANT, entry.no, RunState.COMPLETED)
        yield from leave(process, completed) if self.guests else transact(process, completed)
        self.over = True

    def _group(self, process: Process, place: Place, group: list[Intent]) -> Steps[bool]:
        """Make the calls of one group side by side; false: the program gives up."""
        asks = [make_ask(process, intent, Words(intent.who, intent.what), place) for intent in group]
        made = zip(group, asks, strict=True)
        tasks = [self.sim.loop.start(call(process, intent, ask), process) for intent, ask in made]
        for task in tasks:
            yield Until(task.done)
        statuses = [task.done.value.answer.status if task.done.value else "" for task in tasks]
        good = all(status == "succeeded" for status in statuses)
        return good or self.sim.dice.random() < 0.3  # now and then it goes on all the same

    def _undo(self, process: Process, entry: int | None) -> Steps[None]:
        ended = yield from roll_back(process, self.run_id, entry)
        self.over = self.over or (isinstance(ended, RunRecord) and ended.state in UNDONE)


def roll_back(process: Process, run_id: str, entry: int | None = None, wait: float = PATIENCE) -> Steps[Any]:
    """Roll a run back in a process. Raises ``JournalError``."""
    sim = process.sim
    claim = sim.mint("rollback")
    order = Order(run_id, TENANT, "failed", claim, process.owner, sim.profile.lease, entry, wait)
    process.runs[claim] = run_id
    try:
        return (yield from _drive(process, rollback(order, sim.loop.now)))
    finally:
        process.runs.pop(claim, None)


def carry_on(process: Process) -> Steps[None]:
    """Go on with what dead processes have left, and with what has become possible since."""
    sim = process.sim
    try:
        for run in sim.journal.undoing(1000):
            if _worth(process, run):
                yield from roll_back(process, run.run_id, wait=60.0 if process.steady else PATIENCE)
    except JournalError:
        sim.oracle.facts["carrying on cut short"] += 1


def _worth(process: Process, run: RunRecord) -> bool:
    sim = process.sim
    seen = sim.journal.perform(LookThrough(run.run_id, run.tenant))
    if run.owner is not None and process.sees(run.owner) is False:
        return True
    steps = [step for step in seen.undo if not isinstance(step, RunRecord)]
    undoings = {step.operation_id: sim.journal.books.by_key(f"undo:{step.operation_id}") for step in steps}
    return worth_another(run, seen, undoings, TOOLS, sim.clock())


def operator(sim: Simulation) -> Steps[None]:
    """Now and then a person has a run undone that was completed, or kept."""
    while True:
        yield sim.dice.uniform(60.0, 200.0)
        runs = [run for run in sim.journal.runs(1000) if _is_finished(run)]
        if runs and not sim.journal.is_down:
            process = sim.some_process()
            sim.loop.start(_by_hand(process, sim.dice.choice(runs)), process)


def _is_finished(run: RunRecord) -> bool:
    return run.state not in BARRED and run.owner is None and not lane_of(run)


def _by_hand(process: Process, run: RunRecord) -> Steps[None]:
    try:
        yield from roll_back(process, run.run_id)
    except JournalError:
        process.sim.oracle.facts["carrying on cut short"] += 1


# --- the commands of a rollback ---------------------------------------------------------------


def _drive(process: Process, flow: Rolled[Any]) -> Steps[Any]:
    command = next(flow)
    try:
        while True:
            try:
                event = yield from _perform(process, command)
            except JournalError as error:
                command = flow.throw(error)
            else:
                command = flow.send(event)
    except StopIteration as stop:
        return stop.value


def _perform(process: Process, command: Any) -> Steps[Any]:
    sim = process.sim
    match command:
        case Transact(transition):
            return Reply((yield from transact(process, transition)), sim.loop.now)
        case SettleStep(known, seconds):
            tool = TOOLS[known.tool]
            settled = yield from drive(settle(known, tool.policy, seconds), Hand(process, tool, None))
            return SettledStep(settled, sim.loop.now)
        case Compensate(known):
            return (yield from _compensate(process, known))
        case CheckOwners(owners):
            return Owners(tuple(process.sees(owner) for owner in owners), sim.clock(), sim.loop.now)
        case Sleep(seconds):
            yield seconds
            return Woke(sim.loop.now)
        case AwaitCall(operation_id, seconds, local):
            here = operation_id in process.here
            yield Until(process.gate(operation_id), local if here else seconds)
            return Woke(sim.loop.now, local=here)
        case _:
            raise TypeError(f"not a command of a rollback: {command!r}")


def _compensate(process: Process, known: Call) -> Steps[Compensated]:
    """Make the call that undoes a step: nothing cancels it."""
    sim, op = process.sim, known.operation_id
    if sim.dice.random() < sim.profile.missing and not process.steady:
        return Compensated("stuck", "tool_missing", "", sim.loop.now)
    tool = TOOLS[known.terms.compensate]
    intent = Intent(tool, f"undo {op}", "w")
    sim.oracle.intended[intent.intention] = 1
    ask = make_ask(process, intent, Words(intent.who, intent.what), Place(f"undo:{op}"), key=f"undo:{op}")
    life = Life(ask, tool.policy, Limits(wait=5.0), sim.loop.now)
    answer = yield from driven(process, intent, life)
    if answer is None:
        raise JournalError("away")
    sim.oracle.answered(answer)
    made = answer.call.operation_id if answer.call else ""
    return Compensated(answer.status, answer.reason, made, sim.loop.now, retry_after=answer.retry_after)
