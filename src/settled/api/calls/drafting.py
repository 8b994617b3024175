"""Draft and confirm: a call whose effect is prepared first, and then either takes place or is thrown away."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from settled.api.calls.binding import as_recorded
from settled.api.calls.bound import BoundCall, CallOptions, DraftOf
from settled.api.people.queue import pages
from settled.api.runs import sagas
from settled.api.steps import adrive, drive
from settled.api.tools.drafted import found, function_of, takes_of
from settled.core.approval.drafts import Discarded, DropDrafts, LookAtDraft, is_draft
from settled.core.ask import Stands
from settled.core.encoding import codec
from settled.core.matching.claim import Claim
from settled.core.runs.rollback import Compensated
from settled.core.states import State
from settled.core.values import replace
from settled.drivers.loops import aside
from settled.errors import DeclarationError, JournalError, NotExecuted
from settled.ports import CallQuery

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from settled.api.calls.making import Prepared
    from settled.api.calls.result import Result
    from settled.api.guard import Guard
    from settled.api.steps import Steps
    from settled.api.tools.tool import Tool
    from settled.core.call import Call

BEGINS = (State.NOT_DONE, State.PARKED, State.AWAITING_APPROVAL)
TRY_AGAIN = ("", "undo_not_done", "undo_rejected", "undo_in_progress", "undo_not_made", "tool_missing")
"""Why a draft is not discarded yet, where another try may bring it on."""


# --- one call ---------------------------------------------------------------------------------------


def first(guard: Guard, prepared: Prepared) -> Steps[Result[Any] | None]:
    """See that the draft is there before the call begins; return the result where it cannot be had."""
    tool, ask = prepared.bound.tool, prepared.life.ask
    if ask is None:
        return None
    reply = yield Claim(ask, begin=False, drafting=True)
    if not isinstance(reply, Stands) or reply.call.state not in BEGINS:
        return None  # the call itself says how it stands
    yield DropDrafts(reply.call.operation_id)
    _, live, no = yield LookAtDraft(reply.call.operation_id)
    if live is not None and live.state is State.SUCCEEDED:
        return None
    draft: Result[Any] = yield _draft(guard, prepared, reply.call, no)
    if draft.ok:
        return None
    return _without_draft(tool, reply.call, draft)


def _draft(guard: Guard, prepared: Prepared, call: Call, no: int) -> BoundCall[Any]:
    tool, options = prepared.bound.tool, prepared.bound.options
    declared = tool.checked.options
    maker = found(guard, tool, declared.draft)
    missing = [name for name in maker.required if name not in tool.schema.parameters]
    if missing:
        raise DeclarationError(f"{tool.name}: its draft {maker.name} takes {missing[0]!r}, which it has not")
    given = as_recorded(guard, tool, call, dict(prepared.arguments))
    arguments = {name: given[name] for name in maker.schema.parameters if name in given}
    kept = None if declared.retention is None else declared.retention + 2 * declared.approve_within
    of = DraftOf(call.operation_id, no, found(guard, tool, declared.discard).name, kept)
    return BoundCall(maker, kwargs=arguments, options=CallOptions(wait=options.wait, within=options.within, draft=of))


def _without_draft(tool: Tool[Any, Any], call: Call, draft: Result[Any]) -> Result[Any]:
    """Return the result of a call whose draft could not be made: nothing was confirmed."""
    surely = draft.status in ("failed", "not_done", "invalid", "rejected")
    return replace(
        draft,
        tool=tool.name,
        status=draft.status if surely else "not_done",
        reason=draft.reason if surely else f"draft_{draft.status}",
        value=None,
        value_available=False,
        operation_id=call.operation_id,
        message=f"nothing was done; its draft: {draft.message}",
    )


def confirming(guard: Guard, tool: Tool[Any, Any], call: Call, own: Mapping[str, Any]) -> Any:
    """Make one attempt: confirm the draft that is on record. Raises ``NotExecuted`` where there is none."""
    function, takes = function_of(tool.checked.options.confirm), takes_of(tool.checked.options.confirm)
    arguments = {name: value for name, value in own.items() if name in takes}

    async def later() -> Any:
        draft = await aside(_drafted, guard, call)
        return await function(**arguments, draft=draft)

    return later() if tool.is_async else function(**arguments, draft=_drafted(guard, call))


def _drafted(guard: Guard, call: Call) -> Any:
    """Return what the draft's tool returned."""
    _, live, _ = guard.journal.perform(LookAtDraft(call.operation_id))
    if live is None or live.state is not State.SUCCEEDED:
        raise NotExecuted("its draft is not there", retryable=True)
    return value_of(guard, live)


