"""Reads what a server says, in the protocol's second version (RESP2).

It stands at https://redis.io/docs/latest/develop/reference/protocol-spec/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import ConnectionError as Gone
from redis.exceptions import InvalidResponse, ResponseError

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST: Final = 65536
"""Bytes that are taken from the socket at once."""


class Reader:
    """Reads answers: bytes, numbers, ``None``, and lists of such. Raises ``redis.RedisError``, ``OSError``."""

    def __init__(self, receive: Callable[[int], bytes]) -> None:
        self._receive = receive
        self._data = bytearray()
        self._at = 0

    def answer(self) -> Any:
        """Read one answer. Raises ``redis.ResponseError`` for a refusal."""
        data = self._receive(_MOST)
        if data[:1] == b"$" and data[-1:] == b"\n":  # mostly: one string, come whole
            start = data.index(b"\n") + 1
            if start + int(data[1:start]) + 2 == len(data):
                return data[start:-2]
        self._data, self._at = bytearray(self._some(data)), 0
        return self._value()

    def _value(self) -> Any:
        line = self._line()
        kind, rest = line[:1], line[1:]
        match kind:
            case b"$":
                return None if rest == b"-1" else self._bytes(int(rest))
            case b"*":
                return None if rest == b"-1" else [self._value() for _ in range(int(rest))]
            case b":":
                return int(rest)
            case b"+":
                return rest
            case b"-":
                raise ResponseError(rest.decode(errors="replace").removeprefix("ERR "))
            case _:
                raise InvalidResponse(f"the server does not speak Redis' protocol: {line[:80]!r}")

    def _line(self) -> bytes:
        while (end := self._data.find(b"\r\n", self._at)) < 0:
            self._data += self._some(self._receive(_MOST))
        line, self._at = bytes(self._data[self._at : end]), end + 2
        return line

    def _bytes(self, size: int) -> bytes:
        end = self._at + size
        while len(self._data) < end + 2:
            self._data += self._some(self._receive(_MOST))
        found, self._at = bytes(self._data[self._at : end]), end + 2
        return found

    def _some(self, data: bytes) -> bytes:
        if not data:
            raise Gone("the server has closed the connection")
        return data
