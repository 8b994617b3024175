"""A record that cannot be read: it stands in nobody's way who can do without it."""

from __future__ import annotations

import logging
from collections import OrderedDict
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, TypeVar

from settled.errors import JournalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")
R = TypeVar("R")
_LOG: Final = logging.getLogger("settled")
_MOST_TOLD: Final = 1000
_told: Final[OrderedDict[str, None]] = OrderedDict()
_noted: ContextVar[dict[str, None] | None] = ContextVar("settled_unread", default=None)


class UnreadableError(JournalError):
    """The record of one call, or of one run, cannot be read; ``operation_id`` names it."""

    def __init__(self, operation_id: str, why: str) -> None:
        self.operation_id = operation_id
        super().__init__(
            f"the record of {operation_id} cannot be read ({why}): a newer release of settled has written it, and this "
            "one is to be upgraded, or it is damaged (settled journal verify)"
        )


def readable(read: Callable[[T], R], values: Iterable[T]) -> list[R]:
    """Return those that can be read; each of the others is told of in the log, once."""
    found = []
    for value in values:
        try:
            found.append(read(value))
        except UnreadableError as error:
            tell(error)
    return found


@contextmanager
def passing_over() -> Iterator[None]:
    """Within this, what cannot be read ends what is done with it, and no more; it is told of."""
    try:
        yield
    except UnreadableError as error:
        tell(error)


@contextmanager
def noting() -> Iterator[dict[str, None]]:
    """Within this, note what is passed over: who counts what waits for people is not to leave it out unsaid."""
    around, noted = _noted.get(), dict[str, None]()
    token = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(token)
        if around is not None:
            around.update(noted)


def tell(error: UnreadableError) -> None:
    """Tell of a record that cannot be read, once in a process."""
    noted = _noted.get()
    if noted is not None:
        noted[error.operation_id] = None
    if error.operation_id not in _told:
        _told[error.operation_id] = None
        _LOG.warning("%s; it is passed over", error)
        if len(_told) > _MOST_TOLD:
            _told.popitem(last=False)
