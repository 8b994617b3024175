"""Just enough of the protobuf wire format to find ``google.rpc.RetryInfo`` in a ``google.rpc.Status``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_FIXED = {_EIGHT: 8, _FOUR: 4}
_DETAILS = 3
_TYPE_URL, _VALUE = 1, 2
_RETRY_DELAY = 1
_SECONDS, _NANOS = 1, 2
_LONGEST = 1 << 40


def retry_delay(status: bytes) -> float | None:
    """Return the seconds of the RetryInfo in a serialized Status, ``None`` if there is none or it is broken."""
    try:
        return next(_delays(status), None)
    except (ValueError, IndexError):
        return None


def _delays(status: bytes) -> Iterator[float]:
    for number, detail in fields(status):
        if number != _DETAILS or not isinstance(detail, bytes):
            continue
        packed = dict(fields(detail))
        value = packed.get(_VALUE, b"")
        if packed.get(_TYPE_URL) == b"type.googleapis.com/google.rpc.RetryInfo" and isinstance(value, bytes):
            yield from _durations(value)


def _durations(retry_info: bytes) -> Iterator[float]:
    for number, duration in fields(retry_info):
        if number == _RETRY_DELAY and isinstance(duration, bytes):
            part = dict(fields(duration))
            seconds, nanos = part.get(_SECONDS, 0), part.get(_NANOS, 0)
            if isinstance(seconds, int) and isinstance(nanos, int) and max(seconds, nanos) < _LONGEST:
                yield seconds + nanos / 1e9


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Give number and value of each field of a message.

    Raises:
        ValueError: it is cut, or holds a group.
    """
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(message, at)
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise ValueError("not a field")
        if at + size > len(message):
            raise ValueError("cut")
        yield tag >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 (the top bit says that more follows)
            return value, at
    raise ValueError("too long")
