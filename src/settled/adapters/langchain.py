"""LangChain agents: ``middleware=[…, Guarded(guard)]``; LangGraph without LangChain: ``ToolNode(…, **wrap(guard))``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, Tool
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command, Send

from settled.adapters import neutral
from settled.adapters.history import Histories, History, kinds
from settled.adapters.values import Packer
from settled.api.foreign import Shape, Values
from settled.errors import DeclarationError

try:
    from langchain.agents.middleware import AgentMiddleware
except ImportError:  # a graph without agents
    AgentMiddleware = object  # Guarded says what is missing

if TYPE_CHECKING:
    from settled.api.guard import Guard
    from settled.api.result import Result
    from settled.core.model import Fault

_packer = Packer([AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage, Document, Command, Send])
_kind, _native = kinds(AIMessage, ToolMessage, HumanMessage), kinds(ToolMessage, Command)
_BARE = frozenset({"content", "name", "tool_call_id", "id"})
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
    values, histories = Values(_pack, _packer.unpack, _failed), Histories(_tell)
    adapter = neutral.Adapter(guard, effects, values, lambda e: isinstance(e, GraphBubbleUp), "a thread_id")

    def sync(request: Any, handler: Any) -> Any:
        neutral.refuse_inside(_INNER, handler, _ENTERS)
        if request.tool is None:  # there is no such tool: the framework says so
            return handler(request)
        return _render(adapter.call(*_read(request, handler, histories)), request.tool_call)

    async def later(request: Any, handler: Any) -> Any:
        neutral.refuse_inside(_INNER, handler, _ENTERS)
        if request.tool is None:
            return await handler(request)
        read = _read(request, handler, histories, _in_threads(request.tool))
        return _render(await adapter.acall(*read), request.tool_call)

    return {"wrap_tool_call": sync, "awrap_tool_call": later}


def _read(request: Any, handler: Any, histories: Histories, threaded: bool = False) -> tuple[Any, ...]:  # noqa: FBT001, FBT002 - one of many
    call, state = request.tool_call, request.state
    messages = (state.get("messages") if isinstance(state, dict) else getattr(state, "messages", state)) or ()
    settings = (request.runtime.config if request.runtime else {}).get("configurable", {})
    run, space = settings.get("thread_id"), settings.get("checkpoint_ns") or ""
    if run is None:  # no checkpointer: what lives as long as this list of messages does
        run = next((f"message:{m.id}" for m in messages if isinstance(m, HumanMessage) and m.id), "")
    run = f"{run}|{space.rpartition('|')[0]}" if "|" in space and run else str(run)
    asked = histories.asked(run, messages, call["id"] or "", call["name"], arguments := call["args"])

    def invoke(given: dict[str, Any]) -> Any:
        made = handler(request if given == arguments else request.override(tool_call={**call, "args": given}))
        return neutral.to_its_end(made) if threaded else made

    return call["name"], arguments, asked, invoke, partial(_shape, request.tool)


def _tell(history: History, message: Any) -> None:
    kind = _kind(type(message))
    if kind is AIMessage:
        history.asks([(call["id"] or "", call["name"], call["args"]) for call in message.tool_calls], message.id or "")
    elif kind is ToolMessage:
        history.answers(message.tool_call_id)
    elif kind is HumanMessage:
        history.says(str(message.content), message.id or "")


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


def _pack(value: Any) -> Any:
    """Return an answer that is nothing but its text as that."""
    bare = type(value) is ToolMessage and type(value.content) is str and value.__pydantic_fields_set__ <= _BARE
    return value.content if bare else _packer.pack(value)


def _render(result: Result[Any], call: Any) -> Any:
    value = result.value
    native = all(_native(type(each)) for each in value) if type(value) is list else _native(type(value))
    if native and neutral.stands(result):
        return _stamped(value, call["id"]) if result.replayed else value
    said = replace(result, value=value.content) if isinstance(value, ToolMessage) else result
    text = value if type(value) is str and neutral.stands(result) else said.for_model()
    return ToolMessage(text, name=call["name"], tool_call_id=call["id"], status="success" if result.ok else "error")


def _stamped(value: Any, call_id: str) -> Any:
    """Return a recorded answer as the answer to this call: its own message carries the new call id."""
    if isinstance(value, ToolMessage):
        return value.model_copy(update={"tool_call_id": call_id})
    if isinstance(value, list):
        return [_stamped(item, call_id) for item in value]
    update = value.update
    messages = update.get("messages") if isinstance(update, dict) else update
    if not isinstance(messages, list):
        return value
    own = next((m.tool_call_id for m in reversed(messages) if isinstance(m, ToolMessage)), None)  # its own comes last
    again = [_stamped(m, call_id) if isinstance(m, ToolMessage) and m.tool_call_id == own else m for m in messages]
    return replace(value, update={**update, "messages": again} if isinstance(update, dict) else again)
