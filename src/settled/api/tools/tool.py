"""Tools: a function, its schema, and how it is to be called."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from settled.api.calls.bound import BoundCall, CallOptions, PendingCall
from settled.api.tools.checked import Checked
from settled.api.tools.drafted import check_drafting
from settled.api.tools.giving_way import chain_of, check_fallback
from settled.api.tools.options import Options, read_options
from settled.api.tools.schema import Schema
from settled.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping
    from typing import Unpack

    from settled.api.calls.result import Result
    from settled.api.guard import Guard
    from settled.api.tools.options import ToolOptions
    from settled.core.call import Call

P = ParamSpec("P")
T = TypeVar("T")


class Tool(Generic[P, T]):
    """A guarded function. Made by ``@guard.tool`` or ``@settled.tool`` + ``guard.add``.

    A model is shown its ``name``, its ``__doc__`` and its ``json_schema()``. ``function`` is what was declared; a test
    puts a fake there, before the first call.
    """

    is_async = False
    needs_loop = False
    """Its calls are made in an event loop, whoever asks for them."""
    foreign = False
    """It is a framework's: only an agent that has it makes its calls."""
    unseen = False
    """It is a framework's, which has not told of it yet."""

    def __init__(self, function: Callable[P, Any], options: Options, schema: Schema | None = None) -> None:
        self.function = function
        self.name = options.name or getattr(function, "__name__", "") or type(function).__name__
        self.schema = schema or Schema(function, self.name)
        self.checked = Checked(options, self.schema, is_async=self.is_async)
        self.fallbacks = chain_of(options.fallback)
        check_fallback(self, self.fallbacks)
        check_drafting(self)
        self.drafted = options.draft is not None
        """A draft is made first, and confirmed by the call itself."""
        self.follows = bool(self.fallbacks) or self.checked.batch is not None or self.drafted
        """Something may have to be done after a call: in its place, or with what it has left."""
        self.guard: Guard | None = None
        self.parts: tuple[Any, ...] = ()
        """What the bindings of all its calls have in common, once the first was made."""
        self.bare: Callable[[Call | None], Any] | None = None
        """Runs it, once the first binding was made, where it takes nothing and nothing is done around it."""
        functools.update_wrapper(self, function, updated=())  # type: ignore[arg-type]  # it takes any callable

    @property
    def attached(self) -> Guard:
        """The guard that this tool belongs to. Raises ``DeclarationError`` if there is none."""
        if self.guard is None:
            raise DeclarationError(f"{self.name} belongs to no guard yet: write guard.add({self.name})")
        return self.guard

    @property
    def required(self) -> tuple[str, ...]:
        """Names of the parameters without a default."""
        return tuple(name for name in self.schema.parameters if name not in self.schema.defaults)

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON schema of the arguments, to be shown to a model."""
        return self.schema.json_schema()

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> BoundCall[T]:
        """Return the call without making it."""
        return BoundCall(self, args, kwargs)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Result[T]:
        """Make the call; return its ``Result``. Does not raise for what the tool did.

        Raises ``JournalError`` if the journal cannot be used: then nothing was executed.
        """
        return BoundCall(self, args, kwargs).call()

    async def acall(self, *args: P.args, **kwargs: P.kwargs) -> Result[T]:
        """Make the call from async code; a sync tool runs in a thread, never on the loop."""
        return await BoundCall(self, args, kwargs).acall()

    def options(
        self,
        *,
        step: str | None = None,
        key: str | None = None,
        despite: str | Iterable[str] = (),
        wait: float = 5.0,
        within: float | None = None,
    ) -> WithOptions[P, T]:
        """Give one call what belongs to it and not to the tool.

        ``step``: a name for the call that stays the same when it is made again. ``key``: a business key.
        ``despite``: operation ids of calls in doubt that this one is not a repeat of. ``wait``: seconds to
        wait for another owner's answer or for proof. ``within``: seconds for the whole call.
        """
        if key is not None and not key:
            raise DeclarationError(f"{self.name}: an empty key would make all such calls the same one")
        if not wait >= 0 or not (within is None or within >= 0):  # so that NaN is refused too
            raise DeclarationError(f"{self.name}: wait and within are seconds from 0 on")
        ids = frozenset({despite} if isinstance(despite, str) else despite)
        return WithOptions(self, CallOptions(step=step, key=key, despite=ids, wait=wait, within=within))

    def __repr__(self) -> str:
        return f"<tool {self.name}: {self.checked.effect}>"


class SyncTool(Tool[P, T]):
    """A guarded ``def``."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Make the call; return its value, or raise the ``CallError`` that says why not."""
        return (self.guard or self.attached).value_of(BoundCall(self, args, kwargs))


