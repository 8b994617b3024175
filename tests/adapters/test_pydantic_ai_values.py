"""Pydantic AI: arguments as models, what tools answer in the framework's own types, histories that lose the prompt."""

import dataclasses

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, BinaryImage, ToolReturn
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import CachePoint, ImageUrl, TextContent, UserPromptPart
from pydantic_ai.models.function import FunctionModel
from typing_extensions import TypedDict

import settled
from settled.adapters.pydantic_ai import Guarded
from tests.adapters.chat_pydantic_ai import Chat
from tests.adapters.contract import EFFECTS, fails, mail
from tests.adapters.script import Call, ModelDown, Script


@pytest.fixture
def chat(guard, tmp_path):
    def make(tools, replies, *, effects=None, forget=False):
        made = Chat(tmp_path, tools, Script(list(replies)), guard=guard(), effects=effects)
        if forget:
            made.forget()
        return made

    return make


class Letter(BaseModel):
    to: str
    text: str = "hi"


@dataclasses.dataclass
class Card:
    to: str
    text: str = "hi"


class Note(TypedDict):
    to: str


class Letters(BaseModel):
    """Has a field of the same name as the parameter."""

    letter: Letter


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [(Letter, {"to": "ann"}), (Card, {"to": "ann"}), (Note, {"to": "ann"}), (Letters, {"letter": {"to": "ann"}})],
)
async def test_a_tool_of_one_model_takes_its_fields(chat, outbox, kind, arguments):
    """The framework shows the model's own fields: that is what is asked for, recorded and known again."""

    def send_mail(letter: kind) -> str:
        """Send a mail."""
        assert type(letter) is (dict if kind is Note else kind)
        outbox.sent.append("ann")
        return "sent"

    one = chat([send_mail], [[Call("send_mail", arguments, "c1")], ModelDown])
    await fails(one, one.say("mail ann"))
    two = chat([send_mail], [[Call("send_mail", arguments, "c2")], "done"], forget=True)
    await two.say("mail ann")
    assert outbox.sent == ["ann"]
    assert two.script.answer("c2") == "sent"


async def test_what_is_asked_again_in_other_words_is_repeated_in_those_on_record(chat, outbox):
    """Also where the tool takes one model: the record's words are read as the model's own are."""
    outbox.fails = [TimeoutError("no answer")]

    def send_mail(letter: Letter) -> str:
        """Send a mail."""
        return outbox._send(f"{letter.to}: {letter.text}")

    effects = {"send_mail": settled.tool_options(effect="idempotent", identity=("to",), attempts=1)}
    one = chat([send_mail], [[mail("ann", "c1", text="dear")], ModelDown], effects=effects)
    await fails(one, one.say("mail ann"))
    two = chat([send_mail], [[mail("ann", "c2", text="hello")], "done"], effects=effects, forget=True)
    await two.say("mail ann")
    assert outbox.sent == ["ann: dear"]


PICTURE = BinaryImage(b"\x89PNG", media_type="image/png")
CONTENT = [
    PICTURE,
    BinaryContent(b"x", media_type="image/png"),
    ImageUrl("http://127.0.0.1/a.png", identifier="a"),
    TextContent("text", metadata={"n": 1}),
    CachePoint(),
]


@pytest.mark.parametrize("part", CONTENT, ids=lambda part: type(part).__name__)
async def test_what_a_message_may_hold_is_given_again_as_it_was(chat, outbox, part):
    async def draw(what: str) -> ToolReturn:
        """Draw."""
        outbox.sent.append(what)
        return ToolReturn("drawn", content=["look", part])

    one = chat([draw], [[Call("draw", {"what": "a"}, "c1")], ModelDown])
    await fails(one, one.say("draw"))
    two = chat([draw], [[Call("draw", {"what": "a"}, "c2")], "done"], forget=True)
    said = await two.say("draw")
    assert outbox.sent == ["a"]
    assert said.all_messages()[2].parts[1].content == ["look", part]


async def test_a_picture_is_given_again_as_one(chat, outbox):
    async def draw(what: str) -> BinaryImage:
        """Draw."""
        outbox.sent.append(what)
        return PICTURE

    one = chat([draw], [[Call("draw", {"what": "a"}, "c1")], ModelDown])
    await fails(one, one.say("draw"))
    two = chat([draw], [[Call("draw", {"what": "a"}, "c2")], "done"], forget=True)
    said = await two.say("draw")
    assert outbox.sent == ["a"]
    assert said.all_messages()[2].parts[0].content == PICTURE


# --- histories that are cut ------------------------------------------------------------------------


def last_two(messages):
    return messages if len(messages) < 4 else messages[-2:]


async def test_a_turn_whose_prompt_was_dropped_goes_on_in_another_process(chat, tools, outbox):
    """Of what is stored nothing but the framework's own run tells which turn it is."""
    one = chat(tools, [*([mail(to, f"c-{to}")] for to in ("ann", "bob", "cy", "cy")), ModelDown], effects=EFFECTS)
    one.agent = Agent(
        FunctionModel(one._reply),
        tools=tools,
        capabilities=[ProcessHistory(last_two), Guarded(one.guard, EFFECTS)],
    )
    await fails(one, one.say("mail all"))
    assert outbox.sent == ["ann", "bob", "cy"]
    two = chat(tools, ["done"], effects=EFFECTS)
    assert not any(isinstance(part, UserPromptPart) for message in two.stored() for part in message.parts)
    await two.go_on()
    assert outbox.sent == ["ann", "bob", "cy"]


async def test_a_turn_whose_prompt_is_dropped_in_its_middle_stays_that_turn(chat, tools, outbox):
    """And the next turn is a new one, though it is cut as this one was."""
    for name in ("first", "second"):
        asked = [[mail(to, f"{name}-{n}")] for n, to in enumerate(("ann", "bob", "cy", "cy", "ann"))]
        one = chat(tools, [*asked, "done"], effects=EFFECTS)
        capabilities = [ProcessHistory(last_two), Guarded(one.guard, EFFECTS)]
        one.agent = Agent(FunctionModel(one._reply), tools=tools, capabilities=capabilities)
        await one.say(f"mail all, the {name} time")
        assert outbox.sent == ["ann", "bob", "cy"]
        outbox.sent.clear()
