"""An attempt that its caller can leave: its answer goes to the caller, or on record as a late one."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

from settled.drivers.waiting import while_blocked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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


def side_by_side(works: Sequence[Callable[[], T]], most: int) -> list[Future[T]]:
    """Do works in threads of their own, at most so many; return their futures.

    The pools of Python take no work any more once the main thread has ended.
    """
    futures: list[Future[T]] = [Future() for _ in works]
    left = deque(zip(works, futures, strict=True))

    def take() -> None:
        while left:
            with suppress(IndexError):  # another thread was faster
                _do(*left.popleft())

    for _ in range(min(most, len(works))):
        in_thread(take, "settled-gather")
    return futures


def _do(work: Callable[[], T], future: Future[T]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
        future.set_exception(error)


def within(seconds: float, function: Callable[..., T], *args: object) -> T:
    """Call ``function`` in a thread and leave it after ``seconds``: ``TimeoutError``. Raises what it raises."""
    slot: Leaving[tuple[T | None, BaseException | None]] = Leaving(lambda _: None)
    own = while_blocked()

    def work() -> None:
        try:
            slot.finish((own.run(function, *args), None))
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
            slot.finish((None, error))

    in_thread(work, "settled-probe")
    slot.done.wait(seconds)
    done = slot.leave()
    if done is None:
        raise TimeoutError(f"no answer within {seconds} s")
    value, error = done
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # there was no error, so it is the value
