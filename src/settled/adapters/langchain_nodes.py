"""What stands between a guard and a LangChain tool: nothing that repeats a call, edits it, or hides how it failed."""

from __future__ import annotations

import copy
from types import CellType, FunctionType
from typing import Any

from settled.adapters import neutral

_ENTERS = "langgraph.prebuilt.tool_node"  # its handlers lead to the tool and nothing else
_INNER = ("ToolRetryMiddleware", "HumanInTheLoopMiddleware")  # what they repeat or edit would escape a guard outside
_NO_GLOBALS: dict[str, Any] = {}


def entering(handler: Any) -> Any:
    """Return what enters the tool, and raises what it raises. Raises ``DeclarationError`` for a layer between."""
    neutral.refuse_inside(_INNER, handler, _ENTERS)
    known = getattr(handler, "__globals__", _NO_GLOBALS)
    if known.get("__name__") != _ENTERS or "self" not in handler.__code__.co_freevars:
        return handler
    place = handler.__code__.co_freevars.index("self")
    node = handler.__closure__[place].cell_contents
    errors = getattr(node, "_handle_tool_errors", None)
    if not errors or errors is known.get("_default_handle_tool_errors"):
        return handler
    return _raising(handler, place, node)


def _raising(handler: Any, place: int, node: Any) -> Any:
    """A node that makes messages of errors (``handle_tool_errors=``) would hide what they prove."""
    bare = copy.copy(node)
    bare._handle_tool_errors = False  # noqa: SLF001 - of the copy
    cells = (*handler.__closure__[:place], CellType(bare), *handler.__closure__[place + 1 :])
    return FunctionType(handler.__code__, handler.__globals__, handler.__name__, handler.__defaults__, cells)
