"""An agent that works on another's run: what it calls is that run's, in a lane of its own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

from settled.api.runs.entering import Saga
from settled.api.runs.run import Run
from settled.core.attempts.budget import RetryBudget, TokenWindow
from settled.core.runs.joins import JoinRun
from settled.core.runs.lanes import lane_id
from settled.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from settled.api.guard import Guard
    from settled.core.matching.entry import Entry
    from settled.core.runs.entering import EnterRun
    from settled.core.runs.grants import Grant


class Joined(Run):
    """Made by ``guard.join(token)``: work on another's run, in a lane of its own; a sync and async context manager.

    What is called in it stands in the run: the run's rollback undoes it, and its budget pays for it. An agent that
    joins the same lane again is answered from what it did there. An error that leaves it ends the lane, as ``kept``;
    what becomes of the run is its host's to say. ``state`` is the lane's own.
    """

    def __init__(
        self,
        guard: Guard,
        grant: Grant,
        *,
        answered: Iterable[str],
        wait: float,
        take_over: bool,
        count: Callable[[str, Mapping[str, object]], int] | None = None,
    ) -> None:
        tools = None if grant.tools is None else frozenset(grant.tools) & guard.tools.keys()
        super().__init__(
            guard,
            grant.run_id,
            turn=None,
            answered=answered if isinstance(answered, str) else tuple(answered),
            within=grant.within,
            retries=None if grant.retries is None else RetryBudget(**_named(grant.retries)),
            saga=Saga(grant.on_error, tools, wait, take_over=take_over),
            tokens=None if grant.tokens is None else TokenWindow(grant.tokens, count=count),
        )
        self.grant, self.lane, self.only, self.undoes = grant, grant.lane, grant.tools, False

    @property
    def run_entry(self) -> int:
        """The entry of the run that gave the token."""
        return self.grant.entry

    @property
    def lane_entry(self) -> int:  # type: ignore[override]  # a run's own work is in no lane
        """The entry of the lane."""
        return self.memory.no

    @property
    def record_id(self) -> str:
        """The lane's record."""
        return lane_id(self.run_id, self.lane)

    def _transition(self, outer: Run | None) -> EnterRun | JoinRun:
        del outer
        grant = self.grant
        return JoinRun(grant.run_id, grant.tenant, grant.lane, grant.entry, grant.until, self._answered)

    def _entered(self, memory: Entry, saved: Mapping[str, bytes]) -> Self:
        left = min(self.grant.within, self.grant.until - self.guard.journal.now().wall)
        self.deadline = time.monotonic() + max(0.0, left)
        return super()._entered(memory, saved)

    def compensate(self, reason: str) -> Any:
        """Refuse: a run is undone by the agent that began it, or by an operator."""
        raise DeclarationError(
            f"run {self.run_id!r} was joined: tell its host why it is to be undone ({reason}), which may do it"
        )


def _named(retries: tuple[int, dict[str, int] | None, float | None]) -> dict[str, Any]:
    total, per_tool, floor = retries
    return {"total": total, "per_tool": per_tool, "floor": floor}
