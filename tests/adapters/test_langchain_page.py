"""The code of the LangChain page and of the README makes agents whose tools are guarded."""

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

import settled
from settled.adapters.langchain import Guarded
from settled.ports import CallQuery
from tests.adapters.chat_langchain import ROOT, Scripted
from tests.adapters.script import Call, Script
from tests.pages import run


def shop(made):
    @tool
    def find_order(order_id: str) -> str:
        """Find an order."""
        return f"{order_id} is on its way"

    @tool
    def refund(order_id: str, amount: int) -> str:
        """Pay back."""
        made.append((order_id, amount))
        return "paid back"

    return [find_order, refund]


def asks_for_a_refund():
    return Script([[Call("refund", {"order_id": "o1", "amount": 5}, "c1")], "ok"])


def test_an_agent(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = []
    around = {"model": Scripted(script=asks_for_a_refund()), "tools": shop(made), "saver": InMemorySaver()}
    names = run("docs/how-to/langchain.md", 0, settled=settled, create_agent=create_agent, Guarded=Guarded, **around)
    names["agent"].invoke({"messages": ["I want it back"]}, ROOT)
    assert made == [("o1", 5)]
    names["guard"].close()


def test_a_tools_node(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = []
    with settled.Guard("sqlite:///agent.db") as guard:
        effects = {"find_order": "read", "refund": settled.tool_options(identity=("order_id",))}
        around = {"ToolNode": ToolNode, "tools": shop(made), "guard": guard, "effects": effects}
        node = run("docs/how-to/langchain.md", 1, **around)["tools_node"]
        graph = StateGraph(MessagesState)
        graph.add_node("tools", node)
        graph.add_edge(START, "tools")
        call = {"name": "refund", "args": {"order_id": "o1", "amount": 5}, "id": "c1"}
        asked = [HumanMessage("I want it back"), AIMessage("", tool_calls=[call])]
        graph.compile(checkpointer=InMemorySaver()).invoke({"messages": asked}, ROOT)
        assert (made, [call.tool for call in guard.journal.find(CallQuery())]) == ([("o1", 5)], ["refund"])


def test_the_readme_s_agent(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = []
    around = {"model": Scripted(script=asks_for_a_refund()), "tools": shop(made), "saver": InMemorySaver()}
    names = run("README.md", 3, settled=settled, create_agent=create_agent, **around)
    names["agent"].invoke({"messages": ["I want it back"]}, ROOT)
    assert (made, names["guard"].tools.keys()) == ([("o1", 5)], {"find_order", "refund"})
    names["guard"].close()
