"""Hand-built graphs, subgraphs and what tools do to a graph's state: each effect is counted in a book on disk."""

import operator
from typing import Annotated, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.prebuilt import InjectedState, ToolNode
from langgraph.types import Command, RetryPolicy, Send, interrupt

import settled
from settled.adapters.langchain import Guarded, wrap
from settled.api.people.queue import waiting
from tests.adapters.chat_langchain import ROOT, Scripted
from tests.adapters.contract import EFFECTS, mail
from tests.adapters.script import Answer, Call, ModelDown, Script, strict


@pytest.fixture
def run(tmp_path):
    """Runs a graph over a file of checkpoints."""

    async def run(graph, given, config=ROOT, store="threads.db"):
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / store)) as saver:
            return await graph(saver).ainvoke(given, config, durability="sync")

    return run


@pytest.fixture
def checkpoint(tmp_path):
    """Gives the last checkpoint at which a node comes next, or the first."""

    async def at(graph, node, which=0):
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
            states = [state async for state in graph(saver).aget_state_history(ROOT)]
        return [state for state in states if node in state.next][which]

    return at


class Once(Script):
    """Asks for one mail, and is done once that is answered."""

    def __init__(self, *ids: str, down: int = 0):
        super().__init__([])
        self.ids, self.down = iter(ids), down

    def reply(self, history):
        self.shown.append(history)
        strict(history)
        if not isinstance(history[-1], Answer):
            return [mail("ann", next(self.ids))]
        if self.down:
            self.down -= 1
            raise ModelDown
        return "done"


def agent(guard, script, tools, effects=EFFECTS, **more):
    before = more.pop("middleware", [])
    return create_agent(Scripted(script=script), tools, middleware=[*before, Guarded(guard, effects)], **more)


def saved(guard, script, tools, effects=EFFECTS, **more):
    return lambda saver: agent(guard, script, tools, effects, checkpointer=saver, **more)


# --- what a graph keeps its messages in --------------------------------------------------------------


def graph(script, tools, hooks, *, sends, key="messages", reducer=add_messages):
    builder = StateGraph(TypedDict("State", {key: Annotated[list, reducer]}))
    model = Scripted(script=script)

    def after(state):
        calls = state[key][-1].tool_calls
        return ([Send("tools", [call]) for call in calls] if sends else "tools") if calls else END

    builder.add_node("model", lambda state: {key: [model.invoke(state[key])]})
    builder.add_node("tools", ToolNode(tools, messages_key=key, handle_tool_errors=False, **hooks))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", after, ["tools", END])
    builder.add_edge("tools", "model")
    return lambda saver: builder.compile(checkpointer=saver)


def raw(role, text):
    return {"role": role, "content": text}


KEPT = {
    "under another name": ({"sends": False, "key": "chat"}, lambda _, text: HumanMessage(text)),
    "each call sent": ({"sends": True}, lambda _, text: HumanMessage(text)),
    "both": ({"sends": True, "key": "chat"}, lambda _, text: HumanMessage(text)),
    "as dicts": ({"sends": False, "reducer": operator.add}, raw),
    "as pairs": ({"sends": False, "reducer": operator.add}, lambda role, text: (role, text)),
}


@pytest.fixture(params=KEPT, ids=lambda each: each)
def kept(request, book, guard):
    form, said = KEPT[request.param]

    def make(script):
        return graph(script, [book.mailer()], wrap(guard(), EFFECTS), **form)

    return make, lambda text: said("user", text), form.get("key", "messages")


async def test_each_turn_is_one_however_a_graph_keeps_its_messages(kept, run, book):
    """A process each, and the same words each time: what is answered from the record was not done."""
    make, said, key = kept
    for at in range(3):
        script = Script([[mail("ann", f"c{at}")], "done"])
        await run(make(script), {key: [said("mail ann")]})
        assert book.lines == ["ann"] * (at + 1)
        assert script.answer(f"c{at}") == "sent to ann"


async def test_so_it_is_where_only_texts_are_kept(kept, run, book):
    make, said, key = kept
    for at in range(2):
        before = [each for _ in range(at) for each in (said("mail ann"), AIMessage("done"))]
        script = Script([[mail("ann", f"c{at}")], "done"])
        await run(make(script), {key: [*before, said("mail ann")]}, store=f"threads-{at}.db")
    assert book.lines == ["ann", "ann"]


async def test_a_turn_that_is_lost_doubles_nothing_however_a_graph_keeps_its_messages(kept, run, book, tmp_path):
    make, said, key = kept
    for at in range(2):
        script = Script([[mail("ann", f"c{at}"), mail("ann", f"d{at}")], ModelDown])
        with pytest.raises(ModelDown):
            await run(make(script), {key: [said("mail ann")]})
        (tmp_path / "threads.db").unlink()
    assert book.lines == ["ann", "ann"]


