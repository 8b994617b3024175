"""Times and texts as a terminal should show them."""

import re
import time

from settled.api.people.facts import LATEST

_LONGEST = 1e10
"""Seconds: three centuries."""
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def local(wall: float) -> str:
    """Return a time as the local clock shows it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(min(wall, LATEST)))


def span(seconds: float) -> str:
    """Return a length of time in its largest fitting unit, rounded down: ``3 min``."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def age(wall: float, now: float) -> str:
    """Return how far a time lies from now: ``3 min ago``, ``in 12 s``."""
    return f"{span(now - wall)} ago" if wall <= now else f"in {span(min(wall, LATEST) - now + 0.999)}"


def moment(wall: float | None, now: float) -> str:
    """Return a time with its age; a dash for none."""
    return "-" if wall is None else f"{local(wall)} ({age(wall, now)})"


def seconds_of(text: str) -> float:
    """Return the seconds of ``90``, ``90s``, ``30m``, ``2h``, ``3d``. Raises ``ValueError``."""
    number, unit = (text[:-1], text[-1]) if text[-1:].isalpha() else (text, "s")
    try:
        seconds = float(number) * {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}[unit]
    except (KeyError, ValueError):
        raise ValueError(f"{text!r} is no time: write 90, 30m, 2h or 3d") from None
    if not 0 <= seconds < _LONGEST:
        raise ValueError(f"{text!r} is no length of time")
    return seconds


def printable(text: str, *, lines: bool = False) -> str:
    """Return text that cannot steer a terminal: what is not printable comes as an escape."""
    return "".join(c if c.isprintable() or (lines and c == "\n") else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def without_passwords(text: str) -> str:
    """Return text with the passwords of addresses in it masked: what is shown is read by others, and lands in logs."""
    text = re.sub(r"(://[^/\s:@]*):[^/\s]+@", r"\1:***@", text)
    return re.sub(r"(?i)([?&][^=&\s]*(?:password|passwd|secret)=)[^&\s'\"]*", r"\1***", text)  # sslpassword=, too


def plural(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun."""
    return f"{count} {one if count == 1 else many or one + 's'}"
