"""What a process has on the table: a guard on the journal, tools over the ledger, a place to note what it was told."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

import settled
from settled import host
from settled.api.calls.bound import BoundCall, CallOptions
from settled.core.values import replace
from settled.testing.kill import joins
from settled.testing.kill.fuse import Fuse
from settled.testing.kill.journal import fused
from settled.testing.kill.ledger import Ledger, append
from settled.testing.kill.plan import RUN
from settled.testing.kill.service import Action, Service, declare

if TYPE_CHECKING:
    from settled.core.model import Moment
    from settled.testing.kill.plan import Plan
    from settled.testing.kill.script import Script

ELSEWHERE = "elsewhere"
"""The name of a space of process numbers that nobody here can look into."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the agent was told of one action."""

    order: str
    status: str
    reason: str
    value: str | None
    replayed: bool
    recorded: bool
    at: float
    """When, by the journal's wall clock in seconds."""


class Stage:
    """One guard with its tools, in one process. A context manager."""

    def __init__(self, plan: Plan, script: Script, fuse: Fuse | None = None) -> None:
        self.plan, self.fuse, self.in_run, self.saga = plan, fuse or Fuse(), script.in_run, script.saga
        self.guest, self.given, self.patience = script.guest, script.given, script.patience
        self.ledger = Ledger(plan.home / "ledger")
        self.service = Service(self.ledger, plan.home, self.fuse)
        self.journal = fused(plan, self.fuse, self._clock)
        self.guard = settled.Guard(self.journal, lease=plan.lease, token_key=joins.KEY)
        if script.declare is not None:
            script.declare(self)
        else:
            declare(self.guard, self.service, {action.tool for action in script.actions}, is_async=plan.is_async)

    def _clock(self) -> Moment:
        return host.now().plus(self.plan.later)

    def run(self) -> settled.Run | nullcontext[Any]:
        """Return the run that the calls are made in, or nothing to enter.

        Whoever starts a script again knows that its process is dead; who goes on with a saga must see it, or wait.
        """
        if self.guest:
            return self.guard.join(joins.token_file(self.plan.home).read_text(), wait=self.plan.wait)
        if self.saga:
            return self.guard.run(RUN, on_error="compensate", wait=self.plan.wait, undo_within=2.0)
        return self.guard.run(RUN, take_over=True) if self.in_run else nullcontext()

    def bind(self, action: Action, *, time: int = 1) -> settled.BoundCall[Any]:
        """Return the call for an action, as a model asks for it this time: with new ids and new words."""
        given = {"order": action.order, "trouble": action.trouble, "memo": f"words of entry {self.plan.entry}"}
        if self.given is not None:  # by code, which is never told of what else it has done
            options = CallOptions(wait=min(self.plan.wait, self.patience))
            return BoundCall(self.guard.tools[action.tool], kwargs=self.given(self, action), options=options)
        step = f"message {self.plan.entry} {action.order} {time}/1" if self.in_run else None
        bound = self.guard.bind(action.tool, given, step=step)
        if isinstance(bound, settled.Result):
            raise TypeError(bound.message)
        key = None if self.in_run else action.order
        return replace(bound, options=replace(bound.options, key=key, wait=self.plan.wait))

    def tell(self, action: Action, result: settled.Result[Any]) -> Told:
        """Note what the agent was told."""
        value = result.value if result.ok and result.value_available else None
        known = result.replayed, result.recorded
        told = Told(action.order, result.status, result.reason, value, *known, at=self.journal.now().wall)
        append(self.plan.told, json.dumps(asdict(told)))
        self.fuse.cross("told")
        return told

    def everything_told(self) -> list[Told]:
        """Return what any process was ever told, sorted by process."""
        return [told for path in sorted(self.plan.home.glob("*.told")) for told in self.told_by(path.stem)]

    def told_by(self, name: str) -> list[Told]:
        """Return what one process was told."""
        place = replace(self.plan, name=name).told
        return [Told(**json.loads(line)) for line in place.read_text().splitlines()] if place.exists() else []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.guard.close()
