"""OpenAI Agents SDK: ``guarded(agent, guard)``, run with ``RunConfig(group_id=…)`` for each task or conversation."""

from __future__ import annotations

import copy
import inspect
import json
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from agents import Agent, FunctionTool, Handoff, ToolOutputFileContent, ToolOutputImage, ToolOutputText
from agents.exceptions import ModelBehaviorError
from agents.tool import set_function_tool_failure_error_function

from settled.adapters import neutral
from settled.adapters.history import said_in, turn_of
from settled.adapters.values import Packer
from settled.api.conversation import Asked, step_of
from settled.api.foreign import Shape, Values
from settled.api.result import Result
from settled.core.faults.mcp import classify_mcp
from settled.errors import DeclarationError

if TYPE_CHECKING:
    from agents.tool_context import TContext, ToolContext

    from settled.api.guard import Guard
    from settled.core.model import Fault

_packer = Packer([ToolOutputFileContent, ToolOutputImage, ToolOutputText], str)  # the model is shown str(result)
_server_errors: ContextVar[list[Any] | None] = ContextVar("settled_server_errors", default=None)


def guarded(agent: Agent[TContext], guard: Guard, effects: neutral.Effects | None = None) -> Agent[TContext]:
    """Return a copy of the agent, and of those that it hands off to, whose tools are guarded.

    ``effects``: name of a tool -> effect or ``settled.tool_options(…)``; what is not named counts as ``write``. Raises
    ``DeclarationError`` for options that cannot work, and for an MCP server that repeats calls by itself.
    """
    values = Values(_packer.pack, _packer.unpack, _failed)
    adapter = neutral.Adapter(guard, effects, values, lambda _: False, "run_config=RunConfig(group_id=…)")
    return _agent(agent, adapter, {})


def _agent(agent: Any, adapter: neutral.Adapter, done: dict[int, tuple[Any, Any]]) -> Any:
    if id(agent) in done:
        return done[id(agent)][1]
    done[id(agent)] = agent, (new := copy.copy(agent))
    new.__class__ = _kind(type(agent), adapter)
    new.tools = [_tool(tool, adapter) for tool in agent.tools]
    new.mcp_servers = [_Server(server) for server in agent.mcp_servers]
    new.handoffs = [_handoff(each, adapter, done) for each in agent.handoffs]
    return new


def _handoff(handoff: Any, adapter: neutral.Adapter, done: dict[int, tuple[Any, Any]]) -> Any:
    if not isinstance(handoff, Handoff):
        return _agent(handoff, adapter, done)

    async def target(*given: Any) -> Any:
        return _agent(await handoff.on_invoke_handoff(*given), adapter, done)

    new = copy.copy(handoff)
    new.on_invoke_handoff = target
    return new


def _kind(kind: type[Any], adapter: neutral.Adapter) -> type[Any]:
    """Return the agent's class with the tools of MCP servers guarded; copies made by ``clone`` are of it too."""

    async def get_mcp_tools(agent: Any, run_context: Any) -> list[Any]:
        return [_tool(tool, adapter, threaded=False) for tool in await kind.get_mcp_tools(agent, run_context)]

    return type(kind.__name__, (kind,), {"get_mcp_tools": get_mcp_tools, "_settled": adapter})


class _Server:
    """An MCP server whose errors are seen as such: the SDK hands them on as text like any other."""

    def __init__(self, server: Any) -> None:
        if getattr(server, "max_retry_attempts", 0):
            raise DeclarationError(f"the MCP server {server.name!r} repeats calls: write max_retry_attempts=0")
        self._server = server

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    async def call_tool(self, *args: Any, **more: Any) -> Any:
        result = await self._server.call_tool(*args, **more)
        failed = getattr(result, "is_error", None) or getattr(result, "isError", None)  # of mcp 2 and 1
        if failed and (errors := _server_errors.get()) is not None:
            errors.append(result.model_dump(mode="json", by_alias=True))
        return result


class _ServerError(Exception):
    """An MCP server has answered with an error."""


def _tool(tool: Any, adapter: neutral.Adapter, *, threaded: bool = True) -> Any:
    if not isinstance(tool, FunctionTool):
        return tool  # it runs elsewhere
    if tool._is_agent_tool:  # noqa: SLF001 - nothing else tells
        if not hasattr(tool._agent_instance, "_settled"):  # noqa: SLF001 - as above
            raise DeclarationError(f"{tool.name} is an agent: write guarded(agent, guard).as_tool(…)")
        return tool  # what it does is done by its own tools
    inner = set_function_tool_failure_error_function(copy.copy(tool), None)
    threaded = threaded and not inspect.iscoroutinefunction(getattr(tool, "__wrapped__", None))
    # A strict schema calls everything required, also what the function has a default for.
    shape = lambda: Shape({**tool.params_json_schema, "required": ()}, threaded)  # noqa: E731 - looked at once

    async def on_invoke_tool(context: ToolContext[Any], raw: str) -> Any:
        arguments = adapter.read(tool.name, raw or "{}", shape)
        if isinstance(arguments, Result):
            return arguments.for_model()

        async def invoke(given: dict[str, Any]) -> Any:
            errors: list[Any] = []
            _server_errors.set(errors)
            made = inner.on_invoke_tool(context, raw if given == arguments else json.dumps(given))
            value = await (neutral.to_its_end(made) if threaded else made)
            if errors:
                raise _ServerError(errors[-1], tool.name)
            return value

        result = await adapter.acall(tool.name, arguments, _identify(context), invoke, shape)
        return result.value if neutral.stands(result) else result.for_model()

    new = copy.copy(tool)
    new.on_invoke_tool = on_invoke_tool
    return new


def _identify(context: Any) -> Asked:
    """Return which call it is. To the SDK an id is one call within a run; it keeps them with the run's state."""
    run = context.run_config.group_id if context.run_config else None
    items = [item for item in context.turn_input if isinstance(item, dict)]
    turn = turn_of(said_in(items))
    answered = {item["call_id"] for item in items if item.get("type") == "function_call_output"}
    known = answered | set(context._tool_invocations) - {context.tool_call_id}  # noqa: SLF001 - no other history
    name, seen = f"{turn}:{context.tool_call_id}", {step_of(f"{turn}:{each}", 0) for each in known}
    return Asked(run or "", turn, name, [step_of(name, 0)], seen=seen)


def _failed(outcome: Any) -> Fault | None:
    if isinstance(outcome, _ServerError):
        return classify_mcp(outcome.args[0], tool=outcome.args[1])
    return neutral.wrong_arguments(str(outcome)) if isinstance(outcome, ModelBehaviorError) else None