# --- subgraphs ---------------------------------------------------------------------------------------


def around(inner, *, retry=None, branches=0):
    """A graph around an agent: one node, or branches that are all told the same."""
    builder = StateGraph(MessagesState)
    builder.add_node("prepare", lambda _: {})
    builder.add_node("agent", inner, retry_policy=retry)
    builder.add_edge(START, "prepare")
    if branches:
        task = {"messages": [HumanMessage("mail ann")]}
        builder.add_conditional_edges("prepare", lambda _: [Send("agent", task) for _ in range(branches)], ["agent"])
    else:
        builder.add_edge("prepare", "agent")
    return lambda saver: builder.compile(checkpointer=saver)


GO = {"messages": [HumanMessage("mail ann")]}


async def test_a_subgraph_goes_on_where_it_stood(run, book, guard):
    with pytest.raises(ModelDown):
        await run(around(agent(guard(), Once("c1", down=1), [book.mailer()])), GO)
    await run(around(agent(guard(), Once("c2"), [book.mailer()])), None)
    assert book.lines == ["ann"]


async def test_a_subgraph_in_each_of_three_turns_is_three_effects(run, book, guard):
    for at in range(3):
        await run(around(agent(guard(), Once(f"c{at}"), [book.mailer()])), GO)
        assert book.lines == ["ann"] * (at + 1)


@pytest.mark.parametrize("guarded", [True, False])
async def test_a_node_that_is_retried_does_nothing_twice(run, book, guard, guarded):
    """Its subgraph begins anew then, under another number, and its model is asked anew."""
    retry = RetryPolicy(max_attempts=3, initial_interval=0.01, retry_on=ModelDown)
    middleware = [Guarded(guard(), EFFECTS)] if guarded else []
    inner = create_agent(Scripted(script=Once("c1", "c2", "c3", down=2)), [book.mailer()], middleware=middleware)
    await run(around(inner, retry=retry), GO)
    assert book.lines == (["ann"] if guarded else ["ann"] * 3)


async def test_agents_that_one_node_asks_in_turn_are_runs_of_their_own(run, book, guard):
    made = guard()

    async def node(_):
        for name in ("ann", "bob"):
            script = Script([[mail(name, "call_0")], [mail("cid", "call_0")], "done"])
            inner = agent(made, script, [book.mailer()])
            await inner.ainvoke({"messages": [HumanMessage(f"mail {name} and cid")]})

    await run(around(node), GO)
    assert book.lines == ["ann", "cid", "bob", "cid"]


async def test_branches_that_are_told_the_same_each_do_it_once(book, guard):
    """Cut off after the effects, and gone on with: three mails are meant, and three are sent."""
    saver = InMemorySaver()  # a file of its own kind may stay locked by a branch that was stopped
    cut = around(agent(guard(), Once("c1", "c2", "c3", down=3), [book.mailer()]), branches=3)
    with pytest.raises(ModelDown):
        await cut(saver).ainvoke(GO, ROOT, durability="sync")
    sent = len(book.lines)  # the first that fails may stop the others
    assert sent >= 1
    whole = around(agent(guard(), Once("d1", "d2", "d3"), [book.mailer()]), branches=3)
    await whole(saver).ainvoke(None, ROOT, durability="sync")
    assert book.lines == ["ann"] * 3


def asking(inner):
    def ask(what: str) -> str:
        """Ask another agent."""
        return inner.invoke({"messages": [HumanMessage(what)]})["messages"][-1].content

    return ask


async def test_an_agent_within_a_tool_is_answered_from_what_it_did(run, book, guard, tmp_path):
    """Its tool is a read, and is tried again; then the store is lost."""
    for at in range(2):
        made = guard()
        inner = agent(made, Once("i0", "i1", "i2", down=0 if at else 9), [book.mailer()])
        script = Script([[Call("ask", {"what": "mail ann"}, f"c{at}")], "done"])
        await run(saved(made, script, [asking(inner)], {"ask": "read"}), {"messages": [HumanMessage("ask")]})
        (tmp_path / "threads.db").unlink()
    assert book.lines == ["ann"]
    assert script.answer("c1") == "done"


# --- pauses, edits and forks -------------------------------------------------------------------------


def sending_first(send):
    def ask(to: str) -> str:
        """Send a mail, and ask whether that was right."""
        send(to)
        return interrupt("was it right?")

    return ask


