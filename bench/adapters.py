"""What an adapter adds to a guarded call: ``python -m bench.adapters FRAMEWORK`` in an environment that has it.

One conversation of ten model messages, each with one call and the history so far, through the adapter's own hook with
a tool that does nothing; beside it the same calls by ``guard.dispatch`` inside ``guard.run``. Both on a journal in
memory, round by round in one process; told is the CPU time of one call: the medians, and the median of the rounds'
own differences.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import settled
from bench import kit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Hooks = tuple[Callable[[str], Any], Callable[[Any], None] | None, Callable[[Any], Awaitable[None]]]
    """What builds the calls of a conversation, and what makes them from plain and from async code."""

CALLS = 10
"""Of one conversation."""
WARM = 20
"""Rounds that are not counted."""
ARGUMENTS = {"to": "ann", "text": "hello"}


class Plain:
    """The guarded call that the adapters are held against."""

    def __init__(self) -> None:
        self.guard = settled.Guard("memory://")

        def here(to: str, text: str) -> str:
            return f"{to} {text}"

        async def there(to: str, text: str) -> str:
            return f"{to} {text}"

        self.guard.tool(effect="write", name="here")(here)
        self.guard.tool(effect="write", name="there", timeout=None)(there)

    def sync(self, run: str) -> float:
        """Make the calls of a conversation from plain code; return when they were done, before the run is left."""
        with self.guard.run(run, turn="t"):
            for no in range(CALLS):
                assert self.guard.dispatch("here", {**ARGUMENTS, "text": str(no)}, step=f"m{no}/0").ok
            return time.process_time()

    async def later(self, run: str, form: Callable[[Any], Any]) -> float:
        """Make them from async code, with arguments in the form that the framework gives them in."""
        given = [form({**ARGUMENTS, "text": str(no)}) for no in range(CALLS)]
        async with self.guard.run(run, turn="t"):
            for no, arguments in enumerate(given):
                assert (await self.guard.adispatch("there", arguments, step=f"m{no}/0")).ok
            return time.process_time()


def langchain() -> Hooks:
    """LangChain and LangGraph: both hooks of ``ToolNode``."""
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langchain_core.tools import StructuredTool
    from langgraph.prebuilt.tool_node import ToolCallRequest

    from settled.adapters.langchain import wrap

    def send(to: str, text: str) -> str:
        """Send."""
        return f"{to} {text}"

    async def asend(to: str, text: str) -> str:
        """Send, from async code."""
        return send(to, text)

    guard = settled.Guard("memory://")
    hooks = wrap(guard, {"send": settled.tool_options(effect="write", timeout=None)})
    tool = StructuredTool.from_function(func=send, coroutine=asend, name="send")

    def build(run: str) -> list[Any]:
        built, messages = [], [HumanMessage("go", id="h")]
        runtime = SimpleNamespace(config={"configurable": {"thread_id": run, "checkpoint_ns": "tools:1"}})
        for no in range(CALLS):
            call = {"name": "send", "args": {**ARGUMENTS, "text": str(no)}, "id": f"c{no}", "type": "tool_call"}
            messages.append(AIMessage("", id=f"m{no}", tool_calls=[call]))
            state: Any = {"messages": list(messages)}
            built.append(ToolCallRequest(tool_call=call, tool=tool, state=state, runtime=runtime))
            messages.append(ToolMessage("ok", tool_call_id=f"c{no}"))
        return built

    ok = ToolMessage("ok", tool_call_id="c")
    here, there = _handlers(tool, ok, build("r")[0])

    def sync(built: list[Any]) -> None:
        for request in built:
            assert hooks["wrap_tool_call"](request, here) is ok

    async def later(built: list[Any]) -> None:
        for request in built:
            assert await hooks["awrap_tool_call"](request, there) is ok

    return build, sync, later


def _handlers(tool: Any, answer: Any, request: Any) -> list[Any]:
    """Return what ``ToolNode`` gives to its hooks; a tool is not entered, as that is LangChain's own work.

    They are its own functions, since the adapter looks at each call through what they hold.
    """
    from langgraph.prebuilt import ToolNode

    taken: list[Any] = []

    async def entered(*_: object) -> Any:
        return answer

    async def take(_: object, handler: object) -> Any:
        taken.append(handler)
        return answer

    node: Any = ToolNode(
        [tool], wrap_tool_call=lambda _, handler: taken.append(handler) or answer, awrap_tool_call=take
    )
    node._execute_tool_sync, node._execute_tool_async = lambda *_: answer, entered  # noqa: SLF001 - as above
    runtime = SimpleNamespace(config={}, state=request.state)
    node._run_one(request.tool_call, "dict", runtime)  # noqa: SLF001 - as above
    asyncio.run(node._arun_one(request.tool_call, "dict", runtime))  # noqa: SLF001 - as above
    return taken


def pydantic_ai() -> Hooks:
    """Pydantic AI: the hook of the capability."""
    from pydantic_ai import RunContext
    from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart, UserPromptPart
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.usage import RunUsage

    from settled.adapters.pydantic_ai import Guarded

    guarded = Guarded(settled.Guard("memory://"), {"send": settled.tool_options(effect="write", timeout=None)})
    definition = ToolDefinition(
        name="send", parameters_json_schema={"type": "object", "properties": {"to": {}, "text": {}}}
    )
    manager: Any = SimpleNamespace(tools={"send": SimpleNamespace(is_async=True)})
    model, usage = TestModel(), RunUsage()

    async def handler(_: object) -> str:
        return "ok"

    def build(run: str) -> list[Any]:
        built, messages = [], [ModelRequest([UserPromptPart("go")])]
        for no in range(CALLS):
            call = ToolCallPart("send", {**ARGUMENTS, "text": str(no)}, f"c{no}")
            messages.append(ModelResponse([call]))
            context: Any = RunContext(
                deps=None,
                model=model,
                usage=usage,
                messages=list(messages),
                conversation_id=run,
                tool_manager=manager,
            )
            built.append((context, call))
            messages.append(ModelRequest([ToolReturnPart("send", "ok", f"c{no}")]))
        return built

    async def later(built: list[Any]) -> None:
        for context, call in built:
            said = await guarded.wrap_tool_execute(
                context, call=call, tool_def=definition, args=call.args, handler=handler
            )
            assert said == "ok"

    return build, None, later


def openai_agents() -> Hooks:
    """OpenAI Agents SDK: the guarded tool itself."""
    from agents import Agent, RunConfig, function_tool
    from agents.tool_context import ToolContext

    from settled.adapters.openai_agents import guarded

    async def send(to: str, text: str) -> str:
        """Send."""
        return f"{to} {text}"

    async def invoked(_: object, __: str) -> str:
        return "ok"

    # An async function's tool, without the SDK's own reading of arguments, which is no part of what is measured.
    bare: Any = function_tool(send)
    invoked.__agents_function_tool_wrapped_callable__ = send  # type: ignore[attr-defined]
    bare.on_invoke_tool._invoke_tool_impl = invoked  # noqa: SLF001 - as above
    options = {"send": settled.tool_options(effect="write", timeout=None)}
    tool: Any = guarded(Agent("a", tools=[bare]), settled.Guard("memory://"), options).tools[0]

    def build(run: str) -> list[Any]:
        known: dict[str, Any] = {}
        built, config = [], RunConfig(group_id=run)
        for no in range(CALLS):
            raw = json.dumps({**ARGUMENTS, "text": str(no)})
            items: Any = [{"role": "user", "content": "go"}]
            context: Any = ToolContext(
                None, tool_name="send", tool_call_id=f"c{no}", tool_arguments=raw, run_config=config, turn_input=items
            )
            context._tool_invocations = known  # noqa: SLF001 - as the SDK does
            built.append((context, raw))
        return built

    done = SimpleNamespace(completed=True)

    async def later(built: list[Any]) -> None:
        for context, raw in built:
            context._tool_invocations[context.tool_call_id] = done  # noqa: SLF001 - as above
            assert await tool.on_invoke_tool(context, raw) == "ok"

    return build, None, later


FRAMEWORKS: dict[str, Callable[[], Any]] = {
    "langchain": langchain,
    "pydantic_ai": pydantic_ai,
    "openai_agents": openai_agents,
}


def spent(work: Callable[[Any], Any], given: Any) -> float:
    """Return the CPU seconds that one call takes. No adapter leaves a run: to leave one is no part of a call."""
    began = time.process_time()
    ended = work(given) or time.process_time()
    return (ended - began) / CALLS


def measured(name: str, rounds: int, plain: Callable[[str], Any], build: Any, through: Callable[[Any], Any]) -> None:
    """Run both, interleaved, and print what the adapter adds."""
    one, other = [], []
    for no in range(rounds + WARM):
        if no % 50 == 0:
            gc.collect()
        built = build(f"a{name}{no}")
        pair = [(one, plain, f"p{name}{no}"), (other, through, built)]
        for taken, work, given in pair if no % 2 else reversed(pair):
            taken.append(spent(work, given))
    one, other = one[WARM:], other[WARM:]
    added = statistics.median(b - a for a, b in zip(one, other, strict=True)) * 1e6
    base, whole = statistics.median(one) * 1e6, statistics.median(other) * 1e6
    print(f"{name:21} guarded call {base:5.0f} us, by the adapter {whole:5.0f} us, added {added:6.1f} us")


def main() -> None:
    """Measure the framework that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("framework", choices=sorted(FRAMEWORKS))
    parser.add_argument("--rounds", type=int, default=400)
    given = parser.parse_args()
    print(kit.machine())
    build, sync, later = FRAMEWORKS[given.framework]()
    plain, together = Plain(), asyncio.new_event_loop().run_until_complete
    if sync is not None:
        measured(f"{given.framework}, sync", given.rounds, plain.sync, build, sync)
    name = f"{given.framework}, async"
    form: Any = json.dumps if given.framework == "openai_agents" else dict
    measured(
        name, given.rounds, lambda run: together(plain.later(run, form)), build, lambda made: together(later(made))
    )


if __name__ == "__main__":
    main()
