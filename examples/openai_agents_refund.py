"""An agent of the OpenAI Agents SDK whose process dies after the refund, and that pays once: no model key is needed.

``python examples/openai_agents_refund.py`` (with ``pip install '.[openai-agents]'``)
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import shop
from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

import settled
from settled.adapters.openai_agents import guarded

EFFECTS = {"find_order": "read", "stock_of": "read", "refund": settled.tool_options(identity=("order_id",))}


class Scripted(Model):
    """Says what it was given to say; then its service is down."""

    def __init__(self, *says: object) -> None:
        self._says = list(says)

    async def get_response(self, *_: Any, **__: Any) -> ModelResponse:
        """Return the next message."""
        if not self._says:
            raise ConnectionError("the model's service is down")
        return ModelResponse(output=[self._says.pop(0)], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        """Nothing here is streamed."""
        raise NotImplementedError  # the SDK demands it of a model


def asks(name: str, call_id: str, **arguments: object) -> ResponseFunctionToolCall:
    """Return a message that asks for one call."""
    return ResponseFunctionToolCall(call_id=call_id, name=name, arguments=json.dumps(arguments), type="function_call")


def text(said: str) -> ResponseOutputMessage:
    """Return a closing message."""
    content = ResponseOutputText(text=said, type="output_text", annotations=[])
    return ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[content])


def life(folder: Path, *says: object) -> None:
    """One life of the agent's process. Its session is lost with it; the journal of the guard is not."""
    with settled.Guard(f"sqlite:///{folder}/agent.db") as guard:
        agent = Agent("support", tools=[function_tool(tool) for tool in shop.TOOLS], model=Scripted(*says))
        agent = guarded(agent, guard, EFFECTS)
        try:
            config = RunConfig(group_id="ticket-1")
            print(
                "the agent:", Runner.run_sync(agent, "The lamp of order 7 came broken.", run_config=config).final_output
            )
        except ConnectionError:
            print("the process dies")


def main() -> None:
    """Die after the refund; start again, with a model that words it differently; then read the books."""
    set_tracing_disabled(disabled=True)
    with tempfile.TemporaryDirectory() as folder:
        shop.LEDGER = Path(folder) / "refunds.log"
        life(Path(folder), asks("find_order", "a1", order_id="7"), asks("refund", "a2", order_id="7", amount=40))
        life(Path(folder), asks("refund", "b1", order_id="7", amount=40), text("You have your 40 EUR back."))
        print("paid back:", shop.refunds())


if __name__ == "__main__":
    main()
