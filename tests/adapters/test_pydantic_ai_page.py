"""The code of the Pydantic AI page makes an agent whose tools are guarded."""

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

import settled
from settled.adapters.pydantic_ai import Guarded
from tests.pages import run


def test_an_agent(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = []

    def refund(order_id: str) -> str:
        made.append(order_id)
        return "paid back"

    def find_order(order_id: str) -> str:
        return f"{order_id} is on its way"

    def reply(messages, info):
        asks = ToolCallPart("refund", {"order_id": "o1"}, f"c{len(messages)}")
        return ModelResponse(parts=[asks if len(messages) == 1 else TextPart("ok")])

    tools, model = [find_order, refund], FunctionModel(reply)
    around = {"settled": settled, "Agent": Agent, "Guarded": Guarded, "model": model, "tools": tools}
    names = run("docs/how-to/pydantic-ai.md", 0, prompt="I want it back", ticket_id="t1", **around)
    assert (made, names["result"].output) == (["o1"], "ok")
    assert str(names["guard"].journal.run("", "t1").run_id) == "t1"
    names["guard"].close()
