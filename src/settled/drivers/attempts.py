"""What both drivers do around one attempt: say whose call it is, run it, read how it ended."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Generator
from concurrent.futures import Future
from contextlib import suppress
from functools import lru_cache
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, NoReturn, cast

from settled import host
from settled.core.attempts.outcome import AttemptTimeout
from settled.core.commands import Ended, Invoke, Probed, Raised, Returned
from settled.core.matching.entry import Entry
from settled.core.verdicts import Happened, Inconclusive, NotHappened
from settled.current import CurrentCall, current
from settled.drivers.leaving import in_thread
from settled.drivers.waiting import running
from settled.drivers.wires import cut, sight_of, turned_away, wire_of
from settled.errors import Executed, ForkedError, PartlyDone, ToolSignal

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from settled.core.model import Moment
    from settled.drivers.floor import Binding, Floor


LOG = logging.getLogger("settled")
MOST_PLACES = 8
"""Of where an error came from: the innermost."""
SHORTEST_SLEEP = 1e-6
"""Seconds: a shorter wait is over before the system, or the loop, comes back from it."""


def current_call(command: Invoke, binding: Binding) -> CurrentCall:
    """Return what the tool may know of this attempt."""
    call, no = command.call, command.no
    if call is None:
        return _unrecorded(no) if command.deadline is None else CurrentCall("", no, deadline=command.deadline)
    entry = Entry(no, range(1, no))
    outer = current.get()
    around = (outer.around if outer else frozenset()) | {call.operation_id}
    key = binding.key_for_tool(call.outward)
    wire, terms = wire_of(command, binding), call.terms
    covered = bool(terms.compensate) or terms.irreversible or (outer is not None and outer.covered)
    return CurrentCall(
        key, no, call.operation_id, command.deadline, around=around, entry=entry, wire=wire, covered=covered
    )


@lru_cache(maxsize=100)
def _unrecorded(no: int) -> CurrentCall:
    """Return the same for all calls that need no record: such calls are many."""
    return CurrentCall("", no)


def run_here(command: Invoke, binding: Binding, floor: Floor, then: Callable[[], object] | None = None) -> Ended:
    """Run a sync attempt in this very thread, and what belongs to it. Raises in a child that the tool has forked."""
    lineage = host.lineage
    forks, token = lineage.forks, current.set(current_call(command, binding))
    try:
        value = binding.run(command.call)
        if lineage.forks != forks:
            _must_end_here()
        if then is not None:
            then()
        if not is_an_answer(type(value)):
            value = finished(value, floor)
        # Returned at once: an error's traceback keeps this frame, and those around it. None of them keeps the error.
        return returned(value, command, binding, floor)
    except BaseException as error:
        if lineage.forks != forks:
            raise  # in a child that the tool has forked: the attempt is its parent's
        return raised(error, command, binding, floor)
    finally:
        current.reset(token)


def _must_end_here() -> NoReturn:
    raise ForkedError("this process was forked inside a tool: it must end there, not return")


def _lasts(kind: type[Any]) -> bool:
    return not issubclass(kind, Awaitable | Generator | AsyncGenerator | Future)


is_an_answer = cast("Callable[[type[Any]], bool]", lru_cache(1000)(_lasts))
"""Whether values of a type are what they are: nothing to be awaited or waited for, and no generator."""


def finished(value: Any, floor: Floor) -> Any:
    """Return what an awaitable or a future gives; an awaitable in another thread, since a loop may run in this one.

    Raises ``TypeError`` for a generator: it has done nothing yet, and is no answer. So it does for a future where a
    loop runs: it may be what the future waits for.
    """
    if isinstance(value, Future):
        if running() is not None and not value.done():
            raise TypeError("the tool returned a future that is not done, on an event loop's thread: return its result")
        return finished(value.result(), floor)
    if not inspect.isawaitable(value):
        return _whole(value)

    async def awaited() -> Any:
        return await ended(await value)

    return floor.home.run(awaited())


async def ended(value: Any) -> Any:
    """Return what a task, a future or a coroutine that a tool returned comes to: by itself it is no answer yet."""
    while not is_an_answer(type(value)):
        if isinstance(value, Future):
            value = await asyncio.wrap_future(value)
        elif asyncio.isfuture(value) or inspect.iscoroutine(value):
            value = await value
        else:
            return _whole(value)
    return value


def _whole(value: Any) -> Any:
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        raise TypeError("the tool returned a generator, which has done nothing yet: return the whole result")
    return value


def returned(value: object, command: Invoke, binding: Binding, floor: Floor, *, abandoned: bool = False) -> Ended:
    """Return the end of an attempt that gave ``value``; it is encoded only where it will be recorded."""
    if command.call is None:
        return Ended(Returned(value, None), True, floor.draw(), floor.now(), abandoned)  # noqa: FBT003 - by place: fast
    watched = binding.wires is not None
    held_back = turned_away(command, binding) if watched else None
    if held_back is not None:
        return raised(held_back, command, binding, floor, abandoned=abandoned)
    outcome = Returned(value, *binding.encode(value))
    sight = sight_of(command, binding, failed=False) if watched else None
    return Ended(outcome, True, floor.draw(), floor.now(), abandoned, None, sight)  # noqa: FBT003 - by place: fast


def raised(
    error: BaseException,
    command: Invoke,
    binding: Binding,
    floor: Floor,
    *,
    over: bool = True,
    abandoned: bool = False,
) -> Ended:
    """Return the end of an attempt that raised ``error``; what a tool says of its effect counts as its answer."""
    outcome = Raised(error)
    if isinstance(error, ToolSignal):
        if isinstance(error, Executed):
            return returned(error.result, command, binding, floor, abandoned=abandoned)
        outcome = _said(error, binding)
    if LOG.isEnabledFor(logging.DEBUG):
        _say_where(error, command, binding)
    if command.call is None:  # it needs no journal, which may be far away: not its clock either
        return Ended(outcome, over, floor.draw(), floor.now(), abandoned, floor.wall())
    sight = None if binding.wires is None else sight_of(command, binding, failed=over)
    return Ended(outcome, over, floor.draw(), floor.now(), abandoned, floor.journal.now().wall, sight)


def _said(error: ToolSignal, binding: Binding) -> Raised:
    if not isinstance(error, PartlyDone):
        return Raised(error)
    data, note = binding.encode(error.answer if error.answered else {"done": error.done, "failed": error.failed})
    return Raised(error, data=data, note=note)


def _say_where(error: BaseException, command: Invoke, binding: Binding) -> None:
    """Say for who looks for a bug where the tool failed; what it said may hold secrets, and is on record, cleaned."""
    with suppress(Exception):  # the attempt is not on record yet
        steps = [(frame.f_code, line) for frame, line in walk_tb(error.__traceback__) if not _is_ours(frame)]
        places = [f"{code.co_filename}:{line} in {code.co_name}" for code, line in steps[-MOST_PLACES:]]
        call = command.call.operation_id if command.call is not None else "not recorded"
        kind, path = type(error).__qualname__, ", ".join(places)
        LOG.debug("%s, attempt %d: %s by way of %s [%s]", binding.tool, command.no, kind, path, call)


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] == "settled"


def late_of(command: Invoke, binding: Binding, floor: Floor) -> Callable[[Ended], None]:
    """Return what is done with the answer of this attempt once its caller has left it."""

    def record(ended: Ended) -> None:
        if command.call is not None:
            floor.late(binding, command.call, command.no, ended)

    return record


def timed_out(command: Invoke, binding: Binding, floor: Floor, *, over: bool) -> Ended:
    """Return the end of an attempt that its caller left.

    Of one that could be cancelled, requests that were wholly sent may still be answered: that comes as late evidence.
    """
    error = AttemptTimeout(f"no answer within {command.timeout} s")

    def late() -> None:
        in_thread(lambda: late_of(command, binding, floor)(raised(error, command, binding, floor)), "settled-late")

    cut(command, binding, late if over else None)
    return raised(error, command, binding, floor, over=over)


def not_begun(error: BaseException, floor: Floor) -> Ended:
    """Return the end of an attempt whose function was never entered."""
    return Ended(Raised(error, not_sent=True), over=True, draw=floor.draw(), at=floor.now(), abandoned=True)


class VerdictError(TypeError):
    """A probe returned something else than a verdict. The message is our own, holds no secret, and may be told."""


def verdict(said: Any) -> Happened | NotHappened | Inconclusive:
    """Return what a probe said. Raises ``VerdictError``, so that a probe which returns true or false is noticed."""
    if isinstance(said, Happened | NotHappened | Inconclusive):
        return said
    raise VerdictError(f"it returned {type(said).__name__}, and not Happened(…), NotHappened() or Inconclusive(…)")


def probed(said: Any, began: Moment, binding: Binding, floor: Floor) -> Probed:
    """Return the event for what a probe said; anything but a verdict is no verdict."""
    ended, at = floor.journal.now(), floor.now()
    match said:
        case Happened(result):
            data, note = binding.encode(result)
            return Probed(happened=True, began=began, ended=ended, at=at, data=data, note=note)
        case NotHappened(fence):
            return Probed(happened=False, began=began, ended=ended, at=at, fence=fence)
        case _:
            return Probed(happened=None, began=began, ended=ended, at=at)
