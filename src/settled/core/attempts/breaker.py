"""When a failing tool is left alone for a while.

Nothing here locks. Whoever shares a breaker between threads holds one lock around each method, and around ``admit``.
``now`` is in monotonic seconds of one clock: this process's, or the journal's for a breaker that several share.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, NewType, TypeAlias, TypedDict, assert_never, cast

from settled.core.attempts.threshold import BreakerPolicy, wilson_lower
from settled.core.model import FaultClass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from settled.core.model import Fault

Verdict: TypeAlias = Literal["success", "failure", "neutral"]

Ticket = NewType("Ticket", int)
"""The generation in which a call was admitted; a result from another one changes nothing."""

Tickets: TypeAlias = tuple[Ticket, ...]

_KEEP = 0.5 ** (1 / 500)  # usual rate: a moving average whose weights halve every 500 calls
_FIRST_GUESS = 0.05
_NEVER = -math.inf


class State(StrEnum):
    """Closed: calls pass. Open: none does. Half-open: one does, the probe, and its result decides."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


_CLOSED, _OPEN, _HALF_OPEN = State  # a global is found faster than an attribute of the class


@dataclass(frozen=True, slots=True)
class Admission:
    """The call may be made; ``probe``: it alone, and its result decides."""

    probe: bool


@dataclass(frozen=True, slots=True)
class Rejection:
    """The call is not made. It costs no budget.

    ``retry_after``: seconds until a call may be admitted again; ``breaker``: name of the one that rejects.
    """

    retry_after: float
    breaker: str


_ADMITTED = Admission(probe=False)
_AS_PROBE = Admission(probe=True)

_DEFAULT = BreakerPolicy()


class Snapshot(TypedDict):
    """A breaker's state as plain data. Times are relative, so that another clock can take over."""

    state: str
    generation: int
    wait: float
    """Seconds until the cool-down or the probe's lease ends."""
    outcomes: list[tuple[float, bool]]
    """Age in seconds and whether it failed, oldest first."""
    run: int
    trips: int
    usual: float
    calm: bool


