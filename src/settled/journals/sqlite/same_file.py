"""Whether the journal's file is still the one that was opened: others may delete, replace, empty or cut it off."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from settled.errors import JournalError

if TYPE_CHECKING:
    import sqlite3


_BESIDE: Final = {
    "-wal": "its write-ahead log (the file ending in -wal)",
    "-shm": "the file ending in -shm, by which processes take turns",
}
"""What SQLite keeps beside an open file. Where another one lies there, commits are lost, or locks are not shared."""


_known: Final[WeakValueDictionary[int, SameFile]] = WeakValueDictionary()
"""Those of this process, by ``id``. (Not a ``WeakSet``: other threads may add to it while it is looked through.)"""
_left: Final[list[SameFile]] = []
"""As they stood when connections were left open for good (see ``leave``)."""


class SameFile:
    """The file, its write-ahead log and that one's index as this process knows them."""

    def __init__(self, path: str) -> None:
        _known[id(self)] = self
        self.path = path
        self._inode: tuple[int, int] | None = None
        self._beside: dict[str, int] = {}
        """By the end of its name: the file beside it, once there is one."""
        self._size = 0

    def remember(self) -> None:
        """It is the file that stands there now."""
        status = Path(self.path).stat()
        self._inode = _identity_of(status)
        self._size = status.st_size
        self._beside = {}
        self.log_is_there()

    def check(self, connection: sqlite3.Connection | None = None) -> None:
        """Look whether the file is still the one that was opened; without a connection its pages are not counted.

        Raises:
            JournalError: It was deleted, replaced, emptied or cut off, or has lost what lies beside it.
        """
        try:
            status = os.stat(self.path)  # noqa: PTH116 - on the path of every call: half the cost of Path.stat
        except OSError as fault:
            raise self._changed(f"is gone ({fault.strerror})") from fault
        size = status.st_size
        if _identity_of(status) != self._inode:
            raise self._changed("was replaced by another file")
        if size == 0:
            raise self._changed("was emptied")
        if connection is not None:
            if size < self._size:
                self._check_shrunk(size, connection)
            self._size = size
        for ending, inode in self._beside.items():
            if _inode_of(self.path + ending) != inode:
                raise self._changed(f"has lost {_BESIDE[ending]},")

    def check_others(self) -> None:
        """Look, before a first connection, whether another of this process to this file has lost what lies beside it.

        SQLite lets all connections of a process to one file share what the first of them has opened.

        Raises:
            JournalError: That is no longer what other processes find beside the file.
        """
        try:
            inode = _identity_of(os.stat(self.path))  # noqa: PTH116 - as in check
        except OSError:
            return  # as whoever opens it will say
        for other in (*(known() for known in _known.valuerefs()), *_left):
            if other is not None and other is not self:
                other.check_beside(inode)

    def check_beside(self, inode: tuple[int, int]) -> None:
        """Do as ``check`` does, if this is the file with that inode and something lies beside it."""
        if self._beside and inode == self._inode:
            self.check()

    def leave(self) -> None:
        """Remember for good what lies beside the file: a connection to it stays open until this process ends."""
        left = SameFile(self.path)
        left._inode, left._beside = self._inode, dict(self._beside)
        _left.append(left)

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
        """The last connection was closed: SQLite deletes the write-ahead log and its index with it."""
        self._beside = {}

    def log_is_there(self) -> None:
        """A connection was opened: from now on there are a write-ahead log and its index, always the same."""
        found = {ending: self._beside.get(ending) or _inode_of(self.path + ending) for ending in _BESIDE}
        self._beside = {ending: inode for ending, inode in found.items() if inode}  # anew: another thread may look


def _identity_of(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _inode_of(path: str) -> int | None:
    try:
        return os.stat(path).st_ino  # noqa: PTH116 - as in SameFile.check
    except OSError:
        return None
