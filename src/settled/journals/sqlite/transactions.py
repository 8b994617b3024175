"""One batch of transitions as one transaction: each member ends alone, and nobody is told before the commit."""

from __future__ import annotations

import sqlite3
import time
from contextlib import suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from settled.core.call import Call
from settled.errors import JournalError
from settled.journals.mark import lost_commits
from settled.journals.sqlite.books import SqliteBooks
from settled.journals.sqlite.file import COMMIT, ROLLBACK
from settled.journals.sqlite.known import Known
from settled.journals.sqlite.trouble import explained
from settled.journals.sqlite.waiting import begin
from settled.transaction import EndedByTool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from settled.core.model import Moment
    from settled.journals.commit import Member
    from settled.journals.sqlite.file import JournalFile
    from settled.ports import Joint
    from settled.transaction import Transaction


_LONGEST_PAUSE: Final = 0.02
"""Seconds to give way for at most."""
_CROWDED: Final = 0.25
"""Seconds for which another process's commit is taken as a sign that it has more to write."""


class Transactions:
    """Performs batches on the file's writing connection."""

    def __init__(self, file: JournalFile, clock: Callable[[], Moment]) -> None:
        self._file = file
        self._clock = clock
        self.start_anew()

    def start_anew(self) -> None:
        """Sign commits with a name of this process: at first, and in a forked child."""
        self._name = token_hex(8)
        self._number = 0
        self._crowded_until = 0.0
        self._began = self._ended = 0.0
        self._known = Known()
        self._seen: tuple[sqlite3.Connection, int] | None = None
        """The connection, and how often others had changed the file as it saw it; ``None``: nothing is known."""

    def run(self, batch: Sequence[Member]) -> None:
        """Perform a batch; every member gets its reply or its error. Raises only what interrupts the thread."""
        rest = list(batch)
        while rest:
            rest = self._part(rest)

    def _part(self, batch: list[Member]) -> list[Member]:
        """Perform a batch in one transaction; return the members for which another one is needed."""
        try:
            connection = self._begun()
            books = SqliteBooks(connection, self._known_to(connection))
            now = self._clock()
            for member in batch:
                if not self._apply(member, books, now):
                    self._roll_back()
                    return [other for other in batch if other.error is None]
            self._end(books)
        except sqlite3.Error as fault:
            self._give_up()
            for member in batch:
                member.fail(member.error or explained(fault, self._file.path))
        except JournalError as fault:
            self._roll_back()
            for member in batch:
                member.fail(member.error or _another(fault))
        except BaseException:
            self._give_up()
            raise
        finally:
            self._file.turn.give()
        return []

    def together(self, work: Joint, transaction: Callable[[sqlite3.Connection], Transaction]) -> Any:
        """Do a tool's work and put it on record, as ``TransactionalJournal.together`` says."""
        try:
            connection = self._begun()
            books = SqliteBooks(connection, self._known_to(connection))
            reply = work.look.apply(books, self._clock())
            if reply is None:
                made = self._lend(connection, work, transaction)
                reply = None if made is None else made.apply(books, self._clock())
            if books.changed and isinstance(reply, Call):
                self._commit(connection)
                work.committed = True
            else:
                self._roll_back()
        except sqlite3.Error as fault:
            self._give_up()
            raise explained(fault, self._file.path) from fault
        except BaseException:
            self._give_up()
            raise
        finally:
            self._file.turn.give()
        return reply

    def _lend(
        self, connection: sqlite3.Connection, work: Joint, transaction: Callable[[sqlite3.Connection], Transaction]
    ) -> Any:
        connection.execute("SAVEPOINT settled_tool")
        with self._file.lending.lent(connection):
            made = work.run(transaction(connection))
        connection.row_factory, connection.text_factory = None, str
        if not connection.in_transaction:
            raise EndedByTool
        try:  # gone where a conflict clause or a trigger has rolled back the transaction, and another was begun since
            connection.execute("RELEASE settled_tool")
        except sqlite3.OperationalError:
            raise EndedByTool from None
        return made

    def _known_to(self, connection: sqlite3.Connection) -> Known:
        """Return what is known to stand as it was read or written here: nobody else has changed the file.

        Raises:
            JournalError: It no longer has a commit that this process has seen.
        """
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if self._seen != (connection, version):
            self._catch_up(connection)
            self._known, self._seen = Known(), (connection, version)
        return self._known

    def _catch_up(self, connection: sqlite3.Connection) -> None:
        """See how far others have brought the file."""
        commits, writer = connection.execute("SELECT commits, writer FROM meta").fetchone()
        if commits < self._file.commits:
            raise lost_commits(self._file.path, self._file.commits)
        self._file.commits = commits
        if self._number and not writer.startswith(self._name):
            self._crowded_until = time.monotonic() + _CROWDED

    def _begun(self) -> sqlite3.Connection:
        connection = self._file.writer()
        if self._ended < self._crowded_until:
            self._give_way()
        begin(connection, self._file.turn, self._file.busy_timeout)
        self._began = time.monotonic()
        return connection

    def _give_way(self) -> None:
        """Let another process go first, as long as a transaction takes.

        SQLite's lock knows no queue: without this the process that has just let it go takes it again and again.
        """
        pause = self._ended + min(self._ended - self._began, _LONGEST_PAUSE) - time.monotonic()
        if pause > 0:
            time.sleep(pause)

    def _apply(self, member: Member, books: SqliteBooks, now: Moment) -> bool:
        """Apply one transition; return whether the transaction can go on.

        It cannot after a member that raised once something was written: what is its own cannot be told from the
        others'. They are performed once more without it, which is cheaper than a savepoint for each that goes well.
        """
        try:
            member.reply = member.transition.apply(books, now)
        except sqlite3.Error as fault:
            member.fail(explained(fault, self._file.path))
            return False
        except Exception as error:  # noqa: BLE001 - the rule's own; its caller gets it, the others go on
            member.fail(error)
            return not books.changed
        return True

    def _end(self, books: SqliteBooks) -> None:
        if books.changed:
            self._commit(books.connection)
        elif books.connection.in_transaction:
            books.connection.execute(ROLLBACK)  # only read: nothing to make durable

    def _commit(self, connection: sqlite3.Connection) -> None:
        self._number += 1
        signature = f"{self._name}/{self._number}"
        connection.execute("UPDATE meta SET commits = ?, writer = ?", (self._file.commits + 1, signature))
        try:
            connection.execute(COMMIT)
        except sqlite3.Error:
            if not self._landed(signature):
                raise
        self._file.check_kept()
        self._file.commits += 1
        self._ended = time.monotonic()

    def _landed(self, signature: str) -> bool:
        """Look, on a fresh connection, whether the commit that failed took effect after all."""
        self._give_up()
        with suppress(sqlite3.Error, JournalError):
            found = self._file.writer().execute("SELECT writer FROM meta").fetchone()
            return bool(found[0] == signature)
        return False

    def _roll_back(self) -> None:
        self._seen = None
        connection = self._file.at_work
        with suppress(sqlite3.Error):  # a tool may have closed it
            if connection is not None and connection.in_transaction:
                connection.execute(ROLLBACK)

    def _give_up(self) -> None:
        """Roll back by closing: whatever state the connection was in, the next transaction starts from the file."""
        self._roll_back()
        self._file.drop_writer()


def _another(fault: JournalError) -> JournalError:
    """Each waiting thread raises an error of its own."""
    error = JournalError(*fault.args)
    error.__cause__ = fault.__cause__
    return error
