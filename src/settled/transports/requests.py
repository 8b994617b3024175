"""requests: its sessions, over urllib3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from settled.transports import urllib3
from settled.transports.watching import Patches, Watch

if TYPE_CHECKING:
    from collections.abc import Callable


def install(client: object | None = None) -> None:
    """Watch one ``Session``, or all of this process. Raises ``ImportError`` without requests."""
    _watch.install(client)


def uninstall(client: object | None = None) -> None:
    """Watch one session no more, or none at all."""
    _watch.uninstall(client)


def _patch(patches: Patches) -> None:
    from requests import Session  # noqa: PLC0415 - an extra, loaded when it is to be watched

    patches.wrap(Session, "send", _send)


_watch: Final = Watch(_patch, beneath=urllib3.watch)


def _send(original: Callable[..., Any]) -> Callable[..., Any]:
    def send(session: Any, *args: Any, **kwargs: Any) -> Any:
        if not _watch.on(session):
            return original(session, *args, **kwargs)
        return urllib3.watching(lambda: original(session, *args, **kwargs))

    return send
