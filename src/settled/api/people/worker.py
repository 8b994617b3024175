"""A worker: settles on a schedule what processes have left behind. Any number of them may run on one journal.

It begins no attempt of a call; it does go on with undoing runs whose process was lost on the way. Which worker looks
after which call is claimed on record (``core/doubt/tending.py``), and which run by its lease.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from settled import host
from settled.api import secrets
from settled.api.people import care
from settled.api.people.ledgers import acompare_due
from settled.api.people.queue import pages
from settled.api.runs.carrying_on import CarriedOn, acarry_on
from settled.core import rules
from settled.core.doubt.settle import PROBE_LIMIT
from settled.core.doubt.settling import Adopt
from settled.core.doubt.tending import AdoptLost, LayDown, TakeUp, next_look
from settled.core.states import State
from settled.core.values import replace
from settled.drivers.floor import LOG
from settled.drivers.loops import aside
from settled.errors import DeclarationError, JournalError
from settled.journals.prune import prune
from settled.journals.unread import UnreadableError
from settled.ports import CallQuery

if TYPE_CHECKING:
    from collections.abc import Callable

    from settled.api.guard import Guard
    from settled.api.people.care import Reconciled
    from settled.api.people.ledgers import Compared
    from settled.core.call import Call

_CLAIM: Final = 2 * PROBE_LIMIT
"""Seconds for which a call that was taken up is left to its worker: if that dies, another takes it up."""
_BATCH: Final = 200
_SLICE: Final = 0.1
"""Seconds between looks whether to go on without a ledger."""
_LONGEST_PAUSE: Final = 60.0
"""Seconds between tries while the journal cannot be used."""


@dataclass(frozen=True, slots=True)
class Round:
    """What a worker did in one round, or in all of them."""

    settled: Reconciled = field(default_factory=care.Reconciled)
    undone: CarriedOn = field(default_factory=CarriedOn)
    pruned: int = 0
    findings: int = 0
    """New findings of comparisons with the tools' ledgers."""
    trouble: str = ""
    """Why the journal, or a record of it, could not be used, or what else failed; what was done before stays done."""

    @property
    def idle(self) -> bool:
        """Whether nothing was to be done."""
        return self == Round()

    def plus(self, other: Round) -> Round:
        """Return the sum of two; the trouble is the last one's."""
        ours, theirs = self.settled, other.settled
        names = ("orphans", "happened", "did_not_happen", "left", "probes_failed")
        total = replace(ours, **{name: getattr(ours, name) + getattr(theirs, name) for name in names})
        undone = self.undone.sum(other.undone)
        findings = self.findings + other.findings
        return Round(total, undone, self.pruned + other.pruned, findings, other.trouble)


