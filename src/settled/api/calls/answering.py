"""From the machine's answer to what an asker is given: a value, a ``Result``, or an error with the words that fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from settled.api import secrets
from settled.api.calls import streaks, words
from settled.api.calls.binding import hidden_texts
from settled.api.calls.bound import ORDINARY
from settled.api.calls.recent import told_as
from settled.api.calls.result import Earlier, Result
from settled.core.answer import STATUS_OF, rejected
from settled.core.attempts.invalid import signature
from settled.core.encoding import codec
from settled.core.model import KeyKind
from settled.core.parts import split_of
from settled.core.states import State
from settled.errors import JournalError

if TYPE_CHECKING:
    from settled.api.calls.bound import BoundCall
    from settled.api.calls.making import Prepared
    from settled.api.guard import Guard
    from settled.api.tools.tool import Tool
    from settled.core.answer import Answer
    from settled.core.call import Call
    from settled.core.machine import Life


def invalid(guard: Guard, bound: BoundCall[Any], fields: dict[str, str]) -> Result[Any]:
    """Return the result for arguments that do not fit; nothing was recorded or executed."""
    tool = bound.tool.name
    hidden = secrets.spellings(hidden_texts(_as_given(bound), bound.tool.checked.options.redact))
    fields = {name: secrets.clean(why, hidden) for name, why in fields.items()}
    mark = signature(tool, sorted(fields.items()))
    options, step = bound.options, "fix_arguments"
    if options.by_model:
        step = guard.streak_of().failed(tool, mark, message=options.message or None)
    guard.floor.tell("invalid", None, tool=tool, next=step)
    return _invalid(tool, "arguments", "; ".join(f"{name}: {why}" for name, why in fields.items()), fields, step)


def not_tried(tool: str, reason: str) -> Result[Any]:
    """Return the result of a call of which nothing was tried."""
    answer = rejected(reason)
    message, step = words.message(answer), words.next_step(answer)
    return Result(tool=tool, status="rejected", reason=reason, message=message, next=step, recorded=False)


def _as_given(bound: BoundCall[Any]) -> dict[str, Any]:
    return dict(zip(bound.tool.schema.parameters, bound.args, strict=False)) | dict(bound.kwargs)


def _invalid(tool: str, reason: str, message: str, fields: dict[str, str], step: Any) -> Result[Any]:
    return Result(tool=tool, status="invalid", reason=reason, message=message, fields=fields, next=step, recorded=False)


def finish(guard: Guard, prepared: Prepared, answer: Answer) -> Result[Any]:
    """Turn the machine's answer into the caller's result."""
    note(guard, prepared, answer)
    if answer.status != "succeeded":
        guard.floor.attend()
    result = to_result(guard, prepared.bound.tool, answer, prepared.life)
    return streaks.heeded(guard, prepared, answer, result) if prepared.bound.options.by_model else result


def value_of(guard: Guard, prepared: Prepared, answer: Answer) -> Any:
    """Return what the result would unwrap to, or raise what it raises; a result is made only where it is raised."""
    if answer.status == "succeeded":
        value, available = answer.value, answer.fresh
        if not available:
            value, available, _ = _value(guard, prepared.bound.tool, answer)
        if available:
            if prepared.life.ask is not None or prepared.bound.options is not ORDINARY:
                note(guard, prepared, answer)
            return value
    return finish(guard, prepared, answer).unwrap()


def value_on_record(guard: Guard, tool: Tool[Any, Any], answer: Answer) -> Any:
    """Return the value of a success on record, or raise where it cannot be had."""
    value, available, _ = _value(guard, tool, answer)
    return value if available else to_result(guard, tool, answer).unwrap()


def note(guard: Guard, prepared: Prepared, answer: Answer) -> None:
    """Remember of an answer what counts for later calls."""
    ask, call = prepared.life.ask, answer.call
    if prepared.bound.options.by_model and answer.status == "succeeded":
        guard.streak_of().succeeded(prepared.bound.tool.name)
    if ask is None or call is None or ask.kind is not KeyKind.RANDOM:
        return
    is_open = answer.status in ("unknown", "in_progress", "partial")
    if is_open or guard.told_open:
        guard.told_open.note(told_as(ask.tool, ask.fingerprint), call.operation_id, is_open=is_open)


def to_result(guard: Guard, tool: Tool[Any, Any], answer: Answer, life: Life | None = None) -> Result[Any]:
    """Decode the value and choose the words."""
    call = answer.call
    value, available, why = _value(guard, tool, answer)
    ask = life.ask if life else None
    replayed = call is not None and not answer.fresh and (life is None or life.made == 0)
    reworded = bool(replayed and call and ask and call.words != ask.words)
    text = words.message(answer)
    if reworded and answer.status != "conflict":
        text += "; answered by the earlier call, whose words differ"
    if not available and answer.status == "succeeded":
        text += f"; {why}"
    earlier = (*answer.earlier, call) if answer.like and call and call not in answer.earlier else answer.earlier
    return Result(
        tool=tool.name,
        status=answer.status,
        reason=answer.reason,
        value=value,
        value_available=available,
        replayed=replayed,
        reworded=reworded,
        disputed=bool(call and call.disputed),
        asserted=bool(call and call.asserted),
        retryable=words.may_retry(answer),
        retry_after=_wait(guard, answer),
        recorded=answer.recorded and call is not None,
        earlier=tuple(_earlier(guard, each, tool) for each in earlier),
        operation_id=call.operation_id if call else "",
        message=text,
        next=words.next_step(answer),
        attempts=answer.attempts,
        hint=words.hint(answer),
    )


_NOT_GIVEN, _NOT_KEPT = "who said that it happened did not say what it returned", "its value was not kept"


def _value(guard: Guard, tool: Tool[Any, Any], answer: Answer) -> tuple[Any, bool, str]:
    """Return the value, whether there is one, and why not. Nothing that is wrong with the record raises here."""
    if answer.fresh:
        return answer.value, True, ""
    call = answer.call if answer.status in ("succeeded", "partial") else None
    if call is None or call.result is None or call.state not in (State.SUCCEEDED, State.PARTIAL):
        if call is not None and call.state is State.SUCCEEDED and tool.schema.returns is type(None):
            return None, True, ""  # what returns nothing has nothing that somebody must give
        asserted = call is not None and call.asserted
        return None, False, answer.note or (_NOT_GIVEN if asserted else _NOT_KEPT)
    if call.state is State.PARTIAL and split_of(call) is not None:
        return None, False, ""  # what became of each item is told with them
    try:
        data = guard.vault.unlock(call.result)
        value = codec.loads(data) if call.state is State.PARTIAL else tool.schema.decode(data, call.note)
    except JournalError as error:
        return None, False, f"its value cannot be read: {error}"
    except ValueError:
        return None, False, "its value does not fit what the tool is declared to return today"
    return value, True, ""


def _wait(guard: Guard, answer: Answer) -> float | None:
    if answer.call is not None and answer.call.not_before is not None:
        left: float = answer.call.not_before - guard.journal.now().wall
        return max(0.0, left)
    return answer.retry_after


def _earlier(guard: Guard, call: Call, tool: Tool[Any, Any]) -> Earlier:
    try:
        arguments = codec.loads(guard.vault.unlock(call.arguments)) if call.arguments else None
    except (ValueError, JournalError):
        arguments = None
    shown = secrets.redact(arguments, tool.checked.options.redact) if isinstance(arguments, dict) else arguments
    return Earlier(call.operation_id, STATUS_OF[call.state], shown)


def unknown_tool(guard: Guard, name: str) -> Result[Any]:
    """Return the result for a tool that does not exist; a near name is never taken for it."""
    known = ", ".join(sorted(guard.tools)) or "none"
    step = guard.streak_of().failed(name, f"{name}: unknown tool")
    message = f"there is no tool {name!r}; the tools are: {known}"
    return _invalid(name, "unknown_tool", message, {}, step)
