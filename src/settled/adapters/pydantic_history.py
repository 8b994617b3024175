"""What a Pydantic AI message tells a history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import ModelResponse, RetryPromptPart, ToolCallPart, ToolReturnPart, UserPromptPart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.adapters.history import History

_ANSWERS = (ToolReturnPart, RetryPromptPart)
_NONE_CAME = "interrupted"
"""So the framework marks what it puts in the place of an answer that it never got: the call may have been made."""


_ASKED_AGAIN = "retried"
_OURS = '{"status"'
"""What the guard tells a model begins so."""


def tell(history: History, messages: Sequence[Any]) -> None:
    """Tell it what the messages hold."""
    for message in messages:
        if isinstance(message, ModelResponse):
            parts = message.parts
            history.asks([(p.tool_call_id, p.tool_name, _arguments(p)) for p in parts if isinstance(p, ToolCallPart)])
            continue
        for part in message.parts:
            if isinstance(part, _ANSWERS):
                if _tells(part):
                    history.answers(part.tool_call_id)
            elif isinstance(part, UserPromptPart):
                history.says(str(part.content), str(part.timestamp))


def _tells(part: Any) -> bool:
    """Whether it tells what became of the call. A request to make it again does so only in the guard's words."""
    outcome = getattr(part, "outcome", "")
    if isinstance(part, RetryPromptPart) or outcome == _ASKED_AGAIN:
        return isinstance(part.content, str) and part.content.startswith(_OURS)
    return outcome != _NONE_CAME


def _arguments(part: ToolCallPart) -> dict[str, Any]:
    try:
        return part.args_as_dict()  # type: ignore[no-any-return]  # a dict
    except ValueError:  # not JSON: the framework answers it
        return {}
