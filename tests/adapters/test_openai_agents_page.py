"""The code of the OpenAI Agents page makes an agent whose tools are guarded."""

from agents import Agent, RunConfig, Runner, function_tool

import settled
from settled.adapters.openai_agents import guarded
from tests.adapters.chat_openai_agents import Scripted
from tests.adapters.script import Call, Script
from tests.pages import run


def test_an_agent(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = []

    @function_tool
    def refund(order_id: str) -> str:
        made.append(order_id)
        return "paid back"

    script = Script([[Call("refund", {"order_id": "o1"}, "c1")], "ok"])
    agent = Agent("a", tools=[refund], model=Scripted(script))
    around = {"settled": settled, "guarded": guarded, "agent": agent, "Runner": Runner, "RunConfig": RunConfig}
    names = run("docs/how-to/openai-agents.md", 0, prompt="I want it back", ticket_id="t1", **around)
    assert (made, names["result"].final_output) == (["o1"], "ok")
    assert names["guard"].journal.run("", "t1") is not None
    names["guard"].close()
