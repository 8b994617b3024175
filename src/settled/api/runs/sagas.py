"""Rolling runs back: the loops that perform the saga's commands."""

from __future__ import annotations

import asyncio
import secrets as dice
import shlex
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from settled import host
from settled.api.calls.binding import make_binding
from settled.api.calls.bound import ORDINARY, BoundCall, CallOptions
from settled.api.people.queue import Listening
from settled.api.runs import remains
from settled.api.tools.undoing import NotFilled, arguments_for
from settled.core.answer import STATUS_OF
from settled.core.commands import AwaitCall, CheckOwners, Owners, Reply, Sleep, Transact, Woke
from settled.core.doubt.settle import settle
from settled.core.runs.rollback import Compensate, Compensated, Order, SettledStep, SettleStep, rollback
from settled.core.runs.saga import Rolling
from settled.core.states import State
from settled.core.values import replace
from settled.drivers import aio, sync
from settled.drivers.loops import aside, leaked
from settled.errors import DeclarationError, JournalError
from settled.ports import CallQuery

if TYPE_CHECKING:
    from settled.api.calls.result import Result
    from settled.api.guard import Guard
    from settled.core.books import RunRecord
    from settled.core.call import Call
    from settled.core.runs.entering import Held
    from settled.core.runs.rollback import Rolled
    from settled.drivers.floor import Binding


def order_for(
    guard: Guard, run_id: str, *, tenant: str, reason: str = "", entry: int | None = None, wait: float = 5.0
) -> Order:
    """Return the order to roll a run back, in this process's name."""
    return Order(run_id, tenant, reason, new_claim(), host.this_process(), guard.lease, entry, wait)


def new_claim() -> str:
    """Return a fresh nonce for an entry or a rollback."""
    return f"run_{dice.token_hex(12)}"


def roll_back(guard: Guard, order: Order) -> RunRecord | Held | None:
    """Roll a run back; return its record, or who else is at it. Raises ``JournalError``."""
    guard.runs_here.add(order.tenant, order.run_id, order.claim)
    try:
        rolled: RunRecord | Held | None = _drive(guard, rollback(order, time.monotonic()))
        return rolled
    finally:
        guard.runs_here.drop(order.claim)


async def aroll_back(guard: Guard, order: Order) -> RunRecord | Held | None:
    """Like ``roll_back``, without blocking the loop."""
    guard.runs_here.add(order.tenant, order.run_id, order.claim)
    try:
        rolled: RunRecord | Held | None = await _adrive(guard, rollback(order, time.monotonic()))
        return rolled
    finally:
        guard.runs_here.drop(order.claim)


# --- the loops --------------------------------------------------------------------------------


def _drive(guard: Guard, flow: Rolled[Any]) -> Any:
    """Run a rollback to its end in the calling thread; what interrupted it is raised then."""
    command, cuts = next(flow), list[BaseException]()
    try:
        while True:
            try:
                event = _seen_through(guard, command, cuts)
            except JournalError as error:
                command = flow.throw(error)
            else:
                command = flow.send(event)
    except StopIteration as stop:
        if cuts:
            raise cuts[0] from None
        return stop.value


async def _adrive(guard: Guard, flow: Rolled[Any]) -> Any:
    """Run a rollback to its end on the loop; what interrupted it is raised then."""
    command, cuts = next(flow), list[BaseException]()
    try:
        while True:
            try:
                event = await _aseen_through(guard, command, cuts)
            except JournalError as error:
                command = flow.throw(error)
            else:
                command = flow.send(event)
    except StopIteration as stop:
        if cuts:
            raise cuts[0] from None
        return stop.value


def _seen_through(guard: Guard, command: Any, cuts: list[BaseException]) -> Any:
    """Perform a command. What a tool's own functions raise here ends its step, not the rollback: the others go on.

    ``cuts``: takes what ends programs (Ctrl-C, exit), to be raised at the end.
    """
    try:
        return _perform(guard, command)
    except JournalError:
        raise
    except BaseException as error:  # noqa: BLE001 - kept, and raised again once the others are undone
        _keep_cut(command, error, cuts)
        why = type(error).__name__
    return _left_so(guard, command, why)


async def _aseen_through(guard: Guard, command: Any, cuts: list[BaseException]) -> Any:
    """Like ``_seen_through``, on the loop."""
    try:
        return await _aperform(guard, command)
    except JournalError:
        raise
    except BaseException as error:  # noqa: BLE001 - kept, and raised again once the others are undone
        _keep_cut(command, error, cuts)
        why = type(error).__name__
    return await aside(_left_so, guard, command, why)


def _keep_cut(command: Any, error: BaseException, cuts: list[BaseException]) -> None:
    own = not isinstance(error, asyncio.CancelledError) or leaked(error)
    if not (own and isinstance(command, Compensate | SettleStep)):
        raise error
    if not isinstance(error, Exception | asyncio.CancelledError | GeneratorExit):  # of those nobody has asked for it
        cuts.append(error)


def _left_so(guard: Guard, command: Compensate | SettleStep, why: str) -> Compensated | SettledStep:
    """Return how a step stands after its tools' own functions have raised something."""
    now = guard.floor.now()
    if isinstance(command, SettleStep):
        return SettledStep(command.call, now)
    undoing = undoing_of(guard, command.call)
    if undoing is None or undoing.state in TRIED_AGAIN:
        return _not_made(guard, "undo_not_made", why)
    note = "" if undoing.state is State.SUCCEEDED else why
    return Compensated(STATUS_OF[undoing.state], undoing.reason, undoing.operation_id, now, note)


