"""Which calls are at work in this process, and who waits for them."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

Wake = "Callable[[], object]"


class Presence:
    """Askers of a call that is at work here are woken the moment it ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._here: Counter[str] = Counter()
        self._waiting: dict[str, list[Callable[[], object]]] = {}

    def enter(self, operation_id: str) -> None:
        """The call is at work here."""
        with self._lock:
            self._here[operation_id] += 1

    def leave(self, operation_id: str) -> None:
        """It is not any more; whoever waits may look again."""
        with self._lock:
            self._here[operation_id] -= 1
            if self._here[operation_id] <= 0:
                del self._here[operation_id]
        self.wake(operation_id)

    def listen(self, operation_id: str, wake: Callable[[], object]) -> bool:
        """Call ``wake`` at the next change; return whether the call is at work here."""
        with self._lock:
            self._waiting.setdefault(operation_id, []).append(wake)
            return operation_id in self._here

    def forget(self, operation_id: str, wake: Callable[[], object]) -> None:
        """Undo ``listen``."""
        with self._lock:
            waiting = self._waiting.get(operation_id, [])
            if wake in waiting:
                waiting.remove(wake)
            if not waiting:
                self._waiting.pop(operation_id, None)

    def wake(self, operation_id: str) -> None:
        """Wake everyone who waits for this call."""
        with self._lock:
            waiting = self._waiting.pop(operation_id, [])
        for wake in waiting:
            wake()
