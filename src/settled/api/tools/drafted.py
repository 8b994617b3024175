"""What a tool declares of its drafts: what makes one, what confirms it, what throws it away."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from settled.core.model import Effect
from settled.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from settled.api.guard import Guard
    from settled.api.tools.tool import Tool

DRAFT = "draft"
"""The parameter through which ``confirm`` and ``discard`` get what the draft's tool returned."""


def parts_of(tool: Tool[Any, Any]) -> tuple[Any, Any, Any]:
    """Return what makes a tool's draft, confirms it and discards it, as declared; three times ``None`` for most."""
    options = tool.checked.options
    return options.draft, options.confirm, options.discard


def check_drafting(tool: Tool[Any, Any]) -> None:
    """Refuse what cannot work. Raises ``DeclarationError``."""
    draft, confirm, discard = parts_of(tool)
    given = [each is not None for each in (draft, confirm, discard)]
    if not any(given):
        return
    for wrong, what in _mistakes(tool, draft, confirm, discard, complete=all(given)):
        if wrong:
            raise DeclarationError(f"{tool.name}: {what}")


def _mistakes(
    tool: Tool[Any, Any], draft: Any, confirm: Any, discard: Any, *, complete: bool
) -> list[tuple[bool, str]]:
    function, takes = function_of(confirm), takes_of(confirm)
    return [
        (not complete, "draft=, confirm= and discard= belong together: what makes it, what sends it, what drops it"),
        (not (isinstance(draft, str) or hasattr(draft, "checked")), "draft must be a tool, or the name of one"),
        (not (isinstance(discard, str) or hasattr(discard, "checked")), "discard must be a tool, or the name of one"),
        (not callable(function), "confirm must be a function, or a tool"),
        (
            inspect.iscoroutinefunction(function) is not tool.is_async,
            "confirm and the tool itself must both be async, or both not",
        ),
        (DRAFT not in takes, f"confirm must take {DRAFT!r}: what the draft's tool returned"),
        (
            bool(missing := [n for n in takes if n != DRAFT and n not in tool.schema.parameters]),
            f"confirm takes {missing[:1]}, which the tool has not",
        ),
        (
            tool.checked.effect in (Effect.READ, Effect.TRANSACTIONAL),
            "a read, or rows in the journal's own database, need no draft",
        ),
        (tool.checked.batch is not None, "a batch that may be done in part cannot be confirmed as one"),
    ]


def function_of(confirm: Any) -> Callable[..., Any]:
    """Return the function that confirms: a tool's own, or what was given."""
    function: Callable[..., Any] = getattr(confirm, "function", confirm)
    return function


def takes_of(function: Any) -> list[str]:
    """Return the names of the parameters of what confirms."""
    try:
        parameters = inspect.signature(function_of(function)).parameters
    except (TypeError, ValueError):
        return []
    return list(parameters)


def name_of(tool: Any) -> str:
    """Return the name of a tool that is given itself or by its name."""
    return tool if isinstance(tool, str) else str(tool.name)


def take_in(guard: Guard, tool: Tool[Any, Any]) -> None:
    """Let the guard know what a tool's drafts are made and discarded with. Raises ``DeclarationError``."""
    draft, _, discard = parts_of(tool)
    for each in (draft, discard):
        if each is not None and not isinstance(each, str) and each.guard is None:
            guard.add(each)


def of_drafts(guard: Guard) -> set[str]:
    """Return the names of the tools that make drafts or discard them: what they do is undone, or undoes."""
    named = [
        each
        for tool in guard.tools.values()
        for each in parts_of(tool)
        if hasattr(each, "checked") or type(each) is str
    ]
    return {name_of(each) for each in named}


def found(guard: Guard, tool: Tool[Any, Any], other: Any) -> Tool[Any, Any]:
    """Return a tool that another one names. Raises ``DeclarationError``."""
    known = guard.tools.get(name_of(other))
    if known is None:
        raise DeclarationError(f"{tool.name} names {name_of(other)!r}, which this guard has not: guard.add it")
    return known
