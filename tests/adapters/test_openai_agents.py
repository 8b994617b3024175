"""The OpenAI Agents SDK under the contract, and what is its alone."""

import asyncio
import dataclasses
import datetime as dt
import json
import sys

import pytest
from agents import (
    Agent,
    RunConfig,
    Runner,
    RunState,
    function_tool,
    handoff,
    tool_namespace,
)
from agents.mcp import MCPServerStdio

import settled
from settled.adapters.openai_agents import guarded
from tests.adapters.chat_openai_agents import Chat, Scripted
from tests.adapters.contract import EFFECTS, AdapterContract, fails, mail
from tests.adapters.cut_off import CutOff
from tests.adapters.in_a_row import InARow
from tests.adapters.kills import example, round_of
from tests.adapters.script import Call, ModelDown, Script
from tests.adapters.side_by_side import SideBySide
from tests.adapters.spelled import SpelledOtherwise


@pytest.fixture
def chat(tmp_path):
    guards = []

    def make(tools, replies, *, effects=None, guarded=True, forget=False, guard=None, home=tmp_path, **more):
        if guarded and guard is None:
            guard = settled.Guard(f"sqlite:///{tmp_path}/agent.db")
            guards.append(guard)
        made = Chat(home, tools, Script(list(replies)), guard=guard, effects=effects, **more)
        if forget:
            made.forget()
        return made

    yield make
    for guard in guards:
        guard.close()


class TestContract(AdapterContract, SideBySide, CutOff, SpelledOtherwise, InARow):
    reused = ("c1", "c2")  # the SDK itself takes one id for one call, as is shown below
    shows_siblings = False
    turn_ids = ("c1", "c2", "c3")  # and shows an answer once for each in a session's history


async def test_without_the_guard_too_the_sdk_makes_a_reused_id_once_in_a_run(chat, tools, outbox):
    one = chat(tools, [[mail("ann", "call_0")], [mail("ann", "call_0")], "done"], guarded=False)
    await one.say("mail ann twice")
    assert outbox.sent == ["ann"]


@pytest.mark.parametrize("guarded", [True, False])
async def test_a_message_that_is_sent_again_is_the_same_turn(chat, outbox, guarded):
    """CASE-066: the session keeps the user's message of a run that was cut off, and none of the calls it made."""
    waits, release = asyncio.Event(), asyncio.Event()

    async def send_mail(to: str) -> str:
        """Send a mail."""
        outbox.sent.append(to)
        if to == "bob":
            waits.set()
            await release.wait()
        return f"sent to {to}"

    both = [mail("ann", "c1"), mail("bob", "c2")]
    one = chat([send_mail], [both], guarded=guarded)
    task = asyncio.ensure_future(one.say("mail both"))
    await waits.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()
    two = chat([send_mail], [[mail("bob", "d1"), mail("ann", "d2")], [mail("ann", "d3")], "done"], guarded=guarded)
    await two.say("mail both")
    assert two.script.shown[0] == ["mail both", "mail both"]
    # d3 is asked for in sight of d2, and means one more
    assert sorted(outbox.sent) == (["ann", "ann", "bob"] if guarded else ["ann", "ann", "ann", "bob", "bob"])


async def test_broken_arguments_are_told_and_nothing_is_recorded(chat, tools, outbox):
    replies = [[Call("send_mail", {"to": ["ann"]}, "c1")], [mail("ann", "c2")], "done"]
    one = chat(tools, replies, effects=EFFECTS)
    await one.say("mail ann")
    assert json.loads(one.script.answer("c1"))["next"] == "fix_arguments"
    assert one.script.answer("c2") == "sent to ann"
    assert outbox.sent == ["ann"]


async def test_a_run_without_an_id_is_warned_about(chat, tools, outbox):
    one = chat(tools, [[mail("ann", "c1")], "done"], effects=EFFECTS)
    one.config = RunConfig()
    with pytest.warns(RuntimeWarning, match="group_id"):
        await one.say("mail ann")
    assert outbox.sent == ["ann"]


async def test_a_run_that_the_program_has_entered_is_the_run(chat, tools, outbox):
    one = chat(tools, [[mail("ann", "c1")], ModelDown], effects=EFFECTS)
    async with one.guard.run("task-7"):
        await fails(one, one.say("mail ann"))
    two = chat(tools, [[mail("ann", "c2")], "done"], effects=EFFECTS, forget=True)
    async with two.guard.run("task-7"):
        await two.say("in other words")
    assert outbox.sent == ["ann"]


# --- approvals -------------------------------------------------------------------------------------


