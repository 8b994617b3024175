"""Agents that join a trip, each in a lane of its own: they hold tokens, also old ones, die, hang, and join again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from settled.core.books import RunState
from settled.core.runs.entering import Held, LeaveRun, Undone, scope_of_run
from settled.core.runs.joins import JoinRun, LanesAtWork, LeaveJoined, NotJoined
from settled.core.runs.lanes import lane_id
from settled.core.values import replace
from settled.errors import JournalError
from settled.testing.simulation.asking import Place, make_ask
from settled.testing.simulation.chains import call
from settled.testing.simulation.driver import transact
from settled.testing.simulation.loop import Until
from settled.testing.simulation.plans import TENANT, Intent, Words
from settled.testing.simulation.tools import TOOLS

if TYPE_CHECKING:
    from settled.core.ask import Ask
    from settled.core.matching.entry import Entry
    from settled.testing.simulation.asking import Told
    from settled.testing.simulation.loop import Steps
    from settled.testing.simulation.simulation import Simulation
    from settled.testing.simulation.trips import Trip
    from settled.testing.simulation.workers import Process


@dataclass(frozen=True, slots=True)
class Ticket:
    """A token, as its holder reads it."""

    entry: int
    until: float


@dataclass(slots=True)
class Guest:
    """One agent that joins a trip."""

    sim: Simulation
    host: Trip
    lane: str
    groups: list[list[Intent]] = field(default_factory=list)
    tickets: list[Ticket] = field(default_factory=list)
    over: bool = False

    def plan(self) -> None:
        """Draw what it means to do: now and then the very same as its host."""
        dice, run_id = self.sim.dice, self.host.run_id
        for no in range(dice.randrange(1, 4)):
            size = dice.choices((1, 2), (4, 1))[0]
            mine = [
                Intent(TOOLS[dice.choice(self.sim.profile.steps)], f"{run_id}.{no}.{self.lane}{i}", "w")
                for i in range(size)
            ]
            theirs = dice.choice(self.host.groups)[0]
            same = Intent(theirs.tool, theirs.who, theirs.what)
            self.groups.append([same] if dice.random() < 0.3 else mine)
        for intent in [intent for group in self.groups for intent in group]:
            self.sim.oracle.intended[intent.intention] += 1

    def hear(self, entry: int) -> None:
        """Be given a token by an entry of the run."""
        self.tickets.append(Ticket(entry, self.sim.clock().wall + self.sim.dice.choice((15.0, 60.0, 300.0))))

    def supervise(self) -> Steps[None]:
        """Join again and again until all is done; now and then by an old token."""
        sim, dice = self.sim, self.sim.dice
        for _ in range(2 * sim.profile.entries):
            yield dice.uniform(0.1, 15.0)
            if self.tickets:
                ticket = self.tickets[-1] if dice.random() < 0.8 else dice.choice(self.tickets)
                process = sim.some_process()
                task = sim.loop.start(self._visit(process, ticket), process)
                while not task.done.is_open and process.alive and sim.loop.now < sim.profile.ends:
                    yield Until(task.done, 10.0)
                    if process.paused_until > sim.loop.now and dice.random() < 0.7:
                        break  # it hangs: another one joins, and the old one wakes some day
            if self.over or sim.loop.now > sim.profile.ends:
                return

    def _visit(self, process: Process, ticket: Ticket) -> Steps[None]:
        claim = self.sim.mint("join")
        self.sim.oracle.sagas.until[claim] = ticket.until
        try:
            entry = yield from self._join(process, ticket, claim)
            if entry is not None:
                process.runs[claim] = lane_id(self.host.run_id, self.lane)
                yield from self._work(process, ticket, entry)
        except JournalError:
            self.sim.oracle.facts["trip cut short"] += 1
        finally:
            process.runs.pop(claim, None)

    def _join(self, process: Process, ticket: Ticket, claim: str) -> Steps[Entry | None]:
        lease, run_id = self.sim.profile.lease, self.host.run_id
        join = JoinRun(run_id, TENANT, self.lane, ticket.entry, ticket.until, (), claim, process.owner, lease)
        while True:
            reply = yield from transact(process, join)
            if isinstance(reply, Held) and reply.run.owner is not None and process.sees(reply.run.owner) is False:
                join = replace(join, dead=reply.run.claim)
            elif isinstance(reply, Held | Undone | NotJoined):
                why = reply.why if isinstance(reply, NotJoined) else "held"
                self.sim.oracle.facts[f"not joined: {why}"] += 1
                return None
            else:
                return reply

    def _work(self, process: Process, ticket: Ticket, entry: Entry) -> Steps[None]:
        own = lane_id(self.host.run_id, self.lane)
        place = Place(
            scope_of_run(TENANT, self.host.run_id),
            self.host.run_id,
            entry,
            ticket.entry,
            lane=self.lane,
            lane_entry=entry.no,
        )
        state = RunState.COMPLETED
        for no, group in enumerate(self.groups):
            inner = self.host.inner(f"{self.lane}{no}") if self.sim.dice.random() < self.sim.profile.inner else None
            if inner is not None:
                yield from inner.visit(process, self.host.run_id, ticket.entry)
            if not (yield from self._group(process, place, group)):
                state = RunState.KEPT
                break
            yield self.sim.dice.uniform(0.0, 8.0)
        yield from transact(process, LeaveRun(own, TENANT, entry.no, state))
        self.over = state is RunState.COMPLETED

    def _group(self, process: Process, place: Place, group: list[Intent]) -> Steps[bool]:
        asks = [make_ask(process, intent, Words(intent.who, intent.what), place) for intent in group]
        tasks = [
            self.sim.loop.start(call(process, intent, ask), process) for intent, ask in zip(group, asks, strict=True)
        ]
        for task in tasks:
            yield Until(task.done)
        done = [self._is_done(ask, task.done.value) for ask, task in zip(asks, tasks, strict=True)]
        return all(done)  # each is looked at

    def _is_done(self, ask: Ask, told: Told | None) -> bool:
        if told is None or told.answer.status != "succeeded" or told.answer.call is None:
            return False
        self.sim.oracle.facts["done by a guest"] += 1
        self.sim.oracle.sagas.answered_in_a_lane(told.answer.call, ask.lane)
        return True


def leave(process: Process, transition: LeaveRun) -> Steps[None]:
    """End a run that may have been joined: wait for its lanes, for as long as its host likes."""
    sim = process.sim
    until, dead = sim.loop.now + sim.dice.choice((0.0, 5.0, 40.0)), frozenset[str]()
    while True:
        reply = yield from transact(process, LeaveJoined(transition.run_id, TENANT, transition, dead))
        if not isinstance(reply, LanesAtWork):
            return
        seen = {lane.claim for lane in reply.lanes if lane.owner is not None and process.sees(lane.owner) is False}
        if seen - dead:
            dead |= seen
        elif sim.loop.now >= until:
            sim.oracle.facts["ended without a lane"] += 1
            yield from transact(process, transition)
            return
        else:
            yield 1.0
