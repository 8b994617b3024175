"""openai, anthropic and stripe: their own repeats are off inside of guarded calls.

What they send goes over httpx, httpx2 or requests, which must be watched too: ``settled.transports.install()`` does
both, and so does ``install(client)`` for one client of openai or anthropic.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from settled.transports import httpx
from settled.transports.watching import Patches, Watch

if TYPE_CHECKING:
    from collections.abc import Callable


def install(client: Any | None = None) -> None:
    """Watch one client of openai or anthropic, or all of the SDKs that this process has imported."""
    if client is not None:
        httpx.install(client._client)  # noqa: SLF001 - what it sends by; the SDKs call it no other way
    _watch.install(client)


def uninstall(client: Any | None = None) -> None:
    """Watch one client no more, or none at all."""
    if client is not None:
        httpx.uninstall(client._client)  # noqa: SLF001 - same
    _watch.uninstall(client)


def _patch(patches: Patches) -> None:
    for name in ("openai", "anthropic"):
        if name in sys.modules:
            base = sys.modules[f"{name}._base_client"].BaseClient
            patches.put(base, "max_retries", property(_max_retries, _set_max_retries))
    if "stripe" in sys.modules:
        patches.wrap(sys.modules["stripe._http_client"].HTTPClient, "_should_retry", _should_retry)


_watch: Final = Watch(_patch)


def _max_retries(client: Any) -> int:
    number: int = vars(client)["max_retries"]
    return 0 if _watch.on(client) else number


def _set_max_retries(client: Any, number: int) -> None:
    vars(client)["max_retries"] = number


def _should_retry(original: Callable[..., bool]) -> Callable[..., bool]:
    def should_retry(client: Any, *args: Any, **kwargs: Any) -> bool:
        return False if _watch.on(client) else original(client, *args, **kwargs)

    return should_retry
