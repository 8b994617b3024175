"""What stands around a function of Pydantic AI, and asks for its call again: before the function, or after it."""

import json

import pytest
from pydantic_ai import ModelRetry
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.toolsets import FunctionToolset, WrapperToolset

import settled
from settled.adapters.pydantic_ai import Guarded
from tests.adapters.chat_pydantic_ai import Chat
from tests.adapters.contract import mail
from tests.adapters.script import Script


class After(WrapperToolset):
    """Looks at what a tool has answered, and does not like it."""

    async def call_tool(self, name, tool_args, ctx, tool):
        await super().call_tool(name, tool_args, ctx, tool)
        raise ModelRetry("that looks odd")


class HookBefore(AbstractCapability):
    async def before_tool_execute(self, ctx, *, call, tool_def, args):
        raise ModelRetry("not now")


class HookAfter(AbstractCapability):
    async def after_tool_execute(self, ctx, *, call, tool_def, args, result):
        raise ModelRetry("that looks odd")


@pytest.fixture
def chat(guard, tmp_path):
    def make(replies, **more):
        effects = {"send_mail": settled.tool_options(identity=("to",))}
        made = Chat(tmp_path, [], Script(list(replies)), guard=guard(), effects=effects, **more)
        made.effects = effects
        return made

    return make


def asked_twice():
    return [[mail("ann", "c1")], [mail("ann", "c2")], "done"]


@pytest.mark.parametrize("is_async", [False, True])
async def test_what_is_refused_after_the_function_has_returned_is_not_done_again(chat, outbox, is_async):
    """Whoever looks at its answer says nothing of what it did."""
    one = chat(asked_twice(), toolsets=[After(FunctionToolset([outbox.tools(is_async=is_async)[0]]))])
    await one.say("mail ann")
    assert [json.loads(one.script.answer(each))["status"] for each in ("c1", "c2")] == ["unknown", "unknown"]
    assert outbox.sent == ["ann"]


@pytest.mark.parametrize(("hook", "made"), [(HookBefore, []), (HookAfter, ["ann"])])
async def test_a_hook_that_asks_again_after_the_function_has_it_not_done_again(chat, outbox, hook, made):
    """Older versions call such a hook outside of the guard, which has the answer by then."""
    one = chat(asked_twice(), toolsets=[FunctionToolset([outbox.tools(is_async=True)[0]])])
    one.agent = type(one.agent)(
        one.agent.model,
        toolsets=[FunctionToolset([outbox.tools(is_async=True)[0]], max_retries=3)],
        capabilities=[hook(), Guarded(one.guard, one.effects)],
    )
    await one.say("mail ann")
    assert outbox.sent == made
    assert made or one.script.answer("c2").startswith("not now")


async def test_a_function_that_asks_again_by_itself_is_called_again(chat, outbox):
    asks = [ModelRetry("to whom?")]

    def send_mail(to: str) -> str:
        """Send a mail."""
        if asks:
            raise asks.pop()
        return outbox._send(to)

    one = chat(asked_twice(), toolsets=[WrapperToolset(FunctionToolset([send_mail]))])
    await one.say("mail ann")
    assert one.script.answer("c1").startswith("to whom?")
    assert outbox.sent == ["ann"]
