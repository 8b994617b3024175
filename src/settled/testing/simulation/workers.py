"""The processes of the simulated machine: their clocks, leases, breakers and pools; how they die."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.attempts.breaker import Breaker
from settled.core.attempts.budget import Pool
from settled.core.attempts.progress import Renew
from settled.core.model import Owner
from settled.core.runs.entering import RenewRuns
from settled.errors import JournalError
from settled.testing.simulation.driver import transact
from settled.testing.simulation.loop import Gate, Host
from settled.testing.simulation.plans import TENANT

if TYPE_CHECKING:
    from settled.core.doubt.late import Evidence
    from settled.testing.simulation.loop import Steps
    from settled.testing.simulation.simulation import Simulation
    from settled.testing.simulation.tools import ToolSpec


class Process(Host):
    """One process: an owner of calls, with its keeper."""

    __slots__ = ("_breakers", "_gates", "_pools", "calls", "held", "here", "owner", "runs", "sim", "slowness", "steady")

    def __init__(self, sim: Simulation, pid: int, space: str = "host") -> None:
        super().__init__()
        self.sim = sim
        self.steady = False
        self.owner = Owner("machine", sim.clock.boot, space, pid, f"started{pid}")
        self.slowness = sim.dice.choice((0.002, 0.01, 0.3))
        self.calls = 0
        self.here: dict[str, int] = {}
        self.held: dict[str, tuple[int, float | None]] = {}
        self.runs: dict[str, str] = {}
        """Claim -> the run that is worked on, or undone, here."""
        self._gates: dict[str, Gate] = {}
        self._breakers: dict[str, Breaker] = {}
        self._pools: dict[str, Pool] = {}
        sim.loop.start(self._keep(), self)

    # --- breakers and pools ----------------------------------------------------------------

    def breaker(self, tool: ToolSpec) -> Breaker:
        """Return this process's breaker of a tool."""
        if tool.name not in self._breakers:
            self._breakers[tool.name] = Breaker(tool.name, tool.breaker)
        return self._breakers[tool.name]

    def pool(self, tool: ToolSpec) -> Pool:
        """Return this process's retry pool of a tool."""
        if tool.name not in self._pools:
            self._pools[tool.name] = Pool(capacity=self.sim.profile.pool)
        return self._pools[tool.name]

    # --- who works on what -----------------------------------------------------------------

    def enter(self, operation_id: str) -> None:
        """The call is at work here."""
        self.here[operation_id] = self.here.get(operation_id, 0) + 1

    def leave(self, operation_id: str) -> None:
        """It is not any more."""
        self.here[operation_id] -= 1
        if not self.here[operation_id]:
            del self.here[operation_id]
        self.wake(operation_id)

    def gate(self, operation_id: str) -> Gate:
        """Return what opens when the call changes here."""
        return self._gates.setdefault(operation_id, Gate())

    def wake(self, operation_id: str) -> None:
        """Let whoever waits for the call look again."""
        gate = self._gates.pop(operation_id, None)
        if gate is not None:
            self.sim.loop.open(gate)

    def stumble(self, seconds: float) -> Steps[None]:
        """Go on after ``seconds``, unless this process dies or hangs just here."""
        profile, dice = self.sim.profile, self.sim.dice
        draw = dice.random()
        if draw < profile.crash and not self.steady:
            self.sim.crash(self)
        elif draw < profile.crash + profile.pause and not self.steady:
            self.paused_until = self.sim.loop.now + profile.lease * dice.choice((0.5, 1.5, 4.0))
        yield seconds

    def sees(self, owner: Owner) -> bool | None:
        """Whether another process lives; ``None`` where its number means nothing here."""
        if owner.boot != self.sim.clock.boot:
            return False
        if owner.space != self.owner.space:
            return None
        return self.sim.lives(owner)

    # --- the keeper ------------------------------------------------------------------------

    def _keep(self) -> Steps[None]:
        """Renew what is held every third of the lease; bring spilled evidence back."""
        while True:
            yield self.sim.profile.lease / 3
            now = self.sim.loop.now
            held = [(op, epoch, until) for op, (epoch, until) in self.held.items() if until is None or until > now]
            lease = self.sim.profile.lease
            claims = [(op, epoch, lease if until is None else min(lease, until - now)) for op, epoch, until in held]
            if claims:
                yield from self._renew(claims)
            if self.runs:
                yield from self._renew_runs(lease)
            if self.sim.spill:
                yield from self._bring_back(self.sim.spill[0])

    def _bring_back(self, evidence: Evidence) -> Steps[None]:
        """Put spilled evidence on record; it is forgotten only once it is there."""
        try:
            yield from transact(self, evidence)
        except JournalError:
            return
        if evidence in self.sim.spill:
            self.sim.spill.remove(evidence)
        self.wake(evidence.operation_id)

    def _renew_runs(self, lease: float) -> Steps[None]:
        try:
            lost = yield from transact(
                self, RenewRuns([(TENANT, run, claim) for claim, run in self.runs.items()], lease)
            )
        except JournalError:
            return
        for claim in lost:
            self.runs.pop(claim, None)

    def _renew(self, claims: list[tuple[str, int, float]]) -> Steps[None]:
        try:
            lost = yield from transact(self, Renew(claims))
        except JournalError:
            return
        for operation_id in lost:
            self.held.pop(operation_id, None)
