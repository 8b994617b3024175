"""What all calls of one guard share in one process: journal, breakers, pools, leases, who waits for whom."""

from __future__ import annotations

import logging
import random
import threading
import time
from asyncio import CancelledError
from collections import deque
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from settled import host
from settled.core.attempts.breaker import Breaker, Rejection, State, admit, record, tickets_if_closed, verdict_of
from settled.core.attempts.outcome import read
from settled.core.attempts.progress import End
from settled.core.commands import (
    CheckOwners,
    Owners,
    Refund,
    Shut,
    Spill,
    Tell,
    Woke,
)
from settled.core.doubt.late import Evidence
from settled.core.model import Evidence as Proof
from settled.core.model import Fault, FaultClass
from settled.drivers.attempts import VerdictError
from settled.drivers.home import Home
from settled.drivers.keeper import Keeper
from settled.drivers.presence import Presence
from settled.errors import JournalError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence

    from settled.core.attempts.breaker import Tickets, Verdict
    from settled.core.attempts.budget import Pool, Pools
    from settled.core.attempts.metering import Share
    from settled.core.call import Call
    from settled.core.commands import Command, Ended, Event, Repeat
    from settled.core.policy import Policy
    from settled.drivers.pooling import PoolSharing
    from settled.drivers.sharing import News, Sharing
    from settled.ports import Journal, Sink, SpillFile
    from settled.recorder import Recorder


LOG = logging.getLogger("settled")
OF_A_RUN = "run:"
"""How the name of a breaker begins that lives with one entry of a run, and is nobody else's."""


class Binding(Struct):
    """One tool bound to the arguments of one call: what a driver needs in order to make it."""

    run: Callable[[Call | None], Any]
    """Runs the function for a recorded call, or for one that needs no record; returns an awaitable if ``is_async``."""
    clean: Callable[[str], str]
    """Takes secrets out of messages."""
    tool: str
    policy: Policy
    is_async: bool
    encode: Callable[[object], tuple[bytes | None, str]]
    """Value -> its encoding, or ``None`` and why not."""
    probe: Callable[[Call], Any] | None
    refresh: Callable[[], Any] | None
    breakers: Sequence[Breaker]
    pools: Pools
    key_for_tool: Callable[[str], str]
    bodies: bool
    """What the other side answers may be kept with a failed attempt."""
    share: Share | None = None
    """What each attempt takes from the token window of the run that the call is made in."""
    tickets: Any = None
    wires: dict[int, Recorder] | None = None
    """By attempt: what takes down its requests. Made only where a transport is watched."""


