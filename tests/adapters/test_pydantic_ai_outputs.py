"""Output functions and agents that ask others: each effect is counted in a book on disk."""

import json

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, RunContext, ToolOutput
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

import settled
from settled.adapters.pydantic_ai import Guarded
from tests.adapters.chat_pydantic_ai import neutral
from tests.adapters.contract import EFFECTS, mail
from tests.adapters.script import Answer, Call, ModelDown, Script


def agent(guard, script, tools=(), effects=EFFECTS, **more):
    def reply(messages, _):
        said = script.reply(neutral(messages))
        if isinstance(said, str):
            return ModelResponse(parts=[TextPart(said)])
        return ModelResponse(parts=[ToolCallPart(call.tool, call.arguments, call.id) for call in said])

    return Agent(FunctionModel(reply), tools=tools, capabilities=[Guarded(guard, effects)], **more)


def final(book, after=lambda: None):
    def send_mail(to: str, text: str = "hi") -> str:
        """Send a mail."""
        said = book.note(to)
        after()
        return said

    return ToolOutput(send_mail, name="send_it")


def fails():
    raise TimeoutError("no answer")


FINAL = [Call("send_it", {"to": "ann"}, "c1")]


async def test_an_output_function_is_done_once_in_each_turn(book, guard):
    kept = []
    for at in range(3):
        one = agent(guard(), Script([FINAL]), output_type=final(book))
        said = await one.run("mail ann", conversation_id="t1", message_history=kept)
        kept = ModelMessagesTypeAdapter.validate_json(said.all_messages_json())
        assert said.output == "sent to ann"
        assert book.lines == ["ann"] * (at + 1)


async def test_an_output_function_whose_answer_was_lost_is_answered_from_the_record(book, guard):
    for call_id in ("c1", "c2"):
        script = Script([[Call("send_it", {"to": "ann", "text": "hi"}, call_id)]])
        said = await agent(guard(), script, output_type=final(book)).run("mail ann", conversation_id="t1")
        assert said.output == "sent to ann"
    assert book.lines == ["ann"]


async def test_an_output_function_in_doubt_is_told_and_not_called_again(book, guard):
    """The model is told, and asks again: the run ends without an output, and without a second mail."""
    script = Script([FINAL, [Call("send_it", {"to": "ann"}, "c2")]])
    with pytest.raises(UnexpectedModelBehavior):
        await agent(guard(), script, output_type=final(book, fails)).run("mail ann", conversation_id="t1")
    assert "unknown" in script.answer("c1")
    assert book.lines == ["ann"]


class Letter(BaseModel):
    to: str
    names: list[str] = []


async def test_an_output_function_is_tried_again_with_what_was_asked_for(book, guard):
    """It may change what it is given while it works."""
    busy = [settled.NotExecuted("busy", retryable=True)]

    def send(letter: Letter) -> str:
        """Send a letter."""
        letter.names.append("late")
        if busy:
            raise busy.pop()
        return book.note(f"{letter.to} {letter.names}")

    script = Script([[Call("send_it", {"to": "ann", "names": ["a"]}, "c1")]])
    one = agent(guard(), script, effects={"send": "write"}, output_type=ToolOutput(send, name="send_it"))
    await one.run("mail ann", conversation_id="t1")
    assert book.lines == ["ann ['a', 'late']"]


async def test_what_identifies_an_output_function_s_call_are_the_fields_of_its_model(book, guard):
    """Another letter is another call, one to the same person in other words is known."""

    def send(letter: Letter) -> str:
        """Send a letter."""
        return book.note(letter.to)

    effects = {"send": settled.tool_options(identity=("to",))}
    for to, names in (("ann", ["a"]), ("bob", ["b"]), ("bob", ["b"]), ("bob", ["c"])):
        script = Script([[Call("send_it", {"to": to, "names": names}, f"c-{n}")] for n in range(2)])
        one = agent(guard(), script, effects=effects, output_type=ToolOutput(send, name="send_it"))
        await one.run("mail them", conversation_id="t1")
    assert book.lines == ["ann", "bob"]


async def test_an_output_function_that_no_effect_names_is_left_alone(book, guard):
    one = agent(guard(), Script([FINAL]), effects={}, output_type=final(book))
    assert (await one.run("mail ann", conversation_id="t1")).output == "sent to ann"
    two = agent(guard(), Script([FINAL]), effects={}, output_type=final(book))
    assert (await two.run("mail ann", conversation_id="t1")).output == "sent to ann"
    assert book.lines == ["ann", "ann"]


class Done(BaseModel):
    count: int


async def test_turns_that_end_in_an_output_tool_are_turns_each(book, guard):
    kept = []
    for at in range(3):
        script = Script([[mail("ann", f"c{at}")], [Call("final_result", {"count": 1}, f"f{at}")]])
        one = agent(guard(), script, [book.mailer()], output_type=Done)
        said = await one.run("mail ann", conversation_id="t1", message_history=kept)
        kept = ModelMessagesTypeAdapter.validate_json(said.all_messages_json())
        assert book.lines == ["ann"] * (at + 1)


