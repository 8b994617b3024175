"""Pydantic AI under the contract, and what is its alone."""

import asyncio
import json
from datetime import datetime

import pytest
from pydantic import BaseModel
from pydantic_ai import BinaryContent, DeferredToolRequests, DeferredToolResults, Tool, ToolApproved, ToolReturn
from pydantic_ai.exceptions import CallDeferred, ModelRetry, ToolFailed
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.toolsets import FunctionToolset, WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool

import settled
from tests.adapters.chat_pydantic_ai import Chat
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
    pass


# --- failures that are returned -------------------------------------------------------------------


async def test_a_tool_that_says_it_failed_proves_nothing(chat, outbox):
    def send_mail(to: str) -> str:
        """Send a mail."""
        outbox.sent.append(to)
        raise ToolFailed("bounced")

    one = chat([send_mail], [[mail("ann", "c1")], "done"], effects={"send_mail": "write"})
    await one.say("mail ann")
    assert json.loads(one.script.answer("c1"))["status"] == "unknown"
    assert outbox.sent == ["ann"]


async def test_wrong_arguments_are_answered_by_the_framework_and_nothing_is_recorded(chat, tools, outbox):
    one = chat(tools, [[Call("send_mail", {"to": ["ann"]}, "c1")], [mail("ann", "c2")], "done"], effects=EFFECTS)
    await one.say("mail ann")
    assert outbox.sent == ["ann"]
    assert one.script.answer("c2") == "sent to ann"


# --- the framework's own control flow --------------------------------------------------------------


async def test_a_tool_that_asks_to_be_called_again_is(chat, outbox):
    """Nothing is recorded as done or failed: the model corrects its call, and asks for the same one later."""
    refused = []

    def send_mail(to: str) -> str:
        """Send a mail."""
        if not refused:
            refused.append(to)
            raise ModelRetry("say please")
        outbox.sent.append(to)
        return f"sent to {to}"

    one = chat([send_mail], [[mail("ann", "c1")], [mail("ann", "c2")], "done"], effects={"send_mail": "write"})
    await one.say("mail ann")
    assert "say please" in one.script.answer("c1")
    assert one.script.answer("c2") == "sent to ann"


async def test_a_failure_that_is_turned_into_a_request_to_ask_again_proves_nothing(chat, outbox):
    def send_mail(to: str) -> str:
        """Send a mail."""
        outbox.sent.append(to)
        raise ModelRetry("try again") from TimeoutError("no answer")

    one = chat([send_mail], [[mail("ann", "c1")], [mail("ann", "c2")], "done"], effects={"send_mail": "write"})
    await one.say("mail ann")
    assert [json.loads(one.script.answer(each))["status"] for each in ("c1", "c2")] == ["unknown", "unknown"]
    assert outbox.sent == ["ann"]


async def test_the_framework_s_own_time_out_proves_nothing(chat, outbox):
    async def send_mail(to: str) -> str:
        """Send a mail."""
        outbox.sent.append(to)
        await asyncio.sleep(30)

    tool = Tool(send_mail, timeout=0.05)
    one = chat([tool], [[mail("ann", "c1")], [mail("ann", "c2")], "done"], effects={"send_mail": "write"})
    await one.say("mail ann")
    assert json.loads(one.script.answer("c2"))["status"] == "unknown"
    assert outbox.sent == ["ann"]


@pytest.mark.parametrize("guarded", [True, False])
async def test_without_the_guard_a_time_out_is_done_again(chat, outbox, guarded):
    async def send_mail(to: str) -> str:
        """Send a mail."""
        outbox.sent.append(to)
        await asyncio.sleep(30)

    tool = Tool(send_mail, timeout=0.05, max_retries=5)
    one = chat([tool], [[mail("ann", "c1")], [mail("ann", "c2")], "done"], guarded=guarded)
    await one.say("mail ann")
    assert outbox.sent == (["ann"] if guarded else ["ann", "ann"])


