"""LangChain agents and LangGraph under the contract, and what is theirs alone."""

import inspect
import json
import subprocess
import sys

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ToolRetryMiddleware
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool, ToolException, tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.config import get_stream_writer
from langgraph.types import Command, interrupt

import settled
from settled.adapters.langchain import Guarded
from settled.api.people.queue import waiting
from tests.adapters.chat_langchain import ROOT, Chat, Scripted
from tests.adapters.contract import EFFECTS, AdapterContract, fails, mail
from tests.adapters.cut_off import CutOff
from tests.adapters.in_a_row import InARow
from tests.adapters.kills import example, round_of
from tests.adapters.script import Call, ModelDown, Script
from tests.adapters.side_by_side import SideBySide
from tests.adapters.spelled import SpelledOtherwise


@pytest.fixture(params=["ainvoke", "invoke", "ToolNode", "without ids"])
def kind(request):
    return request.param


@pytest.fixture
def tools(kind, outbox, request):
    return outbox.tools(is_async=kind in ("ToolNode", "without ids"))


@pytest.fixture
def chat(tmp_path, kind):
    guards = []

    def make(tools, replies, *, effects=None, guarded=True, forget=False, middleware=(), guard=None, home=tmp_path):
        if guarded and guard is None:
            guard = settled.Guard(f"sqlite:///{tmp_path}/agent.db")
            guards.append(guard)
        made = Chat(home, tools, Script(list(replies)), kind=kind, guard=guard, effects=effects, middleware=middleware)
        if guarded and effects:
            settled.adapters.langchain.wrap(guard, effects)  # a wrong option is told where it is declared
        if forget:
            made.forget()
        return made

    yield make
    for guard in guards:
        guard.close()


agents_only = pytest.mark.parametrize("kind", ["ainvoke", "invoke"])
one_kind = pytest.mark.parametrize("kind", ["ainvoke"])


class TestContract(AdapterContract, SideBySide, CutOff, SpelledOtherwise, InARow):
    pass


# --- failures that are returned -------------------------------------------------------------------


def bouncing(outbox):
    def send_mail(to: str) -> str:
        """Send a mail."""
        outbox.sent.append(to)
        raise ToolException("bounced")

    return StructuredTool.from_function(send_mail, handle_tool_error=True)


async def test_a_returned_error_of_a_write_is_no_success_and_not_repeated(chat, outbox):
    one = chat([bouncing(outbox)], [[mail("ann", "c1")], "done"], effects={"send_mail": "write"})
    await one.say("mail ann")
    assert json.loads(one.script.answer("c1"))["status"] == "unknown"
    assert outbox.sent == ["ann"]


async def test_a_returned_error_of_a_read_is_repeated(chat, outbox):
    one = chat([bouncing(outbox)], [[mail("ann", "c1")], "done"], effects={"send_mail": "read"})
    await one.say("mail ann")
    assert json.loads(one.script.answer("c1"))["status"] == "not_done"
    assert outbox.sent == ["ann"] * 3


async def test_wrong_arguments_are_told_and_nothing_is_recorded(chat, tools, outbox):
    replies = [[Call("send_mail", {"to": ["ann"]}, "c1")], [Call("send_mail", {}, "c2")], "done"]
    one = chat(tools, replies, effects=EFFECTS)
    await one.say("mail ann")
    for call_id in ("c1", "c2"):
        said = json.loads(one.script.answer(call_id))
        assert said["status"] == "invalid"
        assert "to" in said["fields"]
        assert "operation_id" not in said
    assert outbox.sent == []


async def test_what_is_declared_instead_is_done_where_nothing_was(chat, tools, outbox):
    """From plain code too. Another tool of the framework's cannot be, and this one is not made in its place."""
    outbox.fails = [settled.NotExecuted("bounced")] * 2
    effects = {
        "send_mail": settled.tool_options(fallback=settled.Say("ring them up")),
        "search": settled.tool_options(fallback=["nothing", settled.Skip("none", why="it is away")]),
        "nothing": "write",
    }
    replies = [[mail("ann", "c1")], [Call("search", {"query": "x"}, "c2")], "done"]
    one = chat(tools, replies, effects=effects)
    await one.say("mail ann, and search x")
    assert json.loads(one.script.answer("c1"))["message"] == "ring them up"
    said = json.loads(one.script.answer("c2"))
    assert (said["status"], said["instead"]) == ("failed", "none")
    assert outbox.sent == []


