"""Key and fingerprint: which action this is, and whether it came with the same arguments.

Two digests, never mixed up. All are SHA-256 over tagged, length-prefixed parts, so that ("ab", "c") and ("a", "bc")
differ. In no key: time, number of the attempt, module path, a model's own call id.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING

from settled.core.encoding import canonical
from settled.core.encoding.key_template import template_parts, template_roots
from settled.core.encoding.loosening import NotCanonical, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from settled.core.encoding.loosening import Rules

__all__ = [
    "KEY_FORMATS",
    "LONGEST_KEY",
    "business_key",
    "content_digest",
    "fingerprint",
    "format_key",
    "random_key",
    "scoped_key",
    "template_parts",
    "template_roots",
    "without_defaults",
]

LONGEST_KEY = 255
"""Characters, all of them printable ASCII."""

_SHOWN_NAME = 200
_FEWEST_RANDOM_BYTES = 16
_NOT_PRINTABLE = re.compile(r"[^\x21-\x7e]|:")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_]")


def fingerprint(
    arguments: Mapping[str, object],
    *,
    identity: Sequence[str] | None = None,
    rules: Rules | None = None,
) -> str:
    """Digest that only detects other arguments under the same key: ``1:<64 hex digits>``, first the form's version.

    Covers the arguments named in ``identity``, or all of them if that is None.

    Raises:
        NotCanonical: an argument has no canonical form.
    """
    counted = arguments if identity is None else {name: arguments[name] for name in identity if name in arguments}
    return f"{canonical.VERSION}:{_digest(b'fingerprint', canonical.encode(counted, rules))}"


def content_digest(arguments: Mapping[str, object], rules: Rules | None = None) -> str:
    """Digest of all arguments, the words of a call, in the form of ``fingerprint``.

    Raises:
        NotCanonical: an argument has no canonical form.
    """
    return f"{canonical.VERSION}:{_digest(b'content', canonical.encode(arguments, rules))}"


def without_defaults(
    arguments: Mapping[str, object], defaults: Mapping[str, object], rules: Rules | None = None
) -> Mapping[str, object]:
    """The arguments that are not equal to their default.

    A default that a later release adds then changes neither key nor fingerprint.
    """
    if not defaults:
        return arguments
    return {
        name: value
        for name, value in arguments.items()
        if name not in defaults or not _same(name, value, defaults[name], rules)
    }


def business_key(tenant: str, tool: str, parts: Sequence[str], scope: str | None = None) -> str:
    """The key of an action that the tool names by its arguments, or that was given for one call.

    Args:
        tenant: whose data it is.
        tool: the tool's name; two tools with the same parts have different keys.
        parts: of ``template_parts``, or the given key.
        scope: narrows the key, to a run for instance.
    """
    return _named(tool, _digest(b"business", tenant, tool, scope, len(parts), *parts))


def scoped_key(  # noqa: PLR0917 - the order is the one that the key is defined by
    tenant: str, scope: str, lane: str, tool: str, identity_digest: str, n: int
) -> str:
    """The key of the n-th like call (same lane, tool and identity) inside a run or another call."""
    return _named(tool, _digest(b"scoped", tenant, scope, lane, tool, identity_digest, n))


def random_key(draw: bytes, *, tool: str = "call", at: float | None = None) -> str:
    """The key of a call outside of any run, from random bytes drawn by the caller.

    Args:
        draw: at least 16 bytes.
        tool: its name.
        at: seconds since the epoch, to begin with: then an index over keys grows at one end, as with UUIDv7 (RFC 9562),
            where each key of chance alone changes another of its pages.

    Raises:
        ValueError: fewer than 16 bytes.
    """
    if len(draw) < _FEWEST_RANDOM_BYTES:
        raise ValueError(f"a random key needs {_FEWEST_RANDOM_BYTES} bytes, not {len(draw)}")
    digest = _digest(b"random", draw)
    return _named(tool, digest if at is None else f"{int(at) & 0xFFFF_FFFF:08x}{digest[8:]}")


def format_key(key: str, key_format: str) -> str:
    """The key in the form that the other side takes; the same key always gives the same text.

    ``text``: as it is. ``text36``, ``text64``: that many characters of ``A-Za-z0-9_-``, the tool's name first.
    ``hex32``, ``hex64``: that many hex digits. ``uuid``: 36 characters, marked as version 4, which is what sides that
    look at the version expect.

    Raises:
        ValueError: no such format, or a key that is not 1 to 255 printable ASCII characters.
    """
    if key_format not in KEY_FORMATS:
        raise ValueError(f"there is no key_format {key_format!r}{nearest(key_format, KEY_FORMATS)}")
    if not (0 < len(key) <= LONGEST_KEY and key.isascii() and key.isprintable()):
        raise ValueError(f"a key has 1 to {LONGEST_KEY} printable ASCII characters")
    return KEY_FORMATS[key_format](key)


def _same(name: str, value: object, default: object, rules: Rules | None) -> bool:
    try:
        # Under its name, so that the rules for it apply.
        return canonical.encode({name: value}, rules) == canonical.encode({name: default}, rules)
    except NotCanonical:
        return value is default


def _digest(purpose: bytes, *parts: str | bytes | int | None) -> str:
    """SHA-256 over the parts, each with its kind and length. Not the canonical form: keys must outlive its versions."""
    return sha256(b"settled 1 %b;%b" % (purpose, b"".join(map(_framed, parts)))).hexdigest()


def _framed(part: str | bytes | int | None) -> bytes:
    if isinstance(part, str):
        raw = part.encode("utf-8", "surrogatepass")  # a name from outside must never break a digest
        return b"s%d:%b" % (len(raw), raw)
    if isinstance(part, bytes):
        return b"b%d:%b" % (len(part), part)
    if part is None:
        return b"N0:"
    return b"i%d:%d" % (len(str(part)), part)


def _named(tool: str, digest: str) -> str:
    return f"{_shown(tool)}:{digest[:32]}"


@lru_cache(1000)
def _shown(tool: str) -> str:
    return _NOT_PRINTABLE.sub("_", tool)[:_SHOWN_NAME]


def _short(key: str, length: int) -> str:
    """As much of the tool's name as fits before 128 bits in hex."""
    digest = _digest(b"format", key)[:32]
    name = _NOT_PLAIN.sub("_", key.partition(":")[0])
    return f"{name[: length - 33]}-{digest}"


def _uuid(key: str) -> str:
    digits = _digest(b"format", key)
    variant = "89ab"[int(digits[16], 16) % 4]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


KEY_FORMATS: Mapping[str, Callable[[str], str]] = {
    "text": str,
    "text36": lambda key: _short(key, 36),
    "text64": lambda key: _short(key, 64),
    "hex32": lambda key: _digest(b"format", key)[:32],
    "hex64": lambda key: _digest(b"format", key),
    "uuid": _uuid,
}
