"""``SqliteJournal``: the port, put together from file, group commit, books, audit and care."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from settled import host
from settled.errors import JournalError
from settled.journals.audit import in_pieces
from settled.journals.commit import GroupCommit
from settled.journals.forks import tell_of_forks
from settled.journals.mark import remove_mark
from settled.journals.sessions import session_over
from settled.journals.spill import FileSpill
from settled.journals.sqlite import audit, care
from settled.journals.sqlite.books import Reader
from settled.journals.sqlite.file import JournalFile
from settled.journals.sqlite.transactions import Transactions
from settled.journals.stored import Errand, StoredJournal
from settled.transaction import Transaction

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator

    from settled.core.model import Moment
    from settled.ports import Joint, Report

Synchronous = Literal["FULL", "NORMAL"]


class SqliteJournal(StoredJournal):
    """Calls on record in one SQLite file.

    Args:
        path: The file; created with its tables if it does not exist.
        clock: The journal's clock, by which leases are judged.
        synchronous: ``"FULL"`` or ``"NORMAL"`` (see the package).
        busy_timeout: Seconds to wait for the lock that another process holds.
        journal_id: The identity that the journal must have; then none is created.
        must_exist: Refuse to create one.
        spill: Where evidence goes that the file cannot take: beside it by default. On another disk it
            survives a full one.

    Raises:
        JournalError: It cannot be opened, or it is not the journal that was in use at ``path``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Callable[[], Moment] = host.now,
        synchronous: Synchronous = "FULL",
        busy_timeout: float = 5.0,
        journal_id: str | None = None,
        must_exist: bool = False,
        spill: str | os.PathLike[str] | None = None,
    ) -> None:
        self._file = JournalFile(os.fspath(path), synchronous=synchronous, busy_timeout=busy_timeout)
        self.spill = FileSpill(f"{self._file.path}-spill" if spill is None else spill, like=self._file.path)
        self._clock = clock
        self._transactions = Transactions(self._file, clock)
        self._commit = GroupCommit(self._transactions.run, self._file.closed_error)
        self._pid = os.getpid()
        self._closed = False
        self._forking = False
        self._file.open(journal_id=journal_id, must_exist=must_exist)
        tell_of_forks(self)

    @property
    def url(self) -> str:
        """The journal's address."""
        return f"sqlite:///{self._file.path}"

    @property
    def path(self) -> str:
        """The file."""
        return self._file.path

    @property
    def journal_id(self) -> str:
        """The identity that the journal was given when it was created."""
        return self._file.journal_id

    def now(self) -> Moment:
        """Read the journal's clock."""
        return self._clock()

    def together(self, work: Joint) -> Any:
        """Do a tool's work in one transaction with its record (see ``ports.TransactionalJournal``)."""
        self._mind_forks()
        patience = self._file.busy_timeout + 1.0
        return self._commit.alone(lambda: self._transactions.together(work, _transaction), patience)

    @contextmanager
    def _reading(self) -> Iterator[Reader]:
        self._mind_forks()
        with self._file.reader() as connection:
            yield Reader(connection)

    # --- audit and care ---

    def seal(self) -> bool:
        """Chain the log heads that are new since the last seal; return whether there were any."""
        sealed = in_pieces(lambda: self.perform(Errand(audit.seal)))
        if sealed:
            self._file.leave_mark()
        return sealed

    def verify(self, head: str | None = None) -> Report:
        """Check every chain and seal, and every call against its log; with ``head``, that the log goes on from it."""
        self._mind_forks()
        with self._file.reader() as connection:
            return audit.verify(connection, head)

    def check(self) -> Report:
        """Look at health and settings: schema, durability, integrity, size."""
        self._mind_forks()
        with self._file.reader() as connection:
            return care.check(connection, self._file, self.spill.path)

    def compact(self, *, vacuum: bool = False) -> None:
        """Fold the write-ahead log into the file and empty it, so that what was erased is in neither.

        ``vacuum`` also gives free pages back to the disk; it writes the whole file anew and blocks writers meanwhile.
        Raises ``JournalError`` where another connection reads or writes it for longer than ``busy_timeout``.
        """
        self._mind_forks()
        with self._file.reader() as connection:
            care.compact(connection, vacuum=vacuum)

    # --- end, and forks ---

    def close(self) -> None:
        """Let go of files and threads. Harmless when repeated."""
        if self._closed:
            return
        self._closed = True
        patience = self._file.busy_timeout + 1.0
        self._file.close(patience)
        if self._commit.close(patience):
            self._file.drop_writer()
            self._file.turn.leave()
        with suppress(JournalError):
            self._file.leave_mark()

    def before_fork(self) -> None:
        """Close every connection, so that a child inherits none; waits for what is under way."""
        self._forking = False
        if self._closed:
            return
        self._forking = self._commit.hold(self._file.busy_timeout + 1.0)
        self._file.hold(self._file.busy_timeout)
        if self._forking:
            self._file.drop_writer()

    def after_fork_in_parent(self) -> None:
        """Go on; connections are opened when they are needed."""
        if self._closed:
            return
        self._file.let_go()
        if self._forking:
            self._commit.let_go()

    def after_fork_in_child(self) -> None:
        """Begin with an empty queue and no connection. What other threads of the parent asked for is the parent's."""
        self._pid = os.getpid()
        self._file.forget_connections(closed=self._closed)
        self._transactions.start_anew()
        self._commit.start_anew(closed=self._closed)


