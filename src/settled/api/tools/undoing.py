"""How a call is undone: what a declaration must say, and what a compensation is called with."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_type_hints

from settled.api.tools.batches import outcomes_of, own_done
from settled.api.tools.drafted import DRAFT
from settled.core.approval.drafts import is_draft
from settled.core.encoding import codec
from settled.core.encoding.value_types import fields_of
from settled.core.model import Effect, Part
from settled.core.parts import split_of
from settled.core.values import replace
from settled.errors import DeclarationError, JournalError, NotExecuted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from settled.api.guard import Guard
    from settled.api.tools.batches import Batch
    from settled.api.tools.options import Options
    from settled.api.tools.tool import Tool
    from settled.core.call import Call


class NotFilled(ValueError):  # noqa: N818 - the name says what is wrong
    """The arguments of a compensation cannot be made of what is on record."""


def name_of(compensate: Any) -> str:
    """Return the name of a compensating tool, which is given itself or by its name; empty for none."""
    return "" if compensate is None else compensate if isinstance(compensate, str) else str(compensate.name)


def check_undoing(options: Options, effect: Effect, name: str) -> None:
    """Refuse what cannot work. Raises ``DeclarationError``."""
    o = options
    for wrong, what in _mistakes(o, effect):
        if wrong:
            raise DeclarationError(f"{name}: {what}")


def _mistakes(o: Options, effect: Effect) -> list[tuple[bool, str]]:
    about = o.compensate is not None or o.irreversible or bool(o.waiver)
    no_tool = o.compensate is not None and not (isinstance(o.compensate, str) or hasattr(o.compensate, "checked"))
    pure = o.precheck is not None and inspect.iscoroutinefunction(o.precheck)
    return [
        (effect is Effect.READ and about, "a read changes nothing, so there is nothing to undo, and nothing to waive"),
        (no_tool, f"compensate must be a tool, or the name of one, not {o.compensate!r}"),
        (o.compensate is not None and o.irreversible, "what has a compensation is not irreversible: leave one out"),
        (
            o.undo is not None and o.compensate is None,
            "undo makes the arguments of a compensation: name it in compensate=",
        ),
        (o.undo is not None and not _takes_two(o.undo), "undo takes two things: undo=lambda call, result: {…}"),
        (
            o.irreversible and o.precheck is None and not o.waiver,
            "an irreversible tool needs precheck=<a function of its arguments>, or waiver='why it needs none'",
        ),
        (o.precheck is not None and not o.irreversible, "precheck goes with irreversible=True"),
        (pure, "precheck must be a plain function: it waits for nothing"),
        (type(o.waiver) is not str, f"waiver says in words why, not {o.waiver!r}"),
    ]


def _takes_two(function: Any) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:
        return callable(function)
    return True


def pair_up(guard: Guard, tool: Tool[Any, Any]) -> None:
    """Check a tool with its compensation, once the guard knows both. Raises ``DeclarationError``."""
    given = tool.checked.options.compensate
    if given is not None and not isinstance(given, str) and given.guard is None:
        guard.add(given)
    for other in list(guard.tools.values()):
        for option, named in _named(guard, other):
            if tool in (other, named):
                _demand_own(other, option, named)
        wanted = name_of(other.checked.options.compensate)
        compensation = guard.tools.get(wanted) if wanted else None
        if compensation is not None and tool in (other, compensation):
            check_pair(other, compensation, encrypts=guard.vault.encrypts)


def _named(guard: Guard, tool: Tool[Any, Any]) -> Iterator[tuple[str, Tool[Any, Any]]]:
    """Yield the tools that the guard itself calls for this one, each with the option that names it."""
    options = tool.checked.options
    for option, given in (("compensate", options.compensate), ("draft", options.draft), ("discard", options.discard)):
        named = guard.tools.get(name_of(given))
        if named is not None:
            yield option, named


def _demand_own(tool: Tool[Any, Any], option: str, named: Tool[Any, Any]) -> None:
    if named.foreign:
        raise DeclarationError(
            f"{tool.name}: {option} names {named.name}, which is the framework's: only an agent that has it makes its "
            "calls. Declare one that any process can call: @guard.tool(…)"
        )


def check_pair(tool: Tool[Any, Any], compensation: Tool[Any, Any], *, encrypts: bool) -> None:
    """Refuse a compensation whose arguments cannot be had. Raises ``DeclarationError``."""
    if compensation.checked.effect is Effect.READ:
        raise DeclarationError(f"{tool.name}: {compensation.name} is a read, which undoes nothing")
    if tool.checked.options.undo is not None:
        return
    known, fields = set(tool.schema.parameters), _result_fields(tool.schema.returns)
    for name in compensation.required:
        if name not in known and fields is not None and name not in fields:
            raise DeclarationError(
                f"{tool.name}: {compensation.name} takes {name!r}, which neither the call nor its result has: write "
                f"undo=lambda call, result: {{{name!r}: …}}"
            )
    secret = sorted(_redacted(tool) & set(compensation.required))
    if secret and not encrypts:
        raise DeclarationError(
            f"{tool.name}: {compensation.name} needs {secret[0]!r}, which is redacted: it is kept only with "
            "Guard(encryption_key=…)"
        )


def _redacted(tool: Tool[Any, Any]) -> set[str]:
    return {path.partition(".")[0].removesuffix("[]") for path in tool.checked.options.redact}


def _result_fields(returns: Any) -> set[str] | None:
    """Return the names that a result surely has; ``None`` where its type does not tell."""
    if dataclasses.is_dataclass(returns):
        return {field.name for field in dataclasses.fields(returns)}
    declared = getattr(returns, "__pydantic_fields__", None)
    if declared is not None:
        return set(declared)
    if hasattr(returns, "__required_keys__"):
        return set(get_type_hints(returns))
    return set() if returns in (str, int, float, bool, bytes, type(None), None) else None


def demand_undoing(tool: Tool[Any, Any]) -> None:
    """Refuse a call whose effect could not be undone with its run. Raises ``DeclarationError``; nothing was done."""
    terms = tool.checked.policy.terms
    if terms.effect is Effect.READ or terms.compensate or terms.irreversible or terms.waived:
        return
    raise DeclarationError(
        f"{tool.name} cannot be undone, and its run says on_error='compensate': declare compensate=<the tool that "
        "undoes it>, irreversible=True, or waiver='why its effect may stay'"
    )


def demand_leave(precheck: Callable[..., object], arguments: Mapping[str, Any]) -> None:
    """Ask an irreversible tool's precheck. Raises ``NotExecuted`` if it says no, or fails."""
    try:
        said = precheck(**arguments)
    except NotExecuted:
        raise
    except Exception as error:
        raise NotExecuted(f"its precheck failed: {type(error).__name__}") from error
    if said is False:
        raise NotExecuted("its precheck says no")


