"""One connection: scripts go out, answers come in, one at a time."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from redis.backoff import NoBackoff
from redis.connection import SSLConnection
from redis.exceptions import ConnectionError as Gone
from redis.exceptions import ResponseError
from redis.retry import Retry

from settled.errors import JournalError
from settled.journals.redis.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.journals.redis.address import Address

HANGS: Final = 30.0
"""Seconds without an answer after which a server counts as gone."""
_MOST_CUT: Final = 4000
"""Words that one form cuts: all of them go over Lua's stack."""
_HERE: Final = Path(__file__).parent
_PARTS: Final = {
    "enter": ("check", "enter"),
    "look": ("check", "look"),
    "see": ("check", "now", "show"),
    "commit": ("check", "now", "commit", "show"),
}
SCRIPTS: Final = {
    name: b"".join((_HERE / f"{part}.lua").read_bytes() for part in parts) for name, parts in _PARTS.items()
}


class Line:
    """A connection to one server. Its verbs raise ``redis.RedisError``; after that it is to be closed.

    redis-py connects it. What goes to and fro is written and read here: its own way takes a quarter of a call's time.
    """

    def __init__(self, address: Address, patience: float) -> None:
        wishes = {"socket_connect_timeout": max(1.0, patience), "socket_timeout": HANGS, "socket_keepalive": True}
        ours = {"protocol": 2, "retry": Retry(NoBackoff(), 0), "health_check_interval": 0, "decode_responses": False}
        if "path" in address.given:
            del wishes["socket_keepalive"], wishes["socket_connect_timeout"]
        if issubclass(address.kind, SSLConnection):  # who speaks no TLS does not answer its greeting
            wishes["socket_timeout"] = max(1.0, patience)
        try:
            self.connection = address.kind(**{**wishes, **address.given, **ours})
        except TypeError as fault:
            raise JournalError(f"an option of the journal's address is not understood: {fault}") from fault
        self.connection.connect()
        self._socket = self.connection._sock  # noqa: SLF001 - it has no public name
        self._socket.settimeout(address.given.get("socket_timeout", HANGS))
        self._reader = Reader(self._socket.recv)
        self._keys = [key.encode() for key in address.keys]
        self._starts = {name: self._start(b"EVALSHA", self.call("SCRIPT", "LOAD", SCRIPTS[name])) for name in SCRIPTS}

    def _start(self, command: bytes, script: bytes) -> bytes:
        return _words(command, script, b"%d" % len(self._keys), *self._keys)

    def call(self, *words: Any) -> Any:
        """Send one command and return its answer."""
        return self._said(b"".join(self.connection.pack_command(*words)))

    def run(self, name: str, head: bytes, words: Sequence[bytes]) -> Any:
        """Run a script and return its answer. ``head``: the numbers that it begins with."""
        n, said = cut(words)
        rest = b"$%d\r\n%b\r\n%b" % (len(head), head, said)
        n += 4 + len(self._keys)
        try:
            return self._said(b"*%d\r\n%b%b" % (n, self._starts[name], rest))
        except ResponseError as fault:
            if not str(fault).startswith("NOSCRIPT"):
                raise
            return self._said(b"*%d\r\n%b%b" % (n, self._start(b"EVAL", SCRIPTS[name]), rest))  # it has forgotten them

    def _said(self, request: bytes) -> Any:
        try:
            self._socket.sendall(request)
            return self._reader.answer()
        except OSError as fault:
            raise Gone(f"the connection broke: {fault}") from fault

    def info(self) -> dict[str, str]:
        """Return what the server says of itself."""
        lines = bytes(self.call("INFO")).decode(errors="replace").splitlines()
        return {name: value for name, _, value in (line.partition(":") for line in lines) if value}

    def close(self) -> None:
        """Close the connection."""
        with suppress(Exception):
            self.connection.disconnect()

    def leave_to_parent(self) -> None:
        """In a forked child: let whatever the inherited connection still writes or closes reach nobody."""
        with suppress(Exception):
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, self._socket.fileno())
            os.close(nothing)


def _words(*words: bytes) -> bytes:
    """Return words as the protocol has them."""
    return b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


def cut(words: Sequence[bytes]) -> tuple[int, bytes]:
    """Return words as a script reads them, as the protocol has that, and in how many parts.

    These are a form of Lua's ``struct``, and all words in one; of very many several such pairs.
    """
    if len(words) > _MOST_CUT:
        (n, some), (more, others) = cut(words[:_MOST_CUT]), cut(words[_MOST_CUT:])
        return n + more, some + others
    sizes = tuple(map(len, words))
    form, said = _form(sizes), b"".join(words if 0 not in sizes else [word or b"\0" for word in words])
    return 2, b"$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(form), form, len(said), said)


@lru_cache(maxsize=1024)
def _form(sizes: tuple[int, ...]) -> bytes:
    """Return how words of these lengths are cut; one of none has its length, a nought, ahead of it."""
    return ("c%d" * len(sizes) % sizes).replace("c0", "Bc0").encode()
