"""A person gives or refuses leave for a call that waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from settled.api import secrets
from settled.api.calls import answering, drafting
from settled.api.people import care
from settled.api.steps import drive
from settled.core.answer import from_record
from settled.core.approval.leave import Decide
from settled.core.doubt.settling import Refused
from settled.core.noted.looking import UnderClaim
from settled.drivers.waiting import in_loop
from settled.errors import DeclarationError

if TYPE_CHECKING:
    from settled.api.calls.result import Result
    from settled.api.guard import Guard
    from settled.core.call import Call


def decide(
    guard: Guard, operation_id: str, *, give: bool, by: str, reason: str, any_tenant: bool = False
) -> Result[Any]:
    """Take a person's decision; return how the call stands then. Raises ``DeclarationError`` if it cannot be taken.

    ``any_tenant``: for the operator of the journal, who answers for all of them.
    """
    if not by.strip() or (not give and not reason.strip()):
        raise DeclarationError("a decision needs a name (by=), and a refusal its reason (reason=)")
    call = guard.journal.get(operation_id)
    if call is None or not (any_tenant or call.tenant == guard.tenant):
        raise DeclarationError(f"no call of tenant {guard.tenant!r} has the operation id {operation_id!r}")
    by, reason = secrets.clean(by.strip()), secrets.clean(reason)
    decision = Decide(operation_id, give, by, reason, call.log_no)
    reply: Call | Refused = guard.journal.perform(UnderClaim(decision, operation_id, by))
    if isinstance(reply, Refused):
        raise DeclarationError(f"{operation_id}: {reply.why}")
    guard.floor.presence.wake(operation_id)
    if not give and reply.terms.drafted and reply.tool in guard.tools and not in_loop():  # else the worker does
        drive(guard, drafting.dropping(guard, operation_id))
    return answering.to_result(guard, care.tool_of(guard, reply), from_record(reply))