@agents_only
async def test_an_unknown_tool_is_answered(chat, tools, outbox):
    one = chat(tools, [[Call("send_male", {"to": "ann"}, "c1")], "done"], effects=EFFECTS)
    await one.say("mail ann")
    assert "send_male" in one.script.answer("c1")
    assert outbox.sent == []


async def test_an_async_tool_that_plain_code_cannot_enter_is_not_in_doubt(chat, outbox):
    """The framework refuses it before it is entered: that is the program's mistake, and is raised."""
    [send_mail, *_] = outbox.tools(is_async=True)
    one = chat([StructuredTool.from_function(coroutine=send_mail)], [[mail("ann", "c1")], "done"], effects=EFFECTS)
    if one.kind == "invoke":
        with pytest.raises(NotImplementedError):  # LangChain's word for a tool that has no sync side
            await one.say("mail ann")
        assert waiting(one.guard.journal) == []
        return
    await one.say("mail ann")
    assert outbox.sent == ["ann"]


# --- the framework's own control flow --------------------------------------------------------------


def asking(outbox):
    def ask(to: str) -> str:
        """Send a mail once somebody agrees."""
        said = interrupt({"may I mail": to})
        outbox.sent.append(f"asked {to}")
        return f"{said} for {to}"

    return ask


ASKING = [[Call("ask", {"to": "ann"}, "c1"), mail("bob", "c2")], "done"]


async def test_an_interrupt_passes_and_the_resumed_run_does_each_once(chat, tools, outbox):
    both = {**EFFECTS, "ask": "write"}
    one = chat([asking(outbox), *tools], ASKING, effects=both)
    assert (await one.say("mail both"))["__interrupt__"]
    two = chat([asking(outbox), *tools], ["done"], effects=both)
    await two.invoke(Command(resume="yes"))
    assert sorted(outbox.sent) == ["asked ann", "bob"]
    assert two.script.answer("c1") == "yes for ann"
    assert two.script.answer("c2") == "sent to bob"


async def test_nothing_is_done_instead_of_a_call_that_waits_for_a_person(chat, tools, outbox):
    def make(replies):
        one = chat([asking(outbox), *tools], replies, effects=EFFECTS)
        one.guard.tool(effect="write", name="post")(lambda to: outbox.sent.append(f"posted to {to}"))
        one.effects = EFFECTS | {"ask": settled.tool_options(effect="write", fallback="post")}
        return one

    assert (await make([[Call("ask", {"to": "ann"}, "c1")]]).say("mail ann"))["__interrupt__"]
    assert outbox.sent == []
    two = make(["done"])
    await two.invoke(Command(resume="yes"))
    assert outbox.sent == ["asked ann"]


@pytest.mark.parametrize("kind", ["ToolNode"])
async def test_without_the_guard_the_sibling_runs_twice(chat, tools, outbox):
    one = chat([asking(outbox), *tools], ASKING, guarded=False)
    await one.say("mail both")
    two = chat([asking(outbox), *tools], ["done"], guarded=False)
    await two.invoke(Command(resume="yes"))
    assert sorted(outbox.sent) == ["asked ann", "bob", "bob"]


async def paused(one):
    """The checkpoint at which the run waits for a person."""
    async with AsyncSqliteSaver.from_conn_string(str(one.home / "threads.db")) as saver:
        return (await one._agent(saver).aget_state(ROOT)).config


@pytest.mark.parametrize("guarded", [True, False])
@one_kind
async def test_an_approval_that_is_given_twice_counts_once(chat, tools, outbox, guarded):
    """CASE-063: the same pause is resumed twice; without the guard the mail is sent twice."""
    ask = [HumanInTheLoopMiddleware(interrupt_on={"send_mail": True})]
    one = chat(tools, [[mail("ann", "c1")], "done", "done"], effects=EFFECTS, middleware=ask, guarded=guarded)
    await one.say("mail ann")
    pause = await paused(one)
    assert outbox.sent == []
    for _ in range(2):
        await one.invoke(Command(resume={"decisions": [{"type": "approve"}]}), pause)
    assert outbox.sent == (["ann"] if guarded else ["ann", "ann"])