def value_of(guard: Guard, draft: Call) -> Any:
    """Return a draft's value as it is on record. Raises ``NotExecuted`` where it was not kept."""
    maker = guard.tools.get(draft.tool)
    try:
        data = guard.vault.unlock(draft.result) if draft.result is not None else None
        if data is None:
            raise NotExecuted("what its draft returned was not kept")
        return codec.loads(data) if maker is None else maker.schema.decode(data, draft.note)
    except (ValueError, JournalError) as error:
        raise NotExecuted(f"its draft cannot be read: {error}") from error


def afterwards(guard: Guard, result: Result[Any]) -> Steps[Result[Any]]:
    """Throw away the draft of a call that is never confirmed."""
    if result.status in ("failed", "refused") and result.operation_id:
        yield from dropping(guard, result.operation_id)
    return result


# --- throwing away ----------------------------------------------------------------------------------


def dropping(guard: Guard, operation_id: str) -> Steps[None]:
    """Discard the drafts of one call, if it is never confirmed."""
    yield from _discarding(guard, (yield DropDrafts(operation_id)))


def left(guard: Guard) -> Steps[None]:
    """Discard the drafts that somebody's refusal, a lapsed leave or a lost process has left."""
    waiting = pages(guard.journal, CallQuery(states=(State.AWAITING_APPROVAL,), tenant=guard.tenant))
    for call in [each for each in waiting if each.terms.drafted]:
        yield DropDrafts(call.operation_id)
    going = pages(guard.journal, CallQuery(states=(State.COMPENSATING,), tenant=guard.tenant))
    yield from _discarding(guard, [each for each in going if is_draft(each)])


def _discarding(guard: Guard, drafts: Iterable[Call]) -> Steps[None]:
    for draft in drafts:
        if draft.reason not in TRY_AGAIN or draft.held:
            continue
        bound = sagas.undoing_call(guard, draft)
        if isinstance(bound, Compensated):
            yield Discarded(draft.operation_id, "", bound.reason, bound.note)
            continue
        result: Result[Any] = yield bound
        reason = "" if result.ok else "undo_not_filled" if result.status == "invalid" else f"undo_{result.status}"
        yield Discarded(draft.operation_id, result.operation_id, reason, "" if result.ok else result.message)


# --- plain and async ----------------------------------------------------------------------------------


def prepare(guard: Guard, prepared: Prepared) -> Result[Any] | None:
    """See that the draft is there, from plain code; return the result where it cannot be had."""
    with _asking(guard, prepared):
        return drive(guard, first(guard, prepared))


async def aprepare(guard: Guard, prepared: Prepared) -> Result[Any] | None:
    """Like ``prepare``, from async code."""
    with _asking(guard, prepared):
        return await adrive(guard, first(guard, prepared))


@contextmanager
def _asking(guard: Guard, prepared: Prepared) -> Iterator[None]:
    """Let others see that somebody is at this call: theirs is another one."""
    asker = prepared.life.ask.operation_id if prepared.life.ask is not None else ""
    guard.floor.asking.add(asker)
    try:
        yield
    finally:
        guard.floor.asking.discard(asker)
