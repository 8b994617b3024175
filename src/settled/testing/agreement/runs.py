"""The rules of ``Agreement`` about runs: entering, leaving, their state, and rolling them back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from settled.core.approval.leave import Decide
from settled.core.books import Change, RunState
from settled.core.runs.entering import EnterRun, LeaveRun, ReadState, RenewRuns, SaveState
from settled.core.runs.saga import (
    Conclude,
    EndRollback,
    Heed,
    LookThrough,
    Rolling,
    StartRollback,
    StepUndone,
    Stuck,
    Undo,
)
from settled.testing.agreement.draws import RESULTS, RUNS, SECONDS, TENANTS, TEXTS
from settled.testing.agreement.rules import Rules
from settled.testing.records import OTHER, OWNER

if TYPE_CHECKING:
    from settled.core.books import Transition
    from settled.core.call import Call

CLAIMS = st.sampled_from(["c1", "c2", "c3"])
OWNERS = st.sampled_from([None, OWNER, OTHER])


class RunRules(Rules):
    """Runs."""

    rollbacks: list[tuple[str, str, str]]
    """Run, tenant and claim of the rollbacks that were taken on."""

    @rule(
        tenant=TENANTS,
        run=RUNS,
        claim=CLAIMS,
        owner=OWNERS,
        lease=SECONDS,
        parent=st.sampled_from(["", "", "r1", "r2"]),
        dead=st.just("") | CLAIMS,
    )
    def look_into_a_run(  # noqa: PLR0917 - drawn by name
        self, tenant: str, run: str, claim: str, owner: Any, lease: float, parent: str, dead: str
    ) -> None:
        """A process enters, or is told who is there; nobody asks in that entry."""
        outer = parent if parent < run else ""  # never inside of each other: a run is there before what is inside of it
        enter = EnterRun(
            run, tenant, None, (), claim, owner, lease, "compensate", parent=outer, parent_entry=1, dead=dead
        )
        self.same(enter)

    @rule(tenant=TENANTS, run=RUNS, entry=st.integers(0, 4), state=st.sampled_from(RunState), reason=TEXTS)
    def leave(self, tenant: str, run: str, entry: int, state: RunState, reason: str) -> None:
        """An entry ends, perhaps an old one."""
        if state not in (RunState.ROLLING_BACK, RunState.COMPENSATED, RunState.PARTLY_COMPENSATED):
            self.same(LeaveRun(run, tenant, entry, state, reason))

    @rule(tenant=TENANTS, run=RUNS, claims=st.lists(CLAIMS, max_size=2), seconds=SECONDS)
    def renew_runs(self, tenant: str, run: str, claims: list[str], seconds: float) -> None:
        """A keeper's round."""
        self.same(RenewRuns([(tenant, run, claim) for claim in claims], seconds))

    @rule(
        tenant=TENANTS,
        run=RUNS,
        entry=st.integers(1, 4),
        names=st.lists(st.tuples(TEXTS, RESULTS), max_size=2),
        serial=st.integers(0, 3),
        before=st.integers(0, 5),
    )
    def save_state(  # noqa: PLR0917 - drawn by name
        self, tenant: str, run: str, entry: int, names: list[tuple[str, bytes | None]], serial: int, before: int
    ) -> None:
        """A checkpoint, and what a later entry finds."""
        changes = tuple(Change(name, value, serial) for name, value in names)
        self.same(SaveState(run, tenant, entry, changes))
        self.same(ReadState(run, tenant, before))

    @rule(tenant=TENANTS, run=RUNS, claim=CLAIMS, entry=st.none() | st.integers(1, 4), dead=st.just("") | CLAIMS)
    def roll_back(self, tenant: str, run: str, claim: str, entry: int | None, dead: str) -> None:
        """Somebody takes a rollback on, or is told."""
        start = StartRollback(run, tenant, "failed", claim, OWNER, 30.0, entry, dead)
        if isinstance(self.same(start), Rolling):
            self.rollbacks.append((run, tenant, claim))
        self.same(LookThrough(run, tenant))

    @rule(number=st.integers(0, 30), give=st.booleans(), by=st.sampled_from(["eva", "bob"]), reason=TEXTS)
    def decide(self, number: int, by: str, reason: str, *, give: bool) -> None:
        """A person gives or refuses leave."""
        self.same(Decide(self.pick(number), give, by, reason))

    @precondition(lambda self: bool(self.rollbacks))
    @rule(number=st.integers(0, 30), which=st.integers(0, 5), step=st.integers(0, 5), note=TEXTS)
    def go_on_with_a_rollback(self, number: int, which: int, step: int, note: str) -> None:
        """One step of it, in whatever order."""
        fence = self.rollbacks[-1 - which % len(self.rollbacks)]
        seen = self.same(LookThrough(*fence[:2]))
        steps: list[Call] = [each for each in seen.undo if hasattr(each, "operation_id")]
        op = steps[number % len(steps)].operation_id if steps else self.pick(number)
        transitions: list[Transition[Any]] = [
            Undo(*fence, op, (self.pick(number + 1),)),
            Undo(*fence, op),
            Stuck(*fence, op, "undo_failed", note),
            StepUndone(*fence, op, self.pick(number + 2)),
            Heed(self.pick(number)),
            EndRollback(*fence),
        ]
        self.same(transitions[step])
        self.same(Conclude(*fence[:2]))