@agents_only
async def test_the_guard_sees_the_arguments_as_a_person_has_edited_them(chat, tools, outbox):
    """CASE-062: what is on record is what was agreed to and done."""
    ask = [HumanInTheLoopMiddleware(interrupt_on={"send_mail": True})]
    one = chat(tools, [[mail("ann", "c1")], ModelDown], effects=EFFECTS, middleware=ask)
    await one.say("mail somebody")
    edit = {"type": "edit", "edited_action": {"name": "send_mail", "args": {"to": "bob"}}}
    await fails(one, one.invoke(Command(resume={"decisions": [edit]})))
    two = chat(tools, [[mail("bob", "c2")], "done"], effects=EFFECTS, forget=True)
    await two.say("mail somebody")
    assert outbox.sent == ["bob"]
    assert two.script.answer("c2") == "sent to bob"


# --- answers in the framework's own types ----------------------------------------------------------


async def test_an_artifact_survives_a_replay_under_the_new_id(chat, outbox):
    @tool(response_format="content_and_artifact")
    def send_mail(to: str) -> tuple:
        """Send a mail."""
        outbox.sent.append(to)
        return "sent", [Document("the mail", metadata={"size": 8}), b"\x00", (1, 2)]

    one = chat([send_mail], [[mail("ann", "c1")], ModelDown])
    await fails(one, one.say("mail ann"))
    two = chat([send_mail], [[mail("ann", "c2")], "done"], forget=True)
    answer = next(m for m in (await two.say("mail ann"))["messages"] if isinstance(m, ToolMessage))
    assert (answer.content, answer.tool_call_id) == ("sent", "c2")
    assert answer.artifact == [Document("the mail", metadata={"size": 8}), b"\x00", (1, 2)]
    assert outbox.sent == ["ann"]


async def test_a_command_survives_a_replay_under_the_new_id(chat, outbox):
    @tool
    def send_mail(to: str) -> Command:
        """Send a mail."""
        outbox.sent.append(to)
        return Command(update={"messages": [ToolMessage("by command", tool_call_id="c1")]})

    one = chat([send_mail], [[mail("ann", "c1")], ModelDown])
    await fails(one, one.say("mail ann"))
    two = chat([send_mail], [[mail("ann", "c2")], "done"], forget=True)
    await two.say("mail ann")
    assert two.script.answer("c2") == "by command"
    assert outbox.sent == ["ann"]


@one_kind
async def test_what_a_tool_streams_arrives(chat, outbox, tmp_path):
    def send_mail(to: str) -> str:
        """Send a mail."""
        get_stream_writer()({"progress": to})
        return "sent"

    one = chat([send_mail], [[mail("ann", "c1")], "done"])
    agent = one._agent(None)
    seen = [part async for part in agent.astream({"messages": [("user", "go")]}, stream_mode="custom")]
    assert seen == [{"progress": "ann"}]


# --- other layers ----------------------------------------------------------------------------------


INSIDE = [ToolRetryMiddleware()]
if "interrupt_mode" in inspect.signature(HumanInTheLoopMiddleware).parameters:  # older ones stand around no call
    INSIDE.append(HumanInTheLoopMiddleware(interrupt_on={"send_mail": True}, interrupt_mode="per_call"))


@agents_only
@pytest.mark.parametrize("inside", INSIDE, ids=lambda each: type(each).__name__)
async def test_what_repeats_or_edits_inside_of_the_guard_is_refused_with_the_line_to_write(chat, tools, outbox, inside):
    """At every call: the tool is known to the guard since an agent that was put together well."""
    one = chat(tools, [[mail("ann", "c1")], "done", [mail("bob", "c2")]], effects=EFFECTS)
    await one.say("mail ann")
    one._agent = lambda saver: create_agent(
        Scripted(script=one.script), tools, middleware=[Guarded(one.guard, EFFECTS), inside], checkpointer=saver
    )
    with pytest.raises(settled.DeclarationError, match=rf"middleware=\[…, {type(inside).__name__}"):
        await one.say("mail bob")
    assert outbox.sent == ["ann"]


@agents_only
async def test_a_retry_outside_of_the_guard_multiplies_nothing(chat, tools, outbox):
    outbox.fails = [TimeoutError(f"no answer {n}") for n in range(20)]
    retry = [ToolRetryMiddleware(max_retries=2, initial_delay=0)]
    one = chat(
        tools, [[mail("ann", "c1"), Call("search", {"query": "x"}, "c2")], "done"], effects=EFFECTS, middleware=retry
    )
    await one.say("mail ann")
    assert len(outbox.fails) == 20 - 1 - 3  # the write once, the read three times


