"""Leave for another agent to join a run: the tokens that say so, signed, and what one of them grants here."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from settled.core.runs.grants import LANE, Grant, Unreadable, keys_of, read, sign
from settled.errors import DeclarationError, TokenRefused
from settled.tokens import RunToken

if TYPE_CHECKING:
    from collections.abc import Iterable

    from settled.api.guard import Guard
    from settled.api.runs.run import Run

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
