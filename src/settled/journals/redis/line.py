"""One connection: scripts go out, answers come in, one at a time."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError
from redis.retry import Retry

from settled.errors import JournalError
from settled.journals.redis.cells import pack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.journals.redis.address import Address

HANGS: Final = 30.0
"""Seconds without an answer after which a server counts as gone."""
_HERE: Final = Path(__file__).parent


def _script(name: str) -> bytes:
    return b"".join((_HERE / f"{part}.lua").read_bytes() for part in ("check", name))


SCRIPTS: Final = {name: _script(name) for name in ("enter", "work", "look")}


def _words(words: Sequence[bytes]) -> bytes:
    """Return words as the protocol has them."""
    return b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


class Line:
    """A connection to one server. Its verbs raise ``redis.RedisError``; after that it is to be closed."""

    def __init__(self, address: Address, patience: float) -> None:
        wishes = {"socket_connect_timeout": max(1.0, patience), "socket_timeout": HANGS, "socket_keepalive": True}
        ours = {"protocol": 2, "retry": Retry(NoBackoff(), 0), "health_check_interval": 0, "decode_responses": False}
        if "path" in address.given:
            del wishes["socket_keepalive"], wishes["socket_connect_timeout"]
        try:
            self.connection = address.kind(**{**wishes, **address.given, **ours})
        except TypeError as fault:
            raise JournalError(f"an option of the journal's address is not understood: {fault}") from fault
        self._starts: dict[str, bytes] = {}
        self.connection.connect()
        keys = [b"%d" % len(address.keys), *(key.encode() for key in address.keys)]
        for name, text in SCRIPTS.items():
            self._starts[name] = _words([b"EVALSHA", self.call("SCRIPT", "LOAD", text), *keys])
        self._keys = keys

    def call(self, *words: Any) -> Any:
        """Send one command and return its answer."""
        self.connection.send_command(*words)
        return self.connection.read_response()

    def run(self, name: str, about: Sequence[Any], words: Sequence[bytes] = ()) -> Any:
        """Run a script and return its answer."""
        rest = [pack(about), pack(list(accumulate(map(len, words)))), b"".join(words)]
        count = b"*%d\r\n" % (2 + len(self._keys) + len(rest))
        try:
            # Written out here: redis-py's own way takes a quarter of the time of a call.
            self.connection.send_packed_command([count + self._starts[name] + _words(rest)])
            return self.connection.read_response()
        except NoScriptError:  # somebody has told the server to forget them
            return self.call("EVAL", SCRIPTS[name], *self._keys, *rest)

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
            os.dup2(nothing, self.connection._sock.fileno())  # noqa: SLF001 - it has no public name
            os.close(nothing)
