"""How the values of a statement travel: every text as ``texts`` has it, every whole number as a ``bigint``, in binary.

psycopg asks an object of Python's for each text. A statement has dozens, so this is done for all of them at once:
values of the same kinds in the same order share a ``Shape``.
"""

from __future__ import annotations

import struct
from functools import cache
from itertools import compress
from operator import call
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.postgres import types
from psycopg.pq import Format

from settled.journals.postgres.texts import awkward, kept

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Way = Callable[[Any], bytes | None]


class Texts(list[str]):
    """An array of texts."""


class Numbers(list[int]):
    """An array of whole numbers."""


_number: Final = struct.Struct(">q").pack
_array: Final = struct.Struct(">iiIii").pack
_size: Final = struct.Struct(">i").pack


def _elements(oid: int, elements: Sequence[bytes]) -> bytes:
    sized = b"".join([_size(len(element)) + element for element in elements])
    return _array(bool(elements), 0, oid, len(elements), 1)[: 20 if elements else 12] + sized


def _texts(texts: Sequence[str]) -> bytes:
    return _elements(types["text"].oid, [kept(text) for text in texts])


def _numbers(numbers: Sequence[int]) -> bytes:
    return _elements(types["int8"].oid, [_number(number) for number in numbers])


_WAYS: Final[dict[type, tuple[int, Way]]] = {
    str: (types["text"].oid, kept),
    int: (types["int8"].oid, _number),
    float: (types["float8"].oid, struct.Struct(">d").pack),
    bytes: (types["bytea"].oid, bytes),
    type(None): (0, {None: None}.__getitem__),
    Texts: (types["text"].array_oid, _texts),
    Numbers: (types["int8"].array_oid, _numbers),
}
"""By kind: the server's number for its type, and what makes the bytes."""


def _way(kind: type) -> tuple[int, Way]:
    for each in kind.__mro__:
        if each in _WAYS:
            return _WAYS[each]
    raise psycopg.ProgrammingError(f"the journal's statements take no {kind.__name__}")


class Shape:
    """Values of some kinds, in some order."""

    __slots__ = ("_are_texts", "_carefully", "_plainly", "formats", "types")

    def __init__(self, kinds: Sequence[type]) -> None:
        ways = [_way(kind) for kind in kinds]
        self.types = [oid for oid, _ in ways]
        self.formats = [Format.BINARY] * len(ways)
        self._are_texts = [way is kept for _, way in ways]
        self._carefully: list[Way] = [way for _, way in ways]
        self._plainly: list[Way] = [str.encode if way is kept else way for _, way in ways]

    def dump(self, values: Sequence[Any]) -> list[bytes | None]:
        """Return the bytes of values of these kinds."""
        careful = awkward("".join(compress(values, self._are_texts)))
        return list(map(call, self._carefully if careful else self._plainly, values))


@cache
def shape_of(kinds: tuple[type, ...]) -> Shape:
    """Return the shape of values of these kinds. Raises ``psycopg.ProgrammingError`` for one that is not known."""
    return Shape(kinds)
