"""A scripted conversation of a Pydantic AI agent."""

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import FunctionModel

from settled.adapters.pydantic_ai import Guarded
from tests.adapters.script import Answer, Call


def neutral(messages):
    found = []
    for message in messages:
        if isinstance(message, ModelResponse):
            calls = [
                Call(p.tool_name, p.args_as_dict(), p.tool_call_id)
                for p in message.parts
                if isinstance(p, ToolCallPart)
            ]
            found.append(calls or "".join(p.content for p in message.parts if isinstance(p, TextPart)))
            continue
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                text = part.content if isinstance(part.content, str) else part.model_response_str()
                found.append(Answer(part.tool_call_id, text))
            elif isinstance(part, UserPromptPart):
                found.append(str(part.content))
            elif getattr(part, "tool_call_id", None) and part.part_kind == "retry-prompt":
                found.append(Answer(part.tool_call_id, part.model_response()))
    return found


class Chat:
    """A conversation whose history is stored after each step, as an application does that wants to go on."""

    def __init__(self, home, tools, script, *, guard, effects, **more):
        self.home, self.guard, self.script = home / "history.json", guard, script
        capabilities = [Guarded(guard, effects)] if guard else []
        self.agent = Agent(FunctionModel(self._reply), tools=tools, capabilities=capabilities, **more)

    def _reply(self, messages, info):
        said = self.script.reply(neutral(messages))
        if isinstance(said, str):
            return ModelResponse(parts=[TextPart(said)])
        return ModelResponse(parts=[ToolCallPart(call.tool, call.arguments, call.id) for call in said])

    def forget(self):
        self.home.unlink(missing_ok=True)

    def keep(self, texts):
        """The store holds what was said by the user and the model in turn, and nothing else."""
        said = [
            ModelResponse(parts=[TextPart(text)]) if at % 2 else ModelRequest(parts=[UserPromptPart(text)])
            for at, text in enumerate(texts)
            if text
        ]
        self.home.write_bytes(ModelMessagesTypeAdapter.dump_json(said))

    def stored(self):
        return ModelMessagesTypeAdapter.validate_json(self.home.read_bytes()) if self.home.exists() else []

    async def say(self, text, **more):
        return await self._go(text, **more)

    async def say_in_window(self, text, before):
        """Say it after these messages alone; return all that there are then."""
        return (await self.agent.run(text, message_history=before, conversation_id="t1")).all_messages()

    async def go_on(self, **more):
        return await self._go(None, **more)

    async def start_again(self, text):
        """What an application does when its process comes up again."""
        last = self.stored()[-1:]
        waits = any(isinstance(part, ToolCallPart) for message in last for part in message.parts)
        return await (self.go_on() if waits else self.say(text))

    async def _go(self, text, **more):
        before = self.stored()
        async with self.agent.iter(text, message_history=before, conversation_id="t1", **more) as run:
            async for _ in run:
                kept = [m for m in run.all_messages() if m.parts]
                if isinstance(kept[-1] if kept else None, ModelResponse):
                    self.home.write_bytes(ModelMessagesTypeAdapter.dump_json(kept))
        self.home.write_bytes(run.result.all_messages_json())
        return run.result
