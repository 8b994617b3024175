"""Which calls are at work in this process, and who waits for them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from settled.core.commands import AwaitCall
    from settled.ports import Ear


class Presence:
    """Askers of a call that is at work here are woken the moment it ends; with an ``ear``, also of one elsewhere."""

    def __init__(self, ear: Ear | None = None) -> None:
        self._ear = ear
        self._lock = threading.Lock()
        self._here: dict[str, int] = {}
        self._waiting: dict[str, list[Callable[[], object]]] = {}

    def enter(self, operation_id: str) -> None:
        """The call is at work here."""
        with self._lock:
            self._here[operation_id] = self._here.get(operation_id, 0) + 1

    def leave(self, operation_id: str) -> None:
        """It is not any more; whoever waits may look again."""
        with self._lock:
            left = self._here.pop(operation_id, 0) - 1
            if left > 0:
                self._here[operation_id] = left
            waiting = self._waiting.pop(operation_id, ())
        for wake in waiting:
            wake()

    def listen(self, operation_id: str, wake: Callable[[], object]) -> bool:
        """Call ``wake`` at the next change; return whether the call is at work here."""
        with self._lock:
            self._waiting.setdefault(operation_id, []).append(wake)
            here = operation_id in self._here
        if self._ear is not None and not here:
            self._ear.heed(operation_id, self.wake)
        return here

    def hears(self, operation_id: str) -> bool:
        """Return whether a change by another process will be heard of."""
        return self._ear is not None and self._ear.hears(operation_id)

    def forget(self, operation_id: str, wake: Callable[[], object]) -> None:
        """Undo ``listen``."""
        with self._lock:
            waiting = self._waiting.get(operation_id, [])
            if wake in waiting:
                waiting.remove(wake)
            if waiting:
                return
            self._waiting.pop(operation_id, None)
        if self._ear is not None:
            self._ear.leave(operation_id)

    def wake(self, operation_id: str) -> None:
        """Wake everyone who waits for this call."""
        with self._lock:
            waiting = self._waiting.pop(operation_id, [])
        for wake in waiting:
            wake()


def seconds_to_wait(command: AwaitCall, presence: Presence, *, local: bool) -> float:
    """Return how long to wait for a call that is listened for: the surer its change is heard of, the longer."""
    if local:
        return command.local
    return max(command.heard, command.seconds) if presence.hears(command.operation_id) else command.seconds
