"""What a Pydantic AI message tells a history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import ModelResponse, RetryPromptPart, ToolCallPart, ToolReturnPart, UserPromptPart

if TYPE_CHECKING:
    from settled.adapters.history import History


def tell(history: History, message: Any) -> None:
    """Tell it what the message holds."""
    if isinstance(message, ModelResponse):
        calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
        history.asks([(part.tool_call_id, part.tool_name, _arguments(part)) for part in calls])
        return
    for part in message.parts:
        if isinstance(part, ToolReturnPart | RetryPromptPart):
            history.answers(part.tool_call_id)
        elif isinstance(part, UserPromptPart):
            history.says(str(part.content), str(part.timestamp))


def _arguments(part: ToolCallPart) -> dict[str, Any]:
    try:
        return dict(part.args_as_dict())
    except ValueError:  # not JSON: the framework answers it
        return {}
