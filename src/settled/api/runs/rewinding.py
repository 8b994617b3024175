"""Rewinding a run from one of its calls on: what stands is named, undone first, or kept on somebody's word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from settled import host
from settled.api import secrets
from settled.api.opening import refusal
from settled.api.runs import sagas
from settled.core.approval.drafts import Discarded
from settled.core.books import RunState
from settled.core.runs.entering import Held
from settled.core.runs.rewind import HoldRun, LetGo, LookFrom, Refused, SetAside, UndoOne
from settled.core.runs.rollback import Compensated
from settled.core.states import State
from settled.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.api.calls.result import Result
    from settled.api.guard import Guard
    from settled.api.steps import Steps
    from settled.core.books import RunRecord
    from settled.core.call import Call
    from settled.core.runs.rewind import Passage

Effects = Literal["refuse", "undo", "keep"]


@dataclass(frozen=True, slots=True)
class Rewound:
    """What a rewind has set aside, or would; the last begun comes first."""

    run_id: str
    operation_ids: tuple[str, ...]
    """Of the calls that the next entry makes anew."""
    undone: tuple[str, ...] = ()
    """Of those, what was undone first (or would be)."""
    kept: tuple[str, ...] = ()
    """Of those, what was done and stands."""


def rewind(
    guard: Guard, run_id: str, from_call: str, *, by: str, reason: str, effects: Effects, dry_run: bool, tenant: str
) -> Steps[Rewound]:
    """Set aside the calls of a run from one on. Raises ``DeclarationError`` where that cannot be done."""
    if effects not in ("refuse", "undo", "keep"):
        raise DeclarationError(f"effects={effects!r} is none of 'refuse', 'undo', 'keep'")
    if not by.strip() or not reason.strip():
        raise DeclarationError("a rewind needs a name (by=) and a reason (reason=)")
    why = refusal(guard.journal, "compensate")
    if why:
        raise DeclarationError(f"a run is not rewound here: {why}")
    seen = yield LookFrom(run_id, tenant, from_call)
    _check(guard, run_id, from_call, seen, effects)
    if dry_run:
        return _told(run_id, seen, effects)
    claim = sagas.new_claim()
    run = yield from _hold(guard, run_id, tenant, claim)
    before = RunState.KEPT if run.state is RunState.ACTIVE else run.state
    guard.runs_here.add(tenant, run_id, claim)
    try:
        return (
            yield from _rewound(guard, run, from_call, claim, effects, secrets.clean(by.strip()), secrets.clean(reason))
        )
    except DeclarationError:
        yield LetGo(run_id, tenant, claim, before)
        raise
    finally:
        guard.runs_here.drop(claim)


def _rewound(  # noqa: PLR0917 - what is rewound, how, and on whose word
    guard: Guard, run: RunRecord, from_call: str, claim: str, effects: Effects, by: str, reason: str
) -> Steps[Rewound]:
    run_id, tenant = run.run_id, run.tenant
    seen = yield LookFrom(run_id, tenant, from_call)
    _check(guard, run_id, from_call, seen, effects)
    told = _told(run_id, seen, effects)
    for call in seen.standing if effects == "undo" else ():
        yield from _undo(guard, run, claim, call)
    keep = effects == "keep"
    reply = yield SetAside(run_id, tenant, claim, from_call, told.operation_ids, keep, by, reason)
    if isinstance(reply, Refused):
        raise DeclarationError(f"run {run_id!r}: {reply.why}; nothing was set aside")
    return told


def _hold(guard: Guard, run_id: str, tenant: str, claim: str) -> Steps[RunRecord]:
    transition = HoldRun(run_id, tenant, claim, host.this_process(), guard.lease)
    reply = yield transition
    if isinstance(reply, Held) and reply.run.owner is not None and host.alive(reply.run.owner) is False:
        reply = yield HoldRun(run_id, tenant, claim, host.this_process(), guard.lease, reply.run.claim)
    if isinstance(reply, Held):
        owner = reply.run.owner
        who = f" (process {owner.pid} on {owner.host})" if owner else ""
        raise DeclarationError(f"another process works on run {run_id!r}{who}: end it first; nothing was set aside")
    if isinstance(reply, Refused):
        raise DeclarationError(f"run {run_id!r}: {reply.why}")
    run: RunRecord = reply
    return run


def _check(guard: Guard, run_id: str, from_call: str, seen: Passage | None, effects: Effects) -> None:
    """Refuse what would do harm, and say what can be typed instead."""
    if seen is None:
        raise DeclarationError(f"{from_call} is no call of run {run_id!r} that answers it: settled runs show {run_id}")
    for wrong, what in _mistakes(guard, seen, effects):
        if wrong:
            raise DeclarationError(f"run {run_id!r}: {what}; nothing was set aside")


def _mistakes(guard: Guard, seen: Passage, effects: Effects) -> list[tuple[bool, str]]:
    fixed = [call for call in seen.standing if not call.terms.compensate]
    away = [call for call in seen.standing if call.terms.compensate and call.terms.compensate not in guard.tools]
    return [
        (bool(seen.part_of), f"this call went on with items of {seen.part_of}: name that one"),
        (bool(seen.open), f"{_names(seen.open)} may still have an effect: settle that first"),
        (
            bool(seen.inner),
            f"runs that were entered inside of it replay by themselves, undo or rewind those: {', '.join(seen.inner)}",
        ),
        (
            effects == "refuse" and bool(seen.standing),
            f"{_names(seen.standing)} had an effect: undo it first (--undo), or say that it stays (--keep-effects)",
        ),
        (
            effects == "undo" and bool(seen.arriving),
            f"a request of {_names(seen.arriving)} may still arrive, and do it anew: wait for its max_request_lifetime",
        ),
        (effects == "undo" and bool(fixed), f"nothing undoes {_names(fixed)}"),
        (effects == "undo" and bool(away), f"what undoes {_names(away)} is not known here: name the app"),
    ]


def _names(calls: Sequence[Call]) -> str:
    return ", ".join(f"{call.tool} [{call.operation_id}]" for call in calls)


def _undo(guard: Guard, run: RunRecord, claim: str, call: Call) -> Steps[None]:
    """Undo one call. Raises ``DeclarationError`` where that does not succeed: the call stands in the queue then."""
    step: Call | None = yield UndoOne(run.run_id, run.tenant, claim, call.operation_id)
    if step is None:
        raise DeclarationError(f"another process works on run {run.run_id!r} by now; nothing was set aside")
    if step.state is not State.COMPENSATING:
        return
    bound = sagas.undoing_call(guard, step)
    if isinstance(bound, Compensated):
        yield Discarded(step.operation_id, "", bound.reason, bound.note)
        raise DeclarationError(f"{_names([step])} could not be undone: {bound.note}; nothing was set aside")
    result: Result[Any] = yield bound
    reason = "" if result.ok else "undo_not_filled" if result.status == "invalid" else f"undo_{result.status}"
    yield Discarded(step.operation_id, result.operation_id, reason, "" if result.ok else result.message)
    if not result.ok:
        raise DeclarationError(f"{_names([step])} could not be undone: {result.message}; nothing was set aside")


def _told(run_id: str, seen: Passage, effects: Effects) -> Rewound:
    standing = tuple(call.operation_id for call in seen.standing)
    undone, kept = (standing, ()) if effects == "undo" else ((), standing)
    return Rewound(run_id, tuple(call.operation_id for call in seen.calls), undone, kept)
