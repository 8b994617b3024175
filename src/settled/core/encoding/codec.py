"""Results and arguments as bytes and back, equal in value and type.

JSON text that people can read, ASCII only, with one-member objects ``{"$tag": ...}`` for what JSON lacks. Only plain
types are written, never the path of a class, so reading data can never run code: objects of an annotated type are
turned into plain values before, and rebuilt after, by whoever knows the annotation.

Data: the version ``1``, then ``j`` and the text, or ``z``, the text's length in bytes, ``:`` and the text packed by
zlib. ``1`` and ``1.0``, ``-0.0`` and ``0.0``, a list and a tuple stay apart; so do None, 0, "", False and [].
"""

from __future__ import annotations

import json
import re
import zlib
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from hashlib import sha256
from math import isfinite
from typing import Any, TypeVar

from settled.core.encoding import strict_json
from settled.core.encoding.paths import RefusedValueError
from settled.core.encoding.value_types import UUID, ZoneInfo

__all__ = ["CorruptData", "NotEncodable", "digest", "dumps", "loads"]

VERSION = b"1"
MAX_DEPTH = strict_json.MAX_DEPTH
"""Levels of nesting; a dict with other names than text counts as two."""
PACK_OVER = 4096
"""Bytes of text over which it is packed, if that makes it shorter."""

_DEEPEST_TEXT = 2 * MAX_DEPTH + 4  # a tuple takes two levels of JSON, a time zone some more
_SAFE_INT_BITS = 2_000  # readable under every setting of sys.set_int_max_str_digits
_SPLIT_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_PACKED = re.compile(rb"z([1-9]\d{0,18}):")
_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels, or inside itself"
_TEXT_ALONE = frozenset({str})
_quoted = json.encoder.encode_basestring_ascii
_json = json.JSONEncoder(separators=(",", ":")).encode
_Writer = Callable[[Any, int], str]
_Members = TypeVar("_Members", dict[Any, Any], set[Any], frozenset[Any])


class NotEncodable(RefusedValueError):  # noqa: N818 - the name says what is wrong with the value
    """A value of a type that is not written. Names place and type."""


class CorruptData(ValueError):  # noqa: N818 - the name says what is wrong
    """Data that ``dumps`` did not make, that was damaged, or that needs what this machine lacks (a time zone)."""


def dumps(value: object) -> bytes:
    """Write a value; equal values in equal order give equal bytes.

    Raises:
        NotEncodable: it holds something else than None, bool, int, float, complex, Decimal, str, bytes, bytearray,
            list, tuple, dict, set, frozenset, UUID and the types of ``datetime`` (subclasses are something else, as
            they would come back as what they are not), a cycle, or more than ``MAX_DEPTH`` levels.
    """
    try:
        text = _WRITERS[type(value)](value, 0).encode("ascii")
    except RecursionError:
        raise NotEncodable("nested too deep for what the caller left of the stack") from None
    if len(text) > PACK_OVER:
        packed = b"z%d:%b" % (len(text), zlib.compress(text))
        if len(packed) < len(text):
            return VERSION + packed
    return VERSION + b"j" + text


def loads(data: bytes) -> Any:
    """Read what ``dumps`` wrote; always a fresh value.

    Raises:
        CorruptData: it cannot be read, whatever the reason.
    """
    try:
        return _DECODER.decode(_unpacked(data))
    except CorruptData:
        raise
    except (
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        ArithmeticError,
        RecursionError,
        OSError,
        zlib.error,
    ) as error:
        failure = type(error).__name__
    # Outside of the handler: the decoder's error carries the whole text.
    raise CorruptData(f"stored data cannot be read ({failure})")


def digest(data: bytes) -> str:
    """SHA-256 of stored data, in hex: what a log keeps when the data itself is erased."""
    return sha256(data).hexdigest()


# ------------------------------------------------------------------------------------------------------------- writing


def _refused(value: object, _: int) -> str:
    kind = type(value)
    raise NotEncodable(
        f"a {kind.__module__}.{kind.__qualname__} is not written; return plain data, or annotate its type"
    )


class _Writers(dict[type, _Writer]):
    """The writer for each type; for all others one that refuses them."""

    def __missing__(self, kind: type) -> _Writer:
        return _refused


def _tagged(tag: str, payload: str) -> str:
    return f'{{"${tag}":{payload}}}'


def _null(_: None, __: int) -> str:
    return "null"


def _bool(value: bool, _: int) -> str:  # noqa: FBT001 - the value to write, not a switch
    return "true" if value else "false"


