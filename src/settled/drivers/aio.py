"""The driver for asyncio: the same loop; sync tools run in threads, never on the loop."""

from __future__ import annotations

import asyncio
import contextvars
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from settled import host
from settled.core.answer import Answer
from settled.core.attempts.retry import Again
from settled.core.commands import (
    Admit,
    Admitted,
    AwaitCall,
    Ended,
    Invoke,
    Join,
    Joined,
    Probe,
    Refused,
    Repeat,
    Reply,
    Report,
    Shut,
    Sleep,
    Spill,
    Transact,
    Woke,
    another,
    expect,
)
from settled.core.model import Effect
from settled.core.values import replace
from settled.current import current
from settled.drivers.alarm import alarm_of
from settled.drivers.attempts import (
    SHORTEST_SLEEP,
    current_call,
    not_begun,
    probed,
    raised,
    returned,
    timed_out,
    verdict,
)
from settled.drivers.joining import join
from settled.drivers.leaving import in_thread
from settled.drivers.loops import (
    apart,
    asleep,
    awaited,
    end_of,
    first,
    off_loop,
    on_loop,
    turn,
    wake,
)
from settled.drivers.presence import seconds_to_wait
from settled.drivers.unrecorded import attempt, threaded
from settled.drivers.wires import cut
from settled.errors import JournalError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import TypeVar

    from settled.core.call import Call
    from settled.core.commands import Command, Event, Flow
    from settled.core.machine import Life
    from settled.drivers.floor import Binding, Floor

    T = TypeVar("T")

CANCEL_GRACE = 0.5
"""Seconds that an async tool has to end after its time-out cancelled it."""


async def drive(flow: Flow[T], hand: Hand) -> T:
    """Run a flow to its end. Raises what the flow raises."""
    try:
        command, send, waiting = next(flow), flow.send, hand.waiting
        while True:
            try:
                while True:  # as hand.perform does, less a coroutine
                    wait = waiting.get(type(command))
                    command = send(hand.at_once(command) if wait is None else await wait(hand, command))
            except JournalError as error:  # the flow's own comes back from it: it has ended
                command = flow.throw(error)
    except StopIteration as stop:
        if hand.interruption is not None:
            raise hand.interruption from None
        answer: T = stop.value
        return answer
    finally:
        if hand.here:
            hand.close()


async def go_on(life: Life, step: Again | Answer, binding: Binding, floor: Floor) -> Answer:
    """Make the further attempts of a call that needs no record and has no limits, one after the other."""
    hand, timeout = Hand(binding, floor), binding.policy.timeout
    while type(step) is Again:
        ready = await hand.repeat(Repeat(step.cost, step.delay, None, step.refresh))
        if type(ready) is not Admitted:
            return await drive(life.not_ready(step, ready), hand)
        step = life.after(await attempt(another(timeout, life.made + 1), binding, floor))
    return expect(step, Answer)


def make(life: Life, binding: Binding, floor: Floor) -> Coroutine[Any, Any, Answer]:
    """Make one call. When the asker is cancelled a recorded call runs on, detached, and is recorded."""
    hand = Hand(binding, floor)
    return drive(life.run(), hand) if life.ask is None else _shielded(life, life.ask.operation_id, hand, floor)


async def _shielded(life: Life, asker: str, hand: Hand, floor: Floor) -> Answer:
    floor.asking.add(asker)
    loop = asyncio.get_running_loop()
    task = loop.create_task(_to_the_end(life, hand))
    floor.under_way.add(task)
    try:
        await end_of(loop, task, floor.under_way.discard)
        return task.result()
    except asyncio.CancelledError:
        life.abandon()
        hand.abandon(cut=life.policy.terms.effect is Effect.READ)
        task.add_done_callback(_retrieved)
        raise
    finally:
        floor.asking.discard(asker)


async def _to_the_end(life: Life, hand: Hand) -> Answer:
    try:
        return await drive(life.run(), hand)
    except asyncio.CancelledError:  # the loop is being closed: nobody will see this attempt's end
        hand.cut_off("loop_closed")
        raise
    except BaseException:
        hand.cut_off("driver_failed")
        raise


