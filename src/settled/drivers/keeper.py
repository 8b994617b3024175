"""The guard's own thread: it renews leases (never at an event loop's mercy) and does the chores."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

from msgspec import Struct

from settled.core.attempts.progress import Renew

if TYPE_CHECKING:
    from collections.abc import Callable

    from settled.ports import Journal

GRACE = 1.0
"""Seconds by which a lease outlives the attempt's own limit, for the record of its end."""


class Held(Struct, frozen=True):
    """A lease that this process holds."""

    epoch: int
    until: float | None
    """On this process's monotonic clock: not renewed beyond; ``None``: as long as the attempt runs."""


class Keeper:
    """Renews what is held every third of the lease; does each chore about once a second."""

    def __init__(self, journal: Journal, lease: float, *, pause: float = 1.0) -> None:
        self._journal, self._lease = journal, lease
        self._pause = min(pause, lease / 3)
        self._held: dict[str, Held] = {}
        self.chores: list[Callable[[], object]] = []
        self._wanted = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._start = threading.Lock()
        self._renewed = 0.0

    def hold(self, operation_id: str, epoch: int, timeout: float | None) -> None:
        """Keep this lease alive while the attempt runs, at most until its time-out and a grace."""
        until = None if timeout is None else time.monotonic() + timeout + GRACE
        self._held[operation_id] = Held(epoch, until)
        self.start()

    def let_go(self, operation_id: str) -> None:
        """The attempt has ended."""
        self._held.pop(operation_id, None)

    def start(self) -> None:
        """Start the thread if it does not run."""
        if self._thread is None:
            with self._start:
                self._start_once()

    def forked(self) -> None:
        """In a forked child: the parent holds its leases itself, and its thread is not here."""
        self._held = {}
        self._thread = None
        self._wanted, self._start = threading.Event(), threading.Lock()

    def _start_once(self) -> None:
        if self._thread is None and not self._closed.is_set():
            thread = threading.Thread(target=self._work, name="settled-keeper", daemon=True)
            thread.start()  # raises where there are no more threads: then the next lease tries again
            self._thread = thread

    def wake(self) -> None:
        """Do the chores soon."""
        self._wanted.set()
        self.start()

    def close(self) -> None:
        """Stop the thread after a last round."""
        self._closed.set()
        self._wanted.set()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=10)

    def _work(self) -> None:
        last = False
        while not last:
            self._wanted.wait(self._pause)
            self._wanted.clear()
            last = self._closed.is_set()  # a round that began before may have missed what came since
            self._renew()
            for chore in self.chores:
                with contextlib.suppress(BaseException):  # done again next round; no lease may end for it
                    chore()

    def _renew(self) -> None:
        now = time.monotonic()
        if not self._held or now - self._renewed < self._lease / 3 - self._pause / 2:
            return
        self._renewed = now
        held = [(op, h) for op, h in list(self._held.items()) if h.until is None or h.until > now]
        claims = [(op, h.epoch, self._seconds(h, now)) for op, h in held]
        with contextlib.suppress(Exception):  # the journal is away: the lease may end, evidence will come
            for lost in self._journal.perform(Renew(claims)):
                self._held.pop(lost, None)

    def _seconds(self, held: Held, now: float) -> float:
        return self._lease if held.until is None else min(self._lease, held.until - now)
