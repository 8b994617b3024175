"""Handoffs, agents as tools, guardrails, sessions and streams: each effect is counted in a book on disk."""

import asyncio
import json
import sys

import pytest
from agents import (
    Agent,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunState,
    SQLiteSession,
    ToolGuardrailFunctionOutput,
    ToolsToFinalOutputResult,
    function_tool,
    handoff,
    tool_output_guardrail,
)
from agents.exceptions import ToolOutputGuardrailTripwireTriggered
from agents.extensions import handoff_filters
from agents.mcp import MCPServerStdio
from openai.types.responses import Response, ResponseCompletedEvent

from settled.adapters.openai_agents import guarded
from settled.api.people.queue import waiting
from tests.adapters.chat_openai_agents import Scripted, neutral, output
from tests.adapters.contract import EFFECTS, mail
from tests.adapters.script import Answer, Call, ModelDown, Script

GROUP = RunConfig(group_id="t1")


@pytest.fixture
def say(tmp_path):
    """Sends a message over a session in a file."""

    async def say(agent, text, config=GROUP):
        session = SQLiteSession("s1", str(tmp_path / "session.db"))
        try:
            return await Runner.run(agent, text, session=session, run_config=config)
        finally:
            session.close()

    return say


class Free(Script):
    """Looks at no history: handoffs tell it in words."""

    def reply(self, history):
        self.shown.append(history)
        said = self.replies.pop(0)
        if said is ModelDown:
            raise ModelDown
        return said


class Once(Script):
    """Asks for one mail, and is done once that is answered."""

    def __init__(self, to, *ids):
        super().__init__([])
        self.to, self.ids = to, iter(ids)

    def reply(self, history):
        self.shown.append(history)
        return "done" if isinstance(history[-1], Answer) else [mail(self.to, next(self.ids))]


class Streaming(Scripted):
    async def stream_response(self, system_instructions, input, *_, **__):  # noqa: A002 - the SDK's name
        said = output(self.script.reply(neutral(input)))
        whole = {"id": "r", "created_at": 0, "model": "m", "object": "response", "tool_choice": "auto", "tools": []}
        response = Response(output=said, parallel_tool_calls=True, **whole)
        yield ResponseCompletedEvent(response=response, type="response.completed", sequence_number=0)


def agent(guard, script, tools, **more):
    own = [tool if hasattr(tool, "on_invoke_tool") else function_tool(tool) for tool in tools]
    return guarded(Agent("a", tools=own, model=Streaming(script), **more), guard, EFFECTS)


# --- handoffs ----------------------------------------------------------------------------------------


def handing(guard, book, at, *, down, nested):
    """An agent that hands off at once to one that sends the mail."""
    script = Free([[mail("ann", f"c{at}")], ModelDown if down else "done"])
    other = Agent("b", tools=[function_tool(book.mailer())], model=Scripted(script))
    to = other if nested else handoff(other, input_filter=handoff_filters.remove_all_tools)
    return agent(guard, Free([[Call("transfer_to_b", {}, f"h{at}")]]), [], handoffs=[to]), script


@pytest.mark.parametrize("nested", [True, False], ids=["history in one message", "history without calls"])
async def test_each_turn_is_one_though_a_handoff_rewrites_the_history(say, guard, book, nested):
    """A process each, and the same words each time: what is answered from the record was not done."""
    config = RunConfig(group_id="t1", nest_handoff_history=nested)
    for at in range(3):
        one, script = handing(guard(), book, at, down=False, nested=nested)
        await say(one, "mail ann", config)
        assert book.lines == ["ann"] * (at + 1)
        assert "sent to ann" in str(script.shown[-1])


@pytest.mark.parametrize("nested", [True, False], ids=["history in one message", "history without calls"])
async def test_a_turn_that_is_lost_after_a_handoff_doubles_nothing(say, guard, book, nested, tmp_path):
    config = RunConfig(group_id="t1", nest_handoff_history=nested)
    for at in range(2):
        one, script = handing(guard(), book, at, down=not at, nested=nested)
        try:
            await say(one, "mail ann", config)
        except ModelDown:
            (tmp_path / "session.db").unlink()
    assert "sent to ann" in str(script.shown[-1])
    assert book.lines == ["ann"]


