"""Health of a journal: what the server says of itself, and what that means for records."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from settled.journals import lists
from settled.journals.postgres import schema
from settled.ports import Report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from settled.journals.postgres.connect import Reader
    from settled.journals.postgres.connections import Connections

_SETTINGS: Final = ("server_version", "fsync", "full_page_writes", "synchronous_commit", "transaction_read_only")
_FACTS: Final = (
    "SELECT (SELECT coalesce(max(id), 0) FROM log), "
    "(SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relnamespace = to_regnamespace(?) AND relkind = 'r')"
)


def check(reader: Reader, connections: Connections) -> Report:
    """Look at settings, size and integrity; say what is wrong and what to do."""
    address, place = connections.address, connections.identity.place
    settings = {name: str(reader.execute(f"SHOW {name}").fetchone()[0]) for name in _SETTINGS}
    log_rows, size = reader.execute(_FACTS, (f'"{address.schema}"',)).fetchone()
    version, oldest = schema.version_of(reader.connection, address.schema)
    facts: dict[str, Any] = {
        "journal": address.shown,
        "journal_id": connections.identity.journal_id,
        "schema": version,
        "works_from_schema": oldest,
        **settings,
        "bytes": int(size or 0),
        "log_rows": log_rows,
        "spill_bytes": _size(place),
        "calls": {state.value: number for state, number in lists.count(reader).items()},
    }
    problems = list(_problems(settings, facts["spill_bytes"], place))
    return Report(ok=not problems, facts=facts, problems=problems)


def _problems(settings: dict[str, str], spilled: int, place: str) -> Iterator[str]:
    if settings["fsync"] != "on":
        yield "the server runs with fsync=off: a crash of its machine may damage the journal; set it to on"
    if settings["full_page_writes"] != "on":
        yield "the server runs with full_page_writes=off: a power cut may damage the journal; set it to on"
    if settings["transaction_read_only"] != "off":
        yield "the server is read-only: let the address lead to the primary"
    if spilled:
        yield f"evidence waits in {place}: it is taken over when a guard opens or reconciles"


def _size(path: str) -> int:
    with suppress(OSError):
        return Path(path).stat().st_size
    return 0
