"""What is so of every server's address: nothing of it is left out unseen, and its numbers can work.

An address may hold a password: no error quotes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlsplit

from settled.errors import JournalError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from urllib.parse import SplitResult

_TRUTH: Final = {"true": True, "1": True, "false": False, "0": False}
_MOST: Final = 1000
"""Connections of one process."""
_LONGEST: Final = 86_400.0
"""Seconds of patience."""


def split(url: str, usual: str) -> SplitResult:
    """Return the parts of an address.

    Raises:
        JournalError: There are none, or some would be left out, so that two addresses would mean one journal.
    """
    if any(character in "#\t\r\n\0" or "\ud800" <= character <= "\udfff" for character in url):
        raise JournalError("a journal's address holds no # (write %23), no line's end and no half of a character")
    try:
        return urlsplit(url)
    except ValueError:
        raise JournalError(f"the journal's address is not understood: write {usual}") from None


def options_of(query: str, known: Mapping[str, Callable[[str], Any]]) -> tuple[dict[str, Any], str]:
    """Return the journal's own options of a query, and the rest of it as it is.

    Raises:
        JournalError: One is not understood.
    """
    fields = [(field.partition("=")[0], field) for field in query.split("&") if field]
    own = [parse_qsl(field, keep_blank_values=True)[0] for name, field in fields if name in known]
    try:
        options = {name: known[name](text) for name, text in own}
    except (KeyError, ValueError) as fault:
        raise JournalError(f"the options of a journal's address are {', '.join(known)}; {fault} is wrong") from fault
    return options, "&".join(field for name, field in fields if name not in known)


def truth(text: str) -> bool:
    """Read a yes or no. Raises ``KeyError``."""
    return _TRUTH[text.lower()]


def path(text: str) -> str:
    """Read a file's path. Raises ``ValueError``."""
    if not text or "\0" in text:
        raise ValueError(f"{text!r}")
    return text


def seconds(name: str, value: float, longest: float = _LONGEST) -> float:
    """Return a length of time. Raises ``JournalError`` if it is none."""
    if not 0 <= value <= longest:
        raise JournalError(f"{name}={value!r} cannot be: write seconds, from 0 to {longest:.0f}")
    return value


def connections(value: int) -> int:
    """Return how many connections may look. Raises ``JournalError`` if none could, or no server has so many."""
    if not 1 <= value <= _MOST:
        raise JournalError(f"pool={value!r} cannot be: write a number from 1 to {_MOST}")
    return value
