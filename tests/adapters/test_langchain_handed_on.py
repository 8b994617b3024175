"""What one agent has left in doubt bars the next one that the task is handed to."""

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

import settled
from settled.adapters.langchain import Guarded
from settled.api.runs.sagas import aroll_back, order_for
from tests.adapters.chat_langchain import ROOT, Scripted
from tests.adapters.contract import EFFECTS, mail
from tests.adapters.doubtful import TASKS, Worker, check, losing
from tests.adapters.script import Call, Script


def agent(guard, script, tools, **more):
    return create_agent(Scripted(script=script), tools, middleware=[Guarded(guard, EFFECTS)], **more)


def as_node(make, book):
    """Two nodes of a graph, each an agent of its own."""
    builder, answers = StateGraph(MessagesState), []

    def node(what):
        async def ask(_):
            inner = agent(make, Worker(), [losing(book)])
            answers.append((await inner.ainvoke({"messages": [HumanMessage(what)]}))["messages"][-1].content)

        return ask

    builder.add_sequence([(f"worker {at}", node(what)) for at, what in enumerate(TASKS)])
    builder.add_edge(START, "worker 0")
    return builder.compile(checkpointer=InMemorySaver()), answers


def as_tool(make, book):
    """An agent that asks another one by a tool, in other words each time."""
    answers = []

    async def ask(what: str) -> str:
        """Ask another agent."""
        inner = agent(make, Worker(), [losing(book)])
        answers.append((await inner.ainvoke({"messages": [HumanMessage(what)]}))["messages"][-1].content)
        return "I am not sure"

    script = Script([*([Call("ask", {"what": what}, f"c{at}")] for at, what in enumerate(TASKS)), "done"])
    return agent(make, script, [ask], checkpointer=InMemorySaver()), answers


@pytest.mark.parametrize("handed_on", [as_node, as_tool])
async def test_a_task_that_is_handed_on_once_more_does_nothing_that_is_in_doubt(book, guard, handed_on):
    graph, answers = handed_on(guard(), book)
    await graph.ainvoke({"messages": [HumanMessage("mail ann")]}, ROOT)
    check(answers, book)


async def test_a_thread_is_undone_with_what_the_agents_did_that_it_has_handed_tasks_to(book, guard):
    made = guard()

    @made.tool(effect="write")
    def take_back(to: str) -> str:
        return book.note(f"not {to}")

    undone = settled.tool_options(compensate=take_back, undo=lambda call, _: {"to": call.arguments["to"]})
    builder = StateGraph(MessagesState)

    async def ask(_):
        script = Script([[mail("ann", "c1")], "done"])
        guarded = Guarded(made, {"send_mail": undone})
        inner = create_agent(Scripted(script=script), [book.mailer()], middleware=[guarded])
        await inner.ainvoke({"messages": [HumanMessage("mail ann")]})

    builder.add_sequence([("ask", ask), ("ask again", ask)])
    builder.add_edge(START, "ask")
    await builder.compile(checkpointer=InMemorySaver()).ainvoke({"messages": [HumanMessage("mail ann")]}, ROOT)
    run = await aroll_back(made, order_for(made, "t1", tenant=made.tenant, reason="changed their mind"))
    assert (run.state, book.lines) == ("compensated", ["ann", "ann", "not ann", "not ann"])