# --- sessions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shown", [2, 3, 4, 6])
async def test_turns_that_look_alike_are_turns_each_wherever_a_window_is_cut(guard, book, shown):
    """Four items are one turn: of the one before the answers alone may be shown."""
    items = []
    for at in range(5):
        one = agent(guard(), Free([[mail("ann", f"c{at}")], "done"]), [book.mailer()])
        said = [*items[-shown:], {"role": "user", "content": "next"}]
        items = (await Runner.run(one, said, run_config=GROUP)).to_input_list()
        assert book.lines == ["ann"] * (at + 1)


async def shortened(path, dropped):
    """The session without some of its items."""
    session = SQLiteSession("s1", str(path))
    try:
        items = await session.get_items()
        await session.clear_session()
        await session.add_items([item for at, item in enumerate(items) if at not in dropped])
    finally:
        session.close()


async def test_a_session_that_is_shortened_in_a_turn_leaves_it_that_turn(say, guard, book, tmp_path):
    """What was said before, and the first call, are gone: that is asked for again, and then once more elsewhere."""
    script = Script(["hello", [mail("ann", "c1")], [mail("bob", "c2")], ModelDown, [mail("ann", "d1")], ModelDown])
    one = agent(guard(), script, [book.mailer()])
    await say(one, "hi")
    for dropped in ({0, 1, 3, 4}, {3, 4, 5}):
        with pytest.raises(ModelDown):
            await say(one, "go")
        await shortened(tmp_path / "session.db", dropped)
    assert script.answer("d1") == "sent to ann"
    assert book.lines == ["ann", "bob"]
    script = Script([[mail("ann", "e1")], "done"])
    await say(agent(guard(), script, [book.mailer()]), "go")
    assert script.answer("e1") == "sent to ann"
    assert book.lines == ["ann", "bob"]


# --- agents as tools ---------------------------------------------------------------------------------


def asking(guard, inner, replies, **more):
    script = Script(replies)
    return agent(guard, script, [guarded_inner(guard, inner).as_tool("ask_b", "Ask b.")], **more), script


def guarded_inner(guard, inner):
    script, book = inner
    return guarded(Agent("b", tools=[function_tool(book.mailer())], model=Scripted(script)), guard, EFFECTS)


def ask(what, call_id):
    return Call("ask_b", {"input": what}, call_id)


async def test_an_agent_that_is_a_tool_works_anew_in_each_turn(say, guard, book):
    for at in range(3):
        made = guard()
        one, _ = asking(made, (Once("ann", f"i{at}"), book), [[ask("mail ann", f"c{at}")], "done"])
        await say(one, "ask b")
        assert book.lines == ["ann"] * (at + 1)


async def test_what_an_agent_did_as_a_tool_is_known_when_its_asker_is_asked_anew(say, guard, book, tmp_path):
    for at in range(2):
        made = guard()
        replies = [[ask("mail ann", f"c{at}")], "done" if at else ModelDown]
        one, _ = asking(made, (Once("ann", f"i{at}"), book), replies)
        try:
            await say(one, "ask b")
        except ModelDown:
            (tmp_path / "session.db").unlink()
    assert book.lines == ["ann"]


@pytest.mark.parametrize("at_once", [True, False])
async def test_an_agent_that_is_asked_the_same_twice_does_it_twice(say, guard, book, at_once):
    made = guard()
    calls = [ask("mail ann", "c1"), ask("mail ann", "c2")]
    replies = [calls, "done"] if at_once else [[calls[0]], [calls[1]], "done"]
    one, _ = asking(made, (Once("ann", "i1", "i2"), book), replies)
    await say(one, "ask b twice")
    assert book.lines == ["ann", "ann"]


async def test_agents_that_work_as_tools_side_by_side_take_nothing_from_each_other(say, guard, book):
    made = guard()
    names = ["ann", "bob", "cid", "dan"]
    inner = [guarded_inner(made, (Once(name, f"i-{name}"), book)).as_tool(f"ask_{name}", "Ask.") for name in names]
    calls = [Call(f"ask_{name}", {"input": "go"}, name) for name in names]
    await say(agent(made, Script([calls, "done"]), inner), "ask all")
    assert sorted(book.lines) == names


async def test_tools_that_a_copy_is_given_are_guarded_too(say, guard, book):
    def send_mail(to: str) -> str:
        """Send a mail; the answer is lost."""
        book.note(to)
        raise TimeoutError

    script = Script([[mail("ann", "c1")], "done"])
    copy = agent(guard(), script, []).clone(tools=[function_tool(send_mail)])
    await say(copy, "mail ann")
    assert json.loads(script.answer("c1"))["status"] == "unknown"
    assert book.lines == ["ann"]


# --- how a run ends ----------------------------------------------------------------------------------


