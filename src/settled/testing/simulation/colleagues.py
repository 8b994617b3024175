"""Programs and models that work on somebody else's run, each in a lane of its own, while it is entered again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from settled.core.matching.entry import Entry
from settled.core.model import KeyKind
from settled.core.runs.entering import EnterRun, Held, scope_of_run
from settled.core.runs.joins import JoinRun
from settled.core.runs.lanes import lane_id
from settled.core.values import replace
from settled.errors import JournalError
from settled.testing.simulation.agents import Errand
from settled.testing.simulation.asking import Place
from settled.testing.simulation.driver import transact
from settled.testing.simulation.loop import Until
from settled.testing.simulation.plans import TENANT

if TYPE_CHECKING:
    from collections import Counter

    from settled.testing.simulation.asking import Told
    from settled.testing.simulation.loop import Steps
    from settled.testing.simulation.simulation import Simulation
    from settled.testing.simulation.workers import Process
    from settled.testing.simulation.world import Intention

EVER = 1e9
"""Seconds: these tokens do not expire."""


@dataclass(slots=True)
class Employer:
    """Enters a run, lets others work on it, is lost or called off, and enters it again."""

    sim: Simulation
    run_id: str
    entry: int = 0
    """The entry that gave the last token."""
    meant: dict[str, Counter[Intention]] = field(default_factory=dict)
    """Lane -> what is meant to be done there."""

    def supervise(self) -> Steps[None]:
        """Start entry after entry, until the end."""
        while self.sim.loop.now < self.sim.profile.ends:
            process = self.sim.some_process()
            task = self.sim.loop.start(self._entry(process), process)
            while not task.done.is_open and process.alive:
                yield Until(task.done, 20.0)
            yield self.sim.dice.uniform(0.1, 5.0)

    def _entry(self, process: Process) -> Steps[None]:
        claim = self.sim.mint("entry")
        enter = EnterRun(self.run_id, TENANT, claim=claim, owner=process.owner, lease=self.sim.profile.lease)
        try:
            reply = yield from transact(process, enter)
            if isinstance(reply, Held) and reply.run.owner is not None and process.sees(reply.run.owner) is False:
                reply = yield from transact(process, replace(enter, dead=reply.run.claim))
            if not isinstance(reply, Entry):
                return
            self.entry = reply.no
            process.runs[claim] = self.run_id
            yield from process.stumble(self.sim.dice.uniform(30.0, 200.0))
            self.sim.oracle.facts["run entered again"] += 1  # it is called off here, and its lease runs out
        except JournalError:
            return
        finally:
            process.runs.pop(claim, None)


@dataclass(slots=True)
class Colleague(Errand):
    """One program or model that joins the employer's run; its own id is its lane."""

    employer: Employer = field(kw_only=True)

    def _enter(self, process: Process) -> Steps[Place | None]:
        claim, run_id, dice = self.sim.mint("join"), self.employer.run_id, self.sim.dice
        token = self.employer.entry - (dice.random() < 0.05)
        self.sim.oracle.sagas.until[claim] = EVER * 10
        lease = self.sim.profile.lease
        join = JoinRun(run_id, TENANT, self.run_id, token, EVER * 10, self.history, claim, process.owner, lease)
        entry = yield from transact(process, join)
        if isinstance(entry, Held) and entry.run.owner is not None and process.sees(entry.run.owner) is False:
            entry = yield from transact(process, replace(join, dead=entry.run.claim))
        if not isinstance(entry, Entry):
            self.sim.oracle.facts["a colleague was not let in"] += 1
            return None
        process.runs[claim] = lane_id(run_id, self.run_id)
        scope = scope_of_run(TENANT, run_id)
        return Place(scope, run_id, entry, token, self.by_model, lane=self.run_id, lane_entry=entry.no)

    @property
    def _of(self) -> str:
        """All draw their plans from the same things: what one means another may mean, too."""
        return self.employer.run_id

    def _intend(self, meant: Counter[Intention]) -> None:
        self.employer.meant[self.run_id] = meant
        for intention in meant:
            self.sim.oracle.intended[intention] = sum(each[intention] for each in self.employer.meant.values())

    def _look_at(self, told: Told | None) -> None:
        known = told.answer.call if told is not None else None
        if told is not None and known is not None and told.answer.status == "succeeded":
            own = known.kind is KeyKind.SCOPED  # a business key is everybody's
            self.sim.oracle.sagas.answered_in_a_lane(known, self.run_id if own else known.lane)

    def _left(self, process: Process) -> None:
        own = lane_id(self.employer.run_id, self.run_id)
        for claim in [claim for claim, run in process.runs.items() if run == own]:
            process.runs.pop(claim)
