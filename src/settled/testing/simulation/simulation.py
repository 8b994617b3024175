"""One world with everything in it: who works, what goes wrong, and how it ends."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from settled.core.values import replace
from settled.errors import JournalError
from settled.testing.simulation.agents import Errand, Loner
from settled.testing.simulation.asking import Place, make_ask
from settled.testing.simulation.chains import call
from settled.testing.simulation.colleagues import Colleague, Employer
from settled.testing.simulation.loop import Clock, Host, Loop, NeverRests
from settled.testing.simulation.nested import inside
from settled.testing.simulation.oracle import Oracle
from settled.testing.simulation.people import QUERY, now_and_then, person, reconcile, tender
from settled.testing.simulation.plans import Intent, Words
from settled.testing.simulation.profiles import SHORT_LIVED
from settled.testing.simulation.saga_oracle import is_of_a_run
from settled.testing.simulation.shaky import ShakyJournal
from settled.testing.simulation.tools import CHAINS, TOOLS
from settled.testing.simulation.trips import Trip, carry_on, operator
from settled.testing.simulation.workers import Process
from settled.testing.simulation.world import World

if TYPE_CHECKING:
    from settled.core.books import Transition
    from settled.core.call import Call
    from settled.core.doubt.late import Evidence
    from settled.core.model import Owner
    from settled.testing.simulation.loop import Steps
    from settled.testing.simulation.profiles import Profile
    from settled.testing.simulation.tools import ToolSpec
    from settled.testing.simulation.world import Intention


class Simulation:
    """One world with everything in it."""

    def __init__(self, seed: int, profile: Profile) -> None:
        self.seed, self.profile = seed, profile
        self.dice = Random(f"{profile.name}/{seed}")  # noqa: S311 - a world must be the same each time
        self.loop = Loop()
        self.clock = Clock(self.loop)
        self.world = World(self.loop, self.dice, profile.weather)
        self.oracle = Oracle(self.world, self.loop, self.clock)
        self.world.note = self.oracle.note
        self.journal = ShakyJournal(self.clock, self.loop, self.dice, profile.journal_faults)
        self.journal.watch = self.oracle.committed
        self.journal.watch_run = self.oracle.sagas.run_changed
        self.journal.books.prolonged = self.oracle.leased
        self.oracle.lives = self.lives
        self.spill: list[Evidence] = []
        self.processes: list[Process] = []
        self.outside = Host()
        self.inside = inside
        self._minted = 0
        used = (*profile.tools, *(profile.steps if profile.trips else ()))
        self.asks_for_leave = any(TOOLS[name].approve or name in CHAINS for name in used)
        self.at_hand: set[str] = set()
        """What somebody is about to do by hand: people talk to each other."""
        self.employer = Employer(self, "office")
        self.errands = [self._errand(i) for i in range(profile.errands)]
        self.errands += [self._colleague(i) for i in range(profile.colleagues)]
        self.loners = [self._loner(i) for i in range(profile.loners)]
        self.trips = [Trip(self, f"trip{i}") for i in range(profile.trips)]
        for trip in self.trips:
            trip.plan()

    # --- what all use ----------------------------------------------------------------------

    def mint(self, kind: str) -> str:
        """Return a fresh id."""
        self._minted += 1
        return f"{kind}{self._minted}"

    def dithering(self, tool: ToolSpec) -> float:
        """Seconds until a tool's function sends: a thread may take its time."""
        if tool.threaded and self.dice.random() < 0.2:
            return self.dice.uniform(0.0, 3.0) * (tool.policy.timeout or 5.0)
        return self.dice.uniform(0.0, 0.02)

    def truth_of(self, known: Call) -> Intention | None:
        """What a recorded call was made for."""
        return self.oracle.truth.get(known.operation_id)

    def lives(self, owner: Owner) -> bool:
        """Whether a process lives."""
        return any(p.alive and p.owner == owner for p in self.processes)

    def some_process(self) -> Process:
        """Return a living process, or a new one."""
        living = [p for p in self.processes if p.alive and not p.steady]
        if len(living) < self.profile.workers or self.dice.random() < 0.1:
            return self.new_process(self.dice.choice(self.profile.spaces))
        return self.dice.choice(living)

    def new_process(self, space: str) -> Process:
        """Start a process."""
        process = Process(self, len(self.processes) + 1, space)
        self.processes.append(process)
        return process

    def crash(self, process: Process) -> None:
        """A process dies where it stands."""
        self.oracle.facts["crashes"] += 1
        self.end(process)

    def end(self, process: Process) -> None:
        """A process is no more."""
        process.alive = False
        self.oracle.dead.add(process.owner.pid)

    def tell_journal(self, transition: Transition[object]) -> None:
        """A person's verdict: once, and not again if the journal fails."""
        try:
            self.journal.perform(transition)
        except JournalError:
            self.oracle.facts["verdict lost"] += 1

    # --- the plot --------------------------------------------------------------------------

    def _errand(self, no: int) -> Errand:
        dice, by_model = self.dice, self.dice.random() < self.profile.models
        bare = dice.random() < 0.15
        variations = [
            v for v in self.profile.variations if not (bare and v == "resume")
        ]  # without steps no history can be told
        return Errand(
            self,
            f"run{no}",
            by_model=by_model,
            variation=dice.choice(variations) if by_model else "same",
            turns=dice.choice((1, 1, 3)) if by_model else 1,
            steps_given=not by_model and dice.random() < 0.3,
            bare=bare,
            budget=dice.choice(self.profile.budgets),
        )

    def _colleague(self, no: int) -> Colleague:
        dice, by_model = self.dice, self.dice.random() < self.profile.models
        variation = dice.choice(self.profile.variations) if by_model else "same"
        bare = variation != "resume" and dice.random() < 0.15
        return Colleague(self, f"lane{no}", by_model=by_model, variation=variation, bare=bare, employer=self.employer)

    def _loner(self, no: int) -> Loner:
        dice = self.dice
        kind = dice.choice(("business", "business", "step", "random"))
        if kind == "business":
            what = "w1" if dice.random() < 0.8 else "w2"
            return Loner(self, Intent(TOOLS[self.profile.business], f"shared{no // 2}", what))
        tool = TOOLS[dice.choice([*(n for n in self.profile.tools if not TOOLS[n].business), *SHORT_LIVED])]
        return Loner(self, Intent(tool, f"lone{no}", "w"), step=f"step{no}" if kind == "step" else "")

    def _misfortunes(self) -> Steps[None]:
        """Outages, jumps of the wall clock, reboots."""
        profile, dice = self.profile, self.dice
        todo = ["outage"] * profile.outages + ["jump"] * profile.jumps + ["reboot"] * profile.reboots
        dice.shuffle(todo)
        for what in todo:
            yield dice.uniform(1.0, profile.ends / len(todo))
            match what:
                case "outage":
                    self.journal.down_until = self.loop.now + dice.uniform(1.0, 40.0)
                case "jump":
                    self.clock.skew += dice.choice((-7200.0, -60.0, 60.0, 7200.0))
                case _:
                    for process in self.processes:
                        self.end(process)
                    self.clock.reboot()

    def run(self) -> None:
        """Let everything happen, then let it land, settle what can be settled, and judge."""
        start, profile = self.loop.start, self.profile
        askers: list[Errand | Loner] = [*self.errands, *self.loners]
        for one in askers:
            start(one.supervise(), self.outside, self.dice.uniform(0.0, 5.0))
        if profile.colleagues:
            start(self.employer.supervise(), self.outside)
        for trip in self.trips:
            for _ in range(self.dice.choice((1, 1, 2))):  # now and then two workers
                start(trip.supervise(), self.outside, self.dice.uniform(0.0, 5.0))
            for guest in trip.guests:
                start(guest.supervise(), self.outside)
        if self.trips:
            start(operator(self), self.outside)
        for _ in range(profile.people):
            start(person(self), self.outside)
        for _ in range(profile.tenders):
            start(tender(self), self.outside)
        for _ in range(profile.reconcilers):
            start(now_and_then(self), self.outside)
        start(self._misfortunes(), self.outside)
        try:
            self.loop.run(profile.ends)
            self._night()
        except NeverRests:
            self.oracle.object_to("the world did not come to rest")
        self.loop.close()

    def _night(self) -> None:
        """Everybody has gone; what was sent lands; evidence can be had; each open call is asked again."""
        self.outside.alive = False
        for process in self.processes:
            if process.calls:
                self.end(process)  # in the middle of a call
            process.alive = False
        self.journal.fault_rate, self.journal.down_until = 0.0, 0.0
        self.world.weather, self.world.blind = "calm", 0.0
        self.loop.run(self.loop.now + 100.0)
        for space in self.profile.spaces:
            janitor = self.new_process(space)
            janitor.steady = True
            self.loop.start(self._tidy(janitor), janitor)
            self.loop.run(self.loop.now + 600.0)
        self.oracle.judge(self.journal)
        for errand in self.errands:
            if errand.budget is not None:
                self.oracle.within_budget(errand.run_id, errand.budget)
            self.oracle.believed(errand.believed)
        self.oracle.doubt(self.journal)

    def _tidy(self, janitor: Process) -> Steps[None]:
        yield self.profile.lease  # the keeper brings spilled evidence back
        yield from reconcile(janitor, patience=60.0)
        yield from self._tidy_calls(janitor)
        if self.trips:
            for _ in range(3):
                yield from carry_on(janitor)
                yield from reconcile(janitor, patience=60.0)
                yield from self._tidy_calls(janitor)
            yield from carry_on(janitor)

    def _tidy_calls(self, janitor: Process) -> Steps[None]:
        for known in self.journal.find(QUERY):
            if is_of_a_run(known):
                continue
            who, _, what = known.arguments.decode().partition("|")
            intent = Intent(TOOLS[known.tool], *(self.truth_of(known) or ("", who, what))[1:])
            ask = make_ask(
                janitor,
                intent,
                Words(who, what),
                Place(known.scope if known.scope.startswith("undo:") else ""),
                key=known.key,
            )
            if known.operation_id in self.oracle.chains.paths:
                ask = replace(ask, identity=known.identity, fingerprint=known.fingerprint)
            yield from call(janitor, intent, ask)