class AsyncTool(Tool[P, T]):
    """A guarded ``async def``."""

    is_async = True
    needs_loop = True

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> PendingCall[T]:
        """Return the call; awaiting it makes it and gives its value, or raises why not."""
        return PendingCall(BoundCall(self, args, kwargs))


class WithOptions(Generic[P, T]):
    """A tool with the options of one call."""

    def __init__(self, tool: Tool[P, T], options: CallOptions) -> None:
        self._tool, self._options = tool, options

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> BoundCall[T]:
        """Return the call without making it."""
        return BoundCall(self._tool, args, kwargs, self._options)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Result[T]:
        """Make the call; return its ``Result``."""
        return self.bind(*args, **kwargs).call()

    async def acall(self, *args: P.args, **kwargs: P.kwargs) -> Result[T]:
        """Make the call from async code; return its ``Result``."""
        return await self.bind(*args, **kwargs).acall()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T | PendingCall[T]:
        """Make the call and return its value; for an async tool return what is to be awaited."""
        bound = self.bind(*args, **kwargs)
        return PendingCall(bound) if self._tool.is_async else bound()


def declare(function: Callable[P, Any], given: dict[str, Any]) -> SyncTool[P, Any] | AsyncTool[P, Any]:
    """Make a tool of a function. Raises ``DeclarationError``."""
    if isinstance(function, Tool):
        raise DeclarationError(f"{function.name} is a tool already")
    if not callable(function):
        raise DeclarationError(f"a tool is made of a function, not of {function!r}")
    if inspect.isgeneratorfunction(inspect.unwrap(function)) or inspect.isasyncgenfunction(inspect.unwrap(function)):
        raise DeclarationError(f"{function!r} is a generator: a tool returns its whole result at once")
    options = read_options(given)
    return AsyncTool(function, options) if is_async(function) else SyncTool(function, options)


def is_async(function: object) -> bool:
    """Whether calling it gives a coroutine: so of a wrapper that is async, or plain around an async function."""
    inner = inspect.unwrap(function) if callable(function) else function
    return any(inspect.iscoroutinefunction(each) for each in (function, inner, type(function).__call__))


def by_model(tool: Tool[Any, T], arguments: Mapping[str, Any], step: str | None) -> BoundCall[T]:
    """Return the call that a model asks for; siblings share the part of the step before its last slash."""
    message = step.rpartition("/")[0] if step else ""
    place = f"{message}\x1f{step}" if message else ""
    return BoundCall(tool, (), arguments, CallOptions(step=step, by_model=True, message=message, sibling=place))


@overload
def tool(  # type: ignore[overload-overlap]  # a coroutine function is the narrower case
    function: Callable[P, Coroutine[Any, Any, T]], /
) -> AsyncTool[P, T]: ...
@overload
def tool(function: Callable[P, T], /) -> SyncTool[P, T]: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Declare: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Declare a tool away from its guard; attach it with ``guard.add``. Options as for ``guard.tool``."""

    def make(function: Callable[..., Any]) -> Any:
        return declare(function, options)

    return make if function is None else make(function)


if TYPE_CHECKING:

    class Declare:
        """The type of ``guard.tool(…)``: an async function becomes an async tool."""

        @overload
        def __call__(  # type: ignore[overload-overlap]  # a coroutine function is the narrower case
            self, function: Callable[P, Coroutine[Any, Any, T]], /
        ) -> AsyncTool[P, T]: ...
        @overload
        def __call__(self, function: Callable[P, T], /) -> SyncTool[P, T]: ...
        def __call__(self, function: Any, /) -> Any:
            """Make a tool of a function."""
