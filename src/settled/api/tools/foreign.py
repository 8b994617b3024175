"""Tools of an agent framework: how they take arguments is the framework's, how their calls settle is declared here."""

from __future__ import annotations

import copy
import threading
import warnings
from contextvars import ContextVar
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from settled.api.tools.checked import Checked, Look, looking
from settled.api.tools.options import read_options
from settled.api.tools.schema import Arguments, BadArguments, Schema, is_fixed, plain
from settled.api.tools.taken import BySchema
from settled.api.tools.tool import AsyncTool
from settled.core.encoding import codec
from settled.core.faults import look
from settled.errors import DeclarationError, NotExecuted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from settled.api.calls.result import Result
    from settled.api.guard import Guard
    from settled.api.tools.options import EffectName, Options, ToolOptions
    from settled.api.tools.taken import ByModel, Read
    from settled.api.tools.tool import Tool
    from settled.core.model import Fault


class Invocation(Struct, eq=False):
    """How the framework's own tool is invoked for one call; what the framework directs itself by passes through."""

    tool: Any
    """A ``ForeignTool``, or one of the guard's own of the same name."""
    invoke: Callable[[dict[str, Any]], Any]
    control: Callable[[BaseException], bool]
    shape: Callable[[], Shape] | None = None
    """What the framework tells of the tool here."""
    raised: BaseException | None = None
    """What the framework directs itself by, if its tool ended so."""

    def __call__(self, arguments: dict[str, Any]) -> Any:
        """Invoke the framework's tool."""
        try:
            return self.invoke(arguments)
        except BaseException as error:
            self._keep(error)
            raise

    def _keep(self, error: BaseException) -> None:
        self.raised = error if self.control(error) else None

    def result(self, result: Result[Any]) -> Result[Any]:
        """Return the call's result; or raise what the framework directs itself by, outside of the call."""
        if self.raised is not None and not result.ok:
            raise self.raised
        return result


class AsyncInvocation(Invocation):
    """The same, where the framework's tool gives an awaitable."""

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        """Invoke the framework's tool."""
        try:
            return await self.invoke(arguments)
        except BaseException as error:
            self._keep(error)
            raise


invocation: ContextVar[Invocation | None] = ContextVar("settled_invocation", default=None)
"""Of the call that is being made here."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a framework tells of one tool."""

    schema: Mapping[str, Any]
    """JSON schema of the arguments, as the model sees it."""
    in_threads: bool = True
    """It may run in a thread that nothing can cancel."""
    read: ByModel | None = None
    """Gives the arguments as the tool takes them, or raises ``BadArguments``. Without it the schema alone tells."""


@dataclass(frozen=True, slots=True)
class Values:
    """What a framework's tools give."""

    pack: Callable[[Any], Any]
    """A result as plain data. Raises ``ValueError`` or ``TypeError`` for one that would not come back the same."""
    unpack: Callable[[Any], Any]
    failed: Callable[[Any], Fault | None]
    """Looks at a returned value or an exception; ``None`` where the framework says nothing of a failure."""


class _AnyName(tuple[str, ...]):
    """The parameters of a tool that was not seen yet: every name may be one."""

    __slots__ = ()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)


