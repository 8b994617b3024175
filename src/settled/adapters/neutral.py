"""What all adapters share: a framework's call becomes a guarded call, with its identity and its way back."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from pydantic import BaseModel, ValidationError

from settled.api.current_run import current_run
from settled.api.foreign import ForeignTools, invocation, make_here
from settled.api.making import invalid
from settled.api.schema import numbers, problems
from settled.api.tool import by_model
from settled.core.model import Evidence, Fault, FaultClass
from settled.core.strict_json import InvalidJson, parse_object
from settled.current import current
from settled.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from settled.api.conversation import Asked
    from settled.api.foreign import Shape, Values
    from settled.api.guard import Guard
    from settled.api.options import EffectName, ToolOptions
    from settled.api.result import Result
    from settled.api.run import Run

    Effects = Mapping[str, EffectName | ToolOptions]

MOST_LOOKED_AT = 200
"""Closures that are looked through for what stands inside of a chain."""
MOST_ENTRIES = 100
"""Times that a turn is entered anew for one call, while others of its conversation are worked on beside it."""
_NOWHERE: dict[str, Any] = {}
CONTROL = Fault(FaultClass.CANCELLED, Evidence.NONE, "control_flow", "the framework took over before it was done")
"""An exception by which the framework directs itself (an approval, an interrupt): no failure, and never repeated."""


def returned_error(code: str, message: str) -> Fault:
    """Return the fault of an answer that is marked as an error: it does not tell whether anything was done."""
    return Fault(FaultClass.UNKNOWN, Evidence.MAYBE, code, message, uncertain=True)


def wrong_arguments(message: str) -> Fault:
    """Return the fault of arguments that the framework refused before the tool was entered."""
    return Fault(FaultClass.INVALID, Evidence.NONE, "invalid_arguments", message)


class Directed(Struct, eq=False):
    """Keeps the exception by which the framework directs itself, to be raised again outside of the call."""

    invoke: Callable[[dict[str, Any]], Any]
    control: Callable[[BaseException], bool]
    raised: BaseException | None = None

    def __call__(self, arguments: dict[str, Any]) -> Any:
        """Invoke the framework's tool."""
        try:
            return self.invoke(arguments)
        except BaseException as error:
            self._keep(error)
            raise

    async def later(self, arguments: dict[str, Any]) -> Any:
        """Invoke the framework's tool, where that gives an awaitable."""
        try:
            return await self.invoke(arguments)
        except BaseException as error:
            self._keep(error)
            raise

    def _keep(self, error: BaseException) -> None:
        self.raised = error if self.control(error) else None


class Adapter:
    """The guarded calls of one framework.

    Args:
        guard: that makes them.
        effects: as for ``ForeignTools``.
        values: what the framework's tools give.
        control: which exceptions the framework directs itself by.
        line: to be written for a call that belongs to no run.
    """

    def __init__(
        self,
        guard: Guard,
        effects: Effects | None,
        values: Values,
        control: Callable[[BaseException], bool],
        line: str,
    ) -> None:
        self.guard, self._control, self._line = guard, control, line
        self.tools = ForeignTools(guard, effects, values)

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        asked: Asked,
        invoke: Callable[[dict[str, Any]], Any],
        shape: Callable[[], Shape] | None = None,
    ) -> Result[Any]:
        """Make the call. Raises ``JournalError``, and what the framework directs itself by."""
        guard, tool, own = self.guard, self.tools.of(name, shape), self._own_run(asked)
        for tries_left in range(MOST_ENTRIES, -1, -1):
            run, step = own, ""
            if run is None and asked.run:
                run, step = guard.conversations.enter(asked, self.tools.of)
            bound = by_model(tool, arguments, step or _step(run, asked))
            directed = Directed(invoke, self._control)
            invoking, running = invocation.set(directed), current_run.set(run or current_run.get())
            try:
                result = make_here(guard, bound)
            finally:
                invocation.reset(invoking)
                current_run.reset(running)
            if result.ok or not tries_left or not self._passed_by(asked, None if own else run, result):
                break
        return self._told(asked, step, result, directed)

    async def acall(
        self,
        name: str,
        arguments: Mapping[str, Any],
        asked: Asked,
        invoke: Callable[[dict[str, Any]], Awaitable[Any]],
        shape: Callable[[], Shape] | None = None,
    ) -> Result[Any]:
        """Like ``call``, from async code."""
        guard, tool, own = self.guard, self.tools.of(name, shape), self._own_run(asked)
        for tries_left in range(MOST_ENTRIES, -1, -1):
            run, step = own, ""
            if run is None and asked.run:
                run, step = await guard.conversations.aenter(asked, self.tools.of)
            bound = by_model(tool, arguments, step or _step(run, asked))
            directed = Directed(invoke, self._control)
            invoking, running = invocation.set(directed.later), current_run.set(run or current_run.get())
            try:
                result = await guard.amake(bound)
            finally:
                invocation.reset(invoking)
                current_run.reset(running)
            if result.ok or not tries_left or not self._passed_by(asked, None if own else run, result):
                break
        return self._told(asked, step, result, directed)

    def _passed_by(self, asked: Asked, run: Run | None, result: Result[Any]) -> bool:
        """Whether nothing was tried since another turn was entered meanwhile, in this process: agents side by side."""
        if run is None or result.reason != "superseded":
            return False
        return self.guard.conversations.passed_by(asked, run)

    def _told(self, asked: Asked, step: str, result: Result[Any], directed: Directed) -> Result[Any]:
        if step:
            self.guard.conversations.told(asked, step)
        if directed.raised is not None and not result.ok:
            raise directed.raised
        return result

    def read(self, name: str, text: str, shape: Callable[[], Shape]) -> dict[str, Any] | Result[Any]:
        """Return the arguments that a model gave as JSON; or the result that says what is wrong with them."""
        try:
            return numbers(parse_object(text))  # type: ignore[no-any-return]  # of an object
        except InvalidJson as error:
            return invalid(self.guard, by_model(self.tools.of(name, shape), {}, None), {"arguments": str(error)})

    def _own_run(self, asked: Asked) -> Run | None:
        """Return this guard's run that the program has entered by itself; warn where there is none of any kind."""
        run = current_run.get()
        if run is not None and run.guard is self.guard:
            return run
        if not asked.run:
            text = "this call belongs to no run: after a crash it is not known again, and may be made twice"
            warnings.warn(f"{text}. Write {self._line}", RuntimeWarning, stacklevel=4)
        return None


