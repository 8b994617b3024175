"""``PostgresJournal``: the port, put together from connections, group commit, books, clock, audit and care."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from settled.core.values import replace
from settled.errors import JournalError
from settled.journals.addressing import connections, seconds
from settled.journals.audit import in_pieces
from settled.journals.commit import GroupCommit
from settled.journals.forks import tell_of_forks
from settled.journals.postgres import care
from settled.journals.postgres.address import read_address
from settled.journals.postgres.clock import ASK, ServerClock
from settled.journals.postgres.connections import Connections
from settled.journals.postgres.ear import Ear
from settled.journals.postgres.identity import Identity, place_of
from settled.journals.postgres.joint import JointTransactions
from settled.journals.postgres.lending import Lending
from settled.journals.postgres.schema import newest
from settled.journals.postgres.seal import Sealer
from settled.journals.postgres.transactions import Transactions
from settled.journals.spill import FileSpill
from settled.journals.stored import Errand, StoredJournal
from settled.journals.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from settled.core.model import Moment
    from settled.journals.postgres.connect import Reader
    from settled.ports import Joint, Report

_YOUNG: Final = 0.05
"""Seconds for which a reading of the clock serves those who only look."""


class PostgresJournal(StoredJournal):
    """Calls on record in one schema of a PostgreSQL database, shared by any number of processes and machines.

    The options can stand in the address's query too: ``postgresql:///agents?schema=settled&pool=2&patience=10``.

    Args:
        url: ``postgresql://user@host/database``; what of its query is not named here is libpq's.
        schema: Where its tables are; made if it does not exist.
        pool: The most connections that look, beside the one that writes: 4 by default.
        patience: Seconds to wait for a lock, a server that restarts, or a connection: 5 by default.
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
        schema: str | None = None,
        pool: int | None = None,
        patience: float | None = None,
        journal_id: str | None = None,
        must_exist: bool = False,
        spill: str | os.PathLike[str] | None = None,
        clock: Callable[[], Moment] | None = None,
    ) -> None:
        address, said = read_address(url, schema)
        identity = Identity(address, place_of(address, spill or said.get("spill")))
        self.spill = FileSpill(identity.place)
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
        self._sealer = Sealer(identity.journal_id)
        self.ear = Ear(self._connections)
        self._transactions = Transactions(self._connections, self._clock, clock)
        self._lending = Lending(self._connections, self._connections.pool)
        self._joint = JointTransactions(self._connections, self._lending, self._transactions, self._clock, self.perform)
        self._commit = GroupCommit(self._transactions.run, self._connections.closed_error)
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
            self._mind_forks()
            with self._connections.reader(patient=False) as look:
                before = clock.mono()
                row = look.execute(ASK).fetchone()
                return clock.read(row, before, clock.mono()).moment
        except JournalError:
            if clock.last is None:
                raise
            return replace(clock.last, wall=clock.last.wall + clock.mono() - clock.last_at)

    def together(self, work: Joint) -> Any:
        """Do a tool's work in one transaction with its record (see ``ports.TransactionalJournal``)."""
        self._mind_forks()
        return self._joint.do(work)

    @contextmanager
    def _reading(self) -> Iterator[Reader]:
        self._mind_forks()
        with self._connections.reader() as reader:
            yield reader

    # --- audit and care ---

    def seal(self) -> bool:
        """Chain the log heads that are new since the last seal; return whether there were any."""
        sealed = in_pieces(lambda: self.perform(Errand(self._sealer.seal, alone=True)))
        if sealed:
            self._connections.identity.leave_mark()
        return sealed

    def verify(self, head: str | None = None) -> Report:
        """Check every chain and seal, and every call against its log; with ``head``, that the log goes on from it."""
        with self._reading() as reader, reader.of_one_moment() as look:
            seals = look.execute("SELECT covered, text FROM seals ORDER BY upto").fetchall()
            return verify(look, [(int(covered), str(text)) for covered, text in seals], head)

    def check(self) -> Report:
        """Look at health and settings: schema, durability, size."""
        with self._reading() as reader:
            return care.check(reader, self._connections)

    # --- end, and forks ---

    def close(self) -> None:
        """Let go of connections and threads. Harmless when repeated."""
        if self._closed:
            return
        self._closed = True
        self.ear.close()
        self._lending.close()
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
        self._lending.forget()
        self._transactions.begin_anew()
        self.ear.forget(closed=self._closed)
        self._commit.start_anew(closed=self._closed)


def open_postgres(url: str, **options: Any) -> tuple[PostgresJournal, FileSpill]:
    """Open the journal at ``postgresql://user@host/database``, and the spill file of this machine.

    Raises:
        JournalError: The address is not understood, or the journal cannot be opened.
    """
    journal = PostgresJournal(url, **options)
    return journal, journal.spill


def migrate(url: str, *, spill: str | os.PathLike[str] | None = None) -> tuple[int, int]:
    """Bring a journal to this release's schema, by whatever steps that takes; return its version before and after.

    Raises:
        JournalError: There is no journal, or it is newer than this release.
    """
    address, _ = read_address(url)
    connections = Connections(address, Identity(address, place_of(address, spill)), pool=1, patience=5.0)
    before = connections.open(journal_id=None, must_exist=True, any_step=True)
    connections.drop_line()
    return before, newest()
