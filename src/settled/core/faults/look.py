"""Reading what others made without ever raising: attributes, texts, headers, numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType, TracebackType

LONGEST_TEXT = 1000
_MOST_DIGITS = 9


def attr(thing: object, name: str, *more: str) -> object:
    """Follow attributes; ``None`` where one is missing or its property raises."""
    try:
        thing = getattr(thing, name, None)
        for inner in more:
            thing = getattr(thing, inner, None)
    except Exception:  # noqa: BLE001 (a property of a stranger may raise anything)
        return None
    return thing


def called(thing: object, name: str, *args: object) -> object:
    """Call a method; ``None`` where it is missing or raises."""
    method = attr(thing, name)
    try:
        return method(*args) if callable(method) else None
    except Exception:  # noqa: BLE001 (same as attr)
        return None


def text(value: object) -> str:
    """Return ``str(value)``, bytes decoded, shortened; empty where it cannot be told."""
    try:
        shown = bytes(value).decode("utf-8", "replace") if isinstance(value, (bytes, bytearray)) else str(value)
    except Exception:  # noqa: BLE001 (__str__ of a stranger may raise anything)
        return ""
    return shown[:LONGEST_TEXT]


def number(value: object) -> int | None:
    """Return the value if it is a whole number (``True`` is none), also as an ``IntEnum`` or digits."""
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS:
        return int(value)
    return None


def lowered(headers: object) -> dict[str, str]:
    """Return headers with lower-case names and texts as values; empty for anything that is none."""
    pairs = called(headers, "items") if isinstance(headers, Mapping) or attr(headers, "items") else headers
    try:
        return dict(_pair(pair) for pair in _each(pairs))
    except Exception:  # noqa: BLE001 (an iterator of a stranger may raise anything)
        return {}


def _each(pairs: object) -> Iterable[object]:
    return pairs if hasattr(pairs, "__iter__") and not isinstance(pairs, str | bytes) else ()


def _pair(pair: object) -> tuple[str, str]:
    if not isinstance(pair, tuple | list) or len(pair) != len(("name", "value")):
        return "", ""
    name, value = pair
    if isinstance(value, list | tuple) and value:
        value = value[0]
    return text(name).strip().lower(), text(value).strip()


def frames(error: BaseException) -> Iterator[FrameType]:
    """Give the frames that an error came through, the outermost first."""
    return further(error.__traceback__)


def further(at: TracebackType | None) -> Iterator[FrameType]:
    """Give the frames from a place in a traceback on, the outermost first."""
    while at is not None:
        yield at.tb_frame
        at = at.tb_next


def package(frame: FrameType) -> str:
    """Return the package that a frame's function is of."""
    return text(frame.f_globals.get("__name__")).partition(".")[0]


def came_through(errors: Iterable[BaseException], function: str) -> bool:
    """Tell whether one of these errors came through a function of this name."""
    return any(frame.f_code.co_name == function for error in errors for frame in frames(error))


def describe(error: BaseException) -> str:
    """Return type and text of an error, for the record."""
    return f"{type(error).__qualname__}: {text(error)}"[:LONGEST_TEXT].removesuffix(": ")
