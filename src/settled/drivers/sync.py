"""The driver for plain code: perform the command, report the event, until the machine has its answer."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from settled import host
from settled.core.answer import Answer
from settled.core.attempts.retry import Again
from settled.core.commands import (
    Admit,
    Admitted,
    AwaitCall,
    CheckOwners,
    Ended,
    Invoke,
    Join,
    Probe,
    Refund,
    Refused,
    Repeat,
    Reply,
    Report,
    Returned,
    Shut,
    Sleep,
    Spill,
    Tell,
    Transact,
    Woke,
    another,
    expect,
)
from settled.core.values import replace
from settled.drivers.attempts import SHORTEST_SLEEP, finished, late_of, probed, raised, run_here, timed_out, verdict
from settled.drivers.joining import join
from settled.drivers.leaving import Leaving, in_thread, within
from settled.drivers.loops import leaked
from settled.drivers.presence import seconds_to_wait
from settled.drivers.waiting import while_blocked
from settled.errors import JournalError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from settled.core.call import Call
    from settled.core.commands import Command, Event, Flow
    from settled.core.machine import Life
    from settled.drivers.floor import Binding, Floor

    T = TypeVar("T")


def drive(flow: Flow[T], hand: Hand) -> T:
    """Run a flow to its end. Raises what the flow raises, and the caller's own interruption afterwards."""
    try:
        command, send, how = next(flow), flow.send, hand.how
        while True:
            try:
                while True:
                    command = send(how[type(command)](hand, command))  # as hand.perform does, less a call
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


def make(life: Life, binding: Binding, floor: Floor) -> Answer:
    """Make one call in the calling thread. An interruption leaves what is unfinished to be joined."""
    hand = Hand(binding, floor)
    if life.ask is None:
        return drive(life.run(), hand)
    asker = life.ask.operation_id
    floor.asking.add(asker)
    try:
        return drive(life.run(), hand)
    except BaseException:
        life.abandon()
        hand.cut_off()
        raise
    finally:
        floor.asking.discard(asker)


def go_on(life: Life, step: Again | Answer, binding: Binding, floor: Floor) -> Answer:
    """Make the further attempts of a call that needs no record and has no limits, one after the other."""
    hand, timeout = Hand(binding, floor), binding.policy.timeout
    while type(step) is Again:
        ready = hand.repeat(Repeat(step.cost, step.delay, None, step.refresh))
        if type(ready) is not Admitted:
            return drive(life.not_ready(step, ready), hand)
        # what it comes to is not kept in a name, as below
        step = life.after(heed(attempt(another(timeout, life.made + 1), binding, floor)))
    return expect(step, Answer)


def attempt(command: Invoke, binding: Binding, floor: Floor) -> Ended | Shut:
    """Make an attempt that needs no record; ``heed`` what comes of it."""
    if command.first:
        shut = floor.admit(binding)
        if shut is not None:
            return shut
        floor.begin(binding)
    make = run_here if command.timeout is None else leavable
    # Not kept in a name: an error's traceback keeps this frame, which would keep the error.
    return floor.judge(binding, make(command, binding, floor), command.no)


def heed(event: Ended | Shut) -> Ended | Shut:
    """Raise Ctrl-C, and what the tool raised to end the process: nothing has to be put on record before."""
    if type(event) is Ended and (interruption := _interruption(event)) is not None:
        raise interruption
    return event


def _interruption(ended: Ended) -> BaseException | None:
    outcome = ended.outcome
    if type(outcome) is Returned or isinstance(outcome.error, Exception) or leaked(outcome.error):
        return None
    return outcome.error


def leavable(command: Invoke, binding: Binding, floor: Floor) -> Ended:
    """Run the attempt in a thread that the caller can leave."""
    slot: Leaving[Ended] = Leaving(late_of(command, binding, floor))
    inside = while_blocked()
    in_thread(lambda: slot.finish(inside.run(run_here, command, binding, floor)), f"settled-{binding.tool}")
    try:
        slot.done.wait(command.timeout)
    except BaseException as error:  # noqa: BLE001 - Ctrl-C while waiting: the attempt runs on
        return slot.leave() or raised(error, command, binding, floor, over=False, abandoned=True)
    return slot.leave() or timed_out(command, binding, floor, over=False)


