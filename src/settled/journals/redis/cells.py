"""How records lie in Redis: names, and values of bytes that hold any text and any float as they are.

``calls``: operation id -> version, place, number of its last row of the log, record. ``rows``: name -> version, value.
The version is the number of the commit that wrote it, 16 digits; the place (20 digits) orders calls by their creation.
``index`` holds members made of a prefix of 16 bytes (what they are found by), a place and a name, so that members of
one prefix lie side by side.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from settled.journals.books import log_values, read_call, read_log
from settled.journals.rows import changing, fixed
from settled.journals.runs import read_run, run_values
from settled.journals.unread import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from settled.core.books import RunRecord
    from settled.core.call import Call, LogRow

VERSION: Final = 16
PLACE: Final = 20
LAST: Final = 16
"""The number of a row of the log."""
PREFIX: Final = 16
NEW: Final = b""
"""The place of a call, or the version of a cell, that is not there yet."""
GONE: Final = b"-"
"""The place of a member that leaves."""
ANYWHERE: Final = b"0" * PLACE
"""The place of a member whose order does not matter."""

_DIGEST: Final = blake2b(digest_size=PREFIX)
_SMALL: Final = 4096
"""Bytes of a record that may be kept to be known again."""

pack = msgspec.msgpack.Encoder().encode
unpack = msgspec.msgpack.Decoder().decode


class Stored(Struct, frozen=True):
    """A call as it stands in the journal."""

    call: Call
    version: bytes
    place: bytes
    found_by: Mapping[bytes, bytes] | None = None
    """See ``found_by.as_it_stands``; ``None``: not known yet."""


raw: Final[Callable[[str], bytes]] = methodcaller("encode", "utf-8", "surrogatepass")
"""Returns any text, lone surrogates too, as bytes."""
text_of: Final[Callable[[bytes], str]] = methodcaller("decode", "utf-8", "surrogatepass")
"""Returns the text that ``raw`` encoded."""


def name(kind: str, *parts: str) -> bytes:
    """Return a name that no other kind and parts share."""
    return raw(kind + "".join([f" {len(part)}:{part}" for part in parts]))


def key_row(key: str) -> bytes:
    """Return the name of the row that says which call has a key."""
    return b"key " + raw(key)


@lru_cache(maxsize=256)
def note_row(kind: str, of: str) -> bytes:
    """Return the name of the row of a note."""
    return name("note", kind, of)


@lru_cache(maxsize=4096)
def prefix(kind: str, *parts: str) -> bytes:
    """Return the prefix of the members that are found by these parts."""
    digest = _DIGEST.copy()  # to set one up takes longer than to use it
    digest.update(name(kind, *parts))
    return digest.digest()


ALERTS: Final = prefix("alerts")


# --- records ---


def packed(values: Sequence[Any]) -> bytes:
    """Return values as bytes; texts that are not Unicode go as the bytes that ``plain`` reads."""
    try:
        return pack(values)
    except UnicodeEncodeError:
        return pack([raw(value) if type(value) is str else value for value in values])


def call_data(call: Call) -> bytes:
    """Return the record of a call."""
    return packed((*fixed(call), *changing(call)))


def _read(value: bytes) -> Stored:
    record = read_call(unpack(value[VERSION + PLACE + LAST :]))
    return Stored(record, value[:VERSION], value[VERSION : VERSION + PLACE])


_read_of_late = lru_cache(maxsize=256)(_read)


def stored(operation_id: bytes, value: bytes) -> Stored:
    """Return the call of a value of ``calls``. Raises ``JournalError`` for one that cannot be read."""
    try:
        return _read(value)
    except msgspec.DecodeError as fault:
        raise UnreadableError(text_of(operation_id), str(fault)) from fault


def known(operation_id: str, value: bytes) -> Stored:
    """Return the call of a value of ``calls``; one that was read of late is not read anew, as it is the same.

    Raises:
        JournalError: It cannot be read.
    """
    try:
        return _read_of_late(value) if len(value) <= _SMALL else _read(value)
    except msgspec.DecodeError as fault:
        raise UnreadableError(operation_id, str(fault)) from fault


def last_row(value: bytes) -> bytes:
    """Return the number of the last row of the log of a value of ``calls``."""
    return value[VERSION + PLACE : VERSION + PLACE + LAST]


def log_data(row: LogRow) -> bytes:
    """Return a row of the log."""
    return packed(log_values(row))


def log_of(data: bytes) -> LogRow:
    """Return the row of the log that ``log_data`` wrote."""
    return read_log(unpack(data))


def run_data(run: RunRecord) -> bytes:
    """Return the record of a run."""
    return packed(run_values(run))


def run_of(data: bytes) -> RunRecord:
    """Return the run that ``run_data`` wrote."""
    return read_run(unpack(data))


def moment_text(wall: float) -> bytes:
    """Return a time that sorts as text, in the room of a place; one before 1970 counts as 1970."""
    return b"%020d" % max(0, min(int(wall * 1e6), 10**20 - 1))
