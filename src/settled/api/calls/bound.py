"""A tool with the arguments of one call, not made yet."""

from __future__ import annotations

import warnings
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace as changed

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from settled.api.calls.result import Result
    from settled.api.tools.tool import Tool
    from settled.core.ask import Ask
    from settled.core.attempts.retry import Again

T = TypeVar("T")


class PartOf(Struct, frozen=True):
    """What a call goes on with: items of another one."""

    operation_id: str
    """Of the call whose items they are."""
    key: str
    """Of this call: it follows from that one's record."""
    keys: tuple[str, ...]
    """Of the items."""
    attempts: int
    """That are left of the asker's."""
    again: Again | None
    """How its first attempt is to wait, and what it costs; ``None``: it looks at one item in doubt."""


class DraftOf(Struct, frozen=True):
    """Which call's draft it is."""

    operation_id: str
    no: int
    discard: str
    """The tool that undoes it."""
    kept: float | None
    """Seconds that its record is kept at the least."""


class InsteadOf(Struct, frozen=True):
    """Which call, that did nothing, it is made in the place of."""

    operation_id: str
    no: int
    """Which of that one's fallbacks it is."""
    by_hand: str = ""
    """No program makes it: what was tried before, and how it failed."""
    wanted: str = ""
    """What a person is to do then."""


class CallOptions(Struct, frozen=True, kw_only=True):
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
    undoes: str = ""
    """Operation id of the call that this one undoes: its key follows from that, and it belongs to no run."""
    part: PartOf | None = None
    """It goes on with items of another call."""
    draft: DraftOf | None = None
    """It makes the draft of another call."""
    instead: InsteadOf | None = None
    """It is made in the place of another call."""


ORDINARY = CallOptions()
"""Of a call that has none of its own."""


class BoundCall(Struct, Generic[T], frozen=True, eq=False):
    """Made by ``tool.bind(…)``; awaiting it makes the call and gives the value or raises."""

    tool: Tool[Any, T]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}
    options: CallOptions = ORDINARY

    @property
    def by_hand(self) -> bool:
        """Whether a person does it: then there is nothing to prepare, and nothing follows."""
        return self.options.instead is not None and bool(self.options.instead.by_hand)

    def call(self) -> Result[T]:
        """Make the call; return its ``Result``. Does not raise for what the tool did."""
        return self.tool.attached.make(self)

    async def acall(self) -> Result[T]:
        """Make the call from async code; a sync tool runs in a thread."""
        return await self.tool.attached.amake(self)

    def __call__(self) -> T:
        """Make the call; return its value or raise."""
        return self.tool.attached.value_of(self)

    def __await__(self) -> Generator[Any, None, T]:
        """Make the call; return its value or raise."""
        return self.tool.attached.avalue_of(self).__await__()

    def as_sibling(self, message: str, place: int) -> BoundCall[T]:
        """Return the same call as one of several that are made side by side."""
        own = self.options.message or message
        return changed(self, options=changed(self.options, message=own, sibling=f"{own}\x1f{place}"))

    def ask(self) -> Ask | None:
        """Return what would be asked of the journal; ``None`` if nothing would, or the arguments are invalid."""
        return self.tool.attached.ask_of(self)


class PendingCall(Coroutine[Any, Any, T]):
    """What calling an async tool gives: a coroutine, so ``gather``, ``create_task`` and ``TaskGroup`` take it.

    ``run.gather`` takes it too, and then matches it together with its siblings.
    """

    __slots__ = ("_coroutine", "bound")

    def __init__(self, bound: BoundCall[T]) -> None:
        self.bound = bound
        self._coroutine: Coroutine[Any, Any, T] | None = None

    def _made(self) -> Coroutine[Any, Any, T]:
        if self._coroutine is None:
            self._coroutine = self.bound.tool.attached.avalue_of(self.bound)
        return self._coroutine

    def __await__(self) -> Generator[Any, None, T]:
        """Make the call; return its value or raise."""
        return self._made().__await__()

    def send(self, value: Any) -> Any:
        """Go on, as any coroutine does."""
        return self._made().send(value)

    def throw(self, *error: Any) -> Any:
        """Raise inside, as in any coroutine."""
        return self._made().throw(*error)

    def close(self) -> None:
        """End it, as any coroutine."""
        self._made().close()

    def as_sibling(self, message: str, place: int) -> BoundCall[T]:
        """Return the call as one of several that are made side by side; this object is used up."""
        self.close()
        return self.bound.as_sibling(message, place)

    def __del__(self) -> None:
        """A forgotten ``await`` is told of, as for any coroutine."""
        if self._coroutine is None:
            text = f"the call of {self.bound.tool.name} was never awaited: nothing was done"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
