"""Whose turn it is to write: a lock beside SQLite's, which a process loses without a word.

What SQLite locks is let go for a whole process as soon as any handle of the same file is closed in it: by a copy of the
journal's folder that its own program makes, say. Two processes then write to one log, over each other's commits
(https://www.sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_). This lock
belongs to one open handle, and to nobody else.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import suppress

from settled.journals.file_lock import try_lock, unlock
from settled.journals.mark import share


class Turn:
    """The lock of the journal at ``path``. Where no such lock can be had, SQLite's own locks are all there is."""

    def __init__(self, path: str) -> None:
        self._path, self._like = f"{path}-turn", path
        self._handle: int | None = None

    def take(self) -> bool:
        """Take it if nobody has it; return whether that went well."""
        if sys.platform == "win32":  # where locks are not lost in this way
            return True
        try:
            if self._handle is None:
                self._handle = self._opened()
            try_lock(self._handle)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    def give(self) -> None:
        """Let it go. Harmless when repeated."""
        if self._handle is not None:
            with suppress(OSError):
                unlock(self._handle)

    def leave(self) -> None:
        """Close the handle; another is opened when it is needed."""
        handle, self._handle = self._handle, None
        if handle is not None:
            with suppress(OSError):
                os.close(handle)

    __del__ = leave

    def _opened(self) -> int:
        try:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            return os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        share(handle, self._like)
        return handle


def busy() -> sqlite3.OperationalError:
    """Return the error for a turn that does not come, as SQLite has it."""
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return error
