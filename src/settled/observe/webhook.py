"""A signed webhook: CloudEvents 1.0 in structured JSON, signed by the scheme of Standard Webhooks 1.0.

https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md
https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import hmac
import json
import time
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from settled.errors import DeclarationError
from settled.observe.posting import post

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from urllib.parse import SplitResult

    from settled.ports import Notice

TOLERANCE: Final = 300.0
"""Seconds by which a signature's time may lie apart from the receiver's clock."""
_SECRET: Final = "whsec_"  # noqa: S105 - how every secret begins, and none itself
_SIZES: Final = (24, 64)


class Webhook:
    """Posts each alert to an address.

    Args:
        url: ``https://…``, with ``user:password@`` where the host wants them; ``http`` only to this machine.
        secret: ``whsec_`` and base64 of 24 to 64 random bytes; several while one takes the place of another.
        headers: sent along, as for a proxy that wants a token.
        timeout: seconds that each step of a delivery may take.
        name: how it is called in ``settled alerts list``; the address without its path by default.

    Raises:
        DeclarationError: an address or a secret that cannot work.
    """

    def __init__(
        self,
        url: str,
        secret: str | Sequence[str],
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float = 10.0,
        name: str = "",
    ) -> None:
        parts, self._url = _address(url), url
        self._keys = [key_of(each) for each in ([secret] if isinstance(secret, str) else secret)]
        if not self._keys or not timeout > 0:
            raise DeclarationError("a webhook needs a secret, and a timeout above 0")
        self._headers, self._timeout = {**_user(parts), **(headers or {})}, timeout
        self.name = name or f"webhook {parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    def deliver(self, notice: Notice) -> None:
        """Post one alert. Raises ``NotTaken``."""
        body = json.dumps(event(notice), ensure_ascii=True).encode()
        post(self._url, body, self._signed(notice.notice_id, body), self._timeout)

    def _signed(self, notice_id: str, body: bytes) -> dict[str, str]:
        at = str(int(time.time()))
        return {
            **self._headers,
            "content-type": "application/cloudevents+json; charset=utf-8",
            "webhook-id": notice_id,
            "webhook-timestamp": at,
            "webhook-signature": " ".join(signature(key, notice_id, at, body) for key in self._keys),
        }


def event(notice: Notice) -> dict[str, Any]:
    """Return an alert as a CloudEvent."""
    return {
        "specversion": "1.0",
        "id": notice.notice_id,
        "source": f"/settled/journals/{notice.journal_id}",
        "type": "settled.alert.resolved" if notice.resolved else "settled.alert.opened",
        "subject": notice.subject,
        "time": datetime.fromtimestamp(notice.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "data": {
            "kind": notice.kind,
            "severity": notice.severity,
            "title": notice.title,
            "text": notice.text,
            **notice.facts,
        },
    }


def signature(key: bytes, notice_id: str, at: str, body: bytes) -> str:
    """Return the signature of a message, in the form of its header."""
    digest = hmac.digest(key, f"{notice_id}.{at}.".encode() + body, "sha256")
    return f"v1,{base64.b64encode(digest).decode()}"


def verify(secret: str, headers: Mapping[str, str], body: bytes, *, now: float | None = None) -> dict[str, Any]:
    """Return the event of a delivery, for whoever receives one.

    Args:
        secret: the one it is signed with, as the webhook was given it.
        headers: of the delivery, with names in lower case.
        body: of the delivery, as it came.
        now: seconds since 1970; the clock's by default.

    Raises:
        DeclarationError: the secret is none.
        ValueError: the delivery is not to be trusted.
    """
    try:
        notice_id, at, given = (headers[f"webhook-{name}"] for name in ("id", "timestamp", "signature"))
        apart = abs((time.time() if now is None else now) - int(at))
    except (KeyError, ValueError):
        raise ValueError("a signed delivery has webhook-id, webhook-timestamp and webhook-signature") from None
    if apart > TOLERANCE:
        raise ValueError("it was signed too long ago, or the clocks differ")
    right = signature(key_of(secret), notice_id, at, body)
    if not any(hmac.compare_digest(right.encode(), each.encode()) for each in given.split()):
        raise ValueError("its signature is wrong")
    found: dict[str, Any] = json.loads(body)
    return found


def key_of(secret: str) -> bytes:
    """Return the bytes of a secret. Raises ``DeclarationError``; the secret is in no message."""
    try:
        key = base64.b64decode(secret.removeprefix(_SECRET), validate=True) if secret.startswith(_SECRET) else b""
    except ValueError:
        key = b""
    if not _SIZES[0] <= len(key) <= _SIZES[1]:
        raise DeclarationError(
            f"a webhook's secret is {_SECRET} and base64 of {_SIZES[0]} to {_SIZES[1]} random bytes, as of "
            "`python -c \"import base64, os; print('whsec_' + base64.b64encode(os.urandom(32)).decode())\"`"
        )
    return key


def _address(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        whole = bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, say; its words may quote what is secret
        raise DeclarationError("a webhook's url is https://host/path") from None
    if parts.scheme not in ("http", "https") or not whole or not url.isascii() or any(map(_odd, url)):
        raise DeclarationError("a webhook's url is https://host/path, with what is not plain in it written as %XX")
    if parts.scheme == "http" and not _here(parts.hostname or ""):
        raise DeclarationError("a webhook's url is https://…: what it tells is not for everybody on the way")
    return parts


def _user(parts: SplitResult) -> dict[str, str]:
    """Return the header that tells a host who is named in its address."""
    if parts.username is None:
        return {}
    name = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    return {"authorization": f"Basic {base64.b64encode(name).decode()}"}


def _odd(character: str) -> bool:
    return character.isspace() or not character.isprintable()


def _here(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
