"""A LangChain agent whose process dies after the refund, and that pays once all the same: no model key is needed.

``python examples/langgraph_refund.py`` (with ``pip install '.[langchain]' langgraph-checkpoint-sqlite``)
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import shop
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.sqlite import SqliteSaver

import settled
from settled.adapters.langchain import Guarded

EFFECTS = {"find_order": "read", "stock_of": "read", "refund": settled.tool_options(identity=("order_id",))}


class Scripted(GenericFakeChatModel):
    """Says what it was given to say; then its service is down."""

    def bind_tools(self, *_: object, **__: object) -> Scripted:
        """Take any tools."""
        return self


def asks(name: str, call_id: str, **arguments: object) -> AIMessage:
    """Return a message that asks for one call."""
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": call_id}])


def life(folder: Path, *says: AIMessage) -> None:
    """One life of the agent's process. The store of its thread is lost with it; the journal of the guard is not."""
    with SqliteSaver.from_conn_string(":memory:") as saver, settled.Guard(f"sqlite:///{folder}/agent.db") as guard:
        model = Scripted(messages=iter(says))
        agent = create_agent(model, shop.TOOLS, checkpointer=saver, middleware=[Guarded(guard, EFFECTS)])
        try:
            given = {"messages": [("user", "The lamp of order 7 came broken.")]}
            said = agent.invoke(given, {"configurable": {"thread_id": "ticket-1"}})
            print("the agent:", said["messages"][-1].content)
        except (RuntimeError, StopIteration):
            print("the process dies")


def main() -> None:
    """Die after the refund; start again, with a model that words it differently; then read the books."""
    with tempfile.TemporaryDirectory() as folder:
        shop.LEDGER = Path(folder) / "refunds.log"
        life(Path(folder), asks("find_order", "a1", order_id="7"), asks("refund", "a2", order_id="7", amount=40))
        again = asks("refund", "b1", order_id="7", amount=40)
        life(Path(folder), again, AIMessage("You have your 40 EUR back."))
        print("paid back:", shop.refunds())


if __name__ == "__main__":
    main()
