"""How tools of the OpenAI Agents SDK are named: within a namespace others may have the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.errors import DeclarationError

if TYPE_CHECKING:
    from agents import FunctionTool

    from settled.api.guard import Guard


def name_of(tool: FunctionTool, guard: Guard) -> str:
    """Return the name, with its namespace. Raises ``DeclarationError`` where what is declared leaves that out."""
    name: str = tool.qualified_name
    alone = guard.tools.get(tool.name)
    if name not in guard.tools and alone is not None and getattr(alone, "declared", True):
        raise DeclarationError(f"{tool.name} is in a namespace, where others may have its name: declare it as {name!r}")
    return name
