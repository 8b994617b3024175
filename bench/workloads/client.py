"""An HTTP client for the world, as an agent has it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import httpx

from bench.workloads.world import contract
from settled.testing.kill.fuse import die

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT = 10.0


class Tools:
    """Calls tools of one run. Answers of 400 and above are raised as ``httpx.HTTPStatusError``; nothing is repeated."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=TIMEOUT, trust_env=False, verify=False)  # noqa: S501 - loopback without TLS: no certificates to load
        self.run = ""
        """The run that is played, as the world names it."""
        self.mark = 0
        """The place of the call that is meant."""
        self.took = 0.0
        """Seconds spent in requests so far."""

    def call(self, tool: str, arguments: Mapping[str, Any], key: str) -> Any:
        """Make one request and return what the tool answered."""
        expires = time.monotonic() + contract.LIFETIME
        headers = {contract.KEY: key, contract.MARK: str(self.mark), contract.EXPIRES: repr(expires)}
        response = self._timed("POST", f"/runs/{self.run}/{tool}", json=arguments, headers=headers)
        if contract.DIE in response.headers:
            die()
        return response.raise_for_status().json()

    def effects(self, caller: str, key: str) -> list[Any]:
        """Ask once what a row has done in a seed under a key."""
        response = self._timed("GET", f"/effects/{caller}", params={"key": key})
        found: list[Any] = response.raise_for_status().json()["found"]
        return found

    def _timed(self, method: str, path: str, **more: Any) -> httpx.Response:
        began = time.monotonic()
        try:
            return self._client.request(method, path, **more)
        finally:
            self.took += time.monotonic() - began

    def close(self) -> None:
        """Close its connections."""
        self._client.close()
