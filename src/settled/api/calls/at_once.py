"""Reads that nothing is asked about: outside of runs, without options. Most succeed at once, and then that was all.

They are made as all calls are, by the same steps of driver and machine; but a machine is made only for what did not
succeed at the first attempt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from settled.api.calls import answering
from settled.api.calls.asking import NOWHERE, place_of
from settled.api.calls.binding import make_binding
from settled.api.calls.bound import ORDINARY
from settled.api.calls.making import Prepared, without_limits
from settled.api.tools.schema import NO_ARGUMENTS
from settled.core.answer import by_itself
from settled.core.commands import Ended, Returned, first_of
from settled.drivers import aio, sync, unrecorded
from settled.drivers.floor import Binding

if TYPE_CHECKING:
    from settled.api.calls.bound import BoundCall
    from settled.api.calls.result import Result
    from settled.api.guard import Guard
    from settled.core.answer import Answer
    from settled.core.machine import Life


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
    if arguments is NO_ARGUMENTS and tool.bare is not None:
        return Binding(tool.bare, *tool.parts)
    return make_binding(guard, tool, arguments)


def value_of(guard: Guard, bound: BoundCall[Any], binding: Binding) -> Any:
    """Make the call from plain code; return its value or raise."""
    event = sync.attempt(first_of(binding.policy.timeout), binding, guard.floor)
    if type(event) is Ended and type(event.outcome) is Returned and event.fault is None:
        return event.outcome.value
    life = without_limits(guard, None, binding)
    step = life.after(sync.heed(event))
    del event  # an error's traceback keeps this frame, which would keep the error
    return _value(guard, bound, binding, life, sync.go_on(life, step, binding, guard.floor))


def result_of(guard: Guard, bound: BoundCall[Any], binding: Binding) -> Result[Any]:
    """Make the call from plain code; return its result."""
    event = sync.attempt(first_of(binding.policy.timeout), binding, guard.floor)
    if type(event) is Ended and type(event.outcome) is Returned and event.fault is None:
        return answering.to_result(guard, bound.tool, by_itself(event.outcome, 1))
    life = without_limits(guard, None, binding)
    step = life.after(sync.heed(event))
    del event  # as above
    answer = sync.go_on(life, step, binding, guard.floor)
    return answering.finish(guard, Prepared(bound, life, binding), answer)


async def avalue_of(guard: Guard, bound: BoundCall[Any], binding: Binding) -> Any:
    """Make the call from async code; return its value or raise."""
    event = await unrecorded.attempt(first_of(binding.policy.timeout), binding, guard.floor)
    if type(event) is Ended and type(event.outcome) is Returned and event.fault is None:
        return event.outcome.value
    life = without_limits(guard, None, binding)
    step = life.after(event)
    del event  # as above
    return _value(guard, bound, binding, life, await aio.go_on(life, step, binding, guard.floor))


async def aresult_of(guard: Guard, bound: BoundCall[Any], binding: Binding) -> Result[Any]:
    """Make the call from async code; return its result."""
    event = await unrecorded.attempt(first_of(binding.policy.timeout), binding, guard.floor)
    if type(event) is Ended and type(event.outcome) is Returned and event.fault is None:
        return answering.to_result(guard, bound.tool, by_itself(event.outcome, 1))
    life = without_limits(guard, None, binding)
    step = life.after(event)
    del event  # as above
    answer = await aio.go_on(life, step, binding, guard.floor)
    return answering.finish(guard, Prepared(bound, life, binding), answer)


def _value(guard: Guard, bound: BoundCall[Any], binding: Binding, life: Life, answer: Answer) -> Any:
    return answering.value_of(guard, Prepared(bound, life, binding), answer)