class Floor:
    """Shared by all calls of a guard. Thread-safe; a forked child must make its own."""

    def __init__(
        self, journal: Journal, spill: SpillFile, *, lease: float, sinks: Sequence[Sink] = (), watched: bool = False
    ) -> None:
        self.journal, self.spill, self.lease = journal, spill, lease
        self.sinks, self._watched = list(sinks), watched or bool(sinks)
        self.presence = Presence(getattr(self.journal, "ear", None))
        self.asking: set[str] = set()
        """Ids of asks (and of the calls that they make) whose askers wait here now."""
        self.keeper = Keeper(journal, lease)
        self.home = Home()
        self.under_way: set[asyncio.Task[Any]] = set()
        """Recorded calls, and attempts, of async code: they run on when their askers are cancelled."""
        self.pooling: PoolSharing | None = None
        """Where retry pools are shared with other processes."""
        self.sharing: Sharing | None = None
        """Where breakers are shared with other processes."""
        self._lock = threading.Lock()
        self._only_here: deque[Evidence] = deque()

    def forked(self) -> None:
        """In a forked child: hold no lease and wait for nobody; threads and locks of the parent are not ours."""
        self.presence = Presence(getattr(self.journal, "ear", None))
        self.asking, self.under_way = set(), set()
        self.keeper.forked()
        self.home.forked()
        if self.pooling is not None:
            self.pooling.forked()
        self._lock = threading.Lock()
        self._only_here = deque()

    now: Callable[[], float] = staticmethod(time.monotonic)
    """Returns the drivers' clock, seconds."""
    wall: Callable[[], float] = staticmethod(time.time)
    """Returns seconds since 1970, for dates in what the other side asks for where no journal has a part in it."""
    draw: Callable[[], float] = staticmethod(random.random)
    """Returns a random number in [0, 1): it spreads retries, keeps no secret."""

    def perform(self, command: Command, binding: Binding) -> Event:
        """Perform a command that neither waits nor touches the journal."""
        if type(command) is Tell:
            if self.sinks:
                self.tell(command.event, command.call, **command.facts)
            return Woke(self.now())
        match command:
            case Refund(cost):
                self._refund(binding, cost)
            case CheckOwners(owners):
                return Owners(tuple(host.alive(owner) for owner in owners), self.journal.now(), self.now())
            case Spill(evidence):
                self.keep(evidence)
            case _:
                raise TypeError(f"not a command for the floor: {command!r}")
        return Woke(self.now())

    def admit(self, binding: Binding) -> Shut | None:
        """Ask the breakers whether an attempt may be made; ``None``: it may."""
        breakers = binding.breakers
        if breakers:
            binding.tickets = tickets_if_closed(breakers)
            if binding.tickets is None:
                return self._admit_by_turns(binding, breakers)
        return None

    def _admit_by_turns(self, binding: Binding, breakers: Sequence[Breaker]) -> Shut | None:
        """Do the same where a breaker is not closed."""
        now = self.now()
        with self._lock:
            found, seen = admit(breakers, now), self._seen(breakers)
        if self.sharing is not None and not isinstance(found, Rejection):
            found = self._agreed_on(breakers, seen, found, now)
        if isinstance(found, Rejection):
            self.tell("breaker_open", None, tool=binding.tool, scope=found.breaker)
            return Shut(found.breaker, found.retry_after, now)
        binding.tickets = found
        return None

    def judge(self, binding: Binding, ended: Ended, no: int) -> Ended:
        """Read the end of an attempt that needs no record, and tell the breakers how it went.

        What its message says is cleaned of secrets by who shows it: most such attempts are followed by another.
        """
        fault = read(ended, binding.policy, None, attempt=no, doubtful=False)
        self.report(binding, "success" if fault is None else verdict_of(fault), ended.at)
        return ended if fault is None else replace(ended, fault=fault)

    def report(self, binding: Binding, verdict: Verdict, now: float) -> None:
        """Tell the breakers how an admitted attempt went."""
        tickets = binding.tickets
        if tickets is None:
            return
        binding.tickets = None
        with self._lock:
            changes = record(binding.breakers, tickets, verdict, now, self.draw)
            seen = self._seen([breaker for breaker, _ in changes]) if changes else ()  # as seldom
        if changes:
            self._tell_of(changes, seen)

    def _seen(self, breakers: Sequence[Breaker]) -> Sequence[int]:
        """Return which changes breakers have followed; under their lock."""
        return [0 if self.sharing is None else self.sharing.seen(breaker.name) for breaker in breakers]

    def _tell_of(self, changes: Sequence[tuple[Breaker, State]], seen: Sequence[int]) -> None:
        for (breaker, state), known in zip(changes, seen, strict=True):
            self._share(breaker, known)
            self.tell("breaker", None, name=breaker.name, breaker_state=str(state))

    def _agreed_on(
        self, breakers: Sequence[Breaker], seen: Sequence[int], tickets: Tickets, now: float
    ) -> Tickets | Rejection:
        """Be the one probe of all processes where this attempt is to be one; else be turned away."""
        for breaker, known in zip(breakers, seen, strict=True):
            if breaker.state(now) is State.HALF_OPEN and not self._share(breaker, known):
                with self._lock:
                    for other, ticket in zip(breakers, tickets, strict=True):
                        other.release(ticket)
                return Rejection(max(0.0, breaker.until - now), breaker.name)
        return tickets

    def share(self, breaker: Breaker) -> None:
        """Tell other processes how a breaker was changed by an operator."""
        with self._lock:
            (seen,) = self._seen([breaker])
        self._share(breaker, seen)

    def _share(self, breaker: Breaker, seen: int) -> bool:
        """Tell other processes how a breaker has changed; return whether that stands. Else it follows theirs."""
        alone = self.sharing is None or breaker.name.startswith(OF_A_RUN)
        told = None if self.sharing is None or alone else self.sharing.agree(breaker, seen)
        return told is None or self._follow(breaker, told)

    def _follow(self, breaker: Breaker, news: News) -> bool:
        """Follow what others have changed, unless later news were followed before; return whether it is nobody's."""
        count, agreed = news
        with self._lock:
            if self.sharing is not None and self.sharing.saw(breaker.name, count) and agreed is not None:
                breaker.follow(*agreed)
        return agreed is None

    def heed(self, breakers: Mapping[str, Breaker]) -> None:
        """Let breakers follow what other processes have changed. Raises ``JournalError``."""
        if self.sharing is None:
            return
        for name, told in self.sharing.news(breakers.keys()).items():
            self._follow(breakers[name], told)

    def pool(self, pools: Mapping[str, Pool]) -> None:
        """Bring the retry pools of tools together with other processes'. Raises ``JournalError``."""
        if self.pooling is not None:
            self.pooling.agree(pools, self._lock)

    def release(self, binding: Binding) -> None:
        """Give up an admitted attempt without a verdict: its asker was cancelled."""
        self.report(binding, "neutral", self.now())

    def begin(self, binding: Binding) -> None:
        """An asker's first attempt begins: it pays into the process's retry pool."""
        pool = binding.pools.process
        if pool is not None and not pool.full:  # a look that needs no lock: into a full one nothing is paid
            with self._lock:
                binding.pools.first_attempt()
        if binding.share is not None:
            with self._lock:
                binding.share.begin()

    def spend(self, binding: Binding, repeat: Repeat) -> str:
        """Take what a repeat costs; return the pool that does not grant it, or nothing."""
        share, cost, pools = binding.share, repeat.cost, binding.pools
        if share is None:
            if cost <= 0:
                return ""
            with self._lock:
                return pools.try_spend(binding.tool, cost) or ""
        with self._lock:
            if not share.grants(repeat.elsewhere):
                return "token_window"
            refused = pools.try_spend(binding.tool, cost) if cost > 0 else None
            if refused is None:
                share.spend()
            return refused or ""

    def _refund(self, binding: Binding, cost: float) -> None:
        if cost <= 0 and binding.share is None:
            return
        with self._lock:
            if cost > 0:
                binding.pools.refund(binding.tool, cost)
            if binding.share is not None:
                binding.share.refund()

    def keep(self, evidence: Evidence) -> None:
        """Keep what the journal could not take; the keeper brings it back as late evidence.

        Where the spill file cannot take it either, this process remembers it as long as it lives.
        """
        try:
            self.spill.keep(evidence)
        except OSError as error:
            self._only_here.append(evidence)
            self.tell("spill_failed", None, operation_id=evidence.operation_id, error=str(error))
        self.keeper.wake()

    def bring(self) -> None:
        """Give the journal what it could not take before. Raises ``JournalError`` if it still cannot."""
        while self._only_here:
            self._take(self._only_here[0])  # safe to take twice
            self._only_here.popleft()
        self.spill.drain(self._take)

    def _take(self, evidence: Evidence) -> None:
        self.journal.perform(evidence)
        self.presence.wake(evidence.operation_id)

    def late(self, binding: Binding, call: Call, no: int, ended: Ended) -> None:
        """Record the answer of an attempt that its caller had left."""
        fault = read(ended, binding.policy, binding.clean, attempt=no, doubtful=no > 1)
        evidence = Evidence(call.operation_id, no, fault, ended.outcome.data, ended.outcome.note)
        try:
            self.journal.perform(evidence)
        except JournalError:
            self.keep(evidence)
        self.presence.wake(call.operation_id)

    def cut_off(self, call: Call, no: int, why: str) -> None:
        """Record an attempt whose end was not seen (its loop closed, its driver failed): it may have its effect."""
        fault = Fault(FaultClass.UNKNOWN, Proof.MAYBE, why)
        try:
            self.journal.perform(End(call.operation_id, call.attempts[-1].epoch, no, fault, over=False))
        except JournalError as error:
            self.tell("journal_failed", call, error=str(error))  # the lease ends, and finds it in doubt

    def probe_failed(self, call: Call, error: Exception) -> None:
        """Say so aloud: a probe that always fails leaves every doubt to a person."""
        why = str(error) if isinstance(error, VerdictError) else type(error).__name__
        LOG.warning("the probe of %s failed for %s: %s", call.tool, call.operation_id, why)
        self.tell("probe_failed", call, error=why)

    def attend(self) -> None:
        """See that alerts on record are delivered, also where no attempt was made here."""
        if self._watched:
            self.keeper.start()

    def tell(self, event: str, call: Call | None, **facts: object) -> bool:
        """Tell the sinks; return whether all have taken it. One that raises does no call any harm."""
        if not self.sinks:
            return True
        about = {} if call is None else {"operation_id": call.operation_id, "tool": call.tool, "state": str(call.state)}
        taken = True
        for sink in self.sinks:
            try:
                sink(event, about | facts)
            except (Exception, CancelledError):  # noqa: BLE001 - a call may be between its effect and its record
                taken = False
        return taken
