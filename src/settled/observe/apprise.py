"""Alerts through Apprise: Slack, Teams, mail, PagerDuty and many others, by address (the extra ``alerts``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

from settled.errors import DeclarationError, MissingExtra
from settled.ports import NotTaken

if TYPE_CHECKING:
    from settled.ports import Notice

_TYPES: Final = {"info": "info", "warning": "warning", "error": "failure", "critical": "failure"}
_BY_INCIDENT: Final = ("pagerduty",)
"""Services to which the address itself says which incident is meant, and whether it opens or ends."""


class Apprise:
    """Tells one service, named by its Apprise address: ``slack://…``, ``mailto://…``, ``pagerduty://…``.

    Args:
        url: the address; it may hold secrets, which are shown nowhere.
        name: how it is called in ``settled alerts list``; the service and its number by default.

    Raises:
        DeclarationError: Apprise knows no such address.
        MissingExtra: Apprise is not installed.
    """

    def __init__(self, url: str, *, name: str = "") -> None:
        self._url = url
        service = _service(url)
        self.name = name or f"apprise {urlsplit(url).scheme} {service.url_id() or ''}".strip()[:40]

    def deliver(self, notice: Notice) -> None:
        """Tell of one alert. Raises ``NotTaken``."""
        title = f"Resolved: {notice.title}" if notice.resolved else notice.title
        kind = "success" if notice.resolved else _TYPES[notice.severity]
        taken = _service(self._addressed(notice)).notify(body=notice.text or title, title=title, notify_type=kind)
        if not taken:
            raise NotTaken("Apprise could not deliver it", away=True)

    def _addressed(self, notice: Notice) -> str:
        if urlsplit(self._url).scheme not in _BY_INCIDENT:
            return self._url
        more = urlencode({"dedup": notice.subject[:255], "action": "resolve" if notice.resolved else "trigger"})
        return f"{self._url}{'&' if '?' in self._url else '?'}{more}"


def _service(url: str) -> Any:
    try:
        import apprise  # noqa: PLC0415 - an extra, loaded only when it is used
    except ImportError as error:
        raise MissingExtra("alerts through Apprise need their extra: pip install 'settled[alerts]'") from error
    service = apprise.Apprise.instantiate(url, suppress_exceptions=True)
    if not service:
        raise DeclarationError(
            f"Apprise knows no address like {urlsplit(url).scheme or 'this'}://…: see its list of services"
        )
    return service
