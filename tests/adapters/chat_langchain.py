"""A scripted conversation of a LangChain agent, or of a hand-built graph."""

import asyncio
import operator
from typing import Annotated, TypedDict

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from settled.adapters.langchain import Guarded, wrap
from tests.adapters.script import Answer, Call

ROOT = {"configurable": {"thread_id": "t1"}}


class Scripted(GenericFakeChatModel):
    script: object = None
    messages: object = iter(())

    def bind_tools(self, tools, **_):
        return self

    def _generate(self, messages, *_, **__):
        said = self.script.reply(neutral(messages))
        if isinstance(said, str):
            message = AIMessage(said)
        else:
            message = AIMessage("", tool_calls=[{"name": c.tool, "args": c.arguments, "id": c.id} for c in said])
        return ChatResult(generations=[ChatGeneration(message=message)])


def neutral(messages):
    found = []
    for message in messages:
        if isinstance(message, HumanMessage):
            found.append(message.content)
        elif isinstance(message, AIMessage):
            found.append([Call(c["name"], c["args"], c["id"]) for c in message.tool_calls] or message.content)
        elif isinstance(message, ToolMessage):
            found.append(Answer(message.tool_call_id, message.content))
    return found


class WithoutIds(TypedDict):
    messages: Annotated[list, operator.add]


def hand_built(script, tools, hooks, saver, *, ids=True):
    graph = StateGraph(MessagesState if ids else WithoutIds)
    model = Scripted(script=script)

    def ask(state):
        said = model.invoke(state["messages"])
        return {"messages": [said if ids else said.model_copy(update={"id": None})]}

    graph.add_node("model", ask)
    graph.add_node("tools", ToolNode(tools, handle_tool_errors=False, **hooks))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)


class Chat:
    """A conversation over a file of checkpoints: an agent or a hand-built graph, from sync or async code."""

    def __init__(self, home, tools, script, *, kind, guard, effects, middleware=()):
        self.home, self.guard, self.kind, self.tools = home, guard, kind, tools
        self.script, self.kept = script, []
        self.effects, self.before = effects, list(middleware)

    def _agent(self, saver):
        if self.kind in ("ToolNode", "without ids"):
            hooks = wrap(self.guard, self.effects) if self.guard else {}
            return hand_built(self.script, self.tools, hooks, saver, ids=self.kind == "ToolNode")
        own = [Guarded(self.guard, self.effects)] if self.guard else []
        return create_agent(Scripted(script=self.script), self.tools, middleware=self.before + own, checkpointer=saver)

    def forget(self):
        """The store is lost."""
        (self.home / "threads.db").unlink(missing_ok=True)

    def keep(self, texts):
        """The store holds what was said by the user and the model in turn, and nothing else."""
        self.forget()
        self.kept = [AIMessage(text) if at % 2 else HumanMessage(text) for at, text in enumerate(texts) if text]

    async def say(self, text):
        kept, self.kept = self.kept, []
        return await self.invoke({"messages": [*kept, HumanMessage(text)]})

    async def say_in_window(self, text, before):
        """Say it after these messages alone; return all that there are then."""
        self.forget()
        return (await self.invoke({"messages": [*before, HumanMessage(text)]}))["messages"]

    async def go_on(self):
        return await self.invoke(None)

    async def start_again(self, text):
        """What an application does when its process comes up again."""
        async with AsyncSqliteSaver.from_conn_string(str(self.home / "threads.db")) as saver:
            waits = bool((await self._agent(saver).aget_state(ROOT)).next)
        return await (self.go_on() if waits else self.say(text))

    async def invoke(self, given, config=ROOT):
        path = str(self.home / "threads.db")
        if self.kind == "invoke":
            with SqliteSaver.from_conn_string(path) as saver:
                return await asyncio.to_thread(self._agent(saver).invoke, given, config, durability="sync")
        async with AsyncSqliteSaver.from_conn_string(path) as saver:
            return await self._agent(saver).ainvoke(given, config, durability="sync")