def _text(value: str, _: int) -> str:
    # The two halves of a pair, written as two escapes, would come back as one character.
    if not value.isascii() and _SPLIT_PAIR.search(value):
        return _tagged("text", f'"{value.encode("utf-8", "surrogatepass").hex()}"')
    return _quoted(value)


def _int(value: int, _: int) -> str:
    return repr(value) if value.bit_length() <= _SAFE_INT_BITS else _tagged("int", f'"{value:x}"')


def _float(value: float, _: int) -> str:
    return repr(value) if isfinite(value) else _tagged("float", f'"{value!r}"')


def _complex(value: complex, depth: int) -> str:
    return _tagged("complex", f"[{_float(value.real, depth)},{_float(value.imag, depth)}]")


def _list(value: Iterable[object], depth: int) -> str:
    return f"[{','.join(_elements(value, depth))}]"


def _tuple(value: Iterable[object], depth: int) -> str:
    return _tagged("tuple", _list(value, depth))


def _set(value: Iterable[object], depth: int) -> str:
    return _tagged("set", f"[{','.join(sorted(_elements(value, depth)))}]")


def _frozenset(value: Iterable[object], depth: int) -> str:
    return _tagged("frozenset", f"[{','.join(sorted(_elements(value, depth)))}]")


def _elements(value: Iterable[object], depth: int) -> list[str]:
    if depth >= MAX_DEPTH:
        raise NotEncodable(_TOO_DEEP)
    parts: list[str] = []
    for element in value:
        try:
            parts.append(_WRITERS[type(element)](element, depth + 1))
        except NotEncodable as refused:
            refused.within(len(parts))
            raise
    return parts


def _dict(value: Mapping[Any, object], depth: int) -> str:
    if not _are_plain_names(value):
        return _tagged("dict", _list(map(list, value.items()), depth))
    if depth >= MAX_DEPTH:
        raise NotEncodable(_TOO_DEEP)
    parts: list[str] = []
    for name, member in value.items():
        try:
            parts.append(f"{_quoted(name)}:{_WRITERS[type(member)](member, depth + 1)}")
        except NotEncodable as refused:
            refused.within(name)
            raise
    return f"{{{','.join(parts)}}}"


def _are_plain_names(names: Mapping[Any, object]) -> bool:
    if not _TEXT_ALONE.issuperset(map(type, names)):
        return False
    text = "".join(names)
    return ("$" not in text and text.isascii()) or all(map(_is_plain_name, names))


def _is_plain_name(name: str) -> bool:
    return name[:1] != "$" and (name.isascii() or not _SPLIT_PAIR.search(name))


def _bytes(value: bytes, _: int) -> str:
    return _tagged("bytes", f'"{b2a_base64(value, newline=False).decode()}"')


def _bytearray(value: bytearray, _: int) -> str:
    return _tagged("bytearray", f'"{b2a_base64(value, newline=False).decode()}"')


def _timedelta(value: timedelta, _: int) -> str:
    return _tagged("timedelta", f"[{value.days},{value.seconds},{value.microseconds}]")


def _clock(value: datetime | time) -> str:
    """ISO text where that says all, else wall time, fold and zone."""
    zone = _zone(value.tzinfo)
    if not value.fold and (zone is None or (isinstance(zone, list) and zone[1] is None)):
        return _json(value.isoformat())
    return _json([value.replace(tzinfo=None, fold=0).isoformat(), value.fold, zone])