# --- agents that ask others --------------------------------------------------------------------------


class Once(Script):
    """Mails to whom it is told, and is done once that is answered."""

    def __init__(self, *, down=False):
        super().__init__([])
        self.down = down

    def reply(self, history):
        self.shown.append(history)
        if not isinstance(history[-1], Answer):
            return [mail(history[-1], f"i{len(self.shown)}")]
        if self.down:
            raise ModelDown
        return "done"


def asking(guard, book, inner):
    async def ask(ctx: RunContext[None], what: str) -> str:
        """Ask another agent."""
        other = agent(guard, inner, [book.mailer()])
        return (await other.run(what, usage=ctx.usage, conversation_id=ctx.conversation_id)).output

    return ask


@pytest.mark.parametrize("effect", ["write", "read"])
async def test_what_an_agent_did_within_a_tool_is_known_when_it_is_asked_anew(book, guard, effect):
    for at in range(2):
        made = guard()
        script = Script([[Call("ask", {"what": "ann"}, f"c{at}")], "done"])
        asks = asking(made, book, Once(down=not at))
        options = settled.tool_options(effect=effect, breaker=None)  # on a slow machine what it has learnt is shared
        await agent(made, script, [asks], {"ask": options}).run("ask", conversation_id="t1")
    assert book.lines == ["ann"]
    if effect == "read":
        assert script.answer("c1") == "done"
    else:
        assert json.loads(script.answer("c1"))["status"] == "unknown"


@pytest.mark.parametrize("guarded", [True, False])
async def test_agents_that_are_asked_side_by_side_take_nothing_from_each_other(book, guard, guarded):
    """Also where the tools that ask them are no guard's: then they share the conversation alone."""
    made, names = guard(), ["ann", "bob", "cid", "dan"]
    script = Script([[Call("ask", {"what": name}, name) for name in names], "done"])
    one = agent(made, script, [asking(made, book, Once())], {"ask": "read"})
    if not guarded:
        one = Agent(one.model, tools=[asking(made, book, Once())])
    await one.run("ask all", conversation_id="t1")
    assert sorted(book.lines) == names
    assert [script.answer(name) for name in names] == ["done"] * 4


def refusing(one, times):
    """Let the agent's validator refuse what the function has made."""
    refusals = ["say it nicer"] * times

    def judged(said: str) -> str:
        if refusals:
            raise ModelRetry(refusals.pop())
        return said

    one.output_validator(judged)
    return one


@pytest.mark.parametrize("times", [1, 9])
@pytest.mark.parametrize("given", [{"to": "ann"}, {"to": "ann", "text": "dear ann"}])
async def test_an_output_that_is_refused_after_it_was_made_is_not_made_again(book, guard, times, given):
    """The validator's words do not tell that it is done; and the framework wants an output in any case."""
    script = Script([FINAL, *([Call("send_it", given, f"again {at}")] for at in range(3))])
    one = refusing(agent(guard(), script, output_type=final(book), retries=3), times)
    with pytest.raises(UnexpectedModelBehavior):
        await one.run("mail ann", conversation_id="t1")
    assert "say it nicer" in script.answer("c1")
    assert '"succeeded"' in script.answer("c1")
    assert book.lines == ["ann"]


async def test_a_harmless_output_that_is_refused_is_made_again(book, guard):
    script = Script([FINAL, [Call("send_it", {"to": "ann"}, "c2")]])
    one = agent(guard(), script, effects={"send_mail": "idempotent"}, output_type=final(book), retries=3)
    assert (await refusing(one, 1).run("mail ann", conversation_id="t1")).output == "sent to ann"
    assert book.lines == ["ann", "ann"]


async def test_another_output_after_a_refusal_is_told_once_of_what_was_made(book, guard):
    script = Script([FINAL, *([Call("send_it", {"to": "bob"}, f"again {at}")] for at in range(2))])
    one = refusing(agent(guard(), script, output_type=final(book), retries=5), 1)
    assert (await one.run("mail ann", conversation_id="t1")).output == "sent to bob"
    assert '"earlier_calls"' in script.answer("again 0")
    assert book.lines == ["ann", "bob"]


async def test_an_output_function_that_asks_again_by_itself_has_done_nothing(book, guard):
    asks = [ModelRetry("to whom?")]

    def send_mail(to: str, text: str = "hi") -> str:
        """Send a mail."""
        if asks:
            raise asks.pop()
        return book.note(to)

    script = Script([FINAL, [Call("send_it", {"to": "ann"}, "c2")]])
    one = refusing(agent(guard(), script, output_type=ToolOutput(send_mail, name="send_it"), retries=3), 0)
    assert (await one.run("mail ann", conversation_id="t1")).output == "sent to ann"
    assert script.answer("c1").startswith("to whom?")
    assert book.lines == ["ann"]
