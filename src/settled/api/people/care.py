"""Settling from outside of a call: reconciliation in bulk, a person's verdict, a look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from settled.api import secrets
from settled.api.calls import answering
from settled.api.calls.binding import encoder, make_binding
from settled.api.calls.going_on import look_at_items
from settled.api.people.queue import Listening, adopted, pages
from settled.api.tools.schema import GIVEN
from settled.api.tools.tool import declare
from settled.core.answer import from_record
from settled.core.doubt.settle import settle
from settled.core.doubt.settling import Refused, Resolve
from settled.core.noted.looking import UnderClaim
from settled.core.runs.entering import run_of
from settled.core.runs.saga import Conclude, Heed
from settled.core.states import State
from settled.core.values import replace
from settled.drivers import aio, sync
from settled.drivers.loops import aside
from settled.errors import DeclarationError, JournalError
from settled.ports import CallQuery

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from settled.api.calls.result import Result
    from settled.api.guard import Guard
    from settled.api.people.ledgers import Compared
    from settled.api.tools.tool import Tool
    from settled.core.call import Call
    from settled.core.commands import Flow
    from settled.core.doubt.settling import Verdict
    from settled.drivers.floor import Binding


NOT_GIVEN: Any = object()
"""The result of a call that happened is not known; ``None`` is a result like any other."""
Progress = Callable[[int, int], object]
"""Told how many of how many calls were looked at."""


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What a reconciliation did. ``left`` calls are still unknown and stand in the queue."""

    orphans: int = 0
    happened: int = 0
    did_not_happen: int = 0
    left: int = 0
    probes_failed: int = 0
    """Of those left: the probe raised, or gave no verdict. Each is logged as a warning."""
    ledgers: tuple[Compared, ...] = ()
    """What the comparisons with the tools' ledgers brought, where they were asked for."""

    def plus(self, state: State, probe: Listening | None) -> Reconciled:
        """Count one call by where it stands now."""
        if state is State.SUCCEEDED:
            return replace(self, happened=self.happened + 1)
        if state is State.UNKNOWN:
            failed = self.probes_failed + (probe is not None and probe.failed)
            return replace(self, left=self.left + 1, probes_failed=failed)
        return replace(self, did_not_happen=self.did_not_happen + 1)


def reconcile(guard: Guard, limit: int, progress: Progress | None = None) -> Reconciled:
    """Adopt orphans, then settle each unknown call by its tool's probe. Makes no attempt."""
    counts = Reconciled(orphans=_adopt(guard, limit))
    for call in _counted(_unknown(guard, limit), progress):
        binding, probe = binding_of(guard, call)
        settled = call if binding is None else sync.drive(_settling(guard, call), sync.Hand(binding, guard.floor))
        if settled is not call:
            heed(guard, settled)
        counts = counts.plus(settled.state, probe)
    return counts


async def areconcile(guard: Guard, limit: int, progress: Progress | None = None) -> Reconciled:
    """Like ``reconcile``, without blocking the loop."""
    counts = Reconciled(orphans=await aside(_adopt, guard, limit))
    unknown: Sequence[Call] = await aside(_unknown, guard, limit)
    for call in _counted(unknown, progress):
        settled, probe = await asettle(guard, call)
        counts = counts.plus(settled.state, probe)
    return counts


async def asettle(guard: Guard, call: Call) -> tuple[Call, Listening | None]:
    """Settle one call by what its tool's probe says now; return how it stands then, and what was heard."""
    binding, probe = binding_of(guard, call)
    if binding is None:
        return call, None
    settled = await aio.drive(_settling(guard, call), aio.Hand(binding, guard.floor))
    if settled is not call:
        await aside(heed, guard, settled)
    return settled, probe


def _settling(guard: Guard, call: Call) -> Flow[Call]:
    return settle(call, guard.tools[call.tool].checked.policy, 0.0)


def binding_of(guard: Guard, call: Call) -> tuple[Binding | None, Listening | None]:
    """Return the tool as it is to be asked, with an ear for its probe; ``None`` if this guard has no such tool."""
    tool = guard.tools.get(call.tool)
    if tool is None:
        return None, None
    binding = make_binding(guard, tool, None)
    if binding.probe is None:
        return binding, None
    probe = Listening(binding.probe)
    return replace(binding, probe=probe), probe