class Breaker:
    """One breaker, of a tool, an agent or a run; about half a kilobyte.

    ``take`` before the call, ``record`` after it, or ``release`` if nothing can be said. Each change of state is a
    new generation, and so is each probe: a result counts only in the generation that its call was admitted in. So a
    late answer from before a trip neither closes nor reopens anything.
    """

    _bits: int
    _calm: bool
    _next: int
    _run: int

    __slots__ = (
        "_bits",
        "_calm",
        "_next",
        "_run",
        "_state",
        "_times",
        "_trips",
        "_until",
        "_usual",
        "generation",
        "name",
        "policy",
    )

    def __init__(self, name: str = "", policy: BreakerPolicy = _DEFAULT) -> None:
        self.name = name
        self.policy = policy
        self.generation = Ticket(0)
        self._state = _CLOSED
        self._until = _NEVER  # end of the cool-down or of the probe's lease
        self._usual = _FIRST_GUESS
        self._trips = 0
        self._forget()

    def look(self, now: float) -> Admission | Rejection:
        """Whether a call would be admitted; changes nothing."""
        if self._state is _CLOSED:
            return _ADMITTED
        if now < self._until:
            return Rejection(self._until - now, self.name)
        return _AS_PROBE

    def take(self, now: float) -> Ticket | Rejection:
        """Admit a call. The one that comes after the cool-down, or after a probe given up, becomes the probe."""
        if self._state is _CLOSED:
            return self.generation
        if now < self._until:
            return Rejection(self._until - now, self.name)
        self._enter(_HALF_OPEN, now + self.policy.lease)
        return self.generation

    def release(self, ticket: Ticket) -> None:
        """Nothing can be said about the call (cancelled, never sent): if it was the probe, the next caller is."""
        if ticket == self.generation and self._state is _HALF_OPEN:
            self._until = _NEVER

    def record(self, ticket: Ticket, verdict: Verdict, now: float, draw: float) -> State | None:
        """Count a call's end.

        Args:
            ticket: what ``take`` gave for it.
            verdict: see ``verdict_of``.
            now: monotonic seconds.
            draw: uniform in [0, 1), for the jitter of a cool-down.

        Returns:
            The new state if this end changed it.
        """
        if ticket != self.generation:
            return None
        if self._state is not _CLOSED:  # then it is the probe's: no call is admitted while open
            return self._judge_probe(ticket, verdict, now, draw)
        if verdict == "success":
            if self._bits:
                self._note(0, now)
                self._run = 0
                if not (self._calm or self._is_calm(*self._window(now))):  # a success makes no calm window uneasy
                    return None
            else:  # the same, where no failure has to be moved on, ends a run, or makes the window uneasy
                self._times[self._next] = now
                self._next = (self._next + 1) % len(self._times)
                self._calm = True
            self._usual *= _KEEP
            return None
        if verdict == "failure":
            self._note(1, now)
            self._run += 1
            return self._judge_failure(now, draw)
        return None

    def state(self, now: float) -> State:
        """The state as a caller would find it: open ends with its cool-down."""
        return _HALF_OPEN if self._state is _OPEN and now >= self._until else self._state

    def reset(self) -> None:
        """Close it by an operator's word. What was learned about the usual rate stays."""
        self._close()
        self._trips = 0

    def follow(self, state: State, until: float) -> None:
        """Take over a change of state that another process has made; what was learned here stays.

        Args:
            state: the new one.
            until: monotonic seconds at which the cool-down, or the other's probe, ends.
        """
        if state is _CLOSED:
            self._close()
        else:
            self._enter(state, until)

    @property
    def until(self) -> float:
        """Monotonic seconds at which the cool-down, or the probe's lease, ends."""
        return self._until

    def describe(self, now: float) -> str:
        """The reason for the present state in an operator's words."""
        failures, calls = self._window(now if self._state is _CLOSED else self._times[self._next - 1])
        usual = f"usual is {self._usual:.0%}".replace("%", " %")
        if not calls:
            return f"no calls in the last {self.policy.seconds:g} s; {usual}"
        run = f", the last {self._run} in a row" if 1 < self._run < calls else ""
        sure = f"{wilson_lower(failures, calls):.0%}".replace("%", " %")
        return f"{failures} of {calls} failed{run}: at least {sure} with 95 % confidence; {usual}"

    def snapshot(self, now: float) -> Snapshot:
        """The state as plain data, for a journal."""
        size = len(self._times)
        slots = ((self._next + i) % size for i in range(size))
        times = [self._times[slot] for slot in slots]
        return Snapshot(
            state=self._state.value,
            generation=self.generation,
            wait=max(0.0, self._until - now),
            outcomes=[(now - at, bool(self._bits >> (size - 1 - i) & 1)) for i, at in enumerate(times) if at > _NEVER],
            run=self._run,
            trips=self._trips,
            usual=self._usual,
            calm=self._calm,
        )

    def restore(self, snapshot: Snapshot, now: float) -> None:
        """Take over a recorded state, with its generation, so that tickets from before stay good or stale.

        Raises:
            KeyError, ValueError: it is no snapshot; nothing was changed.
        """
        state, until, usual = State(snapshot["state"]), now + snapshot["wait"], snapshot["usual"]
        if not 0 <= usual <= 1:
            raise ValueError(f"usual is a rate from 0 to 1, not {usual!r}")
        outcomes = [(int(failed), now - age) for age, failed in snapshot["outcomes"]]
        run, trips, calm = snapshot["run"], snapshot["trips"], snapshot["calm"]
        self.generation = Ticket(snapshot["generation"])
        self._forget()
        for failed, at in outcomes:
            self._note(failed, at)
        self._state, self._until, self._usual = state, until, usual
        self._run, self._trips, self._calm = run if self._bits & 1 else 0, trips, calm

    def _note(self, failed: int, now: float) -> None:
        self._times[self._next] = now
        self._next += 1
        if failed or self._bits:
            self._bits = self._bits << 1 | failed
        if self._next == len(self._times):
            self._next = 0
            self._bits &= (1 << len(self._times)) - 1

    def _window(self, now: float) -> tuple[int, int]:
        """Failures and calls among the last outcomes that are not too old."""
        times, slot, oldest = self._times, self._next, now - self.policy.seconds
        if times[slot] > oldest:
            calls = len(times)
        else:
            calls = 0
            while times[slot - calls - 1] > oldest:  # ends at the slot itself, which is too old
                calls += 1
        return (self._bits & ((1 << calls) - 1)).bit_count(), calls

    def _is_calm(self, failures: int, calls: int) -> bool:
        self._calm = wilson_lower(failures, calls) < self.policy.threshold(self._usual) / 2
        return self._calm

    def _judge_failure(self, now: float, draw: float) -> State | None:
        failures, calls = self._window(now)
        if self.policy.trips(failures, calls, self._run, self._usual):
            return self._trip(now, draw)
        if self._is_calm(failures, calls):
            self._usual = self._usual * _KEEP + (1 - _KEEP)
        return None

    def _judge_probe(self, ticket: Ticket, verdict: Verdict, now: float, draw: float) -> State | None:
        match verdict:
            case "success":
                return self._close()
            case "failure":
                return self._trip(now, draw)
            case "neutral":
                self.release(ticket)
                return None
            case _:
                assert_never(verdict)

    def _trip(self, now: float, draw: float) -> State:
        self._trips = self._trips + 1 if self._state is _HALF_OPEN or self._closed_lately(now) else 1
        return self._enter(_OPEN, now + self.policy.pause(self._trips, draw))

    def _closed_lately(self, now: float) -> bool:
        """Whether the first window after closing is not over: then a trip goes on where the last one ended."""
        unfilled = self._times[self._next] == _NEVER
        return unfilled and self._times[0] >= now - self.policy.seconds

    def _close(self) -> State:
        self._forget()
        return self._enter(_CLOSED, _NEVER)

    def _enter(self, state: State, until: float) -> State:
        self._state, self._until = state, until
        self.generation = Ticket(self.generation + 1)
        return state

    def _forget(self) -> None:
        self._times = array("d", [_NEVER]) * self.policy.window
        self._next = 0
        self._bits = 0  # bit 0 is the last outcome; cut to the window once a round
        self._run = 0
        self._calm = True


