"""From ``postgresql://…`` to what libpq understands, and what may be shown of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo

from settled.errors import JournalError
from settled.journals.addressing import options_of, path, split, truth

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA: Final = "settled"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_USUAL: Final = "postgresql://user@host:5432/database?schema=settled (special characters in user or password as %XX)"

OPTIONS: Final[dict[str, Callable[[str], Any]]] = {
    "schema": str,
    "pool": int,
    "patience": float,
    "journal_id": str,
    "spill": path,
    "must_exist": truth,
}
"""Query fields that are the journal's own; all others are libpq's."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a journal is."""

    connect: str = field(repr=False)
    """For libpq; may hold a password."""
    schema: str
    shown: str
    """The address without secrets."""

    @property
    def file_name(self) -> str:
        """A name for what lies on this machine for this journal."""
        return f"postgres-{self.schema}-{sha256(self.shown.encode()).hexdigest()[:16]}"


def read_address(url: str, schema: str | None = None) -> tuple[Address, dict[str, Any]]:
    """Return the address, and the options that its query holds.

    Raises:
        JournalError: It is not understood.
    """
    connect, options = _without_options(url)
    schema = schema or options.pop("schema", SCHEMA)
    options.pop("schema", None)
    if not _NAME.fullmatch(schema):
        raise JournalError(f"schema={schema!r} is no plain name: write letters, digits and _ (at most 63)")
    try:
        parts = conninfo_to_dict(connect)
    except ProgrammingError:  # its words may quote a piece of the password
        raise JournalError(f"the journal's address is not understood{_strange(connect)}: write {_USUAL}") from None
    return Address(connect, schema, _shown(parts, schema)), options


def _without_options(url: str) -> tuple[str, dict[str, Any]]:
    parts = split(url, _USUAL)
    options, rest = options_of(parts.query, OPTIONS)
    return f"postgresql://{parts.netloc}{parts.path}?{rest}", options


def _strange(connect: str) -> str:
    """Name what of a query is an option of nobody; nothing where it may be the rest of a password."""
    query = urlsplit(connect).query
    if "@" in query:
        return ""
    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    names = [name for name, _ in parse_qsl(query) if name not in known]
    return f" (there is no option {', '.join(names)}; the journal's own are {', '.join(OPTIONS)})" if names else ""


def _shown(parts: dict[str, Any], schema: str) -> str:
    user = f"{parts['user']}@" if parts.get("user") else ""
    host = str(parts.get("host") or parts.get("hostaddr") or "")
    beside = {"schema": schema}
    if host.startswith(("/", "@")):  # a socket's folder cannot stand where a host does
        beside["host"], host = host, ""
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"postgresql://{user}{host}{port}/{parts.get('dbname') or ''}?{urlencode(beside, safe='/@')}"
