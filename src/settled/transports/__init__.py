"""Hooks for clients, of HTTP and of databases: they take down what a guarded call sends, and what it never sent.

::

    settled.transports.install()              # every supported client that this process has imported
    settled.transports.httpx.install(client)  # one client
    settled.transports.uninstall()

What a watched client does inside of a guarded call:

- Each request of a recorded attempt is taken down: method, host and path, how far it came, the answer's status and
  headers and the beginning of its body, also when the tool was cut off meanwhile. A failed attempt keeps this with its
  record, cleaned of secrets; ``core.exchanges`` says what it proves.
- A request that changes something gets the ``Idempotency-Key`` of a ``deduplicated`` tool, unless it brings one.
- The client's own repeats are off: settled repeats what may be repeated, and counts it.
- An attempt that was cut off before its first such request left sends nothing any more: ``settled.errors.AttemptLeft``.

Outside of guarded calls nothing changes. All of it can be installed more than once, and taken away again.
"""

from __future__ import annotations

import sys
from types import MappingProxyType

from settled.transports import aiohttp, botocore, httpx, psycopg, redis, requests, sdks, urllib3

SUPPORTED = MappingProxyType(
    {
        "httpx": httpx,
        "httpx2": httpx,
        "urllib3": urllib3,
        "requests": requests,
        "aiohttp": aiohttp,
        "botocore": botocore,
        "psycopg": psycopg,
        "redis": redis,
        "openai": sdks,
        "anthropic": sdks,
        "stripe": sdks,
    }
)
"""By the package that is watched: the module that does it."""

__all__ = [
    "SUPPORTED",
    "aiohttp",
    "botocore",
    "httpx",
    "install",
    "psycopg",
    "redis",
    "requests",
    "sdks",
    "uninstall",
    "urllib3",
]


def install() -> tuple[str, ...]:
    """Watch every client of the supported packages that are imported by now; return the packages' names."""
    found = tuple(name for name in SUPPORTED if name in sys.modules)
    for module in {SUPPORTED[name] for name in found}:
        module.install()
    return found


def uninstall() -> None:
    """Watch nothing any more, also not the clients that were named one by one."""
    for module in set(SUPPORTED.values()):
        module.uninstall()
