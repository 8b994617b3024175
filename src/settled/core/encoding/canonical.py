"""The canonical form: one sequence of bytes for equal values, another for different ones.

Strict: what differs in JSON differs here, except for what JSON itself calls the same (order of names, notation of a
number, escapes). A list and a tuple are the same, as JSON has one sequence. A dataclass, a pydantic model and a dict
with the same members are the same, and so are an enum's member and its value: classes are not part of the form,
so that renaming or moving one changes nothing. A ``datetime`` keeps wall time and offset; the ``instant`` rule makes
equal instants equal.

Form, version 1: ``1;`` and one value. Each value is a tag and its length: texts, numbers, bytes and dates as
``tag length : payload``, containers as ``tag count :`` and their encoded parts. No value is a prefix of another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from math import isfinite
from typing import Any, TypeAlias, assert_never

from settled.core.encoding import numeric
from settled.core.encoding.loosening import Node, NotCanonical, Order, Rules
from settled.core.encoding.strict_json import MAX_DEPTH
from settled.core.encoding.value_types import UUID, fields_of

__all__ = ["MAX_DEPTH", "VERSION", "NotCanonical", "Rules", "encode"]

VERSION = 1
"""Grows with every change of the form; records keep the version they were made with."""

_MICROSECOND = timedelta(microseconds=1)
_NO_RULES = Node()
_SEQUENCES = (list, tuple, set, frozenset)
_TEXT_ALONE = frozenset({str})
_SMALL = 10**18
_Writer: TypeAlias = Callable[[Any, int], bytes]


def encode(value: object, rules: Rules | None = None) -> bytes:
    """The canonical form of a value, loosened by declared rules only.

    Raises:
        NotCanonical: NaN, Infinity, a lone surrogate, a name that is no text, an object of unknown type, a cycle or
            more than ``MAX_DEPTH`` levels, or a value that a rule refuses. Names the place.
    """
    try:
        return b"1;" + (_write(value, 0) if rules is None else _ruled(rules.root, value, 0))
    except RecursionError:
        raise NotCanonical("nested too deep for what the caller left of the stack") from None


def _write(value: object, depth: int) -> bytes:
    return _WRITERS[type(value)](value, depth)


def _by_looks(value: object, depth: int) -> bytes:
    """Write an instance of a subclass, or what is made of fields."""
    for base, writer in _BASES:
        if isinstance(value, base):
            return writer(value, depth)
    if fields_of(value) is not None:
        return _fields(value, depth)
    raise NotCanonical(f"a {type(value).__name__} has no canonical form; give text, numbers, lists or dicts")


def _ruled(node: Node, value: object, depth: int) -> bytes:
    """Write a value that rules are declared for, or for places inside it."""
    value = node.apply(value.value if isinstance(value, Enum) else value)
    if isinstance(value, _SEQUENCES):
        return _ordered(node, value, depth)
    if node.order is not Order.KEPT and value is not None:
        raise NotCanonical(f"its rule is for a list, not for {type(value).__name__}")
    members = _members_of(value)
    if members is None:
        return _write(value, depth)
    return _object({name: each for name, each in members.items() if not _dropped(node, name, each)}, depth, node)


def _members_of(value: object) -> Mapping[str, object] | None:
    if type(value) in _WRITERS and type(value) is not dict:
        return None
    return value if isinstance(value, Mapping) else fields_of(value)


def _dropped(node: Node, name: object, value: object) -> bool:
    child = node.members.get(name) if isinstance(name, str) else None
    return child is not None and child.drops(value)


def _ordered(node: Node, value: Iterable[object], depth: int) -> bytes:
    parts = _elements(value, depth, node.each)
    match node.order:
        case Order.KEPT:
            return _bag(b"e", parts) if isinstance(value, set | frozenset) else _counted(b"l", parts)
        case Order.BAG:
            return _bag(b"m", parts)
        case Order.SET:
            return _bag(b"e", set(parts))
        case _:
            assert_never(node.order)


def _bag(tag: bytes, parts: Iterable[bytes]) -> bytes:
    return _counted(tag, sorted(parts))


def _counted(tag: bytes, parts: list[bytes]) -> bytes:
    return b"%b%d:%b" % (tag, len(parts), b"".join(parts))


def _list(value: Iterable[object], depth: int) -> bytes:
    return _counted(b"l", _elements(value, depth))


def _set(value: Iterable[object], depth: int) -> bytes:
    return _bag(b"e", _elements(value, depth))


def _elements(values: Iterable[object], depth: int, each: Node | None = None) -> list[bytes]:
    _refuse_deep(depth)
    parts: list[bytes] = []
    for value in values:
        try:
            parts.append(_write(value, depth + 1) if each is None else _ruled(each, value, depth + 1))
        except NotCanonical as refused:
            refused.within(len(parts))
            raise
    return parts


def _object(members: Mapping[str, object], depth: int, node: Node = _NO_RULES) -> bytes:
    _refuse_deep(depth)
    if not _TEXT_ALONE.issuperset(map(type, members)):
        _refuse_names(members)
    parts, rules = [b"o%d:" % len(members)], node.members
    for name in sorted(members):
        member, child = members[name], rules.get(name)
        try:
            parts.append(_text(name))
            parts.append(_write(member, depth + 1) if child is None else _ruled(child, member, depth + 1))
        except NotCanonical as refused:
            refused.within(name)
            raise
    return b"".join(parts)


def _refuse_names(members: Mapping[str, object]) -> None:
    for name in members:
        if not isinstance(name, str):
            raise NotCanonical(f"a name that is {type(name).__name__} and not text")


def _refuse_deep(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise NotCanonical(f"nested deeper than {MAX_DEPTH} levels, or inside itself")


def _fields(value: object, depth: int) -> bytes:
    return _object(fields_of(value) or {}, depth)


def _enum(value: Enum, depth: int) -> bytes:
    return _write(value.value, depth)


def _null(_: None, __: int) -> bytes:
    return b"0"


def _bool(value: bool, _: int) -> bytes:  # noqa: FBT001 - the value to write, not a switch
    return b"+" if value else b"-"


def _text(value: str, _: int = 0) -> bytes:
    try:
        raw = str.encode(value)
    except UnicodeEncodeError:
        raw = None
    # Outside of the handler: the encoder's own error carries the text.
    if raw is None:
        raise NotCanonical("text with a lone surrogate")
    return b"s%d:%b" % (len(raw), raw)


def _bytes(value: bytes | bytearray, _: int) -> bytes:
    return b"b%d:%b" % (len(value), bytes(value))


def _int(value: int, _: int) -> bytes:
    if value % 10 and -_SMALL < value < _SMALL:
        raw = b"%de0" % value  # the short way to what the last line would give
        return b"n%d:%b" % (len(raw), raw)
    return _number(numeric.text_of(value))


def _float(value: float, _: int) -> bytes:
    if not isfinite(value):
        raise NotCanonical("NaN and Infinity have no canonical form")
    return _number(numeric.text_of(value))


def _decimal(value: Decimal, _: int) -> bytes:
    if not value.is_finite():
        raise NotCanonical("NaN and Infinity have no canonical form")
    return _number(numeric.text_of(value))


def _number(text: str) -> bytes:
    digits, exponent = numeric.normal(text)
    raw = f"{digits}e{exponent}"
    return f"n{len(raw)}:{raw}".encode()


def _datetime(value: datetime, _: int) -> bytes:
    # The offset tells which of two equal wall times is meant; a naive one has only its fold.
    second = "/2" if value.fold and value.tzinfo is None else ""
    return _tagged(b"t", _wall(value) + second)


def _date(value: date, _: int) -> bytes:
    return _tagged(b"d", value.isoformat())


def _time(value: time, _: int) -> bytes:
    return _tagged(b"c", _wall(value))


def _wall(value: datetime | time) -> str:
    if value.tzinfo is not None and value.utcoffset() is None:
        raise NotCanonical("a time whose zone does not tell its offset from UTC")
    return value.isoformat()


def _timedelta(value: timedelta, _: int) -> bytes:
    return _tagged(b"p", str(value // _MICROSECOND))


def _uuid(value: UUID, _: int) -> bytes:
    return _tagged(b"u", value.hex)


def _tagged(tag: bytes, text: str) -> bytes:
    return b"%b%d:%b" % (tag, len(text), text.encode())


# In this order: an enum may also be a str, a datetime is also a date.
_BASES: tuple[tuple[type, _Writer], ...] = (
    (Enum, _enum),
    (bool, _bool),
    (str, _text),
    (int, _int),
    (float, _float),
    (Decimal, _decimal),
    (bytes, _bytes),
    (bytearray, _bytes),
    (list, _list),
    (tuple, _list),
    (Mapping, _object),
    (set, _set),
    (frozenset, _set),
    (datetime, _datetime),
    (date, _date),
    (time, _time),
    (timedelta, _timedelta),
    (UUID, _uuid),
    (type(None), _null),
)


class _Writers(dict[type, _Writer]):
    """The writer for each type; for all others the one that looks closer."""

    def __missing__(self, kind: type) -> _Writer:
        return _by_looks


_WRITERS = _Writers(dict(_BASES) | {dict: _object})