class Worker:
    """Takes calls from lost owners, asks the tools' probes about those in doubt, and prunes what is past retention.

    Undoing a run that a lost process has begun is gone on with, and so is what has become possible to undo since.

    A call that stays in doubt is looked at again after half the time that it has stood so, or when a probe can prove
    absence: at most an hour later. One that its own owner left in doubt is first left alone for the rest of its lease.

    Args:
        guard: with the tools whose calls are asked about; calls of other tools are left to other workers.
        every: seconds between rounds.
        together: calls that are asked about at the same time.
        prune: whether to erase what is past its retention.
        ledger_every: seconds between comparisons with a tool's ledger, by whichever worker; ``None``: none.

    Raises:
        DeclarationError: a number that cannot work.
    """

    def __init__(
        self,
        guard: Guard,
        *,
        every: float = 5.0,
        together: int = 8,
        prune: bool = True,
        ledger_every: float | None = 3600.0,
    ) -> None:
        if not (every > 0 and together > 0 and (ledger_every is None or ledger_every > 0)):
            raise DeclarationError("every=, together= and ledger_every= must be above 0")
        self._ledger_every = ledger_every
        self.guard, self.every, self._together, self._prunes = guard, every, together, prune
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._done = Round()
        """What this round has done so far."""
        self._comparing: asyncio.Task[tuple[Compared, ...]] | None = None
        """Beside the rounds: a ledger may take its time."""
        self._patience: float | None = None
        """Seconds for which a round waits for a comparison that it has begun; ``None``: until it has ended."""
        self._journal_away = False

    def stop(self) -> None:
        """Take up nothing more, finish what is under way, and end. From any thread."""
        with suppress(RuntimeError):  # its loop is closed: it has ended
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._stopping.set)
                return
        self._stopping.set()

    def run(self, tell: Callable[[Round], object] | None = None) -> Round:
        """Work until ``stop`` is called, from plain code; see ``arun``."""
        return asyncio.run(self.arun(tell))

    async def arun(self, tell: Callable[[Round], object] | None = None) -> Round:
        """Work until ``stop`` is called; ``tell`` is told of every round that did something. Return the sum."""
        self._loop = asyncio.get_running_loop()
        self.guard.floor.keeper.start()  # seals the log, delivers alerts, brings back what was spilled
        total, pause = Round(), self.every
        try:
            while not self._stopping.is_set():
                done = await self._tried()
                total = total.plus(done)
                if tell is not None and not done.idle:
                    tell(done)
                pause = min(max(_LONGEST_PAUSE, self.every), 2 * pause) if self._journal_away else self.every
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), pause)
        finally:
            await self._leave_ledgers()
        return total

    async def _tried(self) -> Round:
        try:
            done = await self._round(PROBE_LIMIT)
        except JournalError as error:
            self._journal_away = True
            return replace(self._done, trouble=str(error))
        self._journal_away = False
        return done

    async def around(self) -> Round:
        """Make one round: what is there to be done now. Raises ``JournalError``.

        A record that cannot be read is passed over; where a part of the round cannot do without, or meets what nobody
        has thought of, the others go on.
        """
        try:
            return await self._round(None)
        finally:
            await self._leave_ledgers()

    async def _round(self, patience: float | None) -> Round:
        self._patience = patience
        self._loop, self._done = asyncio.get_running_loop(), Round()
        self.guard.floor.attend()  # alerts of others are delivered too
        for part in (self._bring, self._adopt, self._settle, self._carry_on, self._compare, self._prune):
            if self._stopping.is_set():
                break
            try:
                await part()
            except UnreadableError as error:
                self._done = replace(self._done, trouble=str(error))
            except JournalError:
                raise
            except Exception as error:  # noqa: BLE001 - one fault in one part is not to end the work on all calls
                trouble = f"{type(error).__name__}: {secrets.clean(str(error))}"
                LOG.warning("part of a worker's round failed: %s", trouble)
                self._done = replace(self._done, trouble=trouble)
        return self._done

    async def _bring(self) -> None:
        await aside(self.guard.floor.bring)

    async def _carry_on(self) -> None:
        self._done = replace(self._done, undone=await acarry_on(self.guard, wait=PROBE_LIMIT))

    async def _prune(self) -> None:
        if self._prunes:
            pruned = await aside(partial(prune, self.guard.journal, limit=1000))
            self._done = replace(self._done, pruned=pruned.total)

    # --- lost owners ---

    async def _adopt(self) -> None:
        journal = self.guard.journal
        for call in await aside(self._seen_dead):
            after = await journal.aperform(Adopt(call.operation_id, dead=call.epoch))
            self._adopted(after is not None and after.state is not State.PROCESSING)
        while not self._stopping.is_set():
            found = await journal.aperform(AdoptLost(self.guard.tenant, _BATCH))
            self._adopted(found)
            if found < _BATCH:
                break

    def _adopted(self, number: int) -> None:
        settled = self._done.settled
        self._done = replace(self._done, settled=replace(settled, orphans=settled.orphans + number))

    def _seen_dead(self) -> list[Call]:
        """Return calls whose process is seen dead from here: their lease need not be waited out."""
        query = CallQuery(states=(State.PROCESSING,), tenant=self.guard.tenant, readable=True)
        at_work = pages(self.guard.journal, query)
        return [call for call in at_work if host.alive(call.owner) is False]

    # --- ledgers ---

    async def _compare(self) -> None:
        """Compare ledgers; one that takes its time holds up neither the calls in doubt nor the end of the worker."""
        if self._ledger_every is None:
            return
        left = self._patience if self._comparing is None else 0.0
        task = self._comparing = self._comparing or asyncio.create_task(acompare_due(self.guard, self._ledger_every))
        end = None if left is None else time.monotonic() + left
        while not (self._stopping.is_set() or task.done() or (end is not None and time.monotonic() > end)):
            await asyncio.wait({task}, timeout=_SLICE)
        if task.done():
            self._comparing = None
            for compared in task.result():
                self._compared(compared)

    def _compared(self, compared: Compared) -> None:
        done = self._done
        counted = {"happened": compared.happened, "did_not_happen": compared.did_not_happen}
        more = {name: getattr(done.settled, name) + number for name, number in counted.items()}
        self._done = replace(done, settled=replace(done.settled, **more), findings=done.findings + compared.new)
        if compared.trouble:
            self._done = replace(self._done, trouble=f"{compared.tool}: {compared.trouble}")

    async def _leave_ledgers(self) -> None:
        """Give up what is compared at the end: it has concluded nothing, and is taken up by another worker later."""
        task, self._comparing = self._comparing, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # --- calls in doubt ---

    async def _settle(self) -> None:
        """Take up calls as hands are free, until there are none; finish what was taken up in any case."""
        under_way: set[asyncio.Task[None]] = set()
        more = True
        try:
            while more or under_way:
                more = more and not self._stopping.is_set()
                if more:
                    taken = await self._take_up(self._together - len(under_way))
                    under_way |= {asyncio.create_task(self._look(call)) for call in taken}
                    more = bool(taken)
                if under_way:
                    done, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        task.result()
        finally:
            for task in under_way:
                task.cancel()

    async def _take_up(self, limit: int) -> tuple[Call, ...]:
        take_up = TakeUp(self.guard.tenant, tuple(self.guard.tools), limit, _CLAIM)
        return await self.guard.journal.aperform(take_up)

    async def _look(self, call: Call) -> None:
        """Ask about one call; if it stays in doubt, leave it alone until its next look."""
        settled, probe = await care.asettle(self.guard, call)
        self._done = replace(self._done, settled=self._done.settled.plus(settled.state, probe))
        if settled.state is State.UNKNOWN:
            now = await aside(self.guard.journal.now)
            today = self.guard.tools[call.tool].checked.policy.terms
            seconds = next_look(rules.under(settled, today), now, self.every)
            await self.guard.journal.aperform(LayDown(call.operation_id, settled.epoch, seconds))
        self.guard.floor.presence.wake(call.operation_id)


__all__ = ["Round", "Worker"]
