"""What the OpenAI Agents SDK asks a person for, it asks for under the guard as without it."""

import pytest
from agents import Runner, RunState, function_tool

from tests.adapters.chat_openai_agents import Chat
from tests.adapters.script import Call, Script

BLOCKED = (13, 14)


def paying(outbox, *, asks):
    async def risky(context, arguments, call_id):
        return asks or arguments["account"] in BLOCKED

    @function_tool(needs_approval=risky)
    def pay(account: int, amount: float = 1.0) -> str:
        """Pay."""
        outbox.sent.append((account, amount))
        return "paid"

    return [pay]


@pytest.fixture
def chat(guard, tmp_path):
    def make(tools, replies, *, guarded=True):
        own = guard() if guarded else None
        return Chat(tmp_path, tools, Script(list(replies)), guard=own, effects={"pay": "write"} if own else None)

    return make


async def asked(chat, outbox, arguments, *, guarded):
    one = chat(paying(outbox, asks=False), [[Call("pay", arguments, "c1")], "done"], guarded=guarded)
    result = await one.say("pay it")
    one.forget()
    sent = list(outbox.sent)
    outbox.sent.clear()
    return [item.raw_item.call_id for item in result.interruptions], sent


@pytest.mark.parametrize(
    "arguments",
    [
        {"account": 13},
        {"account": "13"},
        {"account": 13.0, "amount": "1"},
        {"account": 7, "amount": "2"},
        {"account": 7, "amount": 2.0},
        {"account": "seven"},
    ],
)
async def test_what_a_rule_has_not_seen_is_asked_for_under_the_guard_too(chat, outbox, arguments):
    """The tool takes "13" for 13; a rule that saw the text says nothing of that, and so the SDK asks a person."""
    assert await asked(chat, outbox, arguments, guarded=True) == await asked(chat, outbox, arguments, guarded=False)


async def test_what_was_approved_is_made_as_the_tool_takes_it(chat, outbox):
    replies = [[Call("pay", {"account": "13", "amount": "2"}, "c1")]]
    one = chat(paying(outbox, asks=True), replies)
    kept = (await one.say("pay it")).to_state().to_json()
    for _ in range(2):
        two = chat(paying(outbox, asks=True), ["done"])
        state = await RunState.from_json(two.agent, kept)
        for item in state.get_interruptions():
            state.approve(item)
        await Runner.run(two.agent, state, run_config=two.config)
        assert two.script.answer("c1") == "paid"
    assert outbox.sent == [(13, 2.0)]