@agents_only
async def test_without_the_guard_the_framework_s_retry_doubles_a_write(chat, outbox):
    def send_mail(to: str) -> str:
        """Send a mail; the answer is lost."""
        outbox.sent.append(to)
        raise TimeoutError

    retry = [ToolRetryMiddleware(max_retries=2, initial_delay=0)]
    one = chat([send_mail], [[mail("ann", "c1")], "done"], guarded=False, middleware=retry)
    await one.say("mail ann")
    assert outbox.sent == ["ann"] * 3


async def test_a_tool_of_the_guard_s_own_is_made_as_it_is_declared(chat, outbox):
    one = chat([], [[mail("ann", "c1")], ModelDown])

    def declared(guard):
        @guard.tool(effect="write", identity=("to",))
        def send_mail(to: str, text: str = "hi") -> str:
            """Send a mail."""
            outbox.sent.append(to)
            return f"sent to {to}"

        return StructuredTool.from_function(send_mail.function)

    one.tools = [declared(one.guard)]
    await fails(one, one.say("mail ann"))
    two = chat([], [[mail("ann", "c2", text="Dear Ann")], "done"], forget=True)
    two.tools = [declared(two.guard)]
    await two.say("mail ann")
    assert outbox.sent == ["ann"]
    assert "sent to ann" in two.script.answer("c2")


async def test_a_run_that_the_program_has_entered_is_the_run(chat, tools, outbox):
    one = chat(tools, [[mail("ann", "c1")], ModelDown], effects=EFFECTS)
    with one.guard.run("task-7"):
        await fails(one, one.say("mail ann"))
    two = chat(tools, [[mail("ann", "c2")], "done"], effects=EFFECTS, forget=True)
    with two.guard.run("task-7"):
        await two.invoke({"messages": [("user", "in other words")]}, {"configurable": {"thread_id": "another"}})
    assert outbox.sent == ["ann"]


@one_kind
async def test_what_stands_in_an_answer_s_place_tells_nobody_what_was_done(chat, tools, outbox):
    """deepagents and others close a call that was cut off with such a message, and know nothing of it."""
    one = chat(tools, [[mail("ann", "c1")], ModelDown], effects=EFFECTS)
    await fails(one, one.say("mail ann"))
    asked = AIMessage("", tool_calls=[{"name": "send_mail", "args": {"to": "ann"}, "id": "c1"}])
    text = "Tool call send_mail with id c1 was cancelled - another message came in before it could be completed."
    two = chat(tools, [[mail("ann", "c2")], "done"], effects=EFFECTS, forget=True)
    before = [HumanMessage("mail ann"), asked, ToolMessage(text, tool_call_id="c1")]
    await two.invoke({"messages": [*before, HumanMessage("go on")]})
    assert json.loads(two.script.answer("c2"))["earlier_calls"][0]["status"] == "succeeded"
    assert outbox.sent == ["ann"]


def test_a_graph_needs_no_langchain():
    code = "import sys; sys.modules['langchain'] = None; from settled.adapters import langchain as a; a.wrap; "
    code += "import settled\ntry: a.Guarded(settled.Guard('memory://'))\nexcept settled.DeclarationError as e: print(e)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "needs langchain" in ran.stdout


@pytest.mark.parametrize("guarded", [True, False])
def test_a_kill_after_the_effect_doubles_nothing(tmp_path, guarded):
    """CASE-066, CASE-007: a crash between effect and record, and a start over. Fifty of them: `kills.py`."""
    kills, sent = round_of("langchain", tmp_path, ["bob", "cid"], guarded=guarded)
    assert kills == 2
    assert set(sent) == {"ann", "bob", "cid"}
    assert (sent.total() == 3) is guarded


@pytest.mark.parametrize("guarded", [True, False])
def test_a_kill_in_the_second_turn_doubles_nothing_and_loses_no_turn(tmp_path, guarded):
    """Three turns ask for the same mail; the process dies after it was sent in the second, and starts over."""
    kills, sent = round_of("langchain", tmp_path, ["ann-2"], guarded=guarded, turns=True)
    assert kills == 1
    assert sent == {"ann": 3 if guarded else 4}


def test_the_example_pays_once():
    assert example("langgraph_refund") == "paid back: ['7 40']"