def deferring(outbox, kind):
    def ask(to: str) -> str:
        """Send a mail later."""
        outbox.sent.append(f"asked {to}")
        raise kind

    return ask


async def test_a_deferred_call_passes_and_its_sibling_is_kept(chat, tools, outbox):
    asks = [deferring(outbox, CallDeferred), *tools]
    calls = [Call("ask", {"to": "ann"}, "c1"), mail("bob", "c2")]
    one = chat(asks, [calls], effects=EFFECTS, output_type=[str, DeferredToolRequests])
    said = await one.say("mail both")
    assert [call.tool_call_id for call in said.output.calls] == ["c1"]
    two = chat(asks, ["done"], effects=EFFECTS, output_type=[str, DeferredToolRequests])
    await two.go_on(deferred_tool_results=DeferredToolResults(calls={"c1": "by hand"}))
    assert sorted(outbox.sent) == ["asked ann", "bob"]
    assert (two.script.answer("c1"), two.script.answer("c2")) == ("by hand", "sent to bob")


@pytest.mark.parametrize("guarded", [True, False])
async def test_an_approval_that_is_given_twice_counts_once(chat, outbox, guarded):
    """CASE-063: the same stored pause is resumed twice; without the guard the mail is sent twice."""

    def send_mail(to: str) -> str:
        """Send a mail."""
        outbox.sent.append(to)
        return f"sent to {to}"

    gated = Tool(send_mail, requires_approval=True)
    more = {"guarded": guarded, "output_type": [str, DeferredToolRequests]}
    one = chat([gated], [[mail("ann", "c1")], "done", "done"], effects={"send_mail": "write"}, **more)
    await one.say("mail ann")
    assert outbox.sent == []
    pause = one.home.read_bytes()
    for _ in range(2):
        one.home.write_bytes(pause)
        await one.go_on(deferred_tool_results=DeferredToolResults(approvals={"c1": True}))
    assert outbox.sent == (["ann"] if guarded else ["ann", "ann"])


async def test_the_guard_sees_the_arguments_as_a_person_has_edited_them(chat, outbox):
    """CASE-062: what is on record is what was agreed to and done."""

    def send_mail(to: str) -> str:
        """Send a mail."""
        outbox.sent.append(to)
        return f"sent to {to}"

    more = {"effects": {"send_mail": "write"}, "output_type": [str, DeferredToolRequests]}
    one = chat([Tool(send_mail, requires_approval=True)], [[mail("ann", "c1")], ModelDown], **more)
    await one.say("mail somebody")
    edited = DeferredToolResults(approvals={"c1": ToolApproved(override_args={"to": "bob"})})
    await fails(one, one.go_on(deferred_tool_results=edited))
    two = chat([send_mail], [[mail("bob", "c2")], "done"], forget=True, **more)
    await two.say("mail somebody")
    assert outbox.sent == ["bob"]
    assert two.script.answer("c2") == "sent to bob"


# --- answers in the framework's own types ----------------------------------------------------------


class Receipt(BaseModel):
    to: str
    at: datetime


async def test_models_as_arguments_and_rich_results_survive_a_replay(chat, outbox):
    def send_mail(to: str, receipt: Receipt) -> ToolReturn:
        """Send a mail."""
        outbox.sent.append(receipt.to)
        picture = BinaryContent(b"\x89PNG", media_type="image/png")
        return ToolReturn(receipt, content=["look", picture], metadata={"raw": b"\x00"})

    receipt = {"to": "ann", "at": "2026-01-01T00:00:00Z"}
    replies = [[mail("ann", "c1", receipt=receipt)], ModelDown]
    one = chat([send_mail], replies)
    await fails(one, one.say("mail ann"))
    two = chat([send_mail], [[mail("ann", "c2", receipt=receipt)], "done"], forget=True)
    await two.say("mail ann")
    assert outbox.sent == ["ann"]
    assert two.script.answer("c2") == one.script.answer("c1")
    assert two.script.shown[-1][-1] == one.script.shown[-1][-1]  # the picture, in a message of its own


