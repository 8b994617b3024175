"""What a guard makes of what a model asks for: a tool's name, and arguments that may be anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from settled.api.calls import answering
from settled.api.calls.bound import BoundCall
from settled.api.tools import truths
from settled.api.tools.tool import Tool, by_model
from settled.core.encoding.strict_json import InvalidJson

if TYPE_CHECKING:
    from settled.api.calls.result import Result
    from settled.api.guard import Guard

Given = str | bytes | Mapping[str, Any]
"""Arguments from a model: JSON text, or a mapping."""


class Dispatching:
    """The part of a guard that is for models."""

    tools: dict[str, Tool[Any, Any]]

    def bind(self, name: str, arguments: Given, *, step: str | None = None) -> BoundCall[Any] | Result[Any]:
        """Return the call that a model asks for; or the result that says why there is none."""
        guard = cast("Guard", self)
        tool = self.tools.get(str(name))  # a model may send anything for a name
        if tool is None:
            return answering.unknown_tool(guard, str(name))
        step = None if step is None else str(step)
        try:
            given = dict(arguments) if isinstance(arguments, Mapping) else tool.schema.read(arguments)
        except InvalidJson as error:
            return answering.invalid(guard, by_model(tool, {}, step), {"arguments": str(error)})
        except (TypeError, AttributeError):
            why = f"JSON text or an object is wanted, not {type(arguments).__name__}"
            return answering.invalid(guard, by_model(tool, {}, step), {"arguments": why})
        wrong = truths.for_numbers(tool.schema, given)
        return answering.invalid(guard, by_model(tool, {}, step), wrong) if wrong else by_model(tool, given, step)

    def dispatch(self, name: str, arguments: Given, *, step: str | None = None) -> Result[Any]:
        """Make the call that a model asks for: a tool's name, and JSON text or a mapping.

        ``step`` names the call within its message (``"msg_7/2"``). Returns a ``Result`` for whatever
        model or tool did wrong; raises only ``JournalError``.
        """
        bound = self.bind(name, arguments, step=step)
        return bound.call() if isinstance(bound, BoundCall) else bound

    async def adispatch(self, name: str, arguments: Given, *, step: str | None = None) -> Result[Any]:
        """Like ``dispatch``, from async code."""
        bound = self.bind(name, arguments, step=step)
        return await bound.acall() if isinstance(bound, BoundCall) else bound
