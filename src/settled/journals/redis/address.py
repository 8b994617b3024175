"""From ``redis://…``, ``valkey://…`` or ``unix://…`` to a server, and what may be shown of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

from redis.connection import Connection, parse_url

from settled.errors import JournalError
from settled.journals.addressing import options_of, path, split, truth

if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX: Final = "settled"
_NAME: Final = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
_SCHEMES: Final = {"valkey": "redis", "valkeys": "rediss", "redis": "redis", "rediss": "rediss", "unix": "unix"}
_USUAL: Final = (
    "redis://user:password@host:6379/0 or unix:///path/of/server.sock?db=0 "
    "(special characters in user or password as %XX)"
)
_PARTS: Final = ("meta", "calls", "rows", "index", "log")

OPTIONS: Final[dict[str, Callable[[str], Any]]] = {
    "prefix": str,
    "pool": int,
    "patience": float,
    "log_kept": float,
    "journal_id": str,
    "spill": path,
    "must_exist": truth,
    "accept_loss": truth,
}
"""Query fields that are the journal's own; all others are redis-py's."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a journal is."""

    kind: type[Any] = field(repr=False)
    """The connection's class."""
    given: dict[str, Any] = field(repr=False)
    """Its arguments; may hold a password."""
    prefix: str
    shown: str
    """The address without secrets."""

    @property
    def keys(self) -> list[str]:
        """The names of the journal's keys; in a cluster they lie together."""
        return [f"{{{self.prefix}}}:{part}" for part in _PARTS]

    @property
    def file_name(self) -> str:
        """A name for what lies on this machine for this journal."""
        return f"redis-{self.prefix.replace(':', '_')}-{sha256(self.shown.encode()).hexdigest()[:16]}"


def read_address(url: str, prefix: str | None = None) -> tuple[Address, dict[str, Any]]:
    """Return the address, and the options that its query holds.

    Raises:
        JournalError: It is not understood.
    """
    parts = split(url, _USUAL)
    options, rest = options_of(parts.query, OPTIONS)
    prefix = prefix or options.pop("prefix", PREFIX)
    options.pop("prefix", None)
    if not _NAME.fullmatch(prefix):
        raise JournalError(f"prefix={prefix!r} is no plain name: write letters, digits, _ . : or - (at most 100)")
    given = _given(f"{_SCHEMES[parts.scheme]}://{parts.netloc}{parts.path}?{rest}")
    kind = given.pop("connection_class", Connection)
    return Address(kind, given, prefix, _shown(given, parts.scheme, prefix)), options


def _given(url: str) -> dict[str, Any]:
    try:
        given: dict[str, Any] = dict(parse_url(url))  # type: ignore[no-untyped-call]  # redis-py's own
        if "path" in given or urlsplit(url).path.strip("/").isdecimal() or not urlsplit(url).path.strip("/"):
            return given
    except ValueError:  # its words may quote a piece of the password
        pass
    raise JournalError(f"the journal's address is not understood: write {_USUAL}")


def _shown(given: dict[str, Any], scheme: str, prefix: str) -> str:
    user = f"{given['username']}@" if given.get("username") else ""
    beside = urlencode({"prefix": prefix})
    if "path" in given:
        db = f"db={given['db']}&" if given.get("db") else ""
        return f"unix://{user}{given['path']}?{db}{beside}"
    port = f":{given['port']}" if given.get("port") else ""
    return f"{scheme}://{user}{given.get('host', 'localhost')}{port}/{given.get('db', 0)}?{beside}"
