"""What is done in a tool's place when it is proved that it did nothing: another tool, a person, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from settled.api.calls import answering, drafting
from settled.api.calls.asking import new_operation_id
from settled.api.calls.binding import OtherWords, to_be_made_with
from settled.api.calls.bound import ORDINARY, BoundCall, CallOptions, InsteadOf
from settled.api.calls.going_on import go_on, told_again
from settled.api.steps import adrive, drive
from settled.api.tools.giving_way import (
    PERSON,
    Person,
    Say,
    Skip,
    check_arguments,
    fallback_name,
    last_words,
    parts_of,
)
from settled.core.answer import from_record
from settled.core.approval.drafts import LookAtDraft
from settled.core.instead.chain import Came, Instead, Overtaken, go_down, may_give_way
from settled.core.parts import split_of
from settled.core.values import replace
from settled.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from settled.api.calls.making import Prepared
    from settled.api.calls.result import Result
    from settled.api.guard import Guard
    from settled.api.steps import Steps
    from settled.api.tools.tool import Tool
    from settled.core.answer import Answer
    from settled.core.call import Call

LONGEST_WHY = 1000
"""Characters of what a person is told of what failed before."""


def follow(guard: Guard, prepared: Prepared, primary: Result[Any]) -> Steps[Result[Any]]:
    """Go on with what a batch has left, or go down the chain of what is done instead."""
    if prepared.bound.tool.checked.batch is not None and primary.status == "partial":
        primary = yield from go_on(guard, prepared, primary)
    elif prepared.bound.tool.checked.batch is not None and primary.replayed:
        primary = yield from told_again(guard, prepared.bound.tool, primary)
    if prepared.bound.tool.drafted:
        primary = yield from drafting.afterwards(guard, primary)
    return (yield from _chain(guard, prepared, primary))


def _chain(guard: Guard, prepared: Prepared, primary: Result[Any]) -> Steps[Result[Any]]:
    """Go down the chain until something else is done, or is in doubt; the primary's own result if nothing is."""
    tool = prepared.bound.tool
    if not tool.fallbacks or not may_give_way(primary):
        return primary
    if tool.checked.options.approve is not None and not (yield from _has_its_words(guard, prepared, primary)):
        return primary
    steps, last = parts_of(tool.fallbacks)
    came = yield from _performed(guard, prepared, go_down(primary, prepared.life.ask, len(steps)))
    if isinstance(came, Overtaken):
        if came.call is None:
            return replace(primary, retryable=True) if came.again else primary
        return answering.to_result(guard, tool, from_record(came.call), prepared.life)
    return _answered(tool, came, steps, last)


def _has_its_words(guard: Guard, prepared: Prepared, primary: Result[Any]) -> Steps[bool]:
    """Whether the arguments that leave was given for can be had, to do something else with them."""
    call, _, _ = yield LookAtDraft(primary.operation_id)
    try:
        _given(guard, prepared, call)
    except OtherWords:
        return False
    return True


def _given(guard: Guard, prepared: Prepared, given_up: Call | None) -> Mapping[str, Any]:
    """Return the arguments of what is done in the call's place. Raises ``OtherWords``."""
    tool, ask, given = prepared.bound.tool, prepared.life.ask, dict(prepared.arguments)
    if given_up is None:
        return given
    same_words = ask is not None and ask.words == given_up.words
    return to_be_made_with(guard, tool, given_up, given, same_words=same_words)


def _performed(guard: Guard, prepared: Prepared, walk: Steps[Came | Overtaken]) -> Steps[Came | Overtaken]:
    """Pass on what the walk wants, with the places of the chain as calls to be made."""
    answer = None
    try:
        while True:
            wanted = walk.send(answer)
            if isinstance(wanted, Instead):
                bound = _instead(guard, prepared, wanted)
                result: Result[Any] = yield bound
                answer = (result, None if result.operation_id else bound.ask())
            else:
                answer = yield wanted
    except StopIteration as stop:
        came: Came | Overtaken = stop.value
        return came
    finally:
        walk.close()


