"""An attempt that its caller can leave: its answer goes to the caller, or on record as a late one."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Leaving(Generic[T]):
    """Hands one result to whoever is responsible for it when it comes: never to both, never to none."""

    __slots__ = ("_late", "_left", "_lock", "done", "result")

    def __init__(self, late: Callable[[T], object]) -> None:
        self._lock = threading.Lock()
        self._late = late
        self._left = False
        self.done = threading.Event()
        self.result: T | None = None

    def finish(self, result: T) -> None:
        """The attempt has ended."""
        with self._lock:
            left = self._left
            self.result = result
            self.done.set()
        if left:
            self._late(result)

    def leave(self) -> T | None:
        """The caller goes; return the result if it is there after all."""
        with self._lock:
            if self.result is None:
                self._left = True
            return self.result


def in_thread(work: Callable[[], object], name: str) -> None:
    """Run ``work`` in a thread of its own, which a hung tool may keep without holding up the exit."""
    threading.Thread(target=work, name=name, daemon=True).start()
