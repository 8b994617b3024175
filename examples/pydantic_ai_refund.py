"""A Pydantic AI agent whose process dies after the refund, and that pays once all the same: no model key is needed.

``python examples/pydantic_ai_refund.py`` (with ``pip install '.[pydantic-ai]'``)
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import shop
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

import settled
from settled.adapters.pydantic_ai import Guarded

if TYPE_CHECKING:
    from collections.abc import Iterator

EFFECTS = {"find_order": "read", "stock_of": "read", "refund": settled.tool_options(identity=("order_id",))}


def asks(name: str, call_id: str, **arguments: object) -> ModelResponse:
    """Return a message that asks for one call."""
    return ModelResponse(parts=[ToolCallPart(name, arguments, call_id)])


def scripted(says: Iterator[ModelResponse]) -> FunctionModel:
    """Return a model that says what it was given to say; then its service is down."""

    def reply(*_: object) -> ModelResponse:
        said = next(says, None)
        if said is None:
            raise ConnectionError("the model's service is down")
        return said

    return FunctionModel(reply)


def life(folder: Path, *says: ModelResponse) -> None:
    """One life of the agent's process. Its history is lost with it; the journal of the guard is not."""
    with settled.Guard(f"sqlite:///{folder}/agent.db") as guard:
        agent = Agent(scripted(iter(says)), tools=shop.TOOLS, capabilities=[Guarded(guard, EFFECTS)])
        try:
            said = agent.run_sync("The lamp of order 7 came broken.", conversation_id="ticket-1")
            print("the agent:", said.output)
        except ConnectionError:
            print("the process dies")


def main() -> None:
    """Die after the refund; start again, with a model that words it differently; then read the books."""
    with tempfile.TemporaryDirectory() as folder:
        shop.LEDGER = Path(folder) / "refunds.log"
        life(Path(folder), asks("find_order", "a1", order_id="7"), asks("refund", "a2", order_id="7", amount=40))
        again = asks("refund", "b1", order_id="7", amount=40)
        life(Path(folder), again, ModelResponse(parts=[TextPart("You have your 40 EUR back.")]))
        print("paid back:", shop.refunds())


if __name__ == "__main__":
    main()
