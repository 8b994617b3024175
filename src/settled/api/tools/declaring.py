"""What a guard guards: tools, and models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, overload

from settled.api.opening import refusal
from settled.api.tools.drafted import take_in
from settled.api.tools.models import declare_model
from settled.api.tools.tool import SyncTool, Tool, declare
from settled.api.tools.undoing import pair_up
from settled.core.model import Effect
from settled.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Unpack

    from settled.api.guard import Guard
    from settled.api.tools.models import ModelOptions
    from settled.api.tools.options import ToolOptions
    from settled.api.tools.tool import AsyncTool, Declare
    from settled.api.vault import Vault
    from settled.core.attempts.budget import Pools
    from settled.ports import Journal

P = ParamSpec("P")
T = TypeVar("T")
AnyTool = TypeVar("AnyTool", bound=Tool[Any, Any])


class Declaring:
    """The part of a guard by which functions become its tools and models."""

    journal: Journal
    vault: Vault
    tools: dict[str, Tool[Any, Any]]
    models: dict[str, Tool[Any, Any]]
    _pools: dict[str, Pools]

    @overload
    def tool(  # type: ignore[overload-overlap]  # a coroutine function is the narrower case
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> AsyncTool[P, T]: ...
    @overload
    def tool(self, function: Callable[P, T], /) -> SyncTool[P, T]: ...
    @overload
    def tool(self, /, **options: Unpack[ToolOptions]) -> Declare: ...
    def tool(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Declare a tool: ``@guard.tool(effect="write", …)`` on ``def`` or ``async def``.

        The options and what they mean: ``help(settled.ToolOptions)``. Raises ``DeclarationError``.
        """

        def make(function: Callable[..., Any]) -> Any:
            return self.add(declare(function, options))

        return make if function is None else make(function)

    def add(self, tool: AnyTool) -> AnyTool:
        """Take in a tool that was declared elsewhere with ``settled.tool``. Raises ``DeclarationError``."""
        if not isinstance(tool, Tool):
            raise DeclarationError(f"{tool!r} is no tool: declare it with @settled.tool(effect=…)")
        guard = cast("Guard", self)
        if tool.guard is not None and tool.guard is not guard:
            raise DeclarationError(
                f"{tool.name} belongs to another guard, and a tool has one: to have it in several, declare it "
                "in a function that is given the guard"
            )
        if self.tools.get(tool.name, tool) is not tool or tool.name in self.models:
            raise DeclarationError(f"there is another tool {tool.name!r}: give one of them name=…")
        secret_result = any(path.partition(".")[0] == "result" for path in tool.checked.options.redact)
        if secret_result and not self.vault.encrypts:
            raise DeclarationError(f"{tool.name}: a redacted result needs Guard(encryption_key=…), to be kept at all")
        if tool.checked.effect is Effect.TRANSACTIONAL and not hasattr(self.journal, "together"):
            raise DeclarationError(
                f"{tool.name}: a transactional tool has its rows in the journal's own database, and the journal "
                f"{self.journal.url} has none for them: use one in SQLite or PostgreSQL"
            )
        why = refusal(self.journal, "compensate" if tool.drafted else tool.checked.policy.terms.effect)
        if why:
            raise DeclarationError(f"{tool.name}: {why}")
        known = tool.name in self.tools
        self.tools[tool.name], tool.guard = tool, guard
        try:
            pair_up(guard, tool)
            take_in(guard, tool)
        except DeclarationError:
            if not known:  # what is refused is no tool of this guard's
                del self.tools[tool.name]
                tool.guard = None
            raise
        return tool

    @overload
    def model(  # type: ignore[overload-overlap]  # a coroutine function is the narrower case
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> AsyncTool[P, T]: ...
    @overload
    def model(self, function: Callable[P, T], /) -> SyncTool[P, T]: ...
    @overload
    def model(self, /, **options: Unpack[ModelOptions]) -> Declare: ...
    def model(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Wrap a function that asks a model: ``@guard.model(fallback=smaller)`` on ``def`` or ``async def``.

        Its calls are repeated, turned away and given up as those of a tool that reads; they are never put on record,
        no model can dispatch them, and their retries count in no budget of tools or runs. What the model refuses for
        good, as a context that is too long for it, is not repeated: the fallback is asked.

        The options and what they mean: ``help(settled.ModelOptions)``. Raises ``DeclarationError``.
        """

        def make(function: Callable[..., Any]) -> Any:
            model, pools = declare_model(function, dict(options))
            if model.name in self.tools.keys() | self.models.keys():
                raise DeclarationError(f"there is another {model.name!r} under this guard: give one of them name=…")
            model.guard = cast("Guard", self)
            self.models[model.name], self._pools[model.name] = model, pools
            return model

        return make if function is None else make(function)
