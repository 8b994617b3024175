"""Several agents on one run: tokens, agents that have joined, and the end of a run that waits for them."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Self

from settled import host
from settled.api.entering import PAUSES, Saga
from settled.api.run import Run
from settled.core.budget import RetryBudget, TokenWindow
from settled.core.grants import LANE, Grant, Unreadable, keys_of, read, sign
from settled.core.joins import JoinRun, LanesAtWork, LeaveJoined
from settled.core.lanes import lane_id, lane_of
from settled.core.values import replace
from settled.errors import DeclarationError, TokenRefused
from settled.tokens import RunToken

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping

    from settled.api.guard import Guard
    from settled.core.entry import Entry
    from settled.core.runs import EnterRun, LeaveRun

LIFE = 3600.0
"""Seconds that a token lives at the most, where neither the run nor ``within`` says less."""
_WRONG = {
    "malformed": "this is no token of a run",
    "signature": "it is not signed with a key that this guard knows: Guard(token_key=…) must be the same on both sides",
    "tenant": "it is for another tenant than the one that this guard works for",
    "journal": "it is for a run in another journal: both sides work on one",
    "lane": "it is for another lane",
}


def token_keys(given: Any) -> tuple[bytes, ...]:
    """Return the keys of ``Guard(token_key=…)``. Raises ``DeclarationError``."""
    try:
        return keys_of(given)
    except (TypeError, ValueError) as error:
        raise DeclarationError(f"token_key: {error}") from None


def token_for(run: Run, lane: str, tools: Iterable[Any] | None, within: float | None) -> RunToken:
    """Return a token for one agent that is to join the run. Raises ``DeclarationError``."""
    guard = run.guard
    if not guard.token_keys:
        raise DeclarationError("tokens are signed: give Guard(token_key=…), the same on both sides")
    if type(lane) is not str or not LANE.fullmatch(lane) or "/" in lane:  # it stands between a lane and one within it
        raise DeclarationError(
            f"lane={lane!r}: a lane is 1 to 100 printable ASCII characters without '/', the same each time"
        )
    if within is not None and not within > 0:
        raise DeclarationError(f"within must be a number of seconds above 0, not {within!r}")
    left = LIFE if run.deadline is None else run.deadline - time.monotonic()
    left = left if within is None else min(within, left)
    if left <= 0:
        raise DeclarationError(f"the time of run {run.run_id!r} is over: nobody could do anything in it")
    grant = Grant(
        run_id=run.run_id,
        tenant=guard.tenant,
        journal_id=guard.journal.journal_id,
        lane=f"{run.lane}/{lane}" if run.lane else lane,
        entry=run.run_entry,
        until=guard.journal.now().wall + left,
        within=left,
        tools=_names(run, tools),
        on_error=run.on_error,
        retries=_budget(run),
        tokens=None if run.tokens is None else run.tokens.limit,
    )
    try:
        return RunToken(sign(grant, guard.token_keys[0]))
    except ValueError as error:
        raise DeclarationError(str(error)) from None


def _names(run: Run, tools: Iterable[Any] | None) -> tuple[str, ...] | None:
    """Return the tools that the token names; an agent that has joined hands on no more than it has itself."""
    if isinstance(tools, str):
        raise DeclarationError(f"tools takes several: tools=[{tools!r}]")
    if tools is None:
        return run.only
    names = tuple(sorted({tool if isinstance(tool, str) else str(tool.name) for tool in tools}))
    more = [name for name in names if not run.allows(name)]
    if more:
        raise DeclarationError(f"the token that this agent has joined with does not name {more[0]!r}")
    return names


def _budget(run: Run) -> tuple[int, dict[str, int] | None, float | None] | None:
    budget = run.charge.budget if run.charge is not None else None
    return None if budget is None else (budget.total, dict(budget.per_tool or {}), budget.floor)


def grant_of(guard: Guard, token: RunToken | str, lane: str | None) -> Grant:
    """Return what a token grants here. Raises ``TokenRefused``, and ``DeclarationError`` without a key."""
    if not guard.token_keys:
        raise DeclarationError("nothing tells a true token from a false one: give Guard(token_key=…)")
    try:
        grant = read(token.reveal() if isinstance(token, RunToken) else token, guard.token_keys)
    except Unreadable as error:
        raise _refused("", error.why) from None
    mine = {"journal": guard.journal.journal_id, "tenant": guard.tenant, "lane": grant.lane if lane is None else lane}
    given = {"journal": grant.journal_id, "tenant": grant.tenant, "lane": grant.lane}
    for what, wanted in mine.items():
        if given[what] != wanted:
            raise _refused("" if what == "tenant" else grant.run_id, what)
    return grant


def _refused(run_id: str, why: str) -> TokenRefused:
    return TokenRefused(run_id, why, f"no run is joined: {_WRONG[why]}. Nothing was done")


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


# --- the end of a run that was joined ---------------------------------------------------------


def leaving(run: Run, leave: LeaveRun) -> Generator[LeaveJoined | LeaveRun | float, Any, tuple[str, ...]]:
    """Yield what to perform, or seconds to sleep, until the run has ended; return the lanes that were still at work.

    It waits as long as it would for another process that works on the run, and not beyond the run's own deadline.
    """
    until, pause = time.monotonic() + run.saga.wait, PAUSES[0]
    until = until if run.deadline is None else min(until, run.deadline)
    transition = LeaveJoined(leave.run_id, leave.tenant, leave)
    while True:
        reply = yield transition
        if not isinstance(reply, LanesAtWork):
            return ()
        dead = {lane.claim for lane in reply.lanes if lane.owner is not None and host.alive(lane.owner) is False}
        if dead - transition.dead:
            transition = replace(transition, dead=transition.dead | dead)
        elif time.monotonic() >= until:
            break
        else:
            yield min(pause, max(0.0, until - time.monotonic()))
            pause = min(PAUSES[1], 2 * pause)
    names = tuple(lane_of(lane) for lane in reply.lanes)
    yield replace(leave, reason=f"still at work when it ended: {', '.join(names)}")
    return names


def leave(run: Run, transition: LeaveRun) -> tuple[str, ...]:
    """End a run that may have been joined; return the lanes that were still at work. Raises ``JournalError``."""
    steps, answer = leaving(run, transition), None
    while True:
        try:
            wanted = steps.send(answer)
        except StopIteration as stop:
            return tuple(stop.value)
        if isinstance(wanted, float):
            time.sleep(wanted)
        else:
            answer = run.guard.journal.perform(wanted)


async def aleave(run: Run, transition: LeaveRun) -> tuple[str, ...]:
    """Like ``leave``, without blocking the loop."""
    steps, answer = leaving(run, transition), None
    while True:
        try:
            wanted = steps.send(answer)
        except StopIteration as stop:
            return tuple(stop.value)
        if isinstance(wanted, float):
            await asyncio.sleep(wanted)
        else:
            answer = await run.guard.journal.aperform(wanted)
