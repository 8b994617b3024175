"""Answers of LangChain's tools that change the graph: that is done whenever the model is told that they are done."""

import json
from typing import Annotated, Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command

import settled
from settled.adapters.langchain import wrap
from tests.adapters.chat_langchain import ROOT, Scripted
from tests.adapters.script import Call, ModelDown, Script


class State(MessagesState):
    to: str
    desk: str


def handing(book, form) -> Any:
    def update(to, call_id) -> dict[str, Any]:
        said = "handed over"
        message = ToolMessage(said, tool_call_id=call_id)
        return {
            "to": to,
            "messages": [
                message if form != "as a dict" else {"role": "tool", "content": said, "tool_call_id": call_id}
            ],
        }

    @tool
    def hand_over(to: str, why: str, call_id: Annotated[str, InjectedToolCallId]) -> Any:
        """Hand it over."""
        book.note(to)
        command = Command(update=update(to, call_id), goto="desk")
        return [command] if form == "in a list" else command

    return hand_over


def works(state):
    return {"desk": f"works for {state['to']}"}


def graph_of(script, hand_over, guard, desk=works):
    graph = StateGraph(State)
    model = Scripted(script=script)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    effects = {"hand_over": settled.tool_options(identity=("to",))}
    graph.add_node("tools", ToolNode([hand_over], handle_tool_errors=False, **wrap(guard, effects)))
    graph.add_node("desk", desk)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    return graph.compile(checkpointer=InMemorySaver())


@pytest.mark.parametrize("form", ["a message", "as a dict", "in a list"])
@pytest.mark.parametrize("words", ["they are on duty", "it is their case"])
async def test_what_changes_the_graph_does_so_in_whatever_words_it_is_asked_for_again(book, guard, form, words):
    first = [Call("hand_over", {"to": "ann", "why": "they are on duty"}, "c1")]
    hand_over = handing(book, form)
    lost = graph_of(Script([first]), hand_over, guard(), failing)  # and the thread with it
    with pytest.raises(ModelDown):
        await lost.ainvoke({"messages": [("user", "hand it over")]}, ROOT)
    again = graph_of(Script([[Call("hand_over", {"to": "ann", "why": words}, "c2")]]), hand_over, guard())
    state = await again.ainvoke({"messages": [("user", "hand it over")]}, ROOT)
    assert book.lines == ["ann"]
    assert state["desk"] == "works for ann"
    answer = state["messages"][-1]
    assert answer.tool_call_id == "c2"
    if words == "they are on duty":
        assert answer.content == "handed over"
    else:
        told = json.loads(answer.content)
        assert (told["status"], told["result"]) == ("succeeded", "handed over")
        assert told["earlier_calls"][0]["arguments"] == {"to": "ann", "why": "they are on duty"}


def failing(_: Any) -> Any:
    raise ModelDown("503")