def _answered(tool: Tool[Any, Any], came: Came, steps: Sequence[Any], last: Skip | Say | None) -> Result[Any]:
    """Return what the asker is told: what was done instead, or the last words of the chain."""
    result: Result[Any] = came.outcome
    if came.no >= 0:
        like = came.before[0][1].earlier  # the like call that the asker was matched to
        earlier = (*like, *(each for each in result.earlier if each not in like))
        result = replace(result, fallback=fallback_name(steps[came.no]), earlier=earlier)
    if came.exhausted and len(came.before) > 1:
        names = ", ".join(fallback_name(steps[no]) for no, _ in came.before if no >= 0)
        result = replace(result, message=f"{result.message}; {names} did nothing either")
    ended = came.exhausted or (result.status == "refused" and result.fallback == PERSON)
    return last_words(tool, last, result) if last is not None and ended else result


def _instead(guard: Guard, prepared: Prepared, wanted: Instead) -> BoundCall[Any]:
    tool, given_up = prepared.bound.tool, wanted.given_up
    given = _given(guard, prepared, given_up)
    step = parts_of(tool.fallbacks)[0][wanted.no]
    if isinstance(step, Person):
        return _by_hand(prepared, given, wanted, step)
    other, options = _tool(guard, tool, step), prepared.bound.options
    arguments = {name: given[name] for name in other.schema.parameters if name in given}
    of = InsteadOf(given_up.operation_id, wanted.no) if given_up is not None else None
    return BoundCall(other, kwargs=arguments, options=CallOptions(wait=options.wait, within=options.within, instead=of))


def _by_hand(prepared: Prepared, given: Mapping[str, Any], wanted: Instead, step: Person) -> BoundCall[Any]:
    """Return the call as a person is to make it. Its asker is told at once, unless it said how long it waits."""
    tool, options = prepared.bound.tool, prepared.bound.options
    names = [(_name_at(tool, no), result.message) for no, result in wanted.before]
    why = "; ".join(f"{name}: {message}" for name, message in names)[:LONGEST_WHY]
    operation_id = new_operation_id() if wanted.given_up is None else wanted.given_up.operation_id
    of = InsteadOf(operation_id, wanted.no, by_hand=why, wanted=step.wanted)
    wait = 0.0 if options.wait == ORDINARY.wait else options.wait
    return BoundCall(tool, kwargs=dict(given), options=CallOptions(wait=wait, within=options.within, instead=of))


def _name_at(tool: Tool[Any, Any], no: int) -> str:
    return tool.name if no < 0 else fallback_name(tool.fallbacks[no])


def _tool(guard: Guard, tool: Tool[Any, Any], step: Any) -> Tool[Any, Any]:
    name = fallback_name(step)
    found = guard.tools.get(name) or guard.models.get(name)
    if found is None:
        raise DeclarationError(f"{tool.name} falls back on {step!r}, which this guard has not: guard.add it")
    check_arguments(tool, found)
    return found


def instead(guard: Guard, prepared: Prepared, primary: Result[Any]) -> Result[Any]:
    """Do what follows a call, from plain code."""
    return drive(guard, follow(guard, prepared, primary))


async def ainstead(guard: Guard, prepared: Prepared, primary: Result[Any]) -> Result[Any]:
    """Do what follows a call, from async code."""
    return await adrive(guard, follow(guard, prepared, primary))


def recalled(guard: Guard, tool: Tool[Any, Any], answer: Answer) -> Result[Any]:
    """Return the result of a call that is answered from memory, from plain code."""
    result = answering.to_result(guard, tool, answer)
    return drive(guard, told_again(guard, tool, result)) if _by_item(tool, answer) else result


async def arecalled(guard: Guard, tool: Tool[Any, Any], answer: Answer) -> Result[Any]:
    """Like ``recalled``, from async code."""
    result = answering.to_result(guard, tool, answer)
    return await adrive(guard, told_again(guard, tool, result)) if _by_item(tool, answer) else result


def _by_item(tool: Tool[Any, Any], answer: Answer) -> bool:
    return tool.checked.batch is not None and answer.call is not None and split_of(answer.call) is not None
