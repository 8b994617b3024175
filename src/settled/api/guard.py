"""The front door: a guard, its tools, its runs. The only place where the parts are put together."""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, cast

from settled.api.alerts.alerting import Postman, others_deliver
from settled.api.alerts.receiving import sorted_out
from settled.api.calls import answering, at_once, drafting, fallbacks, making
from settled.api.calls.dispatching import Dispatching
from settled.api.calls.recent import Recent
from settled.api.calls.result import Result
from settled.api.opening import opened
from settled.api.people.operating import Operating
from settled.api.people.pausing import Pauses
from settled.api.runs import recalling
from settled.api.runs.conversation import Conversations
from settled.api.runs.current_run import current_run
from settled.api.runs.entering import Saga
from settled.api.runs.granting import grant_of, token_keys
from settled.api.runs.joining import Joined
from settled.api.runs.run import Run
from settled.api.runs.runs_here import RunsHere
from settled.api.tools.breakers import KeptBreakers
from settled.api.tools.declaring import Declaring
from settled.api.tools.demands import demand, demand_seconds
from settled.api.vault import Vault
from settled.core.attempts.breaker import Breaker
from settled.core.attempts.budget import Pool, Pools, RetryBudget, RunBudget, TokenWindow
from settled.core.attempts.invalid import InvalidStreak
from settled.core.attempts.threshold import BreakerPolicy
from settled.drivers import aio, sync
from settled.drivers.floor import Floor
from settled.drivers.loops import aside
from settled.drivers.pooling import PoolSharing
from settled.drivers.sharing import Sharing
from settled.drivers.waiting import in_loop
from settled.errors import DeclarationError, JournalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from settled.api.calls.bound import BoundCall
    from settled.api.tools.tool import Tool
    from settled.core.ask import Ask
    from settled.ports import Journal, Receiver, Sink
    from settled.tokens import RunToken

T = TypeVar("T")
MOST_REMEMBERED = 10_000
"""Calls outside of runs that were told as open, of which this process remembers that."""
AT_ONCE = 100
"""Alerts that functions are told of at a time."""


