"""A lock on an open file, in each system's own way."""

from __future__ import annotations

import os
import sys

if sys.platform == "win32":
    import msvcrt

    def try_lock(descriptor: int) -> None:
        """Lock the file for this handle alone. Raises ``OSError`` if another has it."""
        os.lseek(descriptor, 2**30, os.SEEK_SET)  # far behind what is in it: locks there are mandatory for readers too
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def unlock(descriptor: int) -> None:
        """Let it go."""
        os.lseek(descriptor, 2**30, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    try:
        import fcntl
    except ImportError:  # a system without it (WASI) has no second process that a file could be shared with
        fcntl = None  # type: ignore[assignment]  # it is looked at before it is used

    def try_lock(descriptor: int) -> None:
        """Lock the file for this handle. Raises ``BlockingIOError`` if another has it, ``OSError`` where none can."""
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def unlock(descriptor: int) -> None:
        """Let it go."""
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_UN)


__all__ = ["try_lock", "unlock"]