def _zone(zone: tzinfo | None) -> object:
    """A zone's key, or its offset in microseconds and its name; None for the name that the offset has anyway."""
    if zone is None:
        return None
    if type(zone) is ZoneInfo and zone.key:
        return zone.key
    offset, name = _fixed(zone)
    if offset is None:
        raise NotEncodable(f"a time zone of type {type(zone).__name__} is not written; use zoneinfo or a fixed offset")
    return [offset // timedelta(microseconds=1), None if name == timezone(offset).tzname(None) else name]


def _fixed(zone: tzinfo) -> tuple[timedelta | None, str | None]:
    try:
        return zone.utcoffset(None), zone.tzname(None)
    except Exception:  # noqa: BLE001 - someone else's class, asked for what it need not know
        return None, None


_WRITERS: Mapping[type, _Writer] = _Writers(
    {
        type(None): _null,
        bool: _bool,
        str: _text,
        int: _int,
        float: _float,
        complex: _complex,
        Decimal: lambda value, _: _tagged("decimal", f'"{value!s}"'),
        bytes: _bytes,
        bytearray: _bytearray,
        list: _list,
        tuple: _tuple,
        set: _set,
        frozenset: _frozenset,
        dict: _dict,
        datetime: lambda value, _: _tagged("datetime", _clock(value)),
        date: lambda value, _: _tagged("date", f'"{value.isoformat()}"'),
        time: lambda value, _: _tagged("time", _clock(value)),
        timedelta: _timedelta,
        UUID: lambda value, _: _tagged("uuid", f'"{value!s}"'),
    }
)

# ------------------------------------------------------------------------------------------------------------- reading


def _unpacked(data: bytes) -> str:
    if data[:1] != VERSION:
        raise CorruptData("stored data of a version that is not known here")
    text = data[2:] if data[1:2] == b"j" else _inflated(data)
    document = text.decode("ascii")
    if strict_json.too_deep_at(_DEEPEST_TEXT, document) is not None:
        raise CorruptData("stored data nests too deep")
    return document


def _inflated(data: bytes) -> bytes:
    head = _PACKED.match(data, 1)
    if head is None:
        raise CorruptData("stored data of a form that is not known here")
    length = int(head[1])
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(data[head.end() :], length + 1)
    if len(text) != length or not unpacker.eof or unpacker.unused_data:
        raise CorruptData("stored data is cut off or has another length than it says")
    return text


def _object(pairs: list[tuple[str, Any]]) -> object:
    if len(pairs) == 1 and pairs[0][0][:1] == "$":
        tag, payload = pairs[0]
        return _READERS[tag](payload)
    members = _unique(dict(pairs), pairs)
    if "$" in "".join(members) and any(name[:1] == "$" for name in members):
        raise CorruptData("stored data has a tag where none belongs")
    return members


def _unique(made: _Members, of: list[Any]) -> _Members:
    if len(made) != len(of):
        raise CorruptData("stored data has a member twice")
    return made


def _listed(payload: object, length: int | None = None) -> list[Any]:
    if not isinstance(payload, list) or length not in (None, len(payload)):
        raise CorruptData("stored data has a tag with a wrong payload")
    return payload


def _worded(payload: object) -> str:
    if not isinstance(payload, str):
        raise CorruptData("stored data has a tag with a wrong payload")
    return payload


def _read_dict(payload: object) -> dict[Any, Any]:
    pairs = [tuple(_listed(pair, 2)) for pair in _listed(payload)]
    return _unique(dict(pairs), pairs)


def _read_set(payload: object) -> set[Any]:
    return _unique(set(_listed(payload)), _listed(payload))


def _read_frozenset(payload: object) -> frozenset[Any]:
    return _unique(frozenset(_listed(payload)), _listed(payload))


def _read_clock(payload: object, kind: type[datetime | time]) -> datetime | time:
    if isinstance(payload, str):
        return kind.fromisoformat(payload)
    wall, fold, zone = _listed(payload, 3)
    return kind.fromisoformat(_worded(wall)).replace(fold=fold, tzinfo=_read_zone(zone))


def _read_zone(payload: object) -> tzinfo | None:
    if payload is None:
        return None
    if isinstance(payload, str):
        return ZoneInfo(payload)
    offset, name = _listed(payload, 2)
    shift = timedelta(microseconds=offset)
    return timezone(shift) if name is None else timezone(shift, name)


def _read_base64(payload: object) -> bytes:
    return a2b_base64(_worded(payload), strict_mode=True)


def _refuse_constant(_: str) -> object:
    raise CorruptData("stored data has a bare NaN or Infinity")


_READERS: Mapping[str, Callable[[Any], object]] = {
    "$text": lambda payload: bytes.fromhex(_worded(payload)).decode("utf-8", "surrogatepass"),
    "$int": lambda payload: int(_worded(payload), 16),
    "$float": {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}.__getitem__,
    "$complex": lambda payload: complex(*map(float, _listed(payload, 2))),
    "$decimal": lambda payload: Decimal(_worded(payload)),
    "$bytes": _read_base64,
    "$bytearray": lambda payload: bytearray(_read_base64(payload)),
    "$tuple": lambda payload: tuple(_listed(payload)),
    "$set": _read_set,
    "$frozenset": _read_frozenset,
    "$dict": _read_dict,
    "$datetime": lambda payload: _read_clock(payload, datetime),
    "$date": lambda payload: date.fromisoformat(_worded(payload)),
    "$time": lambda payload: _read_clock(payload, time),
    "$timedelta": lambda payload: timedelta(*_listed(payload, 3)),
    "$uuid": lambda payload: UUID(_worded(payload)),
}
_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse_constant)
