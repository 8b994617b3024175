"""What the OpenAI Agents SDK asks of a function tool besides its call: kept, so that guarding takes nothing away.

A function of the user's may decide whether a call needs approval. It sees the arguments as the model wrote them. Where
the tool would take them as something else (``"13"`` as 13), the SDK asks a person in any case.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import agents.tool
from pydantic_core import to_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

_Own: Any = getattr(agents.tool, "_FailureHandlingFunctionToolInvoker", None)
"""The SDK's own, which knows how a function's arguments are prepared."""


def _invoker(tool: Any, on_invoke_tool: Callable[[Any, str], Awaitable[Any]]) -> Any:
    """Return what the SDK calls in the place of the tool's own invoker."""
    own = tool.on_invoke_tool
    if _Own is None or not isinstance(own, _Own):
        return on_invoke_tool
    new = copy.copy(own)
    new.__class__, new.make = _Guarded, on_invoke_tool
    return new


class _Guarded(_Own or object):  # type: ignore[misc]  # the SDK's
    """The tool's own invoker, but for the call."""

    make: Callable[[Any, str], Awaitable[Any]]

    async def __call__(self, context: Any, raw: str) -> Any:
        """Make the call."""
        return await self.make(context, raw)

    def __agents_bind_function_tool__(self, tool: Any) -> Any:
        """Stay the same for copies of the tool: its failures are not handled here."""
        del tool
        return self


def written(context: Any, given: Mapping[str, Any]) -> str:
    """Return other arguments than the model wrote as JSON; forget those that the SDK has prepared from the model's."""
    if getattr(context, "_function_tool_arguments", None) is not None:
        context._function_tool_arguments = None  # noqa: SLF001 - else it refuses the call
    return to_json(given).decode()


def model_of(tool: Any) -> Any:
    """Return the model by which the SDK reads a function's arguments; ``None``: they are read elsewhere."""
    made = getattr(tool.on_invoke_tool, "_invoke_tool_impl", tool.on_invoke_tool)
    for cell in getattr(made, "__closure__", None) or ():
        try:
            model = getattr(cell.cell_contents, "params_pydantic_model", None)
        except ValueError:  # it was not filled yet
            continue
        if model is not None:
            return model
    return None


def marked(new: Any, tool: Any, adapter: Any) -> Any:
    """Return what stands for a tool, with the sign that it is guarded; one that is the tool itself bears none."""
    if new is not tool:
        new._settled = adapter  # noqa: SLF001 - of the copy
    return new


def invoking(tool: Any, on_invoke_tool: Any, adapter: Any) -> Any:
    """Return a copy of the tool that is invoked in another way."""
    new = copy.copy(tool)
    new.on_invoke_tool = _invoker(tool, on_invoke_tool)
    return marked(new, tool, adapter)