async def test_what_was_done_before_an_interrupt_is_not_done_again(run, book, guard):
    """The graph enters a tool that was interrupted from its beginning: what it does by tools of the guard is known."""
    for at in range(2):
        made = guard()
        asks = sending_first(made.tool(effect="write", name="send")(book.note))
        script = Script(["done"] if at else [[Call("ask", {"to": "ann"}, "c1")]])
        given = Command(resume="yes") if at else {"messages": [HumanMessage("mail ann")]}
        await run(saved(made, script, [asks], {"ask": "write"}), given)
    assert script.answer("c1") == "yes"
    assert book.lines == ["ann"]


async def test_a_tool_that_is_tried_again_after_its_interrupt_may_ask_again_and_acts_once(run, book, guard):
    fails = [ConnectionRefusedError("nobody listens")]

    def ask(to: str) -> str:
        """Send a mail once somebody agrees."""
        interrupt("may I?")
        if fails:
            raise fails.pop()
        return book.note(to)

    script = Script([[Call("ask", {"to": "ann"}, "c1")], "done"])
    graph = saved(guard(), script, [StructuredTool.from_function(ask)], {"ask": "write"})
    state = await run(graph, {"messages": [HumanMessage("mail ann")]})
    while "__interrupt__" in state:
        state = await run(graph, Command(resume="yes"))
    assert script.answer("c1") == "sent to ann"
    assert book.lines == ["ann"]


@pytest.mark.parametrize("mode", ["batched", "per_call"])
async def test_one_of_two_calls_is_edited_and_the_pause_is_resumed_twice(run, book, guard, checkpoint, mode):
    """CASE-062, CASE-063: the answer to each call is the one of what was agreed to."""
    try:
        asks = HumanInTheLoopMiddleware(interrupt_on={"send_mail": True}, interrupt_mode=mode)
    except TypeError:  # older ones know one way only
        asks = HumanInTheLoopMiddleware(interrupt_on={"send_mail": True})
    script = Script([[mail("ann", "c1"), mail("bob", "c2")], "done", "done"])
    graph = saved(guard(), script, [book.mailer()], middleware=[asks])
    waits = (await run(graph, GO))["__interrupt__"]
    pause = await checkpoint(graph, "tools" if len(waits) > 1 else "HumanInTheLoopMiddleware.after_model")
    edit = {"type": "edit", "edited_action": {"name": "send_mail", "args": {"to": "cid"}}}
    given = [edit, {"type": "approve"}]
    resume = (
        {each.id: said for each, said in zip(waits, given, strict=True)} if len(waits) > 1 else {"decisions": given}
    )
    for _ in range(2):
        await run(graph, Command(resume=resume), pause.config)
        assert sorted(book.lines) == ["bob", "cid"]
        assert script.answer("c1").endswith("sent to cid")  # newer ones tell the model of the edit
        assert script.answer("c2") == "sent to bob"


async def test_a_call_that_is_edited_after_it_was_made_is_told_of_it_first(run, book, guard, checkpoint, tmp_path):
    """Time travel: somebody rewrites the model's message in the state, and goes on from there."""
    graph = saved(guard(), Script([[mail("ann", "c1")], "done"]), [book.mailer()])
    await run(graph, GO)
    state = await checkpoint(graph, "tools")
    message = state.values["messages"][-1]
    edited = message.model_copy(update={"tool_calls": [{**message.tool_calls[0], "args": {"to": "bob"}}]})
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        fork = await graph(saver).aupdate_state(state.config, {"messages": [edited]}, as_node="model")
    script = Script([[mail("bob", "c2")], "done"])
    await run(saved(guard(), script, [book.mailer()]), None, fork)
    assert "has made the calls listed here" in script.answer("c1")
    assert script.answer("c2") == "sent to bob"
    assert book.lines == ["ann", "bob"]


async def test_a_message_of_the_model_is_made_anew_from_the_point_before_it(run, book, guard, checkpoint):
    graph = saved(guard(), Script([[mail("ann", "c1")], "done"]), [book.mailer()])
    await run(graph, GO)
    first = await checkpoint(graph, "model", -1)
    script = Script([[mail("ann", "c2", text="Dear Ann")], "done"])
    await run(saved(guard(), script, [book.mailer()]), None, first.config)
    assert book.lines == ["ann"]


# --- answers that change the state -------------------------------------------------------------------


def handing(book, form):
    """A tool whose answer is an update of the state, written in one of the ways in use."""

    @tool
    def hand_over(
        to: str, state: Annotated[dict, InjectedState], call_id: Annotated[str, InjectedToolCallId]
    ) -> Command:
        """Hand over."""
        book.note(to)
        made = ToolMessage("handed over", tool_call_id=call_id)
        plain = {"role": "tool", "content": "handed over", "tool_call_id": call_id}
        return {
            "its own message": Command(update={"messages": [made]}),
            "as a dict": Command(update={"messages": [plain]}),
            "with the history": Command(update={"messages": [*state["messages"], plain]}),
            "with what asked": Command(update={"messages": [state["messages"][-1], made]}),
            "several": [Command(update={"messages": [made]}), Command(update={"messages": [HumanMessage("look")]})],
        }[form]

    return hand_over


