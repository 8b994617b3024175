"""A run: one task of an agent, with its budgets, its state, and what becomes of it when it fails."""

from __future__ import annotations

import os
import threading
import time
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Self

from settled.api import secrets
from settled.api.runs import leaving, sagas, siblings
from settled.api.runs.current_run import current_run
from settled.api.runs.entering import Entering, Saga, check_limits, check_name
from settled.api.runs.granting import token_for
from settled.api.runs.recollection import Recollection
from settled.api.runs.run_state import State, decoded
from settled.api.steps import adrive, drive
from settled.api.tools.demands import demand
from settled.core.attempts.breaker import Breaker
from settled.core.attempts.budget import RetryBudget, TokenWindow
from settled.core.attempts.charge import Charge
from settled.core.attempts.invalid import InvalidStreak
from settled.core.attempts.metering import LookAtTokens, Meter
from settled.core.attempts.threshold import BreakerPolicy
from settled.core.matching.entry import Entry
from settled.core.runs.entering import EnterRun, Held, ReadState, SaveState, scope_of_run
from settled.core.runs.joins import LookAtLanes
from settled.core.runs.lanes import lane_of
from settled.core.values import replace
from settled.current import CurrentCall, current
from settled.drivers.floor import OF_A_RUN
from settled.drivers.waiting import in_loop
from settled.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextvars import Context

    from settled.api.calls.bound import BoundCall, PendingCall
    from settled.api.guard import Guard
    from settled.api.steps import Steps
    from settled.core.books import RunRecord
    from settled.core.runs.joins import JoinRun
    from settled.core.runs.rollback import Order
    from settled.drivers.floor import Binding
    from settled.tokens import RunToken


