"""What all adapters share: a framework's call becomes a guarded call, with its identity and its way back."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from typing import TYPE_CHECKING, Any

from settled.api.calls.answering import invalid
from settled.api.runs.current_run import current_run
from settled.api.tools.foreign import AsyncInvocation, ForeignTools, Invocation, invocation
from settled.api.tools.schema import numbers
from settled.api.tools.tool import by_model
from settled.core.encoding.strict_json import InvalidJson, parse_object
from settled.core.instead.chain import CONTROL_FLOW
from settled.core.model import Evidence, Fault, FaultClass
from settled.current import current
from settled.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from settled.api.calls.result import Result
    from settled.api.guard import Guard
    from settled.api.runs.conversation import Asked
    from settled.api.runs.run import Run
    from settled.api.tools.foreign import Shape, Values
    from settled.api.tools.options import EffectName, ToolOptions

    Effects = Mapping[str, EffectName | ToolOptions]

MOST_LOOKED_AT = 200
"""Closures that are looked through for what stands inside of a chain."""
MOST_ENTRIES = 100
"""Times that a turn is entered anew for one call, while others of its conversation are worked on beside it."""
_NOWHERE: dict[str, Any] = {}
CONTROL = Fault(FaultClass.CANCELLED, Evidence.NONE, CONTROL_FLOW, "the framework took over before it was done")
"""An exception by which the framework directs itself (an approval, an interrupt): no failure, and never repeated."""


def returned_error(code: str, message: str) -> Fault:
    """Return the fault of an answer that is marked as an error: it does not tell whether anything was done."""
    return Fault(FaultClass.UNKNOWN, Evidence.MAYBE, code, message, uncertain=True)


def wrong_arguments(message: str) -> Fault:
    """Return the fault of arguments that the framework refused before the tool was entered."""
    return Fault(FaultClass.INVALID, Evidence.NONE, "invalid_arguments", message)


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
        guard, tool, around = self.guard, self.tools.of(name, shape), current_run.get()
        invoking = Invocation(tool, invoke, self._control, shape)
        token, apart = invocation.set(invoking), not asked.run or (around is not None and around.guard is guard)
        try:
            if apart:
                return invoking.result(guard.make(by_model(tool, arguments, self._step(asked, around))))
            for _ in range(MOST_ENTRIES):
                entry, step = guard.conversations.enter(asked, self.tools.of)
                running = current_run.set(entry.run)
                try:
                    result = guard.make(by_model(tool, arguments, step))
                finally:
                    current_run.reset(running)
                if result.reason != "superseded" or not guard.conversations.passed_by(asked, entry):
                    break
        finally:
            invocation.reset(token)
        entry.told.add(step)
        return result if invoking.raised is None else invoking.result(result)

    async def acall(
        self,
        name: str,
        arguments: Mapping[str, Any],
        asked: Asked,
        invoke: Callable[[dict[str, Any]], Awaitable[Any]],
        shape: Callable[[], Shape] | None = None,
    ) -> Result[Any]:
        """Like ``call``, from async code."""
        guard, tool, around = self.guard, self.tools.of(name, shape), current_run.get()
        invoking = AsyncInvocation(tool, invoke, self._control, shape)
        token, apart = invocation.set(invoking), not asked.run or (around is not None and around.guard is guard)
        try:
            if apart:
                return invoking.result(await guard.amake(by_model(tool, arguments, self._step(asked, around))))
            for _ in range(MOST_ENTRIES):
                entry, step = await guard.conversations.aenter(asked, self.tools.of)
                running = current_run.set(entry.run)
                try:
                    result = await guard.amake(by_model(tool, arguments, step))
                finally:
                    current_run.reset(running)
                if result.reason != "superseded" or not guard.conversations.passed_by(asked, entry):
                    break
        finally:
            invocation.reset(token)
        entry.told.add(step)
        return result if invoking.raised is None else invoking.result(result)

    def read(self, name: str, text: str, shape: Callable[[], Shape]) -> dict[str, Any] | Result[Any]:
        """Return the arguments that a model gave as JSON; or the result that says what is wrong with them."""
        try:
            return numbers(parse_object(text))  # type: ignore[no-any-return]  # of an object
        except InvalidJson as error:
            return invalid(self.guard, by_model(self.tools.of(name, shape), {}, None), {"arguments": str(error)})

    def _step(self, asked: Asked, around: Run | None) -> str | None:
        """Return the step of a call in the run that the program has entered by itself, or inside another call.

        Warn where there is no run of any kind.
        """
        own = around is not None and around.guard is self.guard
        if not own:
            text = "this call belongs to no run: after a crash it is not known again, and may be made twice"
            warnings.warn(f"{text}. Write {self._line}", RuntimeWarning, stacklevel=4)
        inside = current.get()
        scoped = own or (inside is not None and bool(inside.operation_id))
        if not (scoped and asked.steps):
            return None
        return f"{asked.made_in}:{asked.steps[0]}" if asked.made_in else asked.steps[0]


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
