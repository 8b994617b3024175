"""The journal's front: transitions through the group commit, looking around on connections of its own."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from settled.core.values import replace
from settled.errors import JournalError
from settled.journals.addressing import connections, seconds
from settled.journals.audit import in_pieces
from settled.journals.clock import ServerClock
from settled.journals.commit import GroupCommit
from settled.journals.forks import tell_of_forks
from settled.journals.mark import place_of
from settled.journals.redis import audit, care, lists
from settled.journals.redis.address import read_address
from settled.journals.redis.connections import Connections
from settled.journals.redis.foresight import Hints
from settled.journals.redis.identity import Identity
from settled.journals.redis.request import looking
from settled.journals.redis.settings import read_settings
from settled.journals.redis.transactions import LOST_IF_FORGOTTEN, Transactions, refusal
from settled.journals.spill import FileSpill
from settled.journals.stored import Errand, GroupJournal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from settled.core.books import RunRecord
    from settled.core.call import Call, LogRow
    from settled.core.model import Moment
    from settled.core.states import State
    from settled.journals.redis.line import Line
    from settled.ports import Alert, CallQuery, Report

_YOUNG: Final = 0.05
"""Seconds for which a reading of the clock serves those who only look."""
_NOTHING: Final = Hints()
_BETWEEN_TRIMS: Final = 60.0
"""Seconds between two looks at what of the log is too old."""
_LOG_KEPT_AT_MOST: Final = 100 * 365 * 86400.0
"""Seconds; longer is for ever."""
_SETTINGS_LAST: Final = 60.0
"""Seconds after which the server is asked for its settings again."""


class RedisJournal(GroupJournal):
    """Calls on record in a Redis or Valkey server, shared by any number of processes and machines.

    The options can stand in the address's query too: ``redis://host:6379/0?prefix=agents&pool=2&accept_loss=true``.

    Args:
        url: ``redis://user:password@host:6379/0``, ``valkey://…``, ``rediss://…`` (TLS) or ``unix:///path.sock?db=0``;
            what of its query is not named here is redis-py's.
        prefix: The start of all its keys: ``settled`` by default.
        pool: The most connections that look, beside the one that writes: 4 by default.
        patience: Seconds to wait for a server that restarts, or a connection: 5 by default.
        accept_loss: Let ``write`` tools work although the server may lose what was recorded (see ``check``).
        log_kept: Seconds for which the log is kept, at the least: 30 days by default; ``None`` (in the address: 0): for
            ever. What is older goes, seal by seal; calls stay, and the chain goes on from the last seal that went.
        journal_id: The identity that the journal must have; then none is created.
        must_exist: Refuse to create one.
        spill: The file of this machine for evidence that the server cannot take, and the mark of the journal beside
            it; by default in the user's folder for state (``XDG_STATE_HOME``).
        clock: Another clock than the server's, by which leases are judged: for tests.

    Raises:
        JournalError: It cannot be opened, or it is not the journal that was in use here.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str | None = None,
        pool: int | None = None,
        patience: float | None = None,
        accept_loss: bool = False,
        log_kept: float | None = 30 * 86400.0,
        journal_id: str | None = None,
        must_exist: bool = False,
        spill: str | os.PathLike[str] | None = None,
        clock: Callable[[], Moment] | None = None,
    ) -> None:
        address, said = read_address(url, prefix)
        self._log_kept = seconds("log_kept", said.get("log_kept", log_kept) or 0.0, _LOG_KEPT_AT_MOST) or None
        place = place_of(address.file_name, address.shown, spill or said.get("spill"))
        self.spill = FileSpill(place)
        identity = Identity(address, place, accept_loss=accept_loss or said.get("accept_loss", False))
        self._connections = Connections(
            address,
            identity,
            pool=connections(said.get("pool", 4) if pool is None else pool),
            patience=seconds("patience", said.get("patience", 5.0) if patience is None else patience),
        )
        self._connections.open(
            journal_id=journal_id or said.get("journal_id"), must_exist=must_exist or said.get("must_exist", False)
        )
        self._given = clock
        self._clock = ServerClock(identity.journal_id)
        self._transactions = Transactions(self._connections, self._clock, clock)
        self._commit = GroupCommit(self._transactions.run, self._connections.closed_error)
        self._settings_read = time.monotonic()
        self._trimmed = time.monotonic()
        self._pid = os.getpid()
        self._closed = False
        self._forking = False
        tell_of_forks(self)

    @property
    def url(self) -> str:
        """The journal's address, without secrets."""
        return self._connections.address.shown

    @property
    def journal_id(self) -> str:
        """The identity that the journal was given when it was created."""
        return self._connections.identity.journal_id

    def refuses(self, what: str) -> str:
        """Say why tools of an effect (``write``), or runs to be undone (``compensate``), may not be used here.

        Empty if they may.
        """
        losses = self._connections.settings.losses
        if what not in LOST_IF_FORGOTTEN or not losses or self._connections.identity.accept_loss:
            return ""
        return str(refusal(self.url, losses, what))

    # --- looking ---

    def now(self) -> Moment:
        """Read the journal's clock; where the server is away, its steady clock stands still.

        So it is too early, never too late, and ends no wait.
        """
        if self._given is not None:
            return self._given()
        clock = self._clock
        if clock.last is not None and clock.mono() - clock.last_at < _YOUNG:
            return clock.last
        try:
            with self._line(patient=False) as line:
                before = clock.mono()
                answer = self._transactions.checked(line.run(*self._transactions.request(_NOTHING)))
                return self._transactions.hear(answer, before)
        except JournalError:
            if clock.last is None:
                raise
            return replace(clock.last, wall=clock.last.wall + clock.mono() - clock.last_at)

    @contextmanager
    def _line(self, *, patient: bool = True) -> Iterator[Line]:
        self._mind_forks()
        with self._connections.reader(patient=patient) as line:
            yield line

    def _look(self, asked: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Ask the server several things at one moment. Raises ``JournalError``."""
        if not asked:
            return []
        with self._line() as line:
            return self._look_on(line, asked)

    def _look_on(self, line: Line, asked: Sequence[tuple[Any, ...]]) -> list[Any]:
        answer = line.run(*looking(self._connections.identity, asked))
        return list(self._transactions.checked(answer)[2])

    def get(self, operation_id: str) -> Call | None:
        """Return one call."""
        return lists.get(self._look, operation_id)

    def find(self, query: CallQuery) -> Sequence[Call]:
        """List calls, newest first."""
        return lists.find(self._look, query, self.now())

    def count(self) -> Mapping[State, int]:
        """Return how many calls stand in each state."""
        return lists.count(self._look)

    def log(self, operation_id: str) -> Sequence[LogRow]:
        """Return the log of one call, oldest first."""
        return lists.log(self._look, operation_id)

    def runs(self, limit: int = 100, *, named: str | None = None) -> Sequence[RunRecord]:
        """List runs, newest first; ``named``: those with this id, of whatever tenant."""
        return lists.runs(self._look, limit) if named is None else lists.runs_named(self._look, named, limit)

    def run(self, tenant: str, run_id: str) -> RunRecord | None:
        """Return the record of a run."""
        return lists.run(self._look, tenant, run_id)

    def undoing(self, limit: int = 100) -> Sequence[RunRecord]:
        """Return the runs that are being undone, or are undone in part, the oldest first."""
        return lists.undoing(self._look, limit)

    # --- alerts and breakers ---

    def alerts(self, limit: int = 100) -> Sequence[Alert]:
        """Return alerts that were not delivered yet, oldest first."""
        return lists.alerts(self._look, limit)

    def delivered(self, alert_ids: Sequence[int]) -> None:
        """Take delivered alerts out of the outbox."""
        self.perform(Errand(lambda books, _: books.delivered(alert_ids)))

    def notes(self, kind: str) -> Mapping[str, str]:
        """Return what is noted of a kind beside the calls, by name."""
        return lists.notes(self._look, kind)

    def save_breakers(
        self, snapshots: Mapping[str, Mapping[str, Any]], opened: Sequence[str] = ()
    ) -> Mapping[str, int]:
        """Keep the breakers' states; return for each name how often it was reset from outside."""
        return self.perform(Errand(lambda books, _: lists.save_breakers(books, snapshots, opened)))

    def breakers(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the breakers' last kept states."""
        return lists.breakers(self._look)

    def reset_breakers(self, names: Sequence[str] | None = None) -> Sequence[str]:
        """Ask every process to reset these breakers (``None``: all); return the names."""
        return self.perform(Errand(lambda books, _: lists.reset_breakers(books, names)))

    def agree(self, name: str, seen: int, text: str) -> tuple[int, str]:
        """Change a breaker's shared state if nobody has since it had changed ``seen`` times; return how it stands."""
        agreed: tuple[int, str] = self.perform(Errand(lambda books, _: lists.agree(books, name, seen, text)))
        return agreed

    def agreed(self) -> Mapping[str, tuple[int, str]]:
        """Return the shared states of breakers: how often each has changed, and how it stands."""
        return lists.agreed(self._look)

    # --- audit and care ---

    def seal(self) -> bool:
        """Chain the log heads that are new since the last seal; return whether there were any."""
        self._mind_settings()
        self._mind_log()
        if not audit.unsealed(self._look):
            return False
        sealed = in_pieces(lambda: self.perform(Errand(lambda books, now: audit.seal(books, self._look, now))))
        if sealed:
            self._connections.identity.leave_mark()
        return sealed

    def _mind_settings(self) -> None:
        """Notice settings that were changed while the server ran: it may have become one that loses records."""
        if time.monotonic() - self._settings_read >= _SETTINGS_LAST:
            self._settings_read = time.monotonic()
            with self._line() as line:
                self._connections.settings = read_settings(line, line.info())

    def _mind_log(self) -> None:
        """Let go of what is older than it is to be kept, a seal's rows at a time."""
        if self._log_kept is not None and time.monotonic() - self._trimmed >= _BETWEEN_TRIMS:
            more: bool = self.perform(
                Errand(lambda books, now: audit.trim(books, self._look, now, self._log_kept or 0.0))
            )
            self._trimmed = 0.0 if more else time.monotonic()

    def head(self) -> str:
        """Return the newest seal."""
        return audit.head(self._look)

    def verify(self, head: str | None = None) -> Report:
        """Check every chain and seal, and every call against its log; with ``head``, that the log goes on from it."""
        return audit.verify(self._look, head)

    def check(self) -> Report:
        """Look at health and settings: durability, eviction, replication, what was lost, size."""
        with self._line() as line:
            return care.check(line, lambda asked: self._look_on(line, asked), self._connections)

    # --- end, and forks ---

    def close(self) -> None:
        """Let go of connections and threads. Harmless when repeated."""
        if self._closed:
            return
        self._closed = True
        self._connections.close()
        if self._commit.close(self._connections.patience + 1.0):
            self._connections.drop_line()
        with suppress(JournalError):
            self._connections.identity.leave_mark()

    def before_fork(self) -> None:
        """Come to rest, so that no transaction is under way."""
        if not self._closed:
            self._forking = self._commit.hold(self._connections.patience + 1.0)

    def after_fork_in_parent(self) -> None:
        """Go on."""
        if not self._closed and self._forking:
            self._commit.let_go()

    def after_fork_in_child(self) -> None:
        """Begin with an empty queue and no connection. What other threads of the parent asked for is the parent's."""
        self._pid = os.getpid()
        self._connections.forget(closed=self._closed)
        self._transactions.begin_anew()
        self._commit.start_anew(closed=self._closed)


def open_redis(url: str, **options: Any) -> tuple[RedisJournal, FileSpill]:
    """Open the journal at ``redis://host:6379/0``, and the spill file of this machine.

    Raises:
        JournalError: The address is not understood, or the journal cannot be opened.
    """
    journal = RedisJournal(url, **options)
    return journal, journal.spill