class Run:
    """Made by ``guard.run(…)``; a sync and an async context manager.

    Entering a run again (after a crash, for a retry, for the next message) answers from what earlier
    entries did. Attributes: ``run_id``; ``entry``, its number; ``deadline`` on ``time.monotonic()``;
    ``state``, plain values that are saved with the next checkpoint.
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
        saga: Saga,
        tokens: TokenWindow | None = None,
        breaker: BreakerPolicy | None = None,
    ) -> None:
        check_name(run_id)
        check_limits(within, answered)
        demand("retries", retries, RetryBudget)
        demand("tokens", tokens, TokenWindow)
        demand("breaker", breaker, BreakerPolicy)
        self.guard, self.run_id, self.turn = guard, run_id, turn
        self.saga, self.on_error = saga, saga.on_error
        self.undoes = saga.on_error == "compensate"
        """Whether an error that leaves it undoes the run."""
        self.only: tuple[str, ...] | None = None
        """For a joined agent: the tools that its token names."""
        self.shared = False
        """Whether a token was given in this entry."""
        self.scope = scope_of_run(guard.tenant, run_id)
        self.memory = Entry()
        self.deadline: float | None = None
        self.charge = Charge(run_id, retries) if retries is not None else None
        self.tokens = tokens
        self.meter: Meter | None = None
        """What is left of the token window, from when it is entered."""
        self.breaker = None if breaker is None else Breaker(f"{OF_A_RUN}{run_id}", breaker)
        self.streak = InvalidStreak()
        self.state = State(guard.vault)
        self._answered, self._within = tuple(answered), within
        self.around: Run | None = None
        """What the code around it works on."""
        self.is_over = True
        """It was not entered, or was left."""
        self._claim, self._pid = "", 0
        self.inside: CurrentCall | None = None
        """The call in which the run was entered, if any: inside the run its calls are the run's."""
        self.hidden: set[str] = set()
        """Texts that calls made in it hide, in this process's memory alone: no reason on record shows them."""
        self.recollection: Recollection | None = None
        """What calls that are plainly on record are answered from; only where the run was entered before."""
        self._entering = threading.Lock()
        self._messages = 0

    @property
    def entry(self) -> int:
        """Number of this entry, from 1 on."""
        return self.memory.no

    # Of a conversation that others drive; what these say is told by ``EnterRun``.
    turn_was = ""
    after: Sequence[str] = ()
    cut_off: Sequence[str] | None = None
    follows = ""
    within = ""
    """The run that this one is a part of, where that is not entered here."""
    lane = ""
    """Of a joined agent."""
    lane_entry = 0

    @property
    def run_entry(self) -> int:
        """The entry of the run's own record that this work belongs to."""
        return self.memory.no

    @property
    def record_id(self) -> str:
        """Which record holds this entry's lease and state."""
        return self.run_id

    def allows(self, tool: str) -> bool:
        """Whether a tool may be called here."""
        return self.only is None or tool in self.only

    def bind(self, binding: Binding, tool: str, arguments: Mapping[str, Any]) -> None:
        """Let the run's own bounds hold for a call. Raises ``DeclarationError`` if its tokens cannot be counted."""
        if self.breaker is not None:
            binding.breakers = (*binding.breakers, self.breaker)
        if self.meter is not None:
            try:
                binding.share = self.meter.share(self.meter.window.tokens_of(tool, arguments))
            except Exception as error:
                raise DeclarationError(f"TokenWindow(count=…) failed for {tool}: {type(error).__name__}") from error

    @property
    def status(self) -> str:
        """How the run stands on record: ``active``, ``completed``, ``kept``, ``compensated``, … (see ``RunState``)."""
        record = self.guard.journal.run(self.guard.tenant, self.run_id)
        return str(record.state) if record is not None else "new"

    @property
    def saved_state(self) -> dict[str, Any]:
        """The run's state as it was last saved, by whichever entry."""
        saved = self.guard.journal.perform(ReadState(self.record_id, self.guard.tenant, self.entry + 1))
        return decoded(self.guard.vault, saved)

    def context(self) -> Context:
        """Return a copy of the caller's context in which this run is the one that is worked on."""
        own = copy_context()
        own.run(current_run.set, self)
        return own

    # --- entering ---

    def _enter(self) -> Entering:
        if not self._entering.acquire(blocking=False):
            raise DeclarationError(f"run {self.run_id!r} is already entered; make a new one with guard.run(…)")
        try:
            self.saga.check(self.guard)
        except BaseException:
            self._entering.release()
            raise
        self.inside = current.get()
        self.deadline = None if self._within is None else time.monotonic() + self._within
        around = current_run.get()
        self.around = around
        self.hidden = self.hidden if around is None else around.hidden  # an inner run's error may leave the outer
        outer = around if around is not None and around.guard is self.guard else None
        entering = Entering(self.guard, self.saga, self._transition(outer))
        self._claim, self._pid = entering.claim, os.getpid()
        return entering

    def _transition(self, outer: Run | None) -> EnterRun | JoinRun:
        """Return what enters the run; ``outer``: the one that it is entered inside of."""
        inside = outer if outer is not None and outer.run_id != self.run_id else None
        return EnterRun(
            self.run_id,
            self.guard.tenant,
            self.turn,
            self._answered,
            on_error=self.on_error,
            turn_was=self.turn_was,
            after=self.after,
            cut_off=self.cut_off,
            follows=self.follows,
            parent=inside.run_id if inside else self.within,
            parent_entry=outer.run_entry if outer else 0,
        )

    def _entered(self, memory: Entry, saved: Mapping[str, bytes]) -> Self:
        self.memory = memory
        self.recollection = Recollection() if memory.earlier and not self.lane else None  # lanes ask the journal
        self.state = State(self.guard.vault, saved)
        self.is_over = False
        current_run.set(self)
        self.guard.runs_here.add(self.guard.tenant, self.record_id, self._claim, self.meter)
        return self

    def _base(self) -> ReadState:
        """What the state is at the beginning of this turn."""
        first = next(iter(self.memory.earlier), self.memory.no)
        return ReadState(self.record_id, self.guard.tenant, first)

    def _metered(self) -> LookAtTokens | None:
        """Begin to count tokens; return what tells how many were sent before."""
        if self.tokens is None:
            return None
        look = LookAtTokens(self.run_id, self.guard.tenant, self.record_id)
        self.meter = Meter(self.tokens, look)
        self.meter.shared = bool(self.lane)
        return look

    def unkept_tokens(self) -> int:
        """Return the model tokens sent in this entry that are not on record."""
        return 0 if self.meter is None else self.meter.unkept()

    def enter_here(self) -> Self:
        """Enter without holding the run, and without becoming what the calling code works on.

        For whoever sees calls of a run that others drive: it waits for nobody, and an entry that is made later, here
        or elsewhere, bars this one.
        """
        self.memory, self.is_over = self._entering_here().enter(), False
        return self

    async def aenter_here(self) -> Self:
        """Like ``enter_here``, from async code."""
        self.memory, self.is_over = await self._entering_here().aenter(), False
        return self

    def _entering_here(self) -> Entering:
        entering = self._enter()
        entering.transition = replace(entering.transition, owner=None)
        return entering

    def reserve(self, calls: Sequence[BoundCall[Any]]) -> None:
        """Match all calls of one message to earlier ones before any of them is made."""
        self.guard.journal.perform(siblings.reservation(self, calls))

    async def areserve(self, calls: Sequence[BoundCall[Any]]) -> None:
        """Like ``reserve``, from async code."""
        await self.guard.journal.aperform(siblings.reservation(self, calls))

    def __enter__(self) -> Self:
        entering = self._enter()
        try:
            return drive(self.guard, self._begun(entering.enter()))
        except BaseException:
            self._entering.release()
            raise

    async def __aenter__(self) -> Self:
        entering = self._enter()
        try:
            return await adrive(self.guard, self._begun(await entering.aenter()))
        except BaseException:
            self._entering.release()
            raise

    def _begun(self, memory: Entry) -> Steps[Self]:
        """Look up what an entry begins with: the tokens that were sent before, and the state of its turn."""
        self.memory = memory
        look = self._metered()
        if look is not None and self.meter is not None:
            self.meter.resume((yield look))
        saved = (yield self._base()) if self.turn is not None else {}
        return self._entered(memory, saved)

    # --- leaving ---

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        del kind, trace
        self._left()
        try:
            if self._pid == os.getpid():  # in a forked child the run is its parent's
                leaving.leave(self, error)
        finally:
            self._released()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        del kind, trace
        self._left()
        try:
            if self._pid == os.getpid():
                await leaving.aleave(self, error)
        finally:
            self._released()

    def _left(self) -> None:
        self.recollection, self.is_over = None, True
        if current_run.get() is not self:  # left in another context than it was entered in, or before a later one
            return
        around = self.around
        while around is not None and around.is_over:
            around = around.around
        current_run.set(around)

    def _released(self) -> None:
        self.guard.runs_here.drop(self._claim)
        self._entering.release()

    # --- what is done in it ---

    def compensate(self, reason: str) -> Any:
        """Undo what the run did, last first; return how it stands then (an awaitable of that in async code).

        ``compensated``: all of it; ``partly_compensated``: what could not be undone, or is not known, stands in the
        queue. No call of the run is made any more. Raises ``JournalError``.
        """
        self.recollection = None
        order = leaving.order_of(self, secrets.clean(reason, leaving.spellings(self)))
        return self._acompensate(order) if in_loop() else _standing(sagas.roll_back(self.guard, order))

    async def _acompensate(self, order: Order) -> str:
        return _standing(await sagas.atry_roll_back(self.guard, order, None))

    def save(self) -> bool:
        """Save what has changed of the state now, apart from any call; return whether this entry is still at work."""
        changes, tokens = self.state.changes(), self.unkept_tokens()
        kept = self.guard.journal.perform(SaveState(self.record_id, self.guard.tenant, self.entry, changes, tokens))
        if kept:
            self.state.kept(changes)
        if kept and self.meter is not None:
            self.meter.kept(tokens)
        return kept

    def token(self, *, lane: str, tools: Iterable[Any] | None = None, within: float | None = None) -> RunToken:
        """Return leave for one other agent to join this run: ``guard.join(token)`` in whatever process.

        It is signed, and a secret: send it in a header or field of its own (``settled.tokens``).

        Args:
            lane: names the agent's part, the same each time: an agent that joins it again is answered from what it did.
            tools: the only tools (or their names) that it may call; any by default.
            within: seconds until it expires, and the agent's deadline; at most what is left of the run, or an hour.

        Raises ``DeclarationError``: no ``Guard(token_key=…)``, or what cannot work.
        """
        if not self._claim:
            raise DeclarationError(f"run {self.run_id!r} is not entered: write with guard.run(…) as run")
        token = token_for(self, lane, tools, within)
        self.shared = True
        if self.meter is not None:
            self.meter.shared = True
        return token

    def lanes(self) -> dict[str, str]:
        """Return how the agents that have joined stand: lane -> ``active``, ``completed``, ``kept`` (it failed)."""
        records = self.guard.journal.perform(LookAtLanes(self.run_id, self.guard.tenant))
        return {lane_of(record): str(record.state) for record in records}

    def untold(self) -> list[str]:
        """Operation ids of calls of this run whose outcome this entry was not given."""
        calls = (self.guard.journal.get(operation_id) for operation_id in self.memory.open)
        return [call.operation_id for call in calls if call is not None and self.memory.untold(call)]

    def gather(self, *calls: BoundCall[Any] | PendingCall[Any]) -> Any:
        r"""Make calls side by side; return their ``Result`` in input order (an awaitable in async code).

        Each call settles on its own: a failure of one never loses another's result. All are matched to
        earlier calls before any is made.
        """
        if self.is_over:
            raise DeclarationError(f"run {self.run_id!r} is not entered: write with guard.run(…) as run")
        for call in calls:
            if not hasattr(call, "as_sibling"):
                raise DeclarationError("gather takes bound calls: run.gather(tool.bind(x=1), tool.bind(x=2))")
        self._messages += 1
        message = f"gather/{self.entry}/{self._messages}"
        bound = [call.as_sibling(message, place) for place, call in enumerate(calls)]
        return siblings.agather(self, bound) if in_loop() else siblings.gather(self, bound)


def _standing(run: RunRecord | Held | None) -> str:
    if run is None:
        return "new"
    return str(run.run.state if isinstance(run, Held) else run.state)