class Hand(Struct):
    """Performs commands in the calling thread."""

    binding: Binding
    floor: Floor
    here: str = ""
    """The call that is at work here, once it is on record."""
    interruption: BaseException | None = None
    forks: int = 0
    """Of this process when the call was put on record: in a child that was forked since it is the parent's."""
    running: Invoke | None = None
    """The attempt whose end is not on record yet."""

    def cut_off(self) -> None:
        """Put an attempt whose end will not be recorded otherwise on record as one in doubt."""
        if self.running is not None and self.running.call is not None and self.forks == host.lineage.forks:
            self.floor.cut_off(self.running.call, self.running.no, "driver_failed")

    def perform(self, command: Command) -> Event:
        """Perform one command."""
        return self.how[type(command)](self, command)

    def close(self) -> None:
        """Whoever waits for this call may look again."""
        self.floor.presence.leave(self.here)

    def _transact(self, command: Transact) -> Reply:
        reply = Reply(self.floor.journal.perform(command.transition), self.floor.now())
        self.running = None
        return reply

    def _admit(self, _: Admit) -> Admitted | Shut:
        return self.floor.admit(self.binding) or Admitted(self.floor.now())

    def _report(self, command: Report) -> Woke:
        now = self.floor.now()
        self.floor.report(self.binding, command.verdict, now)
        return Woke(now)

    def repeat(self, command: Repeat) -> Admitted | Shut | Refused:
        """Make ready for a further attempt."""
        refused = self.floor.spend(self.binding, command)
        if refused:
            return Refused(refused, self.floor.now())
        if command.seconds >= SHORTEST_SLEEP:
            time.sleep(command.seconds)
        if command.refresh:
            self._refresh()
        return self.floor.admit(self.binding) or Admitted(self.floor.now())

    def _invoke(self, command: Invoke) -> Ended | Shut:
        if command.call is None:
            return heed(attempt(command, self.binding, self.floor))
        if command.first:
            self.floor.begin(self.binding)
        return self._heeding(self._held(command, command.call))

    def _heeding(self, ended: Ended) -> Ended:
        """Ctrl-C, exit: it is put on record, and raised again once that is done."""
        self.interruption = _interruption(ended)
        return ended if self.interruption is None else replace(ended, abandoned=True)

    def _held(self, command: Invoke, call: Call) -> Ended:
        """Run a recorded attempt, keeping its lease alive."""
        operation_id, floor = call.operation_id, self.floor
        if not self.here:
            self.here, self.forks = operation_id, host.lineage.forks
            floor.presence.enter(operation_id)
        self.running = command
        floor.keeper.hold(operation_id, call.epoch, command.timeout)
        try:
            make = run_here if command.timeout is None else leavable
            return make(command, self.binding, floor)
        finally:
            floor.keeper.let_go(operation_id)

    def _sleep(self, command: Sleep) -> Woke:
        time.sleep(command.seconds)
        return Woke(self.floor.now())

    def _join(self, command: Join) -> Event:
        joined, self.interruption = join(command, self.binding, self.floor)
        return joined

    def _await(self, command: AwaitCall) -> Woke:
        event = threading.Event()
        local = self.floor.presence.listen(command.operation_id, event.set)
        try:
            event.wait(seconds_to_wait(command, self.floor.presence, local=local))
        finally:
            self.floor.presence.forget(command.operation_id, event.set)
        return Woke(self.floor.now(), local=local)

    def _refresh(self) -> None:
        try:
            if self.binding.refresh is not None:
                finished(self.binding.refresh(), self.floor)
        except Exception as error:  # noqa: BLE001 - the next attempt shows what it is worth
            self.floor.tell("refresh_failed", None, tool=self.binding.tool, error=type(error).__name__)

    def _ask_probe(self, call: Call) -> Any:
        return finished(self.binding.probe(call), self.floor) if self.binding.probe else None

    def _probe(self, command: Probe) -> Event:
        began = self.floor.journal.now()
        try:
            said = verdict(within(command.seconds, self._ask_probe, command.call)) if self.binding.probe else None
        except Exception as error:  # noqa: BLE001 - a probe that fails has told nothing
            self.floor.probe_failed(command.call, error)
            said = None
        return probed(said, began, self.binding, self.floor)

    def _spill(self, command: Spill) -> Event:
        self.running = None
        return self._at_once(command)

    def _at_once(self, command: Command) -> Event:
        return self.floor.perform(command, self.binding)

    how: ClassVar[dict[type, Callable[[Hand, Any], Event]]] = {
        Transact: _transact,
        Admit: _admit,
        Invoke: _invoke,
        Report: _report,
        Repeat: repeat,
        Join: _join,
        Sleep: _sleep,
        AwaitCall: _await,
        Probe: _probe,
        Spill: _spill,
        Tell: _at_once,
        Refund: _at_once,
        CheckOwners: _at_once,
    }
    """How each command is performed."""