def gated(outbox):
    @function_tool(needs_approval=True)
    def refund(to: str) -> str:
        """Refund."""
        outbox.sent.append(f"refund {to}")
        return f"refunded {to}"

    return refund


def needs(name):
    async def ask(context, arguments, call_id):
        return arguments["to"] == name

    return ask


async def approved(one, kept):
    state = await RunState.from_json(one.agent, kept)
    for item in state.get_interruptions():
        state.approve(item)
    return await Runner.run(one.agent, state, run_config=one.config)


@pytest.mark.parametrize("guarded", [True, False])
async def test_an_approval_that_is_given_twice_counts_once(chat, outbox, guarded):
    """CASE-063: the same stored state is resumed twice; without the guard the refund is made twice."""
    one = chat([gated(outbox)], [[Call("refund", {"to": "ann"}, "c1")]], guarded=guarded)
    kept = (await one.say("refund ann")).to_state().to_json()
    for _ in range(2):
        two = chat([gated(outbox)], ["done"], guarded=guarded)
        await approved(two, kept)
        assert two.script.answer("c1") == "refunded ann"
    assert outbox.sent == (["refund ann"] if guarded else ["refund ann", "refund ann"])


async def test_an_approved_call_is_made_beside_its_sibling_of_the_same_tool(chat, outbox):
    def make():
        def send_mail(to: str) -> str:
            """Send a mail."""
            outbox.sent.append(to)
            return f"sent to {to}"

        return function_tool(send_mail, needs_approval=needs("bob"))

    one = chat([make()], [[mail("ann", "c1"), mail("bob", "c2")]], effects={"send_mail": "write"})
    kept = (await one.say("mail both")).to_state().to_json()
    assert outbox.sent == ["ann"]
    two = chat([make()], ["done"], effects={"send_mail": "write"})
    await approved(two, kept)
    assert outbox.sent == ["ann", "bob"]
    assert two.script.answer("c2") == "sent to bob"


# --- whose tools -----------------------------------------------------------------------------------


@pytest.mark.parametrize("wrapped", [False, True])
async def test_an_agent_that_is_handed_off_to_is_guarded(chat, tools, outbox, wrapped):
    outbox.fails = [TimeoutError("no answer")]
    script = Script([[mail("ann", "c1")], "done"])
    other = Agent("b", tools=[function_tool(tool) for tool in tools], model=Scripted(script))
    replies = [[Call("transfer_to_b", {}, "h1")]]
    one = chat([], replies, effects=EFFECTS, handoffs=[handoff(other) if wrapped else other])
    await one.say("mail ann")
    assert json.loads(script.answer("c1"))["status"] == "unknown"


async def test_an_agent_as_a_tool_is_to_be_guarded_itself(chat, tools, outbox):
    outbox.fails = [TimeoutError("no answer")]
    script = Script([[mail("ann", "c1")], "done"])
    other = Agent("b", tools=[function_tool(tool) for tool in tools], model=Scripted(script))
    with pytest.raises(settled.DeclarationError, match="guarded"):
        chat([other.as_tool("ask_b", "Ask b.")], [])
    guard = chat([], []).guard
    inner = guarded(other, guard, EFFECTS).as_tool("ask_b", "Ask b.")
    one = chat([inner], [[Call("ask_b", {"input": "mail ann"}, "c1")], "done"])
    await one.say("mail ann")
    assert json.loads(script.answer("c1"))["status"] == "unknown"


def in_namespaces(outbox, *names):
    """Tools of one name, each in a namespace of its own."""

    def one(name):
        def send(to: str) -> str:
            """Send."""
            return outbox._send(f"{to} by {name}")

        return tool_namespace(name=name, description="Send.", tools=[function_tool(send)])

    return [tool for name in names for tool in one(name)]


class Named(Scripted):
    """Asks for tools by namespace and name."""

    async def get_response(self, *args, **more):
        said = await super().get_response(*args, **more)
        for item in said.output:
            if item.type == "function_call":
                item.namespace, item.name = item.name.split(".")
        return said


async def test_tools_of_two_namespaces_answer_nothing_for_each_other(chat, outbox):
    effects = {"mail.send": "write", "post.send": "write"}
    tools = in_namespaces(outbox, "mail", "post")
    one = chat(tools, [[Call("mail.send", {"to": "ann"}, "c1")], ModelDown], effects=effects)
    one.agent.model = Named(one.script)
    await fails(one, one.say("send it"))
    two = chat(tools, [[Call("post.send", {"to": "ann"}, "c2")], "done"], effects=effects, forget=True)
    two.agent.model = Named(two.script)
    await two.say("send it")
    assert outbox.sent == ["ann by mail", "ann by post"]
    assert two.script.answer("c2") == "sent to ann by post"


