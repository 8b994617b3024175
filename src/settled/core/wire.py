"""What every flow of a call needs: to give commands and keep the clock that comes back with the events."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from settled.core.commands import REPORTS, Reply, Transact, expect

if TYPE_CHECKING:
    from settled.core.attempts.breaker import Verdict
    from settled.core.books import Transition
    from settled.core.commands import Command, Event, Flow
    from settled.core.policy import Limits

R = TypeVar("R")


class Wire:
    """Gives commands; ``at`` is the driver's clock as the last event brought it, seconds."""

    abandoned = False  # what is seldom set has its first value on the class: every call makes one of these
    """The asker has gone."""

    def __init__(self, limits: Limits, at: float) -> None:
        self.limits, self.at = limits, at

    def do(self, command: Command) -> Flow[Event]:
        """Give one command; return the event that answers it."""
        event = yield command
        self.at = event.at
        return event

    def through(self, flow: Flow[R]) -> Flow[R]:
        """Run another flow, keeping the clock; what is thrown in reaches it."""
        try:
            command = next(flow)
            while True:
                try:
                    event = yield from self.do(command)
                except Exception as error:  # noqa: BLE001 - handed on as it is
                    command = flow.throw(error)
                else:
                    command = flow.send(event)
        except StopIteration as stop:
            value: R = stop.value
            return value

    def transact(self, transition: Transition[R]) -> Flow[R]:
        """Perform one journal transition; return its reply. ``JournalError`` is thrown in if it fails."""
        event = yield Transact(transition)  # not by ``do``: each flow in between costs every call
        self.at = event.at
        value: R = expect(event, Reply).value
        return value

    def report(self, verdict: Verdict) -> Flow[None]:
        """Tell the breakers how an admitted attempt went."""
        yield from self.do(REPORTS[verdict])

    def cut(self, seconds: float) -> float:
        """Return the seconds, or what is left until the deadline."""
        deadline = self.limits.deadline
        return seconds if deadline is None else max(0.0, min(seconds, deadline - self.at))

    @property
    def out_of_time(self) -> bool:
        """Whether nothing more is to be waited for."""
        return self.abandoned or (self.limits.deadline is not None and self.at >= self.limits.deadline)