@pytest.mark.parametrize("form", ["its own message", "as a dict", "with the history", "with what asked", "several"])
async def test_an_update_of_the_state_is_given_again_under_the_new_ids(run, book, guard, tmp_path, form):
    """The model is asked anew, and mints a new message: the history holds that one, answered, and no other."""
    for at in range(2):
        script = Script([[Call("hand_over", {"to": "ann"}, f"c{at}")], "done" if at else ModelDown])
        graph = saved(guard(), script, [handing(book, form)], {})
        try:
            await run(graph, {"messages": [HumanMessage("go")]})
        except ModelDown:
            (tmp_path / "threads.db").unlink()
    assert script.answer("c1") == "handed over"
    assert [item for item in script.shown[-1] if isinstance(item, list)] == [[Call("hand_over", {"to": "ann"}, "c1")]]
    assert book.lines == ["ann"]


async def test_an_answer_that_ends_the_run_ends_it_and_the_next_turn_is_new(run, book, guard):
    for at in range(3):
        sends = StructuredTool.from_function(book.mailer(), return_direct=True)
        said = await run(saved(guard(), Script([[mail("ann", f"c{at}")]]), [sends]), GO)
        assert said["messages"][-1].content == "sent to ann"
        assert book.lines == ["ann"] * (at + 1)


# --- histories that are cut while an agent works -------------------------------------------------------


class KeepingFirst(AgentMiddleware):
    """As LangChain's own example: the first message, and the last few."""

    def before_model(self, state, runtime):
        messages = state["messages"]
        if len(messages) <= 3:
            return None
        recent = messages[-3:] if len(messages) % 2 == 0 else messages[-4:]
        return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), messages[0], *recent]}


class KeepingLast(AgentMiddleware):
    def before_model(self, state, runtime):
        messages = state["messages"]
        kept = messages[-2:] if len(messages) > 3 else messages
        return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *kept]}


@pytest.mark.parametrize("cut", [KeepingFirst, KeepingLast])
async def test_a_turn_whose_message_is_cut_off_is_answered_by_no_other_turn(book, guard, cut):
    """What the next turn's history shows looks like an earlier one's; each process has an agent of its own."""
    saver = InMemorySaver()
    for turn in range(3):
        asks = [[mail(to, f"{turn}-{n}")] for n, to in enumerate(("ann", "bob", "cid", "cid"))]
        script, tools = Script([*asks, "done"]), [StructuredTool.from_function(book.mailer())]
        own = create_agent(
            Scripted(script=script), tools, middleware=[cut(), Guarded(guard(), EFFECTS)], checkpointer=saver
        )
        before = len(book.lines)
        await own.ainvoke({"messages": [HumanMessage(f"mail all, {turn}")]}, ROOT)
        assert set(book.lines[before:]) == {"ann", "bob", "cid"}


# --- a node that makes messages of errors -------------------------------------------------------------


@pytest.mark.parametrize("mode", ["plain", "async"])
@pytest.mark.parametrize(
    "handles", [True, "it failed", ConnectionError, lambda _: "it failed"], ids=["all", "words", "some", "made"]
)
async def test_a_node_that_handles_errors_hides_none_from_the_guard(guard, mode, handles):
    """What is proved not done is tried again, and is no doubt that a person has to settle."""
    refused, sent = [ConnectionRefusedError("away"), ConnectionRefusedError("away")], []

    def send_mail(to: str) -> str:
        """Send a mail."""
        if refused:
            raise refused.pop()
        sent.append(to)
        return f"sent to {to}"

    keeper = guard()
    effects = {"send_mail": settled.tool_options(retry=settled.Backoff(base=0.001))}
    node = ToolNode([StructuredTool.from_function(send_mail)], handle_tool_errors=handles, **wrap(keeper, effects))
    graph = StateGraph(MessagesState)
    graph.add_node("tools", node)
    graph.add_edge(START, "tools")
    asks = AIMessage("", tool_calls=[{"name": "send_mail", "args": {"to": "ann"}, "id": "c1"}])
    made, given = graph.compile(checkpointer=InMemorySaver()), {"messages": [HumanMessage("mail ann"), asks]}
    said = made.invoke(given, ROOT) if mode == "plain" else await made.ainvoke(given, ROOT)
    assert (said["messages"][-1].content, sent) == ("sent to ann", ["ann"])
    assert waiting(keeper.journal) == []
