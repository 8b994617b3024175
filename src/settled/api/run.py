"""A run: one task of an agent, with its budgets, its deadline, and what its calls answer when it is entered again."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import Context, ContextVar, Token, copy_context
from typing import TYPE_CHECKING, Any, Self

from settled.core.claim import Reserve
from settled.core.entry import Entry
from settled.core.invalid import InvalidStreak
from settled.core.progress import Charge
from settled.core.runs import EnterRun, scope_of_run
from settled.current import CurrentCall, current
from settled.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.api.bound import BoundCall, PendingCall
    from settled.api.guard import Guard
    from settled.core.budget import RetryBudget

current_run: ContextVar[Run | None] = ContextVar("settled_run", default=None)
MOST_THREADS = 32


class Run:
    """Made by ``guard.run(…)``; a sync and an async context manager.

    Entering a run again (after a crash, for a retry, for the next message) answers from what earlier
    entries did. Attributes: ``run_id``; ``entry``, its number; ``deadline`` on ``time.monotonic()``.
    """

    def __init__(
        self,
        guard: Guard,
        run_id: str,
        *,
        turn: str | None,
        answered: Sequence[str],
        within: float | None,
        retries: RetryBudget | None,
    ) -> None:
        if not run_id or not isinstance(run_id, str):
            raise DeclarationError("a run needs an id that stays the same when it starts again: guard.run('trip-42')")
        if within is not None and within < 0:
            raise DeclarationError(f"within must be a number of seconds from 0 on, not {within!r}")
        if isinstance(answered, str):
            raise DeclarationError(f"answered must be a sequence of steps: answered=[{answered!r}]")
        self.guard, self.run_id, self.turn = guard, run_id, turn
        self.scope = scope_of_run(guard.tenant, run_id)
        self.memory = Entry()
        self.deadline: float | None = None
        self.charge = Charge(run_id, retries) if retries is not None else None
        self.streak = InvalidStreak()
        self._answered, self._within = tuple(answered), within
        self._token: Token[Run | None] | None = None
        self.inside: CurrentCall | None = None
        """The call in which the run was entered, if any: inside the run its calls are the run's."""
        self._entering = threading.Lock()
        self._messages = 0

    @property
    def entry(self) -> int:
        """Number of this entry, from 1 on."""
        return self.memory.no

    def _enter(self) -> EnterRun:
        if not self._entering.acquire(blocking=False):
            raise DeclarationError(f"run {self.run_id!r} is already entered; make a new one with guard.run(…)")
        self.inside = current.get()
        self.deadline = None if self._within is None else time.monotonic() + self._within
        return EnterRun(self.run_id, self.guard.tenant, self.turn, self._answered)

    def _entered(self, memory: Entry) -> Self:
        self.memory = memory
        self._token = current_run.set(self)
        return self

    def _leave(self) -> None:
        if self._token is not None:
            with contextlib.suppress(ValueError):  # left in another context than it was entered in
                current_run.reset(self._token)
            self._token = None
        self._entering.release()

    def __enter__(self) -> Self:
        entering = self._enter()
        try:
            return self._entered(self.guard.journal.perform(entering))
        except BaseException:
            self._entering.release()
            raise

    def __exit__(self, *_: object) -> None:
        self._leave()

    async def __aenter__(self) -> Self:
        entering = self._enter()
        try:
            return self._entered(await self.guard.journal.aperform(entering))
        except BaseException:
            self._entering.release()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    def untold(self) -> list[str]:
        """Operation ids of calls of this run whose outcome this entry was not given."""
        calls = (self.guard.journal.get(operation_id) for operation_id in self.memory.open)
        return [call.operation_id for call in calls if call is not None and self.memory.untold(call)]

    def gather(self, *calls: BoundCall[Any] | PendingCall[Any]) -> Any:
        r"""Make calls side by side; return their ``Result`` in input order (an awaitable in async code).

        Each call settles on its own: a failure of one never loses another's result. All are matched to
        earlier calls before any is made.
        """
        if self._token is None:
            raise DeclarationError(f"run {self.run_id!r} is not entered: write with guard.run(…) as run")
        for call in calls:
            if not hasattr(call, "as_sibling"):
                raise DeclarationError("gather takes bound calls: run.gather(tool.bind(x=1), tool.bind(x=2))")
        self._messages += 1
        message = f"gather/{self.entry}/{self._messages}"
        bound = [call.as_sibling(message, place) for place, call in enumerate(calls)]
        return self._agather(bound) if in_loop() else self._gather(bound)

    def _gather(self, bound: list[BoundCall[Any]]) -> list[Any]:
        self.guard.journal.perform(self._reserve(bound))
        with ThreadPoolExecutor(min(MOST_THREADS, max(1, len(bound))), "settled-gather") as threads:
            futures = [threads.submit(self._within_it().run, call.call) for call in bound]
            wait(futures)  # what raises (the journal failed) must not lose what the others brought
            return [future.result() for future in futures]

    async def _agather(self, bound: list[BoundCall[Any]]) -> list[Any]:
        await self.guard.journal.aperform(self._reserve(bound))
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(call.acall(), context=self._within_it()) for call in bound]
        return list(await asyncio.gather(*tasks))

    def _reserve(self, bound: list[BoundCall[Any]]) -> Reserve:
        asks = [self._within_it().run(call.ask) for call in bound]
        return Reserve([ask for ask in asks if ask is not None])

    def _within_it(self) -> Context:
        """Return a copy of the caller's context in which this run is the one that is worked on."""
        own = copy_context()
        own.run(current_run.set, self)
        return own


def in_loop() -> bool:
    """Whether the calling code runs on an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
