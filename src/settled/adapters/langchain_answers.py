"""What LangChain's tools answer, kept in the journal and given again under the id of the call that asks now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langgraph.types import Command, Send

from settled.adapters import neutral
from settled.adapters.history import kinds
from settled.adapters.values import Packer
from settled.core.values import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.api.calls.result import Result

_packer = Packer([AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage, Document, Command, Send])
unpack = _packer.unpack
_native = kinds(ToolMessage, Command)
_NONE_CAME = " was cancelled - another message came in before it could be completed."
_BARE = frozenset({"content", "name", "tool_call_id", "id"})


def pack(value: Any) -> Any:
    """Return an answer as plain data; one that is nothing but its text as that."""
    bare = type(value) is ToolMessage and type(value.content) is str and value.__pydantic_fields_set__ <= _BARE
    return value.content if bare else _packer.pack(value)


def stands_for_none(message: ToolMessage) -> bool:
    """Whether it was put in the place of an answer that never came, as deepagents does: the call may be done."""
    content = message.content
    return type(content) is str and content.startswith("Tool call ") and content.endswith(_NONE_CAME)


def messages_of(state: Any) -> Sequence[Any]:
    """Return the messages of a graph's state, under whatever name (``ToolNode(messages_key=…)``) it keeps them."""
    if not isinstance(state, dict):
        if isinstance(state, list):
            return state
        state = vars(state) if hasattr(state, "__dict__") else {}
    found = state.get("messages")
    if found:
        return found  # type: ignore[no-any-return]  # a list
    return next((each for each in state.values() if isinstance(each, list) and _asks_for_any(each)), ())


def is_named(messages: Sequence[Any]) -> bool:
    """Whether the message that asks has an id of its own. If not, the graph's task tells it, whose id stays."""
    last = messages[-1] if messages else None
    return bool(last.get("id") if isinstance(last, dict) else getattr(last, "id", None))


def _asks_for_any(messages: list[Any]) -> bool:
    return any(isinstance(each, AIMessage) and each.tool_calls for each in reversed(messages))


def render(result: Result[Any], call: Any, state: Any) -> Any:
    """Return the answer as the framework takes it."""
    value = result.value
    if type(value) is ToolMessage and result.ok and not result.replayed:
        return value
    native = all(_native(type(each)) for each in value) if type(value) is list else _native(type(value))
    if native and neutral.stands(result):
        return _Again(call["id"], state).of(value) if result.replayed else value
    if (
        native and result.ok and _changes_state(value)
    ):  # the model is told that the words differed; the graph changes as it did
        return _Again(call["id"], state, result).of(value)
    said = replace(result, value=value.content) if isinstance(value, ToolMessage) else result
    text = value if type(value) is str and neutral.stands(result) else said.for_model()
    return ToolMessage(text, name=call["name"], tool_call_id=call["id"], status="success" if result.ok else "error")


def _changes_state(value: Any) -> bool:
    return any(isinstance(each, Command) for each in (value if type(value) is list else [value]))


class _Again:
    """Gives a recorded answer again, as the answer to this call: its own message then carries this call's id.

    ``told``: the result that this message is to tell of, with what the message said as its value.
    """

    def __init__(self, call_id: str, state: Any, told: Result[Any] | None = None) -> None:
        self.call_id, self.state, self.told = call_id, state, told

    def of(self, value: Any) -> Any:
        if isinstance(value, ToolMessage):
            return self._message(value)
        if isinstance(value, list):
            return [self.of(item) for item in value]
        if isinstance(value.update, list):
            return replace(value, update=self._messages(value.update))
        if not isinstance(value.update, dict):
            return value
        lists = {name: each for name, each in value.update.items() if isinstance(each, list)}
        return replace(value, update={**value.update, **{n: self._messages(each) for n, each in lists.items()}})

    def _messages(self, messages: list[Any]) -> list[Any]:
        """Return the messages of a recorded update; what it took from the history is taken from that of today."""
        own = next((answered for m in reversed(messages) if (answered := _answered(m))), None)  # its own comes last
        if own is None:
            return messages
        asked = next((at for at, m in enumerate(messages) if _asks_for(m, own)), None)
        if asked is not None and own != self.call_id:
            messages = [*messages_of(self.state)[-asked - 1 :], *messages[asked + 1 :]]
        return [self._message(m) if _answered(m) == own else m for m in messages]

    def _message(self, message: Any) -> Any:
        update = {"tool_call_id": self.call_id}
        given = isinstance(message, dict)
        if self.told is not None:
            said = message.get("content") if given else message.content
            update["content"] = replace(self.told, value=said).for_model()
        return {**message, **update} if given else message.model_copy(update=update)


def _answered(message: Any) -> str | None:
    """Return the id of the call that a message answers; tools may write it as a dict."""
    if isinstance(message, dict):
        return message.get("tool_call_id")
    return message.tool_call_id if isinstance(message, ToolMessage) else None


def _asks_for(message: Any, call_id: str) -> bool:
    return isinstance(message, AIMessage) and any(call["id"] == call_id for call in message.tool_calls)