async def test_a_run_that_the_program_has_entered_is_the_run(chat, tools, outbox):
    one = chat(tools, [[mail("ann", "c1")], ModelDown], effects=EFFECTS)
    async with one.guard.run("task-7"):
        await fails(one, one.say("mail ann"))
    two = chat(tools, [[mail("ann", "c2")], "done"], effects=EFFECTS, forget=True)
    async with two.guard.run("task-7"):
        await two.say("in other words")
    assert outbox.sent == ["ann"]


async def test_an_mcp_server_s_error_proves_nothing(chat, outbox):
    """CASE-041: the framework turns ``isError`` into a request to ask again; the server may have done it."""

    class Server(WrapperToolset):
        async def call_tool(self, name, tool_args, ctx, tool):
            outbox.sent.append(tool_args["to"])
            raise ModelRetry("Error executing tool")

        async def get_tools(self, ctx):
            return {name: replace_tool(tool) for name, tool in (await super().get_tools(ctx)).items()}

    def replace_tool(tool):
        return ToolsetTool(
            toolset=tool.toolset, tool_def=tool.tool_def, max_retries=3, args_validator=tool.args_validator
        )

    def send_mail(to: str) -> str:
        """Send a mail."""

    server = Server(FunctionToolset([send_mail]))
    one = chat([], [[mail("ann", "c1")], [mail("ann", "c2")], "done"], toolsets=[server])
    await one.say("mail ann")
    assert json.loads(one.script.answer("c2"))["status"] == "unknown"
    assert outbox.sent == ["ann"]


@pytest.mark.parametrize("text", ["go on", None], ids=["a new prompt", "resumed"])
async def test_what_stands_in_an_answer_s_place_tells_nobody_what_was_done(chat, tools, outbox, text):
    """The framework closes a call that was cut off with such a part, and knows nothing of it."""
    one = chat(tools, [[mail("ann", "c1")], ModelDown], effects={"send_mail": "write"})
    await fails(one, one.say("mail ann"))
    said = "The tool call was interrupted before a result was produced."
    kept = [
        ModelRequest([UserPromptPart("mail ann")]),
        ModelResponse([ToolCallPart("send_mail", {"to": "ann"}, "c1")]),
        ModelRequest([ToolReturnPart("send_mail", said, "c1", outcome="interrupted")]),
    ]
    two = chat(tools, [[mail("ann", "c2")], "done"], effects={"send_mail": "write"})
    await two.agent.run(text, message_history=kept, conversation_id="t1")
    told = two.script.answer("c2")
    assert told == "sent to ann" if text is None else json.loads(told)["earlier_calls"][0]["status"] == "succeeded"
    assert outbox.sent == ["ann"]


@pytest.mark.parametrize("guarded", [True, False])
def test_a_kill_after_the_effect_doubles_nothing(tmp_path, guarded):
    """CASE-066, CASE-007: a crash between effect and record, and a start over. Fifty of them: `kills.py`."""
    kills, sent = round_of("pydantic_ai", tmp_path, ["bob", "cid"], guarded=guarded)
    assert kills == 2
    assert set(sent) == {"ann", "bob", "cid"}
    assert (sent.total() == 3) is guarded


@pytest.mark.parametrize("guarded", [True, False])
def test_a_kill_in_the_second_turn_doubles_nothing_and_loses_no_turn(tmp_path, guarded):
    """Three turns ask for the same mail; the process dies after it was sent in the second, and starts over."""
    kills, sent = round_of("pydantic_ai", tmp_path, ["ann-2"], guarded=guarded, turns=True)
    assert kills == 1
    assert sent == {"ann": 3 if guarded else 4}


def test_the_example_pays_once():
    assert example("pydantic_ai_refund") == "paid back: ['7 40']"