ENDS = {
    "first": "stop_on_first_tool",
    "names": {"stop_at_tool_names": ["send_mail"]},
    "own": lambda _, results: ToolsToFinalOutputResult(is_final_output=True, final_output=results[0].output),
}


@pytest.mark.parametrize("end", ENDS)
async def test_an_answer_that_ends_the_run_ends_it_and_the_next_turn_is_new(say, guard, book, end):
    for at in range(3):
        script = Script([[mail("ann", f"c{at}")]])
        said = await say(agent(guard(), script, [book.mailer()], tool_use_behavior=ENDS[end]), "mail ann")
        assert said.final_output == "sent to ann"
        assert book.lines == ["ann"] * (at + 1)


async def test_a_guardrail_that_trips_on_an_answer_undoes_no_knowledge_of_it(say, guard, book, tmp_path):
    trips = [True]

    @tool_output_guardrail
    async def check(_):
        return ToolGuardrailFunctionOutput.raise_exception() if trips.pop() else ToolGuardrailFunctionOutput.allow()

    def sends():
        return function_tool(book.mailer(), tool_output_guardrails=[check])

    with pytest.raises(ToolOutputGuardrailTripwireTriggered):
        await say(agent(guard(), Script([[mail("ann", "c1")]]), [sends()]), "mail ann")
    (tmp_path / "session.db").unlink()
    trips.append(False)
    script = Script([[mail("ann", "c2")], "done"])
    await say(agent(guard(), script, [sends()]), "mail ann")
    assert script.answer("c2") == "sent to ann"
    assert book.lines == ["ann"]


@pytest.mark.parametrize("mode", ["immediate", "after_turn"])
async def test_a_stream_that_is_cancelled_goes_on_from_its_state(guard, book, mode):
    started, release = asyncio.Event(), asyncio.Event()

    @function_tool
    async def send_mail(to: str) -> str:
        """Send a mail."""
        book.note(to)
        started.set()
        await release.wait()
        return f"sent to {to}"

    one = agent(guard(), Script([[mail("ann", "c1")]]), [send_mail])
    result = Runner.run_streamed(one, "mail ann", run_config=GROUP)

    async def read():
        return [event async for event in result.stream_events()]

    reading = asyncio.ensure_future(read())
    await asyncio.wait_for(started.wait(), 10)
    result.cancel(mode=mode)
    release.set()
    await asyncio.wait_for(reading, 10)
    script = Once("ann", "d1")
    two = agent(guard(), script, [send_mail])
    await Runner.run(two, await RunState.from_json(two, result.to_state().to_json()), run_config=GROUP)
    assert "sent to ann" in str(script.shown[-1]) or "unknown" in str(script.shown[-1])
    assert book.lines == ["ann"]


SERVER = """
import os
try:
    from mcp.server.fastmcp import FastMCP
except ImportError:
    from mcp.server.mcpserver import MCPServer as FastMCP
server = FastMCP("mails")

@server.tool()
def send_mail(to: str) -> str:
    with open({path!r}, "a") as file:
        file.write(to + "\\n")
    os._exit(1)

server.run("stdio")
"""


async def test_an_mcp_server_that_dies_in_a_call_leaves_it_unknown(say, guard, book):
    """The framework gives up with it; who comes back is told, and the call is not made again."""
    for at in range(2):
        made, code = guard(), SERVER.format(path=str(book.path))
        params = {"command": sys.executable, "args": ["-c", code]}
        async with MCPServerStdio(params, client_session_timeout_seconds=20, cache_tools_list=True) as server:
            script = Free([[mail("ann", f"c{at}")], "done"])
            try:
                await say(agent(made, script, [], mcp_servers=[server]), "mail ann")
            except Exception as error:  # noqa: BLE001 - of the SDK, of whatever kind
                assert "onnection" in str(error)  # noqa: PT017 - with one the run may also end well
        assert [call.state for call in waiting(made.journal)] == ["unknown"]
    assert book.lines == ["ann"]


async def test_two_runs_that_share_the_sdk_s_context_are_turns_each(guard, book):
    """The SDK takes its own wrapper for a context, and keeps in it what it knows of calls."""
    made, shared = guard(), RunContextWrapper(None)
    for at, text in enumerate(["mail ann", "now another"]):
        one = agent(made, Script([[mail("ann", f"c{at}")], "done"]), [book.mailer()])
        await Runner.run(one, text, context=shared, run_config=GROUP)
        assert book.lines == ["ann"] * (at + 1)