def _step(run: Run | None, asked: Asked) -> str | None:
    """Return the step of a call in a run that the caller has entered, or inside another call; none elsewhere."""
    inside = current.get()
    scoped = run is not None or (inside is not None and bool(inside.operation_id))
    return asked.steps[0] if scoped and asked.steps else None


def checked_by(model: Any) -> Callable[[dict[str, Any]], Mapping[str, str]] | None:
    """Return what checks arguments by a pydantic model; ``None`` where it is something else."""
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return None

    validate = model.__pydantic_validator__.validate_python  # as ``model_validate`` does

    def check(arguments: dict[str, Any]) -> Mapping[str, str]:
        try:
            validate(arguments)
        except ValidationError as error:
            return problems(error)
        return {}

    return check


def stands(result: Result[Any]) -> bool:
    """Whether the framework is given the value itself: done in these very words, and kept."""
    return result.ok and result.value_available and not result.reworded


async def to_its_end(work: Awaitable[Any]) -> Any:
    """Await what may go on in a thread: a time-out ends the waiting for it, not the work, and its answer counts."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    return task.result()


def refuse_inside(names: tuple[str, ...], handler: object, enters: str = "") -> None:
    """Look at each call: agents share a guard, and only the chain of a call tells what stands in it.

    ``enters``: the framework's module whose functions enter the tool itself, with nothing between.
    Raises ``DeclarationError`` where one of ``names`` stands inside.
    """
    if enters and getattr(handler, "__globals__", _NOWHERE).get("__name__") == enters:
        return
    for name in inner(handler, names):
        raise DeclarationError(f"{name} stands after Guarded: write middleware=[…, {name}(…), Guarded(guard)]")


def inner(function: object, names: Sequence[str]) -> list[str]:
    """Return those of ``names`` whose methods a chain of closures leads to: classes of what stands inside of it."""
    found: list[str] = []
    todo, met = [function], {id(function)}
    for each in todo:  # it grows while it is walked
        if (owner := getattr(each, "__self__", None)) is not None:
            found += [name for name in names if any(base.__name__ == name for base in type(owner).__mro__)]
        if (wrapped := getattr(each, "__wrapped__", None)) is not None and id(wrapped) not in met:
            met.add(id(wrapped))
            todo.append(wrapped)
        for cell in getattr(each, "__closure__", None) or ():
            try:
                inside = cell.cell_contents
            except ValueError:  # it was not filled yet
                continue
            if callable(inside) and id(inside) not in met and len(met) < MOST_LOOKED_AT:
                met.add(id(inside))
                todo.append(inside)
    return found
