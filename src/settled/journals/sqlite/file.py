"""The journal's file: how it is opened, and its connections.

One connection writes; a few read. Nothing here opens the file by other means than SQLite's: closing such a handle
would drop the locks that SQLite holds on it for this process.
"""

from __future__ import annotations

import atexit
import os
import sqlite3
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from settled.errors import JournalError
from settled.journals.mark import Mark, check_identity, lost, not_there, read_mark, write_mark
from settled.journals.sqlite import schema
from settled.journals.sqlite.left_log import check_log
from settled.journals.sqlite.lending import Lending
from settled.journals.sqlite.same_file import SameFile
from settled.journals.sqlite.trouble import explained
from settled.journals.sqlite.turn import Turn
from settled.journals.sqlite.waiting import use_wal

if TYPE_CHECKING:
    from collections.abc import Iterator

_SYNCHRONOUS: Final = ("FULL", "NORMAL")
_CHECKPOINT_PAGES: Final = 4000
"""Pages in the write-ahead log (16 MB) at which it is folded into the file."""

_LONGEST_WAIT: Final = 86_400.0

COMMIT: Final = "COMMIT /* the journal's */"
ROLLBACK: Final = "ROLLBACK /* the journal's */"
"""In words that nobody else will use: a prepared statement is kept under its text, and not authorized again."""

_CACHE: Final = 32_768
"""Kilobytes of pages that a connection keeps in memory: the inner pages of every index, of millions of calls too."""

_abandoned: list[sqlite3.Connection] = []
"""Never used again, and never closed by this process: SQLite would write to what is another's now, or delete it."""


def _abandon(connection: sqlite3.Connection) -> None:
    """Leave a connection open for good. One more reference keeps the interpreter from closing it as it ends."""
    _abandoned.append(connection)
    with suppress(ImportError, AttributeError):  # a Python without them, which may count no references at all
        import ctypes  # noqa: PLC0415 - as seldom

        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


_files: Final[WeakValueDictionary[int, JournalFile]] = WeakValueDictionary()


@atexit.register
def _at_exit() -> None:
    for known in _files.valuerefs():
        file = known()
        if file is not None:
            file.leave_what_is_lost()


