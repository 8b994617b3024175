"""Texts as PostgreSQL can hold them: it takes no NUL, and no surrogate without its pair.

Those and the escape itself are written as the escape and four hexadecimal digits, so that different texts stay
different; every other text, a backslash too, is stored as it is. Columns are compared byte by byte (``COLLATE "C"``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from psycopg.adapt import Dumper, Loader
from psycopg.postgres import types
from psycopg.pq import Format
from psycopg.types.numeric import Int8BinaryDumper

if TYPE_CHECKING:
    from psycopg.abc import Buffer
    from psycopg.adapt import AdaptersMap

ESCAPE: Final = "\x1a"
_AWKWARD: Final = re.compile("[\0\x1a\ud800-\udfff]")
_ESCAPED: Final = re.compile("\x1a([0-9a-f]{4})")


def awkward(text: str) -> bool:
    """Whether any of a text cannot be stored as it is."""
    if text.isascii():
        return "\0" in text or ESCAPE in text
    return _AWKWARD.search(text) is not None


def kept(text: str) -> bytes:
    """Return what is stored for a text."""
    if not awkward(text):
        return text.encode()
    return _AWKWARD.sub(lambda found: f"{ESCAPE}{ord(found[0]):04x}", text).encode()


def plain(data: Buffer) -> str:
    """Return the text that ``kept`` stored."""
    text = str(data, "utf-8")
    return text if ESCAPE not in text else _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)


class _Keep(Dumper):
    format = Format.BINARY
    oid = types["text"].oid

    def dump(self, obj: str) -> bytes:
        return kept(obj)


class _KeepText(_Keep):
    format = Format.TEXT  # within arrays


class _Read(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> str:
        return plain(data)


class _ReadText(_Read):
    format = Format.TEXT


def adapt(adapters: AdaptersMap) -> None:
    """Let every text go this way, and every whole number as a ``bigint``: one kind of statement."""
    adapters.register_dumper(int, Int8BinaryDumper)
    adapters.register_dumper(str, _KeepText)
    adapters.register_dumper(str, _Keep)  # the last one is taken where there is a choice
    adapters.register_loader("text", _Read)
    adapters.register_loader("text", _ReadText)
