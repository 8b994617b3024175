"""Pydantic AI: ``Agent(…, capabilities=[Guarded(guard)])`` guards function tools, toolsets and MCP servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.capabilities.abstract import CapabilityOrdering
from pydantic_ai.exceptions import (
    ApprovalRequired,
    CallDeferred,
    ModelRetry,
    SkipToolExecution,
    ToolFailed,
    ToolFailedError,
    ToolRetryError,
)
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    ToolCallPart,
    ToolReturn,
    VideoUrl,
)
from pydantic_core import to_jsonable_python

from settled.adapters import neutral
from settled.adapters.history import Histories
from settled.adapters.pydantic_history import tell
from settled.adapters.values import Packer
from settled.api.foreign import Shape, Values

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pydantic_ai import RunContext
    from pydantic_ai.tools import ToolDefinition

    from settled.api.guard import Guard
    from settled.core.model import Fault

_CONTROL = (ApprovalRequired, CallDeferred, SkipToolExecution)
_ASKS_AGAIN = (ModelRetry, ToolRetryError)
_PLAIN = frozenset({str, int, float, bool, type(None)})
_packer = Packer([AudioUrl, BinaryContent, DocumentUrl, ImageUrl, ToolReturn, VideoUrl], to_jsonable_python)


class Guarded(AbstractCapability[Any]):  # type: ignore[misc]  # the checks know nothing of frameworks
    """Capability that guards every tool of an agent; it stands innermost, wherever it is listed.

    Args:
        guard: makes the calls. effects: name of a tool -> effect or ``settled.tool_options(…)``; others are ``write``.
            An output function is guarded where its name stands here.
    """

    def __init__(self, guard: Guard, effects: neutral.Effects | None = None) -> None:
        values = Values(_packer.pack, _packer.unpack, _failed)
        self._histories, self._named = Histories(tell), frozenset(effects or ())
        self._adapter = neutral.Adapter(
            guard, effects, values, lambda error: _failed(error) is neutral.CONTROL, "conversation_id=…"
        )

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
        tool = _source(ctx, call.tool_name)
        threaded, own = not getattr(tool, "is_async", False), hasattr(tool, "is_async")
        arguments = args if _is_plain(args) else to_jsonable_python(args)

        async def invoke(given: dict[str, Any]) -> Any:
            made = handler(args if given == arguments else tool.args_validator.validate_python(given))
            try:
                return await (neutral.to_its_end(made) if threaded else made)
            except _ASKS_AGAIN as error:
                if not own or _failure_behind(error):  # a server's error, a time-out: it may have been done
                    raise _Returned(str(error)) from error
                raise

        shape = lambda: Shape(tool_def.parameters_json_schema, threaded)  # noqa: E731 - looked at once
        run, call_id = ctx.conversation_id or "", call.tool_call_id
        asked = self._histories.asked(run, ctx.messages, call_id, call.tool_name, arguments)
        result = await self._adapter.acall(call.tool_name, arguments, asked, invoke, shape)
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
        arguments = given if isinstance(output, dict) else {"output": given}

        async def invoke(_: dict[str, Any]) -> Any:
            return await neutral.to_its_end(handler(output))  # nothing tells whether it runs in a thread

        run = ctx.conversation_id or ""
        asked = self._histories.asked(run, ctx.messages, call.tool_call_id, call.tool_name, arguments)
        result = await self._adapter.acall(name, arguments, asked, invoke, lambda: Shape({"type": "object"}))
        if not result.ok or not result.value_available:
            raise ModelRetry(result.for_model())
        return result.value


class _Returned(Exception):  # noqa: N818 - the name says what is wrong
    """An error that the tool's own system may have answered with."""


def _source(ctx: RunContext[Any], name: str) -> Any:
    """Return what the framework knows of the tool: of a function, whether it is async."""
    found: Any = ctx.tool_manager.tools.get(name) if ctx.tool_manager and ctx.tool_manager.tools else None
    while hasattr(found, "source_tool"):
        found = found.source_tool
    return found


def _failure_behind(error: BaseException) -> bool:
    """Whether a failure was turned into a request to ask again; Pydantic AI does so with its own time-out."""
    asked = error.__cause__ if isinstance(error, ToolRetryError) else error
    return asked is not None and (asked.__cause__ or asked.__context__) is not None


def _is_plain(arguments: dict[str, Any]) -> bool:
    return _PLAIN.issuperset(map(type, arguments.values()))


def _failed(outcome: Any) -> Fault | None:
    if not isinstance(outcome, Exception):
        return None
    if isinstance(outcome, _CONTROL + _ASKS_AGAIN):
        return neutral.CONTROL
    if isinstance(outcome, _Returned | ToolFailed | ToolFailedError):
        return neutral.returned_error("tool_failed", str(outcome))
    return None
