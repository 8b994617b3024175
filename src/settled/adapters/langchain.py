"""LangChain agents: ``middleware=[…, Guarded(guard)]``; LangGraph without LangChain: ``ToolNode(…, **wrap(guard))``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, convert_to_messages
from langchain_core.tools import BaseTool, StructuredTool, Tool
from langgraph.errors import GraphBubbleUp
from msgspec.structs import replace

from settled.adapters import neutral
from settled.adapters.history import Histories, History, kinds
from settled.adapters.langchain_answers import messages_of, pack, render, unpack
from settled.api.foreign import Shape, Values
from settled.errors import DeclarationError

try:
    from langchain.agents.middleware import AgentMiddleware
except ImportError:  # a graph without agents
    AgentMiddleware = object  # Guarded says what is missing

if TYPE_CHECKING:
    from settled.api.conversation import Asked
    from settled.api.guard import Guard
    from settled.core.model import Fault

_kind = kinds(AIMessage, ToolMessage, HumanMessage)
_made_of = kinds(StructuredTool, Tool)
_ENTERS = "langgraph.prebuilt.tool_node"  # its handlers lead to the tool and nothing else
_INNER = ("ToolRetryMiddleware", "HumanInTheLoopMiddleware")  # what they repeat or edit would escape a guard outside


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
        neutral.refuse_inside(_INNER, handler, _ENTERS)
        if request.tool is None:  # there is no such tool: the framework says so
            return handler(request)
        return render(adapter.call(*_read(request, handler, histories)), request.tool_call, request.state)

    async def later(request: Any, handler: Any) -> Any:
        neutral.refuse_inside(_INNER, handler, _ENTERS)
        if request.tool is None:
            return await handler(request)
        read = _read(request, handler, histories, _in_threads(request.tool))
        return render(await adapter.acall(*read), request.tool_call, request.state)

    return {"wrap_tool_call": sync, "awrap_tool_call": later}


def _read(request: Any, handler: Any, histories: Histories, threaded: bool = False) -> tuple[Any, ...]:  # noqa: FBT001, FBT002 - one of many
    call, messages = request.tool_call, messages_of(request.state)
    settings = (request.runtime.config if request.runtime else {}).get("configurable", {})
    run, space = settings.get("thread_id"), settings.get("checkpoint_ns") or ""
    if run is None:  # no checkpointer: what lives as long as this list of messages does
        run = next((f"message:{m.id}" for m in messages if isinstance(m, HumanMessage) and m.id), "")
    inner = space.rpartition("|")[0] if run else ""
    name = f"{run}|{inner}" if inner else str(run)
    asked = histories.asked(name, messages, call["id"] or "", call["name"], arguments := call["args"])
    if inner:
        asked = _of_subgraph(asked, str(run), inner)

    def invoke(given: dict[str, Any]) -> Any:
        made = handler(request if given == arguments else request.override(tool_call={**call, "args": given}))
        return neutral.to_its_end(made) if threaded else made

    return call["name"], arguments, asked, invoke, partial(_shape, request.tool)


def _of_subgraph(asked: Asked, run: str, inner: str) -> Asked:
    """Return it in a run of the subgraph's own, named by the outer graph's tasks and by what was said to it.

    A node that is retried enters its subgraph under the next number, as one does that enters several.
    """
    tasks = "|".join(part for part in inner.split("|") if not part.isdecimal())
    return replace(asked, run=f"{run}|{tasks}|{asked.turn_was or asked.turn}")


def _tell(history: History, message: Any) -> None:
    kind = _kind(type(message))
    if kind is AIMessage:
        history.asks([(call["id"] or "", call["name"], call["args"]) for call in message.tool_calls], message.id or "")
    elif kind is ToolMessage:
        history.answers(message.tool_call_id)
    elif kind is HumanMessage:
        history.says(str(message.content), message.id or "")
    elif type(message) in (dict, list, tuple, str):  # as they were given, in a state without the framework's reducer
        _tell(history, convert_to_messages([message])[0])


def _in_threads(tool: Any) -> bool:
    return tool.coroutine is None if _made_of(type(tool)) else type(tool)._arun is BaseTool._arun  # noqa: SLF001 - its mark


def _shape(tool: BaseTool) -> Shape:
    schema = model if isinstance(model := tool.tool_call_schema, dict) else model.model_json_schema()
    return Shape(schema, _in_threads(tool), neutral.checked_by(model))


def _failed(outcome: Any) -> Fault | None:
    if isinstance(outcome, ToolMessage):
        return neutral.returned_error("tool_message_error", str(outcome.content)) if outcome.status == "error" else None
    if isinstance(outcome, GraphBubbleUp):
        return neutral.CONTROL
    return neutral.wrong_arguments(str(outcome)) if type(outcome).__name__ == "ToolInvocationError" else None
