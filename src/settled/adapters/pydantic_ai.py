"""Pydantic AI: ``Agent(…, capabilities=[Guarded(guard)])`` guards function tools, toolsets and MCP servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from settled.adapters.extras import needs

with needs("pydantic-ai"):
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.capabilities.abstract import CapabilityOrdering
    from pydantic_ai.exceptions import ModelRetry, ToolFailed
from pydantic_core import to_jsonable_python

from settled.adapters import neutral
from settled.adapters.history import Histories, Session
from settled.adapters.pydantic_answers import ASKS_AGAIN, VALUES, Returned, controls, said_by_the_function
from settled.adapters.pydantic_arguments import Given, source_of
from settled.adapters.pydantic_history import tell
from settled.adapters.pydantic_outputs import Refused, refusal, refused_after
from settled.api.tools.foreign import Shape
from settled.api.tools.schema import apart
from settled.core.matching.found import HARMLESS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pydantic_ai import RunContext
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.tools import ToolDefinition

    from settled.api.guard import Guard
    from settled.api.runs.conversation import Asked


class Guarded(AbstractCapability[Any]):  # type: ignore[misc]  # the checks know nothing of frameworks
    """Capability that guards every tool of an agent; it stands innermost, wherever it is listed.

    Args:
        guard: makes the calls. effects: name of a tool -> effect or ``settled.tool_options(…)``; others are ``write``.
            An output function is guarded where its name stands here.
    """

    def __init__(self, guard: Guard, effects: neutral.Effects | None = None) -> None:
        self._histories, self._named = Histories(tell), frozenset(effects or ())
        self._adapter = neutral.Adapter(guard, effects, VALUES, controls, "conversation_id=…")

    def get_ordering(self) -> CapabilityOrdering:
        """What changes arguments, or repeats calls, comes before."""
        return CapabilityOrdering(position="innermost")

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Make the call. Raises ``ToolFailed`` with what the model should know where it did not succeed."""
        tool = source_of(ctx, call.tool_name)
        threaded = not getattr(tool, "is_async", False)
        arguments = Given(ctx, call, tool, args)

        async def invoke(given: dict[str, Any]) -> Any:
            made = handler(arguments.for_tool(given))
            try:
                return await (neutral.to_its_end(made) if threaded else made)
            except ASKS_AGAIN as error:
                if not said_by_the_function(error):  # a server's error, a time-out, who looks at it: it may be done
                    raise Returned(str(error)) from error
                raise

        shape = lambda: Shape(tool_def.parameters_json_schema, threaded)  # noqa: E731 - looked at once
        asked = self._asked(ctx, call, arguments.shown)
        result = await self._adapter.acall(call.tool_name, arguments.shown, asked, invoke, shape)
        if neutral.stands(result):
            return result.value
        if not result.ok:
            raise ToolFailed(result.for_model())
        return result.for_model()

    async def wrap_output_process(
        self, ctx: RunContext[Any], *, output_context: Any, output: Any, handler: Callable[[Any], Awaitable[Any]]
    ) -> Any:
        """Make the call of an output function. Raises ``ModelRetry`` with what the model should know of a failure."""
        call, name = output_context.tool_call, output_context.function_name or ""
        if ctx.partial_output or call is None or name not in self._named:
            return await handler(output)
        given = to_jsonable_python(output)
        arguments = given if isinstance(given, dict) else {"output": given}

        async def invoke(_: dict[str, Any]) -> Any:
            try:
                return await neutral.to_its_end(handler(apart(output)))  # nothing tells whether it runs in a thread
            except ASKS_AGAIN as error:
                if harmless or not refused_after(error):
                    raise
                return Refused(str(error))

        harmless = self._adapter.tools.of(name).checked.effect in HARMLESS  # then it may be made again
        asked = self._asked(ctx, call, arguments)
        result = await self._adapter.acall(name, arguments, asked, invoke, lambda: Shape({"type": "object"}))
        if not result.ok:
            raise ModelRetry(result.for_model())
        if isinstance(result.value, Refused) or not result.value_available:
            raise ModelRetry(refusal(result))
        return result.value

    def _asked(self, ctx: RunContext[Any], call: ToolCallPart, arguments: dict[str, Any]) -> Asked:
        run, name, messages = ctx.conversation_id or "", call.tool_name, ctx.messages
        session = Session(ctx.run_id or "", (messages[-1].run_id if messages else "") or "")
        asked = self._histories.asked(run, messages, call.tool_call_id, name, arguments, session)
        return replace(asked, made_in=session.made_in)