async def test_what_leaves_a_namespace_out_is_refused_with_the_name_to_write(chat, outbox):
    with pytest.raises(settled.DeclarationError, match=r"declare it as 'mail\.send'"):
        chat(in_namespaces(outbox, "mail"), [], effects={"send": "write"})


@dataclasses.dataclass
class Receipt:
    to: str


@pytest.mark.parametrize("answer", [[Receipt("ann")], {"at": dt.date(2026, 1, 1), "by": Receipt("ann")}])
async def test_what_a_tool_answers_is_shown_again_word_for_word(chat, outbox, answer):
    def send_mail(to: str) -> object:
        """Send a mail."""
        outbox.sent.append(to)
        return answer

    one = chat([send_mail], [[mail("ann", "c1")], ModelDown])
    await fails(one, one.say("mail ann"))
    two = chat([send_mail], [[mail("ann", "c2")], "done"], forget=True)
    await two.say("mail ann")
    assert outbox.sent == ["ann"]
    assert two.script.answer("c2") == one.script.answer("c1")


SERVER = """
try:
    from mcp.server.fastmcp import FastMCP
except ImportError:
    from mcp.server.mcpserver import MCPServer as FastMCP
server = FastMCP("mails")

@server.tool()
def send_mail(to: str) -> str:
    with open({path!r}, "a") as file:
        file.write(to + "\\n")
    if to == "ann":
        raise RuntimeError("the answer was lost")
    return f"sent to {{to}}"

server.run("stdio")
"""


@pytest.fixture
async def mails(tmp_path):
    code = SERVER.format(path=str(tmp_path / "sent"))
    async with MCPServerStdio(
        {"command": sys.executable, "args": ["-c", code]}, client_session_timeout_seconds=20
    ) as server:
        yield server


async def test_an_mcp_server_s_error_is_no_success(chat, mails, tmp_path):
    """CASE-041: an answer marked as an error does not tell whether anything was done."""
    replies = [[mail("ann", "c1")], [mail("ann", "c2")], [mail("bob", "c3")], "done"]
    one = chat([], replies, effects={"send_mail": settled.tool_options(identity=("to",))}, mcp_servers=[mails])
    one.agent = one.agent.clone(name="a copy")
    await one.say("mail ann")
    assert [json.loads(one.script.answer(each))["status"] for each in ("c1", "c2")] == ["unknown", "unknown"]
    assert "sent to bob" in one.script.answer("c3")
    assert (tmp_path / "sent").read_text() == "ann\nbob\n"


async def test_an_mcp_server_that_repeats_calls_is_refused(chat):
    server = MCPServerStdio({"command": sys.executable}, max_retry_attempts=2)
    with pytest.raises(settled.DeclarationError, match="max_retry_attempts=0"):
        chat([], [], mcp_servers=[server])


async def test_the_sdk_s_own_time_out_ends_the_waiting_only(chat, outbox):
    async def send_mail(to: str) -> str:
        """Send a mail."""
        await asyncio.sleep(0.3)
        outbox.sent.append(to)
        return f"sent to {to}"

    tool = function_tool(send_mail, timeout=0.1)
    one = chat([tool], [[mail("ann", "c1")], [mail("ann", "c2")], [mail("ann", "c3")], "done"], effects=EFFECTS)
    await one.say("mail ann")
    await asyncio.sleep(0.5)
    assert outbox.sent == ["ann"]


@pytest.mark.parametrize("guarded", [True, False])
def test_a_kill_after_the_effect_doubles_nothing(tmp_path, guarded):
    """CASE-066, CASE-007: a crash between effect and record, and a start over. Fifty of them: `kills.py`."""
    kills, sent = round_of("openai_agents", tmp_path, ["bob", "cid"], guarded=guarded)
    assert kills == 2
    assert set(sent) == {"ann", "bob", "cid"}
    assert (sent.total() == 3) is guarded


@pytest.mark.parametrize("guarded", [True, False])
def test_a_kill_in_the_second_turn_doubles_nothing_and_loses_no_turn(tmp_path, guarded):
    """Three turns ask for the same mail; the process dies after it was sent in the second, and starts over."""
    kills, sent = round_of("openai_agents", tmp_path, ["ann-2"], guarded=guarded, turns=True)
    assert kills == 1
    assert sent == {"ann": 3 if guarded else 4}


def test_the_example_pays_once():
    assert example("openai_agents_refund") == "paid back: ['7 40']"
