"""A model that goes on sending what the other side does not accept: after some in a row it is told to stop.

What our own validation finds is counted in ``answering``; both by ``core.invalid``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from settled.api.calls.asking import digests
from settled.api.calls.result import Result
from settled.core.attempts.invalid import signature
from settled.core.model import FaultClass
from settled.core.values import replace

if TYPE_CHECKING:
    from settled.api.calls.bound import BoundCall
    from settled.api.calls.making import Prepared
    from settled.api.guard import Guard
    from settled.api.tools.schema import Arguments
    from settled.core.answer import Answer

_AGAIN = (
    "nothing was executed: these arguments were refused before, as others were in the same way; do not send them again"
)


def turned_away(guard: Guard, bound: BoundCall[Any], arguments: Arguments) -> Result[Any] | None:
    """Return the result for the arguments that the other side refused last, once it has refused too many."""
    tool = bound.tool
    refused = guard.streak_of().refused(tool.name)
    if refused is None or refused != _digest(bound, arguments):
        return None
    guard.floor.tell("invalid", None, tool=tool.name, next="give_up")
    return Result(
        tool=tool.name, status="invalid", reason="refused_before", message=_AGAIN, next="give_up", recorded=False
    )


def heeded(guard: Guard, prepared: Prepared, answer: Answer, result: Result[Any]) -> Result[Any]:
    """Count what the other side refused as invalid; return the result with what the model is to do."""
    fault, bound = answer.fault, prepared.bound
    if answer.status != "failed" or fault is None or fault.kind is not FaultClass.INVALID:
        return result
    tool, ask = bound.tool, prepared.life.ask
    step = guard.streak_of().failed(
        tool.name,
        signature(tool.name, fault.message or fault.code),
        message=bound.options.message or None,
        arguments=_digest(bound) if ask is None else ask.words,
    )
    return replace(result, next=step)


def _digest(bound: BoundCall[Any], arguments: Arguments | None = None) -> str | None:
    try:
        return digests(bound.tool, arguments or bound.tool.schema.bind(bound.args, bound.kwargs), bound.options)[1]
    except Exception:  # noqa: BLE001 - a read may take what has no canonical form: it is made, and only counted
        return None