def _adopt(guard: Guard, limit: int) -> int:
    guard.floor.attend()
    at_work = _oldest(guard, CallQuery(states=(State.PROCESSING,), tenant=guard.tenant), limit)
    calls = [adopted(guard, call.operation_id) for call in at_work]
    return sum(call is not None and call.state is not State.PROCESSING for call in calls)


def _unknown(guard: Guard, limit: int) -> Sequence[Call]:
    return _oldest(guard, CallQuery(states=(State.UNKNOWN,), tenant=guard.tenant), limit)


def _oldest(guard: Guard, query: CallQuery, limit: int) -> Sequence[Call]:
    """Return the oldest calls first: with more than ``limit`` of them each gets its turn."""
    return list(pages(guard.journal, replace(query, readable=True)))[: -limit - 1 : -1]


def _counted(calls: Sequence[Call], progress: Progress | None) -> Iterator[Call]:
    for done, call in enumerate(calls):
        if progress is not None:
            progress(done, len(calls))
        yield call
    if progress is not None:
        progress(len(calls), len(calls))


def resolve(
    guard: Guard,
    operation_id: str,
    verdict: Verdict,
    *,
    by: str,
    reason: str,
    result: object,
    then: Literal["rerun", "fail"],
    force: bool,
    any_tenant: bool = False,
    seen: Call | None = None,
) -> Result[Any]:
    """Take a person's verdict. Raises ``DeclarationError`` if it cannot be taken.

    ``any_tenant``: for the operator of the journal, who answers for all of them. ``seen``: the call as the person saw
    it; else as it stands now.
    """
    if verdict not in ("happened", "did_not_happen", "hold", "undone"):
        raise DeclarationError(f"{verdict!r} is no verdict: happened, did_not_happen, hold or undone")
    if not by.strip() or not reason.strip():
        raise DeclarationError("a verdict needs a name (by=) and a reason (reason=)")
    call = guard.journal.get(operation_id) if any_tenant else own(guard, operation_id)
    if call is None:
        raise DeclarationError(f"no call of tenant {guard.tenant!r} has the operation id {operation_id!r}")
    given = verdict == "happened" and result is not NOT_GIVEN
    data, note = encoder(guard, tool_of(guard, call))(result) if given else (None, "")
    note = note or (GIVEN if given and call.tool not in guard.tools else "")
    by, reason = secrets.clean(by.strip()), secrets.clean(reason)
    decision = Resolve(operation_id, verdict, by, reason, then, data, note, force, (seen or call).epoch)
    reply: Call | Refused = guard.journal.perform(UnderClaim(decision, operation_id, by))
    if isinstance(reply, Refused):
        raise DeclarationError(f"{operation_id}: {reply.why}")
    guard.floor.presence.wake(operation_id)
    guard.floor.attend()
    heed(guard, reply)
    return answering.to_result(guard, tool_of(guard, reply), from_record(reply))


def heed(guard: Guard, call: Call) -> None:
    """Let what hangs on a settled call follow: the step that it undoes, and the run whose last open step it was."""
    step: Call | None = call
    if call.scope.startswith("undo:"):
        step = guard.journal.perform(Heed(call.operation_id))
    run_id = run_of(step.scope) if step is not None else None
    if step is not None and step.state is State.COMPENSATED and run_id is not None:
        guard.journal.perform(Conclude(run_id, step.tenant))


def own(guard: Guard, operation_id: str) -> Call | None:
    """Return a call of the guard's tenant; another tenant's is as if there were none."""
    call = guard.journal.get(operation_id)
    return call if call is not None and call.tenant == guard.tenant else None


def look(guard: Guard, operation_id: str) -> Result[Any] | None:
    """Return how a recorded call stands."""
    call = own(guard, operation_id)
    if call is None:
        return None
    tool = tool_of(guard, call)
    return look_at_items(guard, tool, call, answering.to_result(guard, tool, from_record(call)))


def tool_of(guard: Guard, call: Call) -> Tool[Any, Any]:
    """Return the call's tool; a stand-in without types where the guard does not know it."""
    return guard.tools.get(call.tool) or declare(_stand_in, {"name": call.tool})


def _stand_in() -> Any:
    raise JournalError("this process does not know the tool")


__all__ = ["NOT_GIVEN", "Progress", "Reconciled", "heed", "look", "reconcile", "resolve", "tool_of"]
