"""A record that cannot be read: it stands in nobody's way who can do without it."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, TypeVar

from settled.errors import JournalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")
R = TypeVar("R")
_LOG: Final = logging.getLogger("settled")
_MOST_TOLD: Final = 1000
_told: Final[OrderedDict[str, None]] = OrderedDict()


class UnreadableError(JournalError):
    """The record of one call cannot be read."""

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


def tell(error: UnreadableError) -> None:
    """Tell of a record that cannot be read, once in a process."""
    if error.operation_id not in _told:
        _told[error.operation_id] = None
        _LOG.warning("%s; it is passed over", error)
        if len(_told) > _MOST_TOLD:
            _told.popitem(last=False)
