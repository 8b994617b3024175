"""Hearing of calls that other processes end, instead of asking again and again (``LISTEN``).

Whoever waits for a call holds its lock, shared with others, in a session that listens; whoever changes the call finds
the lock taken and tells (see ``UPDATE``). The lock is held before the call is looked at once more, so no change between
the two goes unheard. All of it spares time alone: where the session is lost, or cannot be had, the waiters ask.
"""

from __future__ import annotations

import os
import select
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import psycopg

from settled.errors import JournalError
from settled.journals.postgres.connect import leave_to_parent
from settled.journals.postgres.locks import channel_of, waiting_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from settled.journals.postgres.connect import Link
    from settled.journals.postgres.connections import Connections

_HOLD: Final = "SELECT pg_advisory_lock_shared(%s)"
_LET_GO: Final = "SELECT pg_advisory_unlock_shared(%s)"
_LINGER: Final = 5.0
"""Seconds for which it is listened on when a waiter has gone: most come back after a look."""
_IDLE: Final = 30.0
"""Seconds without anybody who waits, after which the session is given back."""
_DEAF: Final = 10.0
"""Seconds before the next try where no session could be had, or was lost."""
_SURE: Final = 0.25
"""Seconds after which whoever waits has looked at the call since its lock was held. One who joins others that wait may
have looked before that, and is not woken once it is held: until then it asks, as if nothing were heard."""
_abandoned: Final[list[object]] = []
"""Inherited over a fork: never used again."""


class Ear:
    """Listens for one process, in a thread and a session of its own while anybody waits."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._begin(closed=False)

    def _begin(self, *, closed: bool) -> None:
        self._lock = threading.Lock()
        self._wanted: dict[str, Callable[[str], object]] = {}
        self._left: dict[str, float] = {}
        """When nobody waited for them any more."""
        self._heard: dict[str, float] = {}
        """Calls whose lock is held, since when, and that nothing was heard of yet."""
        self._numbers: dict[int, str] = {}
        """The calls by the numbers of their locks."""
        self._spent: list[int] = []
        """Locks to let go."""
        self._thread: threading.Thread | None = None
        self._bell: tuple[int, int] = (-1, -1)
        self._link: Link | None = None
        self._deaf_until = 0.0
        self._closed = closed

    # --- those who wait ---

    def heed(self, operation_id: str, wake: Callable[[str], object]) -> None:
        """Let ``wake`` be called once it is listened for this call, and at its next change."""
        with self._lock:
            self._left.pop(operation_id, None)
            if self._closed or operation_id in self._wanted or time.monotonic() < self._deaf_until:
                return
            self._wanted[operation_id] = wake
            if self._thread is None:
                self._bell = os.pipe()
                os.set_blocking(self._bell[1], False)
                self._thread = threading.Thread(target=self._work, name="settled-ear", daemon=True)
                self._thread.start()
            self._ring()

    def hears(self, operation_id: str) -> bool:
        """Return whether the next change of this call, after whoever asks has looked at it, will be heard of."""
        since = self._heard.get(operation_id)
        return since is not None and time.monotonic() - since >= _SURE

    def leave(self, operation_id: str) -> None:
        """Nobody here waits for this call any more."""
        with self._lock:
            if operation_id in self._wanted:
                self._left[operation_id] = time.monotonic()

    def _ring(self) -> None:
        with suppress(OSError):  # its thread is ending, or has been told often enough
            os.write(self._bell[1], b"!")

    # --- the thread ---

    def _work(self) -> None:
        deaf = _DEAF
        try:
            self._link = link = self._connections.another()
            if link.pooled:
                deaf = float("inf")  # the session would be another one in each transaction
            else:
                link.execute(f'LISTEN "{channel_of(self._connections.identity.journal_id)}"'.encode())
                link.add_notify_handler(lambda notify: self._told(int(notify.payload)))  # while it executes
                self._listen(link)
                deaf = 0.0
        except (psycopg.Error, JournalError, OSError):
            pass  # those who wait ask instead
        finally:
            self._end(deaf)

    def _listen(self, link: Link) -> None:
        """Listen until nobody has waited for a while."""
        busy = time.monotonic()
        either = select.poll()  # not select.select: it fails in a process with a thousand files open
        for descriptor in (link.fileno(), self._bell[0]):
            either.register(descriptor, select.POLLIN)
        while not self._closed and time.monotonic() - busy < _IDLE:
            new, gone = self._changes()
            for number in gone:
                link.execute(_LET_GO, (number,))
            for operation_id in new:
                self._hold(link, operation_id)
            busy = time.monotonic() if self._wanted else busy
            ready = [descriptor for descriptor, _ in either.poll(1000)]
            if self._bell[0] in ready:
                os.read(self._bell[0], 4096)
            if link.fileno() in ready:
                link.pgconn.consume_input()
                while (notify := link.pgconn.notifies()) is not None:
                    self._told(int(notify.extra))

    def _changes(self) -> tuple[list[str], list[int]]:
        """Return the calls to listen for from now on, and the numbers of those to listen for no more."""
        with self._lock:
            late = time.monotonic() - _LINGER
            for operation_id in [op for op, left in self._left.items() if left < late]:
                del self._left[operation_id]
                self._wanted.pop(operation_id, None)
            held = {op: number for number, op in self._numbers.items()}
            for operation_id in held.keys() - self._wanted.keys():
                self._drop(held[operation_id])
            gone, self._spent = self._spent, []
            return [op for op in self._wanted if op not in held], gone

    def _drop(self, number: int) -> str:
        """Listen for a call no more; return which. Its lock is let go in the next round."""
        operation_id = self._numbers.pop(number, "")
        if operation_id:
            self._heard.pop(operation_id, None)
            self._spent.append(number)
        return operation_id

    def _hold(self, link: Link, operation_id: str) -> None:
        number = waiting_for(self._connections.identity.journal_id, operation_id)
        link.execute(_HOLD, (number,))
        with self._lock:
            self._numbers[number] = operation_id
            self._heard[operation_id] = time.monotonic()
            wake = self._wanted.get(operation_id)
        if wake is not None:
            wake(operation_id)  # it may have changed before

    def _told(self, number: int) -> None:
        with self._lock:
            operation_id = self._drop(number)
            self._left.pop(operation_id, None)
            wake = self._wanted.pop(operation_id, None)
        if wake is not None:
            wake(operation_id)

    def _end(self, deaf: float) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()
        with self._lock:
            bell, self._bell = self._bell, (-1, -1)
            self._thread, self._deaf_until = None, time.monotonic() + deaf if deaf else 0.0
            wanted, self._wanted = self._wanted, {}
            self._heard, self._numbers, self._spent, self._left = {}, {}, [], {}
        for end in bell:
            os.close(end)
        for operation_id, wake in wanted.items():
            wake(operation_id)

    # --- the end, and forks ---

    def close(self) -> None:
        """Stop listening."""
        with self._lock:
            self._closed = True
            thread = self._thread
            self._ring()
        if thread is not None:
            thread.join(self._connections.patience + 1.0)

    def forget(self, *, closed: bool) -> None:
        """Begin without anything, in a forked child."""
        if self._link is not None:
            leave_to_parent(self._link)
            _abandoned.append(self._link)
        for end in self._bell:
            with suppress(OSError):
                os.close(end)
        self._begin(closed=closed)
