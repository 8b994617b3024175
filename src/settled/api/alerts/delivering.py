"""One delivery to one receiver: whether it was taken, and why not. A receiver that hangs is left."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from settled.api import secrets
from settled.drivers.leaving import in_thread
from settled.ports import NotTaken

if TYPE_CHECKING:
    from settled.ports import Notice, Receiver

LONGEST: Final = 45.0
"""Seconds that a receiver may take."""
GIVEN_UP: Final = 600.0
"""Seconds after which a receiver that has not come back is told anew: it may be waiting for ever."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a receiver has not taken a notice."""

    why: str
    away: bool
    retry_after: float | None = None


class Deliveries:
    """Tells receivers, each in a thread that can be left; knows those that have not come back."""

    def __init__(self) -> None:
        self._hanging: dict[str, tuple[threading.Event, float]] = {}
        """Name of a receiver -> whether it has come back, and until when it is told nothing else (monotonic)."""

    def hangs(self, name: str) -> bool:
        """Whether a receiver is still at what it was told last: it is told nothing else until ``GIVEN_UP``."""
        done, until = self._hanging.get(name, (None, 0.0))
        return done is not None and not done.is_set() and time.monotonic() < until

    def tell(self, receiver: Receiver, notice: Notice) -> Failure | None:
        """Tell one receiver; return how that failed, if it did. What is said of it holds no secret."""
        done, said = threading.Event(), list[Failure | None]()

        def work() -> None:
            said.append(_told(receiver, notice))
            done.set()

        try:
            in_thread(work, "settled-alert")
        except RuntimeError:  # there are no more threads
            work()
        if not done.wait(LONGEST):
            self._hanging[receiver.name] = done, time.monotonic() + GIVEN_UP
            return Failure(f"it did not come back within {LONGEST:.0f} s", away=True)
        return said[0]


def _told(receiver: Receiver, notice: Notice) -> Failure | None:
    try:
        receiver.deliver(notice)
    except NotTaken as error:
        return Failure(secrets.clean(str(error)), error.away, error.retry_after)
    except BaseException as error:  # noqa: BLE001 - a receiver's own; its text may hold its address
        return Failure(type(error).__name__, away=True)
    return None


__all__ = ["Deliveries", "Failure"]
