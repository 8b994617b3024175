"""Reads that nothing is asked about: outside of runs, without options. Most succeed at once, and then that was all.

They are made as all calls are, by the same steps of driver and machine; but a machine is made only for what did not
succeed at the first attempt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from settled.api import answering
from settled.api.asking import NOWHERE, place_of
from settled.api.binding import make_binding
from settled.api.bound import ORDINARY
from settled.api.making import Prepared, without_limits
from settled.core.answer import by_itself
from settled.core.commands import Ended, Returned
from settled.core.series import first_of
from settled.drivers import aio, sync, unrecorded

if TYPE_CHECKING:
    from settled.api.bound import BoundCall
    from settled.api.guard import Guard
    from settled.api.result import Result
    from settled.core.answer import Answer
    from settled.core.commands import Flow, Shut
    from settled.drivers.floor import Binding


class Begun(Struct, frozen=True):
    """A call whose first attempt did not succeed, or was not made."""

    prepared: Prepared
    flow: Flow[Answer]


def binding_of(guard: Guard, bound: BoundCall[Any]) -> Binding | None:
    """Return what makes such a call; ``None``: it is none, or something stands in its way that others can tell."""
    tool = bound.tool
    if not tool.checked.may_stay_unrecorded or bound.options is not ORDINARY or place_of(guard) is not NOWHERE:
        return None
    if guard.pauses.reason(tool.name) is not None:
        return None
    try:
        arguments = tool.schema.bind(bound.args, bound.kwargs)
    except Exception:  # noqa: BLE001 - values that do not fit, or cannot be copied: the long way says what is wrong
        return None
    return make_binding(guard, tool, arguments)


def value_of(guard: Guard, bound: BoundCall[Any], binding: Binding) -> Any:
    """Make the call from plain code; return its value or raise."""
    event = sync.attempt(first_of(binding.policy.timeout), binding, guard.floor)
    if type(event) is Ended and type(event.outcome) is Returned and event.fault is None:
        return event.outcome.value
    begun = _begun(guard, bound, binding, sync.heed(event))
    del event  # an error's traceback keeps this frame, which would keep the error
    return answering.value_of(guard, begun.prepared, sync.drive(begun.flow, sync.Hand(binding, guard.floor)))


def result_of(guard: Guard, bound: BoundCall[Any], binding: Binding) -> Result[Any]:
    """Make the call from plain code; return its result."""
    event = sync.attempt(first_of(binding.policy.timeout), binding, guard.floor)
    if type(event) is Ended and type(event.outcome) is Returned and event.fault is None:
        return answering.to_result(guard, bound.tool, by_itself(event.outcome, 1))
    begun = _begun(guard, bound, binding, sync.heed(event))
    del event  # as above
    return answering.finish(guard, begun.prepared, sync.drive(begun.flow, sync.Hand(binding, guard.floor)))


async def avalue_of(guard: Guard, bound: BoundCall[Any], binding: Binding) -> Any:
    """Make the call from async code; return its value or raise."""
    event = await unrecorded.attempt(first_of(binding.policy.timeout), binding, guard.floor)
    if type(event) is Ended and type(event.outcome) is Returned and event.fault is None:
        return event.outcome.value
    begun = _begun(guard, bound, binding, event)
    del event  # as above
    return answering.value_of(guard, begun.prepared, await aio.drive(begun.flow, aio.Hand(binding, guard.floor)))


async def aresult_of(guard: Guard, bound: BoundCall[Any], binding: Binding) -> Result[Any]:
    """Make the call from async code; return its result."""
    event = await unrecorded.attempt(first_of(binding.policy.timeout), binding, guard.floor)
    if type(event) is Ended and type(event.outcome) is Returned and event.fault is None:
        return answering.to_result(guard, bound.tool, by_itself(event.outcome, 1))
    begun = _begun(guard, bound, binding, event)
    del event  # as above
    return answering.finish(guard, begun.prepared, await aio.drive(begun.flow, aio.Hand(binding, guard.floor)))


def _begun(guard: Guard, bound: BoundCall[Any], binding: Binding, event: Ended | Shut) -> Begun:
    life = without_limits(guard, None, binding)
    return Begun(Prepared(bound, life, binding), life.go_on(event))
