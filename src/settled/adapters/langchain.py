"""LangChain agents: ``middleware=[…, Guarded(guard)]``; LangGraph without LangChain: ``ToolNode(…, **wrap(guard))``."""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from settled.adapters.extras import needs

with needs("langchain"):
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, convert_to_messages
    from langchain_core.tools import BaseTool, StructuredTool, Tool
    from langgraph.errors import GraphBubbleUp

from settled.adapters import neutral
from settled.adapters.history import Histories, History, kinds
from settled.adapters.langchain_answers import is_named, messages_of, pack, render, stands_for_none, unpack
from settled.adapters.langchain_nodes import entering
from settled.api.tools.foreign import Shape, Values
from settled.api.tools.taken import reader
from settled.errors import DeclarationError

try:
    from langchain.agents.middleware import AgentMiddleware
except ImportError:  # a graph without agents
    AgentMiddleware = object  # Guarded says what is missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.api.guard import Guard
    from settled.api.runs.conversation import Asked
    from settled.core.model import Fault

_kind = kinds(AIMessage, ToolMessage, HumanMessage)
_made_of = kinds(StructuredTool, Tool)
_call = itemgetter("id", "name", "args")
_NOTHING: dict[str, Any] = {}


class Guarded(AgentMiddleware):  # type: ignore[misc]  # the checks know nothing of frameworks
    """Agent middleware for all tools; give it last. ``effects``: tool -> effect or ``settled.tool_options(…)``."""

    def __init__(self, guard: Guard, effects: neutral.Effects | None = None) -> None:
        if AgentMiddleware is object:
            raise DeclarationError("Guarded needs langchain (pip install 'settled[langchain]'); a graph takes wrap()")
        super().__init__()
        self._hooks = wrap(guard, effects)

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Make the call from plain code."""
        return self._hooks["wrap_tool_call"](request, handler)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Make the call from async code."""
        return await self._hooks["awrap_tool_call"](request, handler)


def wrap(guard: Guard, effects: neutral.Effects | None = None) -> dict[str, Any]:
    """Return what guards all tools of a hand-built graph: ``ToolNode(tools, **wrap(guard, effects={…}))``."""
    values, histories = Values(pack, unpack, _failed), Histories(_tell)
    adapter = neutral.Adapter(guard, effects, values, lambda e: isinstance(e, GraphBubbleUp), "a thread_id")

    def sync(request: Any, handler: Any) -> Any:
        handler = entering(handler)
        tool, call = request.tool, request.tool_call
        if tool is None or (_made_of(type(tool)) and tool.func is None):  # none, or async alone: the framework says so
            return handler(request)
        arguments = call["args"]

        def invoke(given: dict[str, Any]) -> Any:
            return handler(request if given == arguments else request.override(tool_call={**call, "args": given}))

        asked = _asked(request, call, histories)
        return render(adapter.call(call["name"], arguments, asked, invoke, partial(_shape, tool)), call, request.state)

    async def later(request: Any, handler: Any) -> Any:
        handler = entering(handler)
        tool, call = request.tool, request.tool_call
        if tool is None:
            return await handler(request)
        arguments, threaded = call["args"], _in_threads(tool)

        def invoke(given: dict[str, Any]) -> Any:
            made = handler(request if given == arguments else request.override(tool_call={**call, "args": given}))
            return neutral.to_its_end(made) if threaded else made

        asked = _asked(request, call, histories)
        result = await adapter.acall(call["name"], arguments, asked, invoke, partial(_shape, tool))
        return render(result, call, request.state)

    return {"wrap_tool_call": sync, "awrap_tool_call": later}


def _asked(request: Any, call: Any, histories: Histories) -> Asked:
    messages, runtime = messages_of(request.state), request.runtime
    settings = runtime.config.get("configurable", _NOTHING) if runtime else _NOTHING
    run, space = settings.get("thread_id"), settings.get("checkpoint_ns")
    if run is None:  # no checkpointer: what lives as long as this list of messages does
        run = next((f"message:{m.id}" for m in messages if isinstance(m, HumanMessage) and m.id), "")
    elif space and "|" in space:
        inner = space.rpartition("|")[0]
        asked = histories.asked(f"{run}|{inner}", messages, call["id"], call["name"], call["args"])
        return _of_subgraph(asked, str(run), inner)
    asked = histories.asked(str(run), messages, call["id"], call["name"], call["args"])
    return asked if not space or is_named(messages) else replace(asked, made_in=space)


def _of_subgraph(asked: Asked, run: str, inner: str) -> Asked:
    """Return it in a run of the subgraph's own, named by the outer graph's tasks and by what was said to it.

    A node that is retried enters its subgraph under the next number, as one does that enters several.
    """
    tasks = "|".join(part for part in inner.split("|") if not part.isdecimal())
    return replace(asked, run=f"{run}|{tasks}|{asked.turn_was or asked.turn}", within=run)


def _tell(history: History, messages: Sequence[Any]) -> None:
    for message in messages:
        kind = _kind(type(message))
        if kind is AIMessage:
            history.asks([*map(_call, message.tool_calls)], message.id or "")
        elif kind is ToolMessage:
            if not stands_for_none(message):
                history.answers(message.tool_call_id)
        elif kind is HumanMessage:
            history.says(str(message.content), message.id or "")
        elif type(message) in (dict, list, tuple, str):  # as given, in a state without the framework's reducer
            _tell(history, convert_to_messages([message]))


def _in_threads(tool: Any) -> bool:
    return tool.coroutine is None if _made_of(type(tool)) else type(tool)._arun is BaseTool._arun  # noqa: SLF001 - its mark


def _shape(tool: BaseTool) -> Shape:
    schema = model if isinstance(model := tool.tool_call_schema, dict) else model.model_json_schema()
    return Shape(schema, _in_threads(tool), reader(model))


def _failed(outcome: Any) -> Fault | None:
    if isinstance(outcome, ToolMessage):
        return neutral.returned_error("tool_message_error", str(outcome.content)) if outcome.status == "error" else None
    if isinstance(outcome, GraphBubbleUp):
        return neutral.CONTROL
    return neutral.wrong_arguments(str(outcome)) if type(outcome).__name__ == "ToolInvocationError" else None
