"""Reads what a server says: hiredis takes it apart, in C; redis-py's own way around it costs a quarter of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import hiredis
from redis.exceptions import ConnectionError as Gone
from redis.exceptions import InvalidResponse, ResponseError

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST: Final = 65536
"""Bytes that are taken from the socket at once."""
_NOT_YET: Final = object()


class Reader:
    """Reads answers: bytes, numbers, ``None``, and lists of such. Raises ``redis.RedisError``, ``OSError``."""

    def __init__(self, receive: Callable[[int], bytes]) -> None:
        parser = hiredis.Reader(InvalidResponse, _refusal, notEnoughData=_NOT_YET)
        self._receive, self._feed, self._take = receive, parser.feed, parser.gets

    def answer(self) -> Any:
        """Read one answer. Raises ``redis.ResponseError`` for a refusal."""
        answer: Any = _NOT_YET
        while answer is _NOT_YET:
            data = self._receive(_MOST)
            if not data:
                raise Gone("the server has closed the connection")
            self._feed(data)
            answer = self._take()
        if type(answer) is ResponseError:
            raise answer
        return answer


def _refusal(words: str) -> ResponseError:
    return ResponseError(words.removeprefix("ERR "))