class ForeignSchema(Schema):
    """The arguments of a framework's tool, known once the tool was seen, and the plain form of its results."""

    def __init__(self, name: str, values: Values) -> None:
        self.name, self.values = name, values
        self.call_parameters, self.transaction_parameters, self.parameters = (), (), _AnyName()
        self.returns = Any
        self.shape: Shape | None = None
        self.required: frozenset[str] = frozenset()
        self.read_here: Read = self._names_checked
        self.defaults: dict[str, Any] = {}

    def seen(self, shape: Shape) -> ForeignSchema:
        """Return the schema with what the framework tells."""
        known = ForeignSchema(self.name, self.values)
        properties = shape.schema.get("properties") or {}
        closed = properties and not shape.schema.get("additionalProperties")
        known.parameters = tuple(properties) if closed else _AnyName(properties)
        known.required = frozenset(shape.schema.get("required") or ())
        known.read_here = shape.read or known._by_schema(shape)
        known.defaults = {name: part["default"] for name, part in properties.items() if "default" in part}
        if shape.read is not None:
            known.defaults |= shape.read.defaults
        known.shape = shape
        return known

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON schema that the framework shows to a model."""
        return dict(self.shape.schema) if self.shape else {"type": "object"}

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
        """Take the arguments as a model gave them. Raises ``BadArguments``."""
        if args:
            raise BadArguments({"arguments": "give them by name"})
        given = dict(kwargs)
        try:
            taken = self.read_here(given)
        except BadArguments:
            other = self._other_here()
            if other is None:
                raise
            return other.bind((), given)
        # changed on the way in: another agent's tool of the same name may take them in another way
        other = None if taken is given else self._other_here()
        if other is not None:
            return other.bind((), given)
        if is_fixed(taken):
            return Arguments(taken, taken, self.defaults, True)  # noqa: FBT003 - by place: on the path of every call
        taken = copy.deepcopy(taken)
        return Arguments(taken, {name: plain(value) for name, value in taken.items()}, self.defaults)

    def _other_here(self) -> ForeignSchema | None:
        """Return what the agent at work tells of its tool, if that is another one than the first that was seen."""
        here = invocation.get()
        shape = here.shape() if here is not None and here.tool.schema is self and here.shape is not None else None
        if here is None or shape is None or self.shape is None or shape.schema == self.shape.schema:
            return None
        here.tool.see(shape)
        other: ForeignSchema = here.tool.schema
        return other

    def _names_checked(self, given: dict[str, Any]) -> dict[str, Any]:
        if missing := sorted(self.required - given.keys()):
            raise BadArguments(dict.fromkeys(missing, "is missing"))
        return given

    def _by_schema(self, shape: Shape) -> Read:
        by_schema = BySchema(shape.schema)
        return lambda given: by_schema(self._names_checked(given))

    def encode(self, value: object) -> tuple[bytes | None, str]:
        """Return the encoding of a result and a note; ``None`` if it would not come back the same."""
        try:
            return codec.dumps(self.values.pack(value)), ""
        except Exception as error:  # noqa: BLE001 - bookkeeping must never undo an effect
            return None, f"the result was not kept: {look.text(error) or type(error).__name__}"

    def decode(self, data: bytes, note: str = "") -> Any:
        """Return the result that ``encode`` kept. Raises ``ValueError`` if it cannot be made again."""
        del note
        try:
            return self.values.unpack(codec.loads(data))
        except (TypeError, LookupError) as error:
            raise ValueError(f"the record does not fit the framework's types: {type(error).__name__}") from None

    def read_result(self, text: str) -> Any:
        """Return the result that a person gives as JSON."""
        self._result = None
        return super().read_result(text)


class ForeignTool(AsyncTool[..., Any]):
    """A framework's tool under a guard. Made by ``ForeignTools``; sync and async code may both call it."""

    schema: ForeignSchema
    needs_loop, foreign = False, True

    def __init__(self, options: Options, values: Values, *, declared: bool) -> None:
        name = options.name or ""
        self.declared = declared
        super().__init__(self._invoke, replace(options, classify=_reader(options, values)), ForeignSchema(name, values))
        self.__name__ = name
        self.checked, self.unseen = Checked(self.checked.options, self.schema, is_async=False), True

    def see(self, shape: Shape) -> None:
        """Learn what the framework tells of the tool. Raises ``DeclarationError`` where the options do not fit it."""
        schema = self.schema.seen(shape)
        self.checked = Checked(self.checked.options, schema, is_async=not shape.in_threads)
        self.schema, self.parts, self.unseen = schema, (), False

    def _invoke(self, **arguments: Any) -> Any:
        invoke = invocation.get()
        if invoke is None or invoke.tool is not self:  # in another tool's place, to undo something
            raise NotExecuted(f"{self.name} is the framework's: only an agent that has it makes its calls")
        return invoke(arguments)


class _Reader(Look):
    """The framework's own look changes nothing, and needs no copy."""

    def __call__(self, outcome: Any) -> Any:
        return self._look(outcome)


def _reader(options: Options, values: Values) -> Callable[[Any], Fault | None]:
    own = looking(options.classify)
    return _Reader(values.failed if own is None else lambda outcome: own(outcome) or values.failed(outcome))


class ForeignTools:
    """The tools of one framework under one guard.

    Args:
        guard: that makes their calls.
        effects: name of a tool -> its effect, or its options (``settled.tool_options(…)``). What is not named counts
            as an undeclared ``write``.
        values: what the framework's tools give.

    Raises ``DeclarationError`` for options that cannot work, or that differ from those declared for the same name.
    """

    def __init__(self, guard: Guard, effects: Mapping[str, EffectName | ToolOptions] | None, values: Values) -> None:
        self.guard, self._values = guard, values
        self._lock = threading.Lock()
        for name, said in (effects or {}).items():
            given = {"effect": said} if isinstance(said, str) else dict(said)
            self._add(read_options({**given, "name": name}), declared=True)

    def of(self, name: str, shape: Callable[[], Shape] | None = None) -> Tool[Any, Any]:
        """Return the tool of that name; ``shape`` tells what is known of it, and is called once."""
        tool = self.guard.tools.get(name)
        if tool is None:
            with self._lock:
                tool = self.guard.tools.get(name) or self._undeclared(name)
        if tool.unseen and shape is not None and isinstance(tool, ForeignTool):
            tool.see(shape())
        return tool

    def _undeclared(self, name: str) -> ForeignTool:
        """Return a tool of which nothing was said; a name that was said of none, and is nearly this one, is told of."""
        waiting = [n for n, t in self.guard.tools.items() if isinstance(t, ForeignTool) and t.declared and t.unseen]
        for near in get_close_matches(name, waiting, n=1, cutoff=0.8):
            told = f"effects= says nothing of the tool {name!r}, which counts as a write, and names {near!r}, of which "
            warnings.warn(f"{told}no call has come: is {name!r} meant?", stacklevel=2)
        return self._add(read_options({"name": name}), declared=False)

    def _add(self, options: Options, *, declared: bool) -> ForeignTool:
        tool, there = ForeignTool(options, self._values, declared=declared), self.guard.tools.get(options.name or "")
        if isinstance(there, ForeignTool):
            if _same(there, tool):
                return there
            if there.declared:
                raise DeclarationError(f"{tool.name} is declared twice under this guard, with other options")
            del self.guard.tools[tool.name]
        return self.guard.add(tool)


def _same(one: ForeignTool, other: ForeignTool) -> bool:
    plain_options = [replace(tool.checked.options, classify=None) for tool in (one, other)]
    return plain_options[0] == plain_options[1]
