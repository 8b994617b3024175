"""Waiting for what another thread, process or server brings about."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(look: Callable[[], T], what: str, seconds: float = 60) -> T:
    """Look until there is something to see, generously; return what was seen.

    Raises:
        AssertionError: It was never seen in so many seconds.
    """
    end = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < end, f"never seen: {what}"
        time.sleep(0.005)
    return seen
