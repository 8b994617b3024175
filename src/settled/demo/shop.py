"""The shop's side of the contract, and a client for it: what both agents know of the service.

``Idempotency-Key`` is honoured for orders and payments. Refunds and tickets carry a reference and can be looked up by
it. Messages and notes offer neither. Every request says when it was sent, and the shop promises not to act on one
that is older than ``LIFETIME``.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT = 0.4
"""Seconds that a client waits for an answer."""
STALL = 0.7
"""Seconds that a stalled request takes: longer than any client waits."""
LIFETIME = 1.2
"""Seconds from sending to the last moment at which a request is acted on."""
KEY_RETENTION = 24 * 3600.0
"""Seconds that the shop surely remembers an ``Idempotency-Key``."""

SENT_AT = "X-Sent-At"
BUSY = "busy"
"""Code inside of a 200: nothing was done, and a repeat may work."""
UPSTREAM_TIMEOUT = "upstream_timeout"
"""Code inside of a 200: it may have been done."""
KEY_IN_USE = "idempotency_key_in_use"
"""Code of a 409: the first request with this key is still at work."""
KEY_REUSED = "idempotency_key_reused"
"""Code of a 422: this key came with another request before."""


class Shop:
    """An HTTP client for the shop. Answers of 400 and above are raised as ``httpx.HTTPStatusError``."""

    def __init__(self, url: str) -> None:
        self._client = httpx.AsyncClient(base_url=url, timeout=TIMEOUT, trust_env=False)
        self.took: dict[str, float] = {}
        """Label -> seconds spent in requests that bear it."""

    async def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        label: str = "",
    ) -> dict[str, Any]:
        """Send one request and return the JSON of its answer. Never repeats it."""
        began = time.monotonic()
        try:
            response = await self._client.request(
                method, path, json=body, headers={SENT_AT: repr(time.time()), **(headers or {})}
            )
        finally:
            self.took[label] = self.took.get(label, 0.0) + time.monotonic() - began
        response.raise_for_status()
        answer: dict[str, Any] = response.json()
        return answer

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def error_inside(answer: object) -> str:
    """Return the error code inside of an answer whose status says success; empty if there is none."""
    error = answer.get("error") if isinstance(answer, dict) and answer.get("ok") is False else None
    return str(error.get("code", "")) if isinstance(error, dict) else ""
