"""OpenAI Agents SDK: ``guarded(agent, guard)``, run with ``RunConfig(group_id=…)`` for each task or conversation."""

from __future__ import annotations

import copy
import inspect
from typing import TYPE_CHECKING, Any

from settled.adapters.extras import needs

with needs("openai-agents"):
    from agents import Agent, FunctionTool, Handoff
    from agents.tool import set_function_tool_failure_error_function

from settled.adapters import neutral
from settled.adapters.openai_answers import VALUES
from settled.adapters.openai_invokers import invoking, marked, model_of, written
from settled.adapters.openai_local import Local
from settled.adapters.openai_names import name_of
from settled.adapters.openai_servers import Server, ServerError, server_errors
from settled.adapters.openai_turns import Turns
from settled.api.calls.result import Result
from settled.api.tools.foreign import Shape
from settled.api.tools.taken import reader
from settled.errors import DeclarationError

if TYPE_CHECKING:
    from agents.tool_context import TContext, ToolContext

    from settled.api.guard import Guard


class _Adapter(neutral.Adapter):
    """The guarded calls of agents that share a guard, and the turns that they are made in."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.turns = Turns()
        self.local = Local(self, self.turns)


def guarded(agent: Agent[TContext], guard: Guard, effects: neutral.Effects | None = None) -> Agent[TContext]:
    """Return a copy of the agent, and of those that it hands off to, whose tools are guarded.

    ``effects``: name of a tool -> effect or ``settled.tool_options(…)``; what is not named counts as ``write``. Raises
    ``DeclarationError`` for options that cannot work, and for an MCP server that repeats calls by itself.
    """
    adapter = _Adapter(guard, effects, VALUES, lambda _: False, "run_config=RunConfig(group_id=…)")
    return _agent(agent, adapter, {})


def _agent(agent: Any, adapter: _Adapter, done: dict[int, tuple[Any, Any]]) -> Any:
    if id(agent) in done:
        return done[id(agent)][1]
    done[id(agent)] = agent, (new := copy.copy(agent))
    new.__class__ = _kind(type(agent), adapter)
    return _fitted(new, adapter, done)


def _fitted(agent: Any, adapter: _Adapter, done: dict[int, tuple[Any, Any]]) -> Any:
    """Guard what the agent has; what is guarded already stays as it is."""
    agent.tools = [_tool(tool, adapter) for tool in agent.tools]
    agent.mcp_servers = [each if isinstance(each, Server) else Server(each) for each in agent.mcp_servers]
    agent.handoffs = [each if _is_guarded(each) else _handoff(each, adapter, done) for each in agent.handoffs]
    return agent


def _is_guarded(part: Any) -> bool:
    return getattr(part, "_settled", None) is not None


def _handoff(handoff: Any, adapter: _Adapter, done: dict[int, tuple[Any, Any]]) -> Any:
    if not isinstance(handoff, Handoff):
        return _agent(handoff, adapter, done)

    async def target(*given: Any) -> Any:
        return _agent(await handoff.on_invoke_handoff(*given), adapter, done)

    new = copy.copy(handoff)
    new.on_invoke_handoff, new._settled = target, adapter  # noqa: SLF001 - of the copy
    return new


def _kind(kind: type[Any], adapter: _Adapter) -> type[Any]:
    """Return the agent's class with the tools of MCP servers guarded, and what its ``clone`` is given."""

    async def get_mcp_tools(agent: Any, run_context: Any) -> list[Any]:
        return [_tool(tool, adapter, threaded=False) for tool in await kind.get_mcp_tools(agent, run_context)]

    def clone(agent: Any, **changes: Any) -> Any:
        return _fitted(kind.clone(agent, **changes), adapter, {})

    return type(kind.__name__, (kind,), {"get_mcp_tools": get_mcp_tools, "clone": clone, "_settled": adapter})


def _tool(tool: Any, adapter: _Adapter, *, threaded: bool = True) -> Any:
    if _is_guarded(tool):
        return tool
    if not isinstance(tool, FunctionTool):
        return marked(adapter.local.guarded(tool), tool, adapter)
    if tool._is_agent_tool:  # noqa: SLF001 - nothing else tells
        if not hasattr(tool._agent_instance, "_settled"):  # noqa: SLF001 - as above
            raise DeclarationError(f"{tool.name} is an agent: write guarded(agent, guard).as_tool(…)")
        return _agent_tool(tool, adapter)
    name, inner = name_of(tool, adapter.guard), set_function_tool_failure_error_function(copy.copy(tool), None)
    threaded = threaded and not inspect.iscoroutinefunction(getattr(tool, "__wrapped__", None))

    def shape() -> Shape:
        read = reader(model_of(tool), checks=False)  # the SDK says what does not fit
        # A strict schema calls everything required, also what the function has a default for.
        return Shape({**tool.params_json_schema, "required": ()}, threaded, read)

    async def on_invoke_tool(context: ToolContext[Any], raw: str) -> Any:
        arguments = adapter.read(name, raw or "{}", shape)
        if isinstance(arguments, Result):
            return arguments.for_model()

        async def invoke(given: dict[str, Any]) -> Any:
            errors: list[Any] = []
            server_errors.set(errors)
            made = inner.on_invoke_tool(context, raw if given == arguments else written(context, given))
            value = await (neutral.to_its_end(made) if threaded else made)
            if errors:
                raise ServerError(errors[-1], name)
            return value

        asked = adapter.turns.asked(context, context.tool_call_id)
        result = await adapter.acall(name, arguments, asked, invoke, shape)
        return result.value if neutral.stands(result) else result.for_model()

    return invoking(tool, on_invoke_tool, adapter)


def _agent_tool(tool: Any, adapter: _Adapter) -> Any:
    """What an agent does as a tool is done by its own tools, in a run within the one that asks it."""

    async def on_invoke_tool(context: ToolContext[Any], raw: str) -> Any:
        with adapter.turns.within(context, raw):
            return await tool.on_invoke_tool(context, raw)

    return invoking(tool, on_invoke_tool, adapter)