class JournalFile:
    """One journal file and this process's connections to it."""

    def __init__(self, path: str, *, synchronous: str, busy_timeout: float) -> None:
        if synchronous not in _SYNCHRONOUS:
            raise JournalError(f'synchronous={synchronous!r} is not offered: write "FULL" or "NORMAL"')
        if not 0 <= busy_timeout <= _LONGEST_WAIT:
            raise JournalError(f"busy_timeout={busy_timeout!r} cannot be: write seconds, from 0 to {_LONGEST_WAIT:.0f}")
        if "\0" in path:
            raise JournalError(f"{path!r} is no file's name: it holds a NUL")
        self.path = os.path.realpath(path)
        self.synchronous = synchronous
        self.busy_timeout = busy_timeout
        self.journal_id = ""
        self.commits = 0
        """The highest commit number that this process has seen."""
        self._same = SameFile(self.path)
        self.turn = Turn(self.path)
        self._begin(closed=False)
        _files[id(self)] = self

    def forget_connections(self, *, closed: bool) -> None:
        """Begin without any, in a forked child, which must not touch those of its parent."""
        self._leave()
        self.turn.leave()
        self._same.log_may_go()
        self._begin(closed=closed)

    def leave_what_is_lost(self) -> None:
        """At the end of the process: keep connections from being freed, which closes them, if another file is there."""
        try:
            self._same.check()
        except JournalError:
            self._leave()

    def _leave(self) -> None:
        for connection in (*self._idle, *filter(None, [self._writer])):
            self._same.leave()
            _abandon(connection)

    def _begin(self, *, closed: bool) -> None:
        self._writer: sqlite3.Connection | None = None
        self._idle: list[sqlite3.Connection] = []
        self._open = 0
        self._reading = 0
        self._resting = threading.Condition()
        self._held = False
        self.lending = Lending()
        self._closed = closed

    # --- opening ---

    def open(self, *, journal_id: str | None, must_exist: bool, any_step: bool = False, heed_mark: bool = True) -> int:
        """Open the file, or create it where that is allowed; bring it to this release's schema; check its identity.

        Without ``heed_mark`` the mark beside it is neither read nor written: whatever journal is there will do.

        Returns:
            The version of the schema that it had, 0 for a new one.

        Raises:
            JournalError: It cannot be opened, or it is not the journal that was in use here.
        """
        mark = (
            read_mark(self.path) if heed_mark else None
        )  # before the file is looked at: another process may be creating both
        known = journal_id is not None or mark is not None
        self._look_first(mark, required=must_exist or known)
        self._same.check_others()
        check_log(self.path)
        try:
            connection = self._connect("rw" if must_exist or known else "rwc")
            try:
                if must_exist or known:  # else a look would change another program's database, for good
                    self._check_creation(schema.version_of(connection), mark, required=True)
                use_wal(connection, self.busy_timeout)
                version = self._climb(connection, mark, required=must_exist or known, any_step=any_step)
                found = _identity(connection)
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as fault:
            raise explained(fault, self.path, doing="it cannot be opened") from fault
        self._take(connection, found, mark, journal_id, heed_mark=heed_mark)
        return version

    def _look_first(self, mark: Mark | None, *, required: bool) -> None:
        if not Path(self.path).parent.is_dir():
            raise JournalError(f"the journal {self.path} cannot be created: its folder does not exist; make it first")
        try:
            status = Path(self.path).stat()
            size = status.st_size
            self._check_names(status)
        except FileNotFoundError:
            size = -1
        except OSError as fault:
            raise JournalError(f"the journal {self.path} cannot be looked at: {fault}") from fault
        if size > 0 or not required:
            return
        what = "is gone" if size < 0 else "is empty"
        if mark is not None:
            raise lost(self.path, what)
        raise not_there(self.path, what)

    def _check_names(self, status: os.stat_result) -> None:
        """By another name nobody finds the write-ahead log, which lies beside the path: calls would be made twice."""
        if status.st_nlink > 1:
            raise JournalError(f"the journal {self.path} has other names (hard links): let it have this one alone")
        if status.st_dev != Path(self.path).parent.stat().st_dev:
            raise JournalError(f"the journal {self.path} is mounted by itself: mount its folder, not the file alone")

    def _climb(self, connection: sqlite3.Connection, mark: Mark | None, *, required: bool, any_step: bool) -> int:
        """Bring the schema up to date; return the version that it had."""
        version = schema.version_of(connection)
        schema.check_version(version, self.path, any_step=any_step)
        if version == schema.newest():
            return version
        connection.execute("BEGIN EXCLUSIVE")
        try:
            version = schema.version_of(connection)  # another process may have been faster
            schema.check_version(version, self.path, any_step=any_step)
            self._check_creation(version, mark, required=required)
            if version != schema.newest():
                schema.climb(connection, version, f"jn_{token_hex(16)}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return version

    def _check_creation(self, version: int, mark: Mark | None, *, required: bool) -> None:
        if version == 0 and mark is not None:
            raise lost(self.path, "is empty")
        if version == 0 and required:
            raise JournalError(f"{self.path} holds no journal, and one must exist: correct the path")

    def _take(
        self, connection: sqlite3.Connection, found: Mark, mark: Mark | None, journal_id: str | None, *, heed_mark: bool
    ) -> None:
        try:
            check_identity(self.path, found, mark, journal_id)
            self.journal_id, self.commits = found.journal_id, found.commits
            self._writer, self._open = connection, 1
            self._same.remember()
            if heed_mark:
                self.leave_mark(must=mark is None)
        except BaseException:
            self._writer, self._open = None, 0
            connection.close()
            self._same.log_may_go()
            raise

    def leave_mark(self, *, must: bool = False) -> None:
        """Note beside the file how far it has come. One that is too low is harmless; ``must``: there has to be one."""
        try:
            mark = read_mark(self.path)
            if mark is None or mark.journal_id != self.journal_id or mark.commits < self.commits:
                write_mark(self.path, Mark(self.journal_id, self.commits))
        except OSError as fault:
            if must:
                raise JournalError(
                    f"no mark can be written beside the journal {self.path} ({fault}): without it an emptied or "
                    "replaced file would not be noticed; make its folder writable"
                ) from fault

    def _connect(self, mode: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{Path(self.path).as_uri()}?mode={mode}",
            uri=True,
            timeout=self.busy_timeout,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            self._set_up(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_up(self, connection: sqlite3.Connection) -> None:
        connection.execute(f"PRAGMA synchronous = {self.synchronous}")
        connection.execute("PRAGMA secure_delete = ON")  # an expired payload is overwritten, not only unlinked
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA cache_size = -{_CACHE}")
        if sys.platform == "darwin":
            connection.execute("PRAGMA fullfsync = ON")  # a plain fsync there leaves data in the drive's cache

    # --- connections ---

    def writer(self) -> sqlite3.Connection:
        """Return the one connection that writes; only the leader of the group commit may ask.

        Raises:
            JournalError: The file is no longer the one that was opened.
            sqlite3.Error: It cannot be opened.
        """
        if self._writer is None:
            self._writer = self._another()
        self._same.check(self._writer)
        return self._writer

    def check_kept(self) -> None:
        """After a commit: look whether it is in the file that stands there, before anybody is told of it.

        SQLite writes to a file, or a write-ahead log, that was deleted since the last look, and calls it a commit: as
        in the child of a fork that nobody told of, whose parent closes the journal.

        Raises:
            JournalError: It may be lost.
        """
        try:
            self._same.check()
        except JournalError as fault:
            raise JournalError(f"{fault}. Its last commit is not in it, perhaps: perform again") from fault

    @property
    def at_work(self) -> sqlite3.Connection | None:
        """The writing connection, if there is one; nothing is checked or opened."""
        return self._writer

    def drop_writer(self) -> None:
        """Close the writing connection; the next transaction opens another."""
        connection, self._writer = self._writer, None
        if connection is not None:
            self._close(connection)

    def _another(self) -> sqlite3.Connection:
        """Open one more connection to the file that was opened first."""
        with self._resting:
            if not self._open:
                self._same.log_may_go()
            self._same.check()
            if not self._open:
                self._same.check_others()
                check_log(self.path)
            connection = self._connect("rw")
            try:
                check_identity(self.path, _identity(connection), Mark(self.journal_id, self.commits), None)
            except BaseException:
                connection.close()
                raise
            self._open += 1
            self._same.log_is_there()
            return connection

    def _close(self, connection: sqlite3.Connection) -> None:
        """Close a connection - unless another file stands there now, which SQLite would write to and tidy up around."""
        with self._resting:
            self._open -= 1
            try:
                self._same.check(connection)
            except JournalError:
                _abandon(connection)
                self._same.leave()
                return
            except sqlite3.Error:
                pass
            if not self._open:
                self._same.log_may_go()  # before it does: another of this process may look
            with suppress(sqlite3.Error):
                connection.close()

    @contextmanager
    def reader(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection that only reads.

        Raises:
            JournalError: The journal cannot be read.
        """
        connection = self._lend()
        resting = self._resting
        try:
            connection = connection or self._another()
            self._same.check(connection)
            yield connection
        except sqlite3.Error as fault:
            raise explained(fault, self.path, doing="it cannot be read") from fault
        finally:
            with resting:
                self._reading -= 1
                if connection is not None:
                    self._idle.append(connection)
                resting.notify_all()

    def _lend(self) -> sqlite3.Connection | None:
        with self._resting:
            while self._held and not self._closed:
                self._resting.wait()
            if self._closed:
                raise self.closed_error()
            self._reading += 1
            return self._idle.pop() if self._idle else None

    def closed_error(self) -> JournalError:
        """Return the error for work on a journal that was closed."""
        return JournalError(f"the journal {self.path} was closed; nothing was executed: open it anew")

    def hold(self, seconds: float) -> None:
        """Let no more readers in, wait up to ``seconds`` for those inside, and close what they used."""
        deadline = time.monotonic() + seconds
        with self._resting:
            self._held = True
            while self._reading and time.monotonic() < deadline:
                self._resting.wait(max(0.0, deadline - time.monotonic()))
            while self._idle:
                self._close(self._idle.pop())

    def let_go(self) -> None:
        """Let readers in again."""
        with self._resting:
            self._held = False
            self._resting.notify_all()

    def close(self, seconds: float) -> None:
        """Close everything but the writer, for good; readers are refused from now on."""
        with self._resting:
            self._closed = True
            self._resting.notify_all()
        self.hold(seconds)


def _identity(connection: sqlite3.Connection) -> Mark:
    row: tuple[Any, ...] = connection.execute("SELECT journal_id, commits FROM meta").fetchone()
    return Mark(str(row[0]), int(row[1]))
