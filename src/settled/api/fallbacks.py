"""What is done in a tool's place when it is proved that it did nothing: another tool, or nothing with a value."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from settled.api import making
from settled.api.bound import BoundCall, CallOptions
from settled.api.giving_way import Skip, check_arguments
from settled.api.going_on import go_on, told_again
from settled.core.answer import from_record
from settled.core.ask import Stands, WouldRun
from settled.core.claim import Claim
from settled.core.fallback import GiveWay
from settled.core.model import Effect, KeyKind
from settled.core.parts import split_of
from settled.core.states import State
from settled.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Generator

    from settled.api.guard import Guard
    from settled.api.making import Prepared
    from settled.api.result import Result
    from settled.api.tool import Tool
    from settled.core.answer import Answer

    Steps = Generator[Any, Any, Result[Any]]
    """Yields a transition to perform or a bound call to make; is sent what came of it."""


def may_give_way(result: Result[Any]) -> bool:
    """Whether it is proved, and not only said by a person, that nothing was done."""
    if result.asserted or result.disputed:
        return False
    untried = result.status == "rejected" and result.reason in ("breaker_open", "paused")
    return untried or result.status in ("failed", "not_done")


def follow(guard: Guard, prepared: Prepared, primary: Result[Any]) -> Steps:
    """Go on with what a batch has left, or go down the chain of what is done instead."""
    if prepared.bound.tool.checked.batch is not None and primary.status == "partial":
        primary = yield from go_on(guard, prepared, primary)
    elif prepared.bound.tool.checked.batch is not None and primary.replayed:
        primary = yield from told_again(guard, prepared.bound.tool, primary)
    if prepared.bound.tool.drafted:
        from settled.api.drafting import afterwards  # noqa: PLC0415 - each needs the other

        primary = yield from afterwards(guard, primary)
    return (yield from _chain(guard, prepared, primary))


def _chain(guard: Guard, prepared: Prepared, primary: Result[Any]) -> Steps:
    """Go down the chain until something else is done, or is in doubt; the primary's own result if nothing is."""
    if not prepared.bound.tool.fallbacks or not may_give_way(primary):
        return primary
    given = yield from _give_way(guard, prepared, primary)
    if given is not None:
        return given
    bound, tried = prepared.bound, []
    for step in bound.tool.fallbacks:
        if isinstance(step, Skip):
            return replace(
                primary, value=step.value, value_available=True, fallback="skip", message=_said(primary, step)
            )
        other = _tool(guard, bound.tool, step)
        result: Result[Any] = yield _instead(other, prepared)
        if not may_give_way(result):
            return replace(result, fallback=other.name)
        if result.operation_id:
            yield GiveWay(result.operation_id)
        tried.append(other.name)
    return replace(primary, message=f"{primary.message}; {', '.join(tried)} did nothing either", fallback="")


def _give_way(guard: Guard, prepared: Prepared, primary: Result[Any]) -> Generator[Any, Any, Result[Any] | None]:
    """Put on record that the primary is given up, so that no later entry makes it too."""
    tool, ask = prepared.bound.tool, prepared.life.ask
    if primary.operation_id:
        call = yield GiveWay(primary.operation_id)
    elif ask is None or ask.kind is KeyKind.RANDOM or tool.checked.effect is Effect.READ:
        return None  # nobody asks for it again: the next ask is a new intention
    else:
        reply = yield Claim(ask, begin=False, forgo=True)
        if not isinstance(reply, Stands):
            return primary if isinstance(reply, WouldRun) else replace(primary, retryable=True)
        call = reply.call
    if call is None or call.state is State.FAILED:
        return None
    return making.to_result(guard, tool, from_record(call), prepared.life)


def _tool(guard: Guard, tool: Tool[Any, Any], step: Any) -> Tool[Any, Any]:
    name = step if isinstance(step, str) else step.name
    found = guard.tools.get(name) or guard.models.get(name)
    if found is None:
        raise DeclarationError(f"{tool.name} falls back on {step!r}, which this guard has not: guard.add it")
    check_arguments(tool, found)
    return found


def _instead(other: Tool[Any, Any], prepared: Prepared) -> BoundCall[Any]:
    given = prepared.arguments
    arguments = {name: given[name] for name in other.schema.parameters if name in given}
    options = prepared.bound.options
    return BoundCall(other, kwargs=arguments, options=CallOptions(wait=options.wait, within=options.within))


def _said(primary: Result[Any], step: Skip) -> str:
    return f"{primary.message}; it was skipped" + (f": {step.why}" if step.why else "")


def instead(guard: Guard, prepared: Prepared, primary: Result[Any]) -> Result[Any]:
    """Do what follows a call, from plain code."""
    result: Result[Any] = drive(guard, follow(guard, prepared, primary))
    return result


async def ainstead(guard: Guard, prepared: Prepared, primary: Result[Any]) -> Result[Any]:
    """Do what follows a call, from async code."""
    result: Result[Any] = await adrive(guard, follow(guard, prepared, primary))
    return result


def recalled(guard: Guard, tool: Tool[Any, Any], answer: Answer) -> Result[Any]:
    """Return the result of a call that is answered from memory, from plain code."""
    result = making.to_result(guard, tool, answer)
    if not _by_item(tool, answer):
        return result
    told: Result[Any] = drive(guard, told_again(guard, tool, result))
    return told


async def arecalled(guard: Guard, tool: Tool[Any, Any], answer: Answer) -> Result[Any]:
    """Like ``recalled``, from async code."""
    result = making.to_result(guard, tool, answer)
    if not _by_item(tool, answer):
        return result
    told: Result[Any] = await adrive(guard, told_again(guard, tool, result))
    return told


def _by_item(tool: Tool[Any, Any], answer: Answer) -> bool:
    return tool.checked.batch is not None and answer.call is not None and split_of(answer.call) is not None


def drive(guard: Guard, steps: Generator[Any, Any, Any]) -> Any:
    """Perform transitions and make calls until the steps are through, from plain code."""
    answer = None
    while True:
        try:
            wanted = steps.send(answer)
        except StopIteration as stop:
            return stop.value
        answer = guard.make(wanted) if isinstance(wanted, BoundCall) else guard.journal.perform(wanted)


async def adrive(guard: Guard, steps: Generator[Any, Any, Any]) -> Any:
    """Like ``drive``, from async code."""
    answer = None
    while True:
        try:
            wanted = steps.send(answer)
        except StopIteration as stop:
            return stop.value
        is_call = isinstance(wanted, BoundCall)
        answer = await (guard.amake(wanted) if is_call else guard.journal.aperform(wanted))