def _perform(guard: Guard, command: Any) -> Any:
    floor = guard.floor
    match command:
        case Transact(transition):
            return Reply(_told(guard, guard.journal.perform(transition)), floor.now())
        case SettleStep(call, seconds):
            found = _settling(guard, call)
            if found is not None:
                call = sync.drive(settle(call, found.policy, seconds), sync.Hand(found, floor))
            return SettledStep(call, floor.now())
        case Compensate(call, seconds):
            bound = undoing_call(guard, call, seconds)
            return bound if isinstance(bound, Compensated) else _came_to(guard, bound.call())
        case AwaitCall() | Sleep():
            return sync.Hand(_NOBODY, floor).perform(command)
        case CheckOwners(owners):
            return Owners(tuple(host.alive(owner) for owner in owners), guard.journal.now(), floor.now())
        case _:
            raise TypeError(f"not a command of a rollback: {command!r}")


async def _aperform(guard: Guard, command: Any) -> Any:
    floor = guard.floor
    match command:
        case Transact(transition):
            return Reply(_told(guard, await guard.journal.aperform(transition)), floor.now())
        case SettleStep(call, seconds):
            found = _settling(guard, call)
            if found is not None:
                call = await aio.drive(settle(call, found.policy, seconds), aio.Hand(found, floor))
            return SettledStep(call, floor.now())
        case Compensate(call, seconds):
            bound = undoing_call(guard, call, seconds)
            return bound if isinstance(bound, Compensated) else _came_to(guard, await bound.acall())
        case AwaitCall():
            return await aio.Hand(_NOBODY, floor).perform(command)
        case Sleep(seconds):
            await asyncio.sleep(seconds)
            return Woke(floor.now())
        case _:
            return await aside(_perform, guard, command)


def _told(guard: Guard, reply: Any) -> Any:
    """Wake those here who wait for leave that nobody gives any more."""
    for operation_id in reply.closed if isinstance(reply, Rolling) else ():
        guard.floor.presence.wake(operation_id)
    return reply


_NOBODY: Any = None
"""Who waits for a call needs no tool."""
TRIED_AGAIN = frozenset({State.NOT_DONE, State.PARKED, State.PROCESSING})
"""A compensation that stands so is made again by whoever goes on with the rollback."""


def _settling(guard: Guard, call: Call) -> Binding | None:
    """Return the tool as it is to be asked; ``None`` if this guard has no such tool."""
    tool = guard.tools.get(call.tool)
    if tool is None:
        return None
    binding = make_binding(guard, tool, None)
    return binding if binding.probe is None else replace(binding, probe=Listening(binding.probe))


def undoing_of(guard: Guard, call: Call) -> Call | None:
    """Return the record of the call that undoes this one, if there is one."""
    return next(iter(guard.journal.find(CallQuery(scope=f"undo:{call.operation_id}", limit=1))), None)


def undoing_call(guard: Guard, call: Call, seconds: float = ORDINARY.wait) -> BoundCall[Any] | Compensated:
    """Return the call that undoes a step, which waits ``seconds`` at the most; or why it cannot be made here."""
    compensation = guard.tools.get(call.terms.compensate)
    if compensation is None:
        note = f"no tool {call.terms.compensate!r} is known to the process that rolls back"
        return _not_made(guard, "tool_missing", note)
    try:
        arguments = arguments_for(guard, guard.tools.get(call.tool), compensation, call)
    except NotFilled as why:
        return _not_made(guard, "undo_not_filled", str(why))
    options = CallOptions(undoes=call.operation_id, wait=min(seconds, ORDINARY.wait))
    return BoundCall(compensation, kwargs=arguments, options=options)


def _not_made(guard: Guard, reason: str, note: str) -> Compensated:
    return Compensated("stuck", reason, "", guard.floor.now(), note)


def _came_to(guard: Guard, result: Result[Any]) -> Compensated:
    if result.status == "invalid":
        return _not_made(guard, "undo_not_filled", result.message)
    note = "" if result.ok else result.message
    return Compensated(result.status, result.reason, result.operation_id, guard.floor.now(), note, result.retry_after)


def try_roll_back(guard: Guard, order: Order, error: BaseException | None) -> RunRecord | Held | None:
    """Roll back because of an error, which stays the one to be raised whatever comes of it."""
    try:
        rolled = roll_back(guard, order)
    except (JournalError, DeclarationError) as trouble:
        _note(error, order, trouble)
        if error is None:
            raise
        return None
    remains.tell(guard, error, rolled)
    return rolled


async def atry_roll_back(guard: Guard, order: Order, error: BaseException | None) -> RunRecord | Held | None:
    """Like ``try_roll_back``; a cancellation meanwhile waits until it is through."""
    task = asyncio.ensure_future(_arolled_back(guard, order, error))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as again:
            if task.cancelled():
                raise
            cancelled = again
        except (JournalError, DeclarationError):
            break
    trouble = task.exception()
    if trouble is not None:
        _note(error, order, trouble)
        if error is None:
            raise trouble
    if cancelled is not None and not isinstance(error, asyncio.CancelledError):
        raise cancelled
    return None if trouble is not None else task.result()


async def _arolled_back(guard: Guard, order: Order, error: BaseException | None) -> RunRecord | Held | None:
    rolled = await aroll_back(guard, order)
    await remains.atell(guard, error, rolled)
    return rolled


def _note(error: BaseException | None, order: Order, trouble: BaseException) -> None:
    """Say what brings it on. Where not even its beginning is on record, no other process will do so by itself."""
    if error is not None:
        with suppress(Exception):
            error.add_note(
                f"the run {order.run_id!r} could not be rolled back: {trouble}; "
                f"`settled runs compensate {shlex.quote(order.run_id)} --reason '...'` does it"
            )