def admit(breakers: Sequence[Breaker], now: float) -> Tickets | Rejection:
    """Admit one call through several breakers, or through none.

    All are looked at before any is taken, so that no probe's slot is held by a call that another breaker rejects.
    The rejection with the longest wait is returned.
    """
    tickets = tickets_if_closed(breakers)
    return _look_then_take(breakers, now) if tickets is None else tickets


def tickets_if_closed(breakers: Sequence[Breaker]) -> Tickets | None:
    """Admit one call if all breakers are closed; ``None``: ask ``admit``. The one look that needs no lock.

    Generations are read before states. So a breaker that trips meanwhile has either been seen open, or given a ticket
    of the generation before, whose result changes nothing: as if the call had been admitted just before.
    """
    if len(breakers) == 1:  # as most are
        (only,) = breakers
        ticket = only.generation
        return (ticket,) if only._state is _CLOSED else None  # noqa: SLF001 - of this very module
    tickets = tuple([breaker.generation for breaker in breakers])
    return tickets if all(breaker._state is _CLOSED for breaker in breakers) else None  # noqa: SLF001 - as above


def record(
    breakers: Sequence[Breaker], tickets: Tickets, verdict: Verdict, now: float, draw: Callable[[], float]
) -> Sequence[tuple[Breaker, State]]:
    """Tell breakers how a call has ended that ``admit`` let through; return those that have changed, and their states.

    ``draw`` gives a number as ``Breaker.record`` takes it; only what is no success needs one.
    """
    drawn = 0.0 if verdict == "success" else draw()
    if len(breakers) == 1:
        state = breakers[0].record(tickets[0], verdict, now, drawn)
        return () if state is None else ((breakers[0], state),)
    states = [each.record(ticket, verdict, now, drawn) for each, ticket in zip(breakers, tickets, strict=True)]
    return [(each, state) for each, state in zip(breakers, states, strict=True) if state is not None]


def _look_then_take(breakers: Sequence[Breaker], now: float) -> Tickets | Rejection:
    looks = [breaker.look(now) for breaker in breakers]
    rejections = [look for look in looks if isinstance(look, Rejection)]
    if rejections:
        return max(rejections, key=lambda rejection: rejection.retry_after)
    # one that stands there twice is taken once: its second taking would meet the first one's probe
    taken = {id(breaker): breaker.take(now) for breaker in {id(each): each for each in breakers}.values()}
    return tuple(cast("Ticket", taken[id(breaker)]) for breaker in breakers)


def verdict_of(fault: Fault | None) -> Verdict:
    """What a call's end says about the health of the other side.

    Neutral is what it says nothing bad by: a refusal of this very request, a slower pace asked for, its work on our
    first try, a part done; and what never reached it.
    """
    if fault is None:
        return "success"
    if fault.local or fault.throttled or fault.in_progress:
        return "neutral"
    return _VERDICTS[fault.kind]


def _verdict_of(kind: FaultClass) -> Verdict:
    match kind:
        case FaultClass.RETRYABLE | FaultClass.UNKNOWN:
            return "failure"
        case FaultClass.PERMANENT | FaultClass.INVALID | FaultClass.CANCELLED | FaultClass.PARTIAL:
            return "neutral"
        case _:
            assert_never(kind)


_VERDICTS = {kind: _verdict_of(kind) for kind in FaultClass}