class Guard(Declaring, Dispatching, Operating):
    """Guards tools: every call of theirs ends settled. A sync and an async context manager; ``tools``: name -> tool.

    Args:
        journal: address (``sqlite:///agent.db``, ``postgresql://host/name``, ``redis://host:6379/0``, ``memory://``)
            or a journal; else ``SETTLED_JOURNAL``.
        tenant: whose data it is; keys of two tenants never meet.
        agent: the loop that makes the calls.
        retries: retries of all calls of this guard, of its whole life.
        breaker: a breaker over all tools together; none by default (each tool has its own).
        shared_breakers: heed what other processes on this journal learn: a trip of one's breaker opens the others', and
            of all of them one makes the probe. A change of state then waits for the journal.
        shared_retries: what repeats of a tool may cost is one amount for all processes on this journal, brought
            together about once a second; else each has its own.
        alerts: receivers of alerts (``settled.observe``), and functions that are called with each event that wants
            attention (``tell(event, facts)``): these must neither raise nor block. Where no process has receivers,
            an alert leaves the journal with them.
        lease: seconds that a claim lives unless it is renewed.
        encryption_key: Fernet key (or several, newest first): arguments and results are kept encrypted.
        token_key: signs the tokens of ``run.token``, the same for all who join; or several: the first signs, and
            each is good for checking while keys are changed.
        journal_id, must_exist: refuse another journal, or a missing one, instead of starting anew.
        largest_result: bytes of one result that are kept at the most.
        journal_options: of the journal itself: ``spill``, the file for evidence that the journal cannot take (beside
            an SQLite file, unless it is to outlive a full disk); for SQLite ``synchronous`` and ``busy_timeout``
            (seconds); for PostgreSQL ``schema``, ``pool`` (the most connections that look, beside the one that writes:
            4) and ``patience`` (seconds for a lock or a server that restarts: 5); for Redis ``prefix``, ``pool``,
            ``patience``, ``log_kept`` (seconds; ``None``: for ever) and ``accept_loss`` (``write`` tools also where
            the server may lose their record).

    Raises:
        DeclarationError: an option that cannot work. JournalError: the journal cannot be used.
    """

    def __init__(
        self,
        journal: str | Journal | None = None,
        *,
        tenant: str = "",
        agent: str = "",
        retries: RetryBudget | None = None,
        breaker: BreakerPolicy | None = None,
        shared_breakers: bool = False,
        shared_retries: bool = False,
        alerts: Sink | Receiver | Sequence[Sink | Receiver] = (),
        lease: float = 30.0,
        encryption_key: str | bytes | Sequence[str | bytes] | None = None,
        token_key: str | bytes | Sequence[str | bytes] | None = None,
        journal_id: str | None = None,
        must_exist: bool = False,
        largest_result: int = 16 * 2**20,
        **journal_options: Any,
    ) -> None:
        demand_seconds("lease", lease)
        demand("retries", retries, RetryBudget)
        demand("breaker", breaker, BreakerPolicy)
        self.tenant, self.agent, self.lease, self.largest_result = tenant, agent, lease, largest_result
        self.vault, self.token_keys = Vault(encryption_key), token_keys(token_key)
        self.journal, spill = opened(journal, journal_id=journal_id, must_exist=must_exist, **journal_options)
        sinks, receivers = sorted_out(alerts)
        self.floor = Floor(self.journal, spill, lease=lease, sinks=sinks, watched=bool(receivers))
        self._shown: set[int] = set()
        """Rows of the outbox that the sinks have taken, while receivers have not."""
        self.postman = Postman(self.journal, receivers, lambda alert_id: not sinks or alert_id in self._shown)
        if shared_breakers:
            self.floor.sharing = Sharing(self.journal, self.floor.now)
        if shared_retries:
            self.floor.pooling = PoolSharing(self.journal)
        over_all = Breaker(f"guard:{agent}", breaker) if breaker else None
        self.breakers = KeptBreakers(self.floor, over_all)
        self.runs_here = RunsHere(self.floor)
        self.pauses = Pauses(self.journal)
        self.floor.keeper.chores += [
            self.runs_here.renew,
            self.journal.seal,
            self.floor.bring,
            self.breakers.keep,
            self._agree_on_retries,
            self._deliver_alerts,
        ]
        self.tools: dict[str, Tool[Any, Any]] = {}
        self.models: dict[str, Tool[Any, Any]] = {}
        self.told_open = Recent(MOST_REMEMBERED)
        self.conversations = Conversations(self)
        self._session = RunBudget(retries, scope="session") if retries else None
        self._pools: dict[str, Pools] = {}
        self._streak = InvalidStreak()
        self._lock = threading.Lock()
        _guards.add(self)
        with suppress(JournalError, OSError):  # the keeper tries again
            self.floor.bring()

    # --- calls -----------------------------------------------------------------------------

    def make(self, bound: BoundCall[T]) -> Result[T]:
        """Make a bound call from plain code."""
        if bound.tool.needs_loop:
            if in_loop():
                name = bound.tool.name
                raise DeclarationError(f"{name} is async: await {name}.acall(…), or guard.adispatch({name!r}, …)")
            return self.floor.home.run(self.amake(bound))
        if not bound.tool.follows and (light := at_once.binding_of(self, bound)) is not None:
            return at_once.result_of(self, bound, light)
        run = current_run.get()
        if run is not None and run.recollection and (known := recalling.known(self, run, bound)):
            return fallbacks.recalled(self, bound.tool, known)
        prepared = making.prepare(self, bound)
        if isinstance(prepared, Result):
            return prepared
        result = drafting.prepare(self, prepared) if bound.tool.drafted and not bound.by_hand else None
        if result is None:
            result = answering.finish(self, prepared, sync.make(prepared.life, prepared.binding, self.floor))
        return fallbacks.instead(self, prepared, result) if bound.tool.follows and not bound.by_hand else result

    def value_of(self, bound: BoundCall[T]) -> T:
        """Make a bound call from plain code; return its value or raise."""
        if bound.tool.needs_loop or bound.tool.follows:
            return self.make(bound).unwrap()
        light = at_once.binding_of(self, bound)
        if light is not None:
            read: T = at_once.value_of(self, bound, light)
            return read
        run = current_run.get()
        if run is not None and run.recollection and (known := recalling.known(self, run, bound)):
            return cast("T", answering.value_on_record(self, bound.tool, known))
        prepared = making.prepare(self, bound)
        if isinstance(prepared, Result):
            return cast("T", prepared.unwrap())
        value: T = answering.value_of(self, prepared, sync.make(prepared.life, prepared.binding, self.floor))
        return value

    async def avalue_of(self, bound: BoundCall[T]) -> T:
        """Make a bound call from async code; return its value or raise."""
        if bound.tool.follows:
            return (await self.amake(bound)).unwrap()
        light = at_once.binding_of(self, bound)
        if light is not None:
            read: T = await at_once.avalue_of(self, bound, light)
            return read
        run = current_run.get()
        if run is not None and run.recollection and (known := await recalling.aknown(self, run, bound)):
            return cast("T", answering.value_on_record(self, bound.tool, known))
        prepared = making.prepare(self, bound)
        if isinstance(prepared, Result):
            return cast("T", prepared.unwrap())
        value: T = answering.value_of(self, prepared, await aio.make(prepared.life, prepared.binding, self.floor))
        return value

    async def amake(self, bound: BoundCall[T]) -> Result[T]:
        """Make a bound call from async code."""
        if not bound.tool.follows and (light := at_once.binding_of(self, bound)) is not None:
            return await at_once.aresult_of(self, bound, light)
        run = current_run.get()
        if run is not None and run.recollection and (known := await recalling.aknown(self, run, bound)):
            return await fallbacks.arecalled(self, bound.tool, known)
        prepared = making.prepare(self, bound)
        if isinstance(prepared, Result):
            return prepared
        drafted = bound.tool.drafted and not bound.by_hand
        result = await drafting.aprepare(self, prepared) if drafted else None
        if result is None:
            result = answering.finish(self, prepared, await aio.make(prepared.life, prepared.binding, self.floor))
        follows = bound.tool.follows and not bound.by_hand
        return await fallbacks.ainstead(self, prepared, result) if follows else result

    def ask_of(self, bound: BoundCall[Any]) -> Ask | None:
        """Return what a bound call would ask of the journal."""
        prepared = making.prepare(self, bound)
        return None if isinstance(prepared, Result) else prepared.life.ask

    def run(
        self,
        run_id: str,
        *,
        turn: str | None = None,
        answered: Iterable[str] = (),
        within: float | None = None,
        retries: RetryBudget | None = None,
        tokens: TokenWindow | None = None,
        breaker: BreakerPolicy | None = None,
        on_error: Literal["keep", "compensate"] = "keep",
        tools: Iterable[str] | None = None,
        wait: float = 5.0,
        take_over: bool = False,
        undo_within: float = 30.0,
    ) -> Run:
        """Return a run, to be entered with ``with`` or ``async with``.

        A run that is entered again (after a crash, for a retry) answers its calls from what earlier entries
        did; two identical calls stay two. An older entry that still works may start nothing more.

        Args:
            run_id: names the task, the same each time that it is started.
            turn: id of the user message that is worked on. Only calls of the same turn answer, also when a message is
                delivered again after a later one.
            answered: steps (as given to ``dispatch``) whose answers the history that the model sees holds.
            within: seconds for the whole run; no attempt starts that cannot end in time.
            retries: retries of all calls of the run, over all its entries.
            tokens: model tokens that the run may send, over all its entries and by all agents that join it: a retry
                that would overrun the window is not made (``token_window``); the tool's fallback is called instead.
                First attempts count, and are always made. See ``docs/how-to/fall-back.md`` for what counts when.
            breaker: a breaker over all tools that this entry calls; none by default.
            on_error: ``"compensate"``: an exception, a cancellation or a time-out that leaves the run undoes what it
                did, last first. Each tool with effects must then say how it is undone.
            tools: names of the tools that the run uses, where others of the guard cannot be undone.
            wait: seconds to wait for another process that works on the run; then ``RunInProgress`` is raised.
            take_over: enter at once, and bar the other process from beginning anything more.
            undo_within: seconds that undoing waits for what is in flight, for proof and for tools that are away.

        Entering raises ``RunUndone`` for a run that was rolled back.
        """
        if on_error == "compensate" and turn is not None:
            raise DeclarationError(
                "on_error='compensate' undoes a whole run, every turn of it: enter a run of its own for this turn, "
                f"inside of it: guard.run({f'{run_id}/{turn}'!r}, on_error='compensate')"
            )
        return Run(
            self,
            run_id,
            turn=turn,
            answered=answered if isinstance(answered, str) else tuple(answered),
            within=within,
            retries=retries,
            saga=Saga(on_error, None if tools is None else frozenset(tools), wait, undo_within, take_over=take_over),
            tokens=tokens,
            breaker=breaker,
        )

    def join(
        self,
        token: RunToken | str,
        *,
        lane: str | None = None,
        answered: Iterable[str] = (),
        wait: float = 5.0,
        take_over: bool = False,
        count: Callable[[str, Mapping[str, object]], int] | None = None,
    ) -> Joined:
        """Return another agent's run, to be entered with ``with`` or ``async with``: its calls are that run's.

        Args:
            token: of ``run.token(…)``; see ``settled.tokens`` for how it is sent.
            lane: the lane that it must be for; whatever it says by default.
            answered: steps (as given to ``dispatch``) whose answers the history that the model sees holds.
            wait: seconds to wait for another process that works in the lane; then ``RunInProgress`` is raised.
            take_over: enter at once, and bar the other process from beginning anything more.
            count: as of ``TokenWindow``, where the run has one: what this agent sends counts by it, and else not.

        Raises ``TokenRefused``; entering raises it, too, and ``RunUndone`` for a run that was rolled back.
        """
        return Joined(self, grant_of(self, token, lane), answered=answered, wait=wait, take_over=take_over, count=count)

    def pools_of(self, tool: Tool[Any, Any]) -> Pools:
        """Return the retry pools of this process that a call of ``tool`` draws on."""
        found = self._pools.get(tool.name)
        if found is None:
            with self._lock:
                found = self._pools.setdefault(tool.name, Pools(process=Pool(), session=self._session))
            if self.floor.pooling is not None:
                self.floor.keeper.start()
                with suppress(JournalError):  # what matters more will say that the journal is away
                    self.floor.pool({tool.name: found.process} if found.process is not None else {})
        return found

    def _agree_on_retries(self) -> None:
        self.floor.pool({name: pools.process for name, pools in list(self._pools.items()) if pools.process is not None})

    def streak_of(self) -> InvalidStreak:
        """Return the count of invalid calls of the run at work, or of the guard."""
        run = current_run.get()
        return self._streak if run is None or run.guard is not self else run.streak

    # --- chores and end --------------------------------------------------------------------

    def _forked(self) -> None:
        self._lock = threading.Lock()
        self.conversations = Conversations(self)  # the parent works on those that it has entered
        self.breakers.forked()
        self.runs_here.forked()
        self.floor.forked()
        for pools in self._pools.values():
            if pools.process is not None:
                pools.process.forked()
        self.postman.forked()

    def _deliver_alerts(self) -> None:
        """Hand the outbox to the sinks, and let the postman know; a row leaves it only after that.

        Where another process has receivers, it leaves the outbox when they have taken it.
        """
        alerts = self.journal.alerts(len(self._shown) + AT_ONCE) if self.floor.sinks else ()
        taken = [
            alert.alert_id
            for alert in alerts
            if alert.alert_id in self._shown
            or self.floor.tell("alert", None, kind=alert.kind, operation_id=alert.operation_id, at=alert.at)
        ]
        if self.postman.receivers:
            self._shown = {alert.alert_id for alert in alerts}  # a sink that raises keeps nobody else from being told
            self.postman.poke()
        elif taken and others_deliver(self.journal):
            self._shown = set(taken)
        elif taken:
            self.journal.delivered(taken)

    def close(self) -> None:
        """Let go of threads and files. Calls that run on detached are recorded as late evidence or spilled."""
        self.floor.home.close(self.floor.under_way)
        self.floor.keeper.close()
        self.postman.close()
        with suppress(JournalError):  # what the breakers have learnt is worth a try, and no more
            self.breakers.keep(changed=True)
            self._agree_on_retries()
        self.journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await aside(self.close)


_guards: weakref.WeakSet[Guard] = weakref.WeakSet()


def _forked() -> None:
    for guard in list(_guards):
        guard._forked()  # noqa: SLF001 - the module's own


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
