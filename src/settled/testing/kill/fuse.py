"""Where a process dies: it crosses numbered boundaries, and at the chosen one it sends itself SIGKILL."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from settled.testing.kill.plan import Plan

FILE_EVENTS = frozenset({"open", "os.rename", "os.remove", "os.truncate", "sqlite3.connect", "fcntl.flock"})
"""Audit events of CPython: what this process does to files, seen from below all code."""


class Fuse:
    """Counts the boundaries of each channel and writes each down before it is crossed.

    What a process wrote survives its SIGKILL, so the last line of the trace is where it died.
    """

    def __init__(self, trace: Path | None = None, channel: str = "", at: int | str | None = None) -> None:
        self._channel, self._at = channel, at
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._trace = None
        if trace is None:
            return
        self._trace = os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.register_at_fork(after_in_child=self._forked)

    @classmethod
    def of(cls, plan: Plan) -> Fuse:
        """Return the fuse that a plan asks for."""
        return cls(plan.trace, plan.channel, plan.at)

    def cross(self, name: str, channel: str | None = None) -> None:
        """Cross a boundary, or die at it."""
        if self._trace is None:
            return
        channel = channel or channel_here()
        with self._lock:
            self._counts[channel] += 1
            number = self._counts[channel]
            os.write(self._trace, f"{channel} {number} {name}\n".encode())
            if channel == self._channel and self._at in (number, name):
                die()  # with the lock held: nobody crosses another one meanwhile

    def _forked(self) -> None:
        self._lock = threading.Lock()  # another thread of the parent may hold the old one for ever

    def watch_files(self, folder: str) -> None:
        """Count what this process does to files in ``folder`` as boundaries of the channel ``files``."""
        busy = threading.local()

        def see(event: str, arguments: tuple[object, ...]) -> None:
            if event not in FILE_EVENTS or getattr(busy, "inside", False):
                return
            if event == "fcntl.flock" or str(arguments[0]).removeprefix("file://").startswith(folder):
                busy.inside = True
                self.cross(event, "files")
                busy.inside = False

        sys.addaudithook(see)


def channel_here() -> str:
    """Return the channel of the calling thread: the keeper's comes and goes by the clock, the others' by the script."""
    return "keeper" if threading.current_thread().name == "settled-keeper" else "main"


def die() -> None:
    """End this process as a power cut would: nothing runs any more, not even ``finally``."""
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)  # the signal reaches the other threads at once, and this one when it returns from the kernel


def crossed(trace: Path, channel: str | None = None) -> list[str]:
    """Return the names of the boundaries that a process has crossed, in order; the last may be where it died."""
    if not trace.exists():
        return []
    lines = [line.split(" ", 2) for line in trace.read_text().splitlines()]
    return [name for where, _, name in lines if channel in (None, where)]