def _retrieved(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()  # the asker has gone; what went wrong is on record or in the spill


class Hand(Struct):
    """Performs commands on the running event loop."""

    binding: Binding
    floor: Floor
    here: str = ""
    """The call that is at work here, once it is on record."""
    abandoned: bool = False
    """The asker has gone."""
    asleep: asyncio.Future[None] | None = None
    """What is waited for before the next attempt."""
    attempt: asyncio.Task[Any] | None = None
    running: Invoke | None = None
    """The attempt whose end is not on record yet."""
    forks: int = 0
    """Of this process when the call was put on record: in a child that was forked since it is the parent's."""
    interruption: BaseException | None = None
    """What the tool raised to end the process, on a loop that goes on all the same."""

    def abandon(self, *, cut: bool) -> None:
        """The asker has gone. ``cut``: the attempt changes nothing and need not run on."""
        self.abandoned = True
        if self.asleep is not None:
            wake(self.asleep)
        if cut and self.attempt is not None:
            self.attempt.cancel()

    def cut_off(self, why: str) -> None:
        """Put an attempt whose end will not be recorded otherwise on record as one in doubt."""
        if self.running is not None and self.running.call is not None and self.forks == host.lineage.forks:
            self.floor.cut_off(self.running.call, self.running.no, why)

    def at_once(self, command: Command) -> Event:
        """Perform a command that waits for nothing."""
        if type(command) is Admit:
            return self.floor.admit(self.binding) or Admitted(self.floor.now())
        if type(command) is not Report:
            return self.floor.perform(command, self.binding)
        now = self.floor.now()
        self.floor.report(self.binding, command.verdict, now)
        return Woke(now)

    async def perform(self, command: Command) -> Event:
        """Perform one command."""
        wait = self.waiting.get(type(command))
        return self.at_once(command) if wait is None else await wait(self, command)

    def close(self) -> None:
        """Whoever waits for this call may look again."""
        self.floor.presence.leave(self.here)

    async def _transact(self, command: Transact) -> Reply:
        reply = Reply(await self.floor.journal.aperform(command.transition), self.floor.now())
        self.running = None
        return reply

    async def _spill(self, command: Spill) -> Event:
        self.running = None
        return await apart("settled-spill", self.floor.perform, command, self.binding)

    async def repeat(self, command: Repeat) -> Admitted | Shut | Refused | Woke:
        """Make ready for a further attempt."""
        binding, floor = self.binding, self.floor
        refused = floor.spend(binding, command)
        if refused:
            return Refused(refused, floor.now())
        await (turn() if command.seconds < SHORTEST_SLEEP else self._asleep(command.seconds))
        if self.abandoned:
            return Woke(floor.now(), abandoned=True)
        if command.refresh:
            await self._refresh()
        return floor.admit(binding) or Admitted(floor.now())

    def _invoke(self, command: Invoke) -> Coroutine[Any, Any, Ended | Shut]:
        if command.call is None:
            return attempt(command, self.binding, self.floor)
        return self._held(command, command.call)

    async def _held(self, command: Invoke, call: Call) -> Ended:
        """Run a recorded attempt, keeping its lease alive."""
        if self.abandoned:
            return not_begun(asyncio.CancelledError(), self.floor)
        if command.first:
            self.floor.begin(self.binding)
        operation_id = call.operation_id
        if not self.here:
            self.here, self.forks = operation_id, host.lineage.forks
            self.floor.presence.enter(operation_id)
        self.running = command
        self.floor.keeper.hold(operation_id, call.epoch, command.timeout)
        try:
            if self.binding.is_async:
                return await self._tasked(command)
            return await threaded(command, self.binding, self.floor)
        finally:
            self.floor.keeper.let_go(operation_id)

    async def _tasked(self, command: Invoke) -> Ended:
        """Run a recorded async attempt in a task of its own, which its caller can leave."""
        inside, run = contextvars.copy_context(), self.binding.run
        inside.run(current.set, current_call(command, self.binding))
        attempt = awaited(lambda: run(command.call))  # which does not hold this hand, that holds its task
        loop = asyncio.get_running_loop()
        self.attempt = task = loop.create_task(attempt, context=inside)
        self.floor.under_way.add(task)
        await alarm_of(loop).wait(loop, end_of(loop, task, self.floor.under_way.discard), command.timeout)
        if task.done():
            return self._ended(command, task)
        cut(command, self.binding)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=CANCEL_GRACE)
        if done and task.cancelled():
            return timed_out(command, self.binding, self.floor, over=True)
        if done:
            return self._ended(command, task)  # it answered after all, or says itself what became of it
        task.add_done_callback(lambda ended: self._late(command, ended))
        return timed_out(command, self.binding, self.floor, over=False)

    def _ended(self, command: Invoke, task: asyncio.Task[Any]) -> Ended:
        gone = self.abandoned
        if task.cancelled():  # nobody here cancelled it: the tool (or its transport) raised it
            return raised(asyncio.CancelledError(), command, self.binding, self.floor, abandoned=gone)
        error = task.exception()
        if error is not None:
            if isinstance(error, SystemExit | KeyboardInterrupt):
                self.interruption, gone = error, True  # it is put on record, and raised again once that is done
            return raised(error, command, self.binding, self.floor, abandoned=gone)
        return returned(task.result(), command, self.binding, self.floor, abandoned=gone)

    def _late(self, command: Invoke, task: asyncio.Task[Any]) -> None:
        call, ended = command.call, self._ended(command, task)
        if call is not None:
            in_thread(lambda: self.floor.late(self.binding, call, command.no, ended), "settled-late")

    async def _join(self, command: Join) -> Event:
        if self.abandoned:
            return Joined(None, not_begun(asyncio.CancelledError(), self.floor), self.floor.now())
        work = apart(f"settled-{self.binding.tool}", join, command, self.binding, self.floor, lambda: self.abandoned)
        joined, interruption = await work
        if interruption is not None:
            raise interruption
        if joined.ended is None:
            return joined
        return replace(joined, ended=replace(joined.ended, abandoned=joined.ended.abandoned or self.abandoned))

    async def _sleep(self, command: Sleep) -> Woke:
        await (turn() if command.seconds < SHORTEST_SLEEP else self._asleep(command.seconds))
        return Woke(self.floor.now(), abandoned=self.abandoned)

    async def _asleep(self, seconds: float) -> None:
        if not self.abandoned:
            self.asleep = asyncio.get_running_loop().create_future()
            await asleep(self.asleep, seconds)

    async def _await(self, command: AwaitCall) -> Woke:
        loop, woken = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            on_loop(loop, woken.set)

        local = self.floor.presence.listen(command.operation_id, wake)
        try:
            await first(woken, seconds_to_wait(command, self.floor.presence, local=local))
        finally:
            self.floor.presence.forget(command.operation_id, wake)
        return Woke(self.floor.now(), local=local, abandoned=self.abandoned)

    async def _refresh(self) -> None:
        try:
            if self.binding.refresh is not None:
                await off_loop(self.binding.refresh)
        except Exception as error:  # noqa: BLE001 - the next attempt shows what it is worth
            self.floor.tell("refresh_failed", None, tool=self.binding.tool, error=type(error).__name__)

    async def _probe(self, command: Probe) -> Event:
        began, probe = self.floor.journal.now(), self.binding.probe
        try:
            async with asyncio.timeout(command.seconds):
                said = probe and verdict(await off_loop(probe, command.call, seconds=command.seconds))
        except Exception as error:  # noqa: BLE001 - a probe that fails has told nothing
            self.floor.probe_failed(command.call, error)
            said = None
        return probed(said, began, self.binding, self.floor)

    waiting: ClassVar[dict[type, Callable[[Hand, Any], Coroutine[Any, Any, Event]]]] = {
        Transact: _transact,
        Invoke: _invoke,
        Repeat: repeat,
        Join: _join,
        Sleep: _sleep,
        AwaitCall: _await,
        Probe: _probe,
        Spill: _spill,
    }
    """How each command is performed that waits for something."""
