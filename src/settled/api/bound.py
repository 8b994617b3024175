"""A tool with the arguments of one call, not made yet."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from settled.api.result import Result
    from settled.api.tool import Tool
    from settled.core.ask import Ask

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """What belongs to one call and not to its tool."""

    step: str | None = None
    key: str | None = None
    despite: frozenset[str] = frozenset()
    wait: float = 5.0
    """Seconds to wait for another owner's answer, or for a probe to become proof."""
    within: float | None = None
    """Seconds for the whole call."""
    by_model: bool = False
    message: str = ""
    sibling: str = ""


@dataclass(frozen=True, slots=True)
class BoundCall(Generic[T]):
    """Made by ``tool.bind(…)``, and by calling an async tool: awaiting it gives the value or raises."""

    tool: Tool[Any, T]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    options: CallOptions = field(default_factory=CallOptions)

    def call(self) -> Result[T]:
        """Make the call; return its ``Result``. Does not raise for what the tool did."""
        return self.tool.attached.make(self)

    async def acall(self) -> Result[T]:
        """Make the call from async code; a sync tool runs in a thread."""
        return await self.tool.attached.amake(self)

    def __call__(self) -> T:
        """Make the call; return its value or raise."""
        return self.call().unwrap()

    def __await__(self) -> Generator[Any, None, T]:
        """Make the call; return its value or raise."""
        result = yield from self.acall().__await__()
        return result.unwrap()

    def as_sibling(self, message: str, place: int) -> BoundCall[T]:
        """Return the same call as one of several that are made side by side."""
        own = self.options.message or message
        return replace(self, options=replace(self.options, message=own, sibling=f"{own}\x1f{place}"))

    def ask(self) -> Ask | None:
        """Return what would be asked of the journal; ``None`` if nothing would, or the arguments are invalid."""
        return self.tool.attached.ask_of(self)
