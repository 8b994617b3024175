"""botocore and boto3, over urllib3."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from settled.transports import urllib3
from settled.transports.watching import Patches, Watch

if TYPE_CHECKING:
    from collections.abc import Callable


def install(client: Any | None = None) -> None:
    """Watch one client of a service, or all of this process. Raises ``ImportError`` without botocore."""
    _watch.install(_session(client))


def uninstall(client: Any | None = None) -> None:
    """Watch one client no more, or none at all."""
    _watch.uninstall(_session(client))


def _session(client: Any | None) -> object | None:
    return None if client is None else client._endpoint.http_session  # noqa: SLF001 - what sends, and nothing public leads there


def _patch(patches: Patches) -> None:
    patches.wrap(import_module("botocore.httpsession").URLLib3Session, "send", _send)
    patches.wrap(import_module("botocore.retries.standard").RetryHandler, "needs_retry", _no_repeat)
    patches.wrap(import_module("botocore.retryhandler").RetryHandler, "__call__", _no_repeat)


_watch: Final = Watch(_patch, beneath=urllib3.watch)


def _send(original: Callable[..., Any]) -> Callable[..., Any]:
    def send(session: Any, request: Any) -> Any:
        if not _watch.on(session):
            return original(session, request)
        return urllib3.watching(lambda: original(session, request))

    return send


def _no_repeat(original: Callable[..., Any]) -> Callable[..., Any]:
    """Answer that no repeat is needed; other handlers (S3's redirects to another region) go on."""

    def needs_retry(handler: Any, *args: Any, **kwargs: Any) -> Any:
        session = getattr(kwargs.get("endpoint"), "http_session", None)
        return None if _watch.on(session) else original(handler, *args, **kwargs)

    return needs_retry
