"""What a joined agent may do, as a text that its run has signed: ``settled1.<what it says>.<HMAC-SHA256 of that>``.

Signed, not encrypted (RFC 2104, base64url as in RFC 4648): whoever holds it reads the names in it, and acts by it.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any, Final

from msgspec import DecodeError, Struct
from msgspec.json import decode, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

PREFIX: Final = "settled1."
LONGEST: Final = 6000
"""Characters of a token: common servers take headers of 8 KiB in all."""
SHORTEST_KEY: Final = 16
"""Bytes of a key that signs."""
LANE: Final = re.compile(r"[!-~]{1,100}")
_SHAPE: Final = re.compile(r"settled1\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]{43})")


class Grant(Struct, frozen=True, forbid_unknown_fields=True):
    """One agent may work on one run, in a lane of its own."""

    run_id: str
    tenant: str
    journal_id: str
    lane: str
    entry: int
    """The entry of the run that gave it: with the next one, or a rollback, it is worth nothing."""
    until: float
    """When it expires, by the journal's clock, seconds since the epoch."""
    within: float
    """Seconds that were left then: nobody gains time by a clock that was set back."""
    tools: tuple[str, ...] | None = None
    """Names of the tools that may be called; ``None``: any."""
    on_error: str = "keep"
    retries: tuple[int, dict[str, int] | None, float | None] | None = None
    """The run's budget (total, per tool, floor), which all its agents draw on."""
    tokens: int | None = None
    """The limit of the run's token window, which they share."""


class Unreadable(ValueError):  # noqa: N818 - the name says what is wrong
    """No token, or not one of ours. ``why``: ``malformed`` or ``signature``. The text is not repeated."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def sign(grant: Grant, key: bytes) -> str:
    """Return the grant as a token. Raises ``ValueError`` if it is too long for a header."""
    said = _coded(encode(grant))
    token = f"{PREFIX}{said}.{_coded(_mac(said, key))}"
    if len(token) > LONGEST:
        raise ValueError(f"a token of {len(token)} characters is too long for a header: name fewer tools")
    return token


def read(token: str, keys: Sequence[bytes]) -> Grant:
    """Return what a token says, if one of the keys has signed it. Raises ``Unreadable``."""
    found = _SHAPE.fullmatch(token) if len(token) <= LONGEST else None
    if found is None:
        raise Unreadable("malformed")
    said, mac = found.groups()
    given = _decoded(mac)
    if not any(hmac.compare_digest(_mac(said, key), given) for key in keys):
        raise Unreadable("signature")
    try:
        return decode(_decoded(said), type=Grant)
    except (DecodeError, RecursionError):  # signed by a release that says more, or less
        raise Unreadable("malformed") from None


def _mac(said: str, key: bytes) -> bytes:
    return hmac.digest(key, f"{PREFIX}{said}".encode(), "sha256")


def _coded(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    try:
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise Unreadable("malformed") from None
    if _coded(data) != text:  # two spellings of one token
        raise Unreadable("malformed")
    return data


def keys_of(given: Any) -> tuple[bytes, ...]:
    """Return the keys that tokens are signed and checked with, the signing one first. Raises ``ValueError``."""
    several = () if given is None else (given,) if isinstance(given, str | bytes) else tuple(given)
    if not all(isinstance(key, str | bytes) for key in several):
        raise ValueError("token_key is text or bytes, or several of them, the newest first")
    keys = tuple(key.encode() if isinstance(key, str) else key for key in several)
    if any(len(key) < SHORTEST_KEY for key in keys):
        raise ValueError(f"a token_key has {SHORTEST_KEY} bytes at the least: secrets.token_hex(32) makes a good one")
    return keys
