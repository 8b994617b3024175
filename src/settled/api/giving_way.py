"""What a tool declares to be done in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from settled.errors import DeclarationError

if TYPE_CHECKING:
    from settled.api.tool import Tool


@dataclass(frozen=True, slots=True)
class Skip:
    """The last resort: nothing is done, and ``value`` is given in the result's place. The status tells the truth."""

    value: object = None
    why: str = ""


def chain_of(fallback: Any) -> tuple[Any, ...]:
    """Return a tool's fallbacks in their order."""
    if fallback is None:
        return ()
    several = isinstance(fallback, Sequence) and not isinstance(fallback, str)
    return tuple(fallback) if several else (fallback,)


def check_fallback(tool: Tool[Any, Any], chain: tuple[Any, ...]) -> None:
    """Refuse what cannot work. Raises ``DeclarationError``."""
    for place, step in enumerate(chain):
        if isinstance(step, Skip) and place < len(chain) - 1:
            raise DeclarationError(f"{tool.name}: what comes after Skip is never reached")
        if not (isinstance(step, Skip | str) or hasattr(step, "checked")):
            raise DeclarationError(f"{tool.name}: fallback takes tools, their names, and Skip(value), not {step!r}")
        if step is tool or step == tool.name:
            raise DeclarationError(f"{tool.name}: it cannot fall back on itself: attempts= says how often it is tried")
        if hasattr(step, "checked"):
            check_arguments(tool, step)


def check_arguments(tool: Tool[Any, Any], other: Tool[Any, Any]) -> None:
    """Refuse a fallback whose arguments the tool has not. Raises ``DeclarationError``."""
    missing = [name for name in other.required if name not in tool.schema.parameters]
    if missing:
        raise DeclarationError(f"{tool.name}: its fallback {other.name} takes {missing[0]!r}, which it has not")