def arguments_for(
    guard: Guard, tool: Tool[Any, Any] | None, compensation: Tool[Any, Any], call: Call
) -> dict[str, Any]:
    """Return what the compensation of a call is called with. Raises ``NotFilled``."""
    arguments, result, has_result = _recorded(guard, tool, call)
    if is_draft(call):
        return _by_name(compensation, arguments, {DRAFT: result} if has_result else None, has_result=has_result)
    undo = tool.checked.options.undo if tool is not None else None
    if undo is None:
        if tool is None:
            raise NotFilled(f"this process does not know {call.tool}, whose declaration says how it is undone")
        return _by_name(compensation, arguments, result, has_result=has_result)
    from settled.api.calls.binding import view  # noqa: PLC0415 - it needs this module too

    assert tool is not None  # noqa: S101 - for the type checker: undo is a tool's
    try:
        made = undo(replace(view(guard, tool, call), arguments=arguments), result)
    except Exception as error:
        raise NotFilled(f"undo raised {type(error).__name__}") from error
    if not isinstance(made, Mapping):
        raise NotFilled(f"undo gave a {type(made).__name__}, not names and values")
    return dict(made)


def _recorded(guard: Guard, tool: Tool[Any, Any] | None, call: Call) -> tuple[dict[str, Any], Any, bool]:
    try:
        arguments = codec.loads(guard.vault.unlock(call.arguments))
        if tool is not None and not guard.vault.encrypts:
            for name in _redacted(tool):  # a compensation is never called with the mark that stands for a secret
                arguments.pop(name, None)
        if call.result is None:
            batch = tool.checked.batch if tool is not None else None
            return (arguments if batch is None else own_done(call, batch, arguments)), None, False
        data = guard.vault.unlock(call.result)
        if tool is not None and tool.checked.batch is not None and split_of(call) is not None:
            return _own_part(tool, tool.checked.batch, call, arguments, data)
        typed = tool is not None and call.state.value != "partial"
        return arguments, tool.schema.decode(data, call.note) if tool and typed else codec.loads(data), True
    except JournalError as error:
        raise NotFilled(str(error)) from error
    except ValueError as error:
        raise NotFilled("what is on record cannot be read as it is declared today") from error


def _own_part(
    tool: Tool[Any, Any], batch: Batch, call: Call, arguments: dict[str, Any], data: bytes
) -> tuple[dict[str, Any], Any, bool]:
    """Return what a batch itself has done: the arguments with those items alone, and their pieces of the answer.

    What was gone on with in other calls is undone with those.
    """
    own = own_done(call, batch, arguments)
    try:
        outcomes = outcomes_of(batch, tool.schema.decode(data, call.note), arguments[batch.parameter])
        kept = {n for n, item in enumerate(split_of(call)[1]) if item.part is Part.DONE}  # type: ignore[index]  # it has one
        values = [each.value for n, each in enumerate(outcomes) if n in kept]
    except ValueError:
        values = []
    return own, {"done": own[batch.parameter], "values": values}, True


def _by_name(
    compensation: Tool[Any, Any], arguments: Mapping[str, Any], result: Any, *, has_result: bool
) -> dict[str, Any]:
    fields = result if isinstance(result, Mapping) else fields_of(result) if has_result else None
    found = {**arguments, **{str(name): value for name, value in (fields or {}).items()}}
    missing = [name for name in compensation.required if name not in found]
    if missing:
        why = "" if has_result else ": what it returned was not kept"
        raise NotFilled(f"{compensation.name} needs {', '.join(missing)}{why}")
    return {name: found[name] for name in compensation.schema.parameters if name in found}
