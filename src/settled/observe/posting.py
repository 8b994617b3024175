"""One POST over the standard library, with its failures in words that hold no address."""

from __future__ import annotations

import http.client
import ssl
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from settled.ports import NotTaken

if TYPE_CHECKING:
    from collections.abc import Mapping

_OK: Final = range(200, 300)
_LATER: Final = (408, 425, 429)
_SERVER: Final = 500


def post(url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> None:
    """Post it; ``timeout``: seconds that each step may take. Raises ``NotTaken``.

    A redirect is a failure: nobody else is to get what was meant for this address.
    """
    try:
        status, retry_after = _post(url, body, headers, timeout)
    except (OSError, http.client.HTTPException) as error:
        raise NotTaken(type(error).__name__, away=True) from error
    if status not in _OK:
        away = status >= _SERVER or status in _LATER
        raise NotTaken(f"it answered {status}", away=away, retry_after=retry_after)


def _post(url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> tuple[int, float | None]:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "https":
        context = ssl.create_default_context()
        line: http.client.HTTPConnection = http.client.HTTPSConnection(
            host, parts.port, timeout=timeout, context=context
        )
    else:
        line = http.client.HTTPConnection(host, parts.port, timeout=timeout)
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        line.request("POST", path, body, dict(headers))
        answer = line.getresponse()
        return answer.status, _seconds(answer.getheader("retry-after"))
    finally:
        line.close()


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdecimal() else None
