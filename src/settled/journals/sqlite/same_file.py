"""Whether the journal's file is still the one that was opened: others may delete, replace, empty or cut it off."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from settled.errors import JournalError

if TYPE_CHECKING:
    import sqlite3


class SameFile:
    """The file and its write-ahead log as this process knows them."""

    def __init__(self, path: str) -> None:
        self.path, self._log = path, f"{path}-wal"
        self._inode: tuple[int, int] | None = None
        self._wal: int | None = None
        self._size = 0

    def remember(self) -> None:
        """It is the file that stands there now."""
        status = Path(self.path).stat()
        self._inode = (status.st_dev, status.st_ino)
        self._size = status.st_size
        self._wal = _inode_of(self._log)

    def check(self, connection: sqlite3.Connection | None = None) -> None:
        """Look whether the file is still the one that was opened; without a connection its pages are not counted.

        Raises:
            JournalError: It was deleted, replaced, emptied or cut off, or has lost its write-ahead log.
        """
        try:
            status = os.stat(self.path)  # noqa: PTH116 - on the path of every call: half the cost of Path.stat
        except OSError as fault:
            raise self._changed(f"is gone ({fault.strerror})") from fault
        size = status.st_size
        if (status.st_dev, status.st_ino) != self._inode:
            raise self._changed("was replaced by another file")
        if size == 0:
            raise self._changed("was emptied")
        if connection is not None:
            if size < self._size:
                self._check_shrunk(size, connection)
            self._size = size
        if self._wal is not None and _inode_of(self._log) != self._wal:
            raise self._changed("has lost its write-ahead log (the file ending in -wal)")

    def _check_shrunk(self, size: int, connection: sqlite3.Connection) -> None:
        """A vacuum by another process shrinks the file too; then it still has all its pages."""
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        if size < pages * connection.execute("PRAGMA page_size").fetchone()[0]:
            raise self._changed(f"was cut off at {size} bytes")

    def _changed(self, what: str) -> JournalError:
        return JournalError(
            f"the journal {self.path} {what} while it was in use; nothing was executed. Put the right file back; "
            "to begin with what is there now, stop this process and run `settled journal accept`"
        )

    def log_may_go(self) -> None:
        """The last connection was closed: SQLite deletes the write-ahead log with it."""
        self._wal = None

    def log_is_there(self) -> None:
        """A connection was opened: from now on there is a write-ahead log, always the same."""
        self._wal = self._wal or _inode_of(self._log)


def _inode_of(path: str) -> int | None:
    try:
        return os.stat(path).st_ino  # noqa: PTH116 - as in SameFile.check
    except OSError:
        return None
