"""Tools of the OpenAI Agents SDK that are no functions and are run here: shells, editors of patches, custom tools.

What runs at the provider is not seen. A computer's clicks come without a sign of whose they are, and are left alone.
"""

from __future__ import annotations

import copy
import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agents import (
    ApplyPatchResult,
    ApplyPatchTool,
    CustomTool,
    LocalShellTool,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellResult,
    ShellTool,
)

from settled.adapters import neutral
from settled.api.tools.foreign import Shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from settled.adapters.openai_turns import Turns
    from settled.api.runs.conversation import Asked

_PATCH = "apply_patch_call"


class Local:
    """Makes the calls of these tools."""

    def __init__(self, adapter: neutral.Adapter, turns: Turns) -> None:
        self._adapter, self.turns = adapter, turns

    def guarded(self, tool: Any) -> Any:
        """Return a copy whose calls are guarded; the tool itself if it is none of these."""
        new = copy.copy(tool)
        if isinstance(tool, CustomTool):
            new.on_invoke_tool = self._custom(tool)
        elif isinstance(tool, LocalShellTool):
            new.executor = self._old_shell(tool)
        elif isinstance(tool, ShellTool) and tool.executor is not None:
            new.executor = self._shell(tool)
        elif isinstance(tool, ApplyPatchTool):
            new.editor = _Editor(self, tool)
        else:
            return tool
        return new

    def _custom(self, tool: CustomTool) -> Any:
        async def on_invoke_tool(context: Any, text: str) -> Any:
            def invoke(given: dict[str, Any]) -> Any:
                return tool.on_invoke_tool(context, given["input"])

            asked = self.turns.asked(context, context.tool_call_id)
            return await self.made(tool.name, {"input": text}, asked, invoke, tool.on_invoke_tool)

        return on_invoke_tool

    def _shell(self, tool: ShellTool) -> Any:
        run: Any = tool.executor

        async def executor(request: Any) -> Any:
            data, action = request.data, request.data.action

            def invoke(given: dict[str, Any]) -> Any:
                return run(replace(request, data=replace(data, action=replace(action, **given))))

            asked = self.turns.asked(request.ctx_wrapper, data.call_id)
            return await self.made(tool.name, _given(vars(action)), asked, invoke, run, failed=_no_shell)

        return executor

    def _old_shell(self, tool: LocalShellTool) -> Any:
        run: Any = tool.executor

        async def executor(request: Any) -> Any:
            data = request.data

            def invoke(given: dict[str, Any]) -> Any:
                action = data.action.model_copy(update=given)
                return run(replace(request, data=data.model_copy(update={"action": action})))

            asked = self.turns.asked(request.ctx_wrapper, data.call_id)
            return await self.made(tool.name, _given(data.action.model_dump(exclude={"type"})), asked, invoke, run)

        return executor

    async def made(
        self,
        name: str,
        arguments: dict[str, Any],
        asked: Asked,
        invoke: Callable[[dict[str, Any]], Any],
        function: Callable[..., Any],
        *,
        failed: Callable[[str], Any] = str,
    ) -> Any:
        """Make the call; return its value, or what the model should know, in the form that ``failed`` gives it.

        ``function``: what the call leads to.
        """
        threaded = not inspect.iscoroutinefunction(function)  # then it may go on when nobody waits for it any more

        async def finished(given: dict[str, Any]) -> Any:
            value = invoke(given)
            if not inspect.isawaitable(value):
                return value
            return await (neutral.to_its_end(value) if threaded else value)

        shape = lambda: Shape({"type": "object"}, threaded)  # noqa: E731 - looked at once
        result = await self._adapter.acall(name, arguments, asked, finished, shape)
        if neutral.stands(result):
            return result.value
        return result.for_model() if result.ok else failed(result.for_model())


class _Editor:
    """An editor whose changes are guarded, one by one: a call of the model may ask for several."""

    def __init__(self, local: Local, tool: ApplyPatchTool) -> None:
        self._local, self._tool = local, tool

    async def create_file(self, operation: Any) -> Any:
        """Create a file."""
        return await self._change(self._tool.editor.create_file, operation)

    async def update_file(self, operation: Any) -> Any:
        """Change a file."""
        return await self._change(self._tool.editor.update_file, operation)

    async def delete_file(self, operation: Any) -> Any:
        """Delete a file."""
        return await self._change(self._tool.editor.delete_file, operation)

    async def _change(self, change: Callable[[Any], Any], operation: Any) -> Any:
        def invoke(given: dict[str, Any]) -> Any:
            return change(replace(operation, **given))

        context, names = operation.ctx_wrapper, ("type", "path", "diff", "move_to")
        arguments = _given({each: getattr(operation, each, None) for each in names})
        asked = self._local.turns.asked(context, _patch_at_work(context), several=True)
        return await self._local.made(self._tool.name, arguments, asked, invoke, change, failed=_no_patch)


def _no_shell(text: str) -> ShellResult:
    return ShellResult([ShellCommandOutput(stderr=text, outcome=ShellCallOutcome("exit", 1))])


def _no_patch(text: str) -> ApplyPatchResult:
    return ApplyPatchResult("failed", text)


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _patch_at_work(context: Any) -> str:
    """Return the id of the call that a change belongs to, which it does not tell; empty if it may be one of several."""
    known = context._tool_invocations.items()  # noqa: SLF001 - nothing else tells
    at_work = [name for name, each in known if each.invocation_type == _PATCH and each.executed and not each.completed]
    return at_work[0] if len(at_work) == 1 else ""
