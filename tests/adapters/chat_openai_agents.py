"""A scripted conversation of an agent of the OpenAI Agents SDK."""

import json

from agents import (
    Agent,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    SQLiteSession,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from settled.adapters.openai_agents import guarded
from tests.adapters.script import Answer, Call

set_tracing_disabled(True)


class Scripted(Model):
    def __init__(self, script):
        self.script = script

    async def get_response(self, system_instructions, input, *_, **__):  # noqa: A002 - the SDK's name
        said = self.script.reply(neutral(input))
        return ModelResponse(output=output(said), usage=Usage(), response_id=None)

    def stream_response(self, *_, **__):
        raise NotImplementedError  # the SDK demands it of a model; nothing in these tests streams


def output(said):
    if isinstance(said, str):
        text = ResponseOutputText(text=said, type="output_text", annotations=[])
        return [ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])]
    return [
        ResponseFunctionToolCall(call_id=c.id, name=c.tool, arguments=json.dumps(c.arguments), type="function_call")
        for c in said
    ]


def neutral(items):
    found = []
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
        if item.get("type") == "function_call":
            call = Call(item["name"], json.loads(item["arguments"]), item["call_id"])
            if found and isinstance(found[-1], list):
                found[-1].append(call)
            else:
                found.append([call])
        elif item.get("type") == "function_call_output":
            found.append(
                Answer(item["call_id"], item["output"] if isinstance(item["output"], str) else str(item["output"]))
            )
        else:
            found.append(str(item["content"]))
    return found


class Chat:
    """A conversation over the SDK's own session in a file."""

    def __init__(self, home, tools, script, *, guard, effects, **more):
        self.home, self.guard, self.script = home, guard, script
        own = [tool if hasattr(tool, "on_invoke_tool") else function_tool(tool) for tool in tools]
        agent = Agent("a", tools=own, model=Scripted(self.script), **more)
        self.agent = guarded(agent, guard, effects) if guard else agent
        self.kept = []
        self.config = RunConfig(group_id="t1")

    @property
    def session(self):
        return SQLiteSession("s1", str(self.home / "session.db"))

    def forget(self):
        for path in self.home.glob("session.db*"):
            path.unlink()

    def keep(self, texts):
        """The store holds what was said by the user and the model in turn, and nothing else."""
        self.forget()
        self.kept = [
            output(text)[0].model_dump() if at % 2 else {"role": "user", "content": text}
            for at, text in enumerate(texts)
            if text
        ]

    async def say(self, text):
        session, kept, self.kept = self.session, self.kept, []
        try:
            await session.add_items(kept)
            return await Runner.run(self.agent, text, session=session, run_config=self.config)
        finally:
            session.close()

    async def say_in_window(self, text, before):
        """Say it after these messages alone; return all that there are then."""
        said = [*before, {"role": "user", "content": text}]
        return (await Runner.run(self.agent, said, run_config=self.config)).to_input_list()

    async def start_again(self, text):
        """What an application does when its process comes up again."""
        return await self.say(text)

    async def go_on(self):
        """The SDK has no place to go on from after a failure: its users send the same message again."""
        return await self.say("mail both")