def _transaction(connection: sqlite3.Connection) -> Transaction:
    return Transaction(connection, lambda lent: session_over(lent, "sqlite://"))


def open_sqlite(url: str, **options: Any) -> tuple[SqliteJournal, FileSpill]:
    """Open the journal at ``sqlite:///relative.db`` or ``sqlite:////absolute.db``, and the spill file beside it.

    Query fields are options: ``sqlite:///agent.db?synchronous=NORMAL&busy_timeout=2``.

    Raises:
        JournalError: The address is not one of these, or the journal cannot be opened.
    """
    parts = urlsplit(url)
    if any(character in url for character in "#\t\r\n\0"):  # split off or left out, unseen: another file's address
        raise JournalError(f"{url!r} is no SQLite address: a # in a file's name is written %23, a line's end %0A")
    if not url.startswith("sqlite:///") or parts.netloc or not parts.path[1:]:
        raise JournalError(f"{url!r} is no SQLite address: write sqlite:///agent.db, or sqlite:////data/agent.db")
    journal = SqliteJournal(unquote(parts.path[1:]), **{**_from_query(url, parts.query), **options})
    return journal, journal.spill


def _from_query(url: str, query: str) -> dict[str, Any]:
    readers: dict[str, Callable[[str], Any]] = {
        "synchronous": str.upper,
        "busy_timeout": float,
        "journal_id": str,
        "spill": str,
        "must_exist": lambda text: {"true": True, "1": True, "false": False, "0": False}[text.lower()],
    }
    try:
        return {
            name: readers[name](text) for name, text in parse_qsl(query, keep_blank_values=True, strict_parsing=True)
        }
    except (KeyError, ValueError) as fault:
        raise JournalError(f"{url!r}: the options are {', '.join(readers)}; {fault} is not understood") from fault


def migrate(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Bring a journal to this release's schema, by whatever steps that takes; return its version before and after.

    Raises:
        JournalError: There is no journal, it is in use, or it is newer than this release.
    """
    return care.migrate(JournalFile(os.fspath(path), synchronous="FULL", busy_timeout=5.0))


def accept(path: str | os.PathLike[str]) -> str | None:
    """Let what is at ``path`` now count as the journal; return its identity, ``None`` if there is none.

    For a file that was replaced or restored on purpose. Calls that the former one had on record and this one has not
    may be made once more. Where there is no file, the next guard creates a new journal.

    Raises:
        JournalError: The file is there and is no journal.
    """
    real = os.path.realpath(path)
    if not Path(real).exists() or not Path(real).stat().st_size:
        remove_mark(real)
        return None
    return care.accept(JournalFile(real, synchronous="FULL", busy_timeout=5.0))
