"""Alerts as events of Sentry, grouped by kind and tool (the extra ``alerts``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from settled.errors import DeclarationError, MissingExtra
from settled.observe.posting import post
from settled.ports import NotTaken

if TYPE_CHECKING:
    from settled.ports import Notice

_LEVELS: Final = {"info": "info", "warning": "warning", "error": "error", "critical": "fatal"}


class Sentry:
    """Sends each alert as an event to a Sentry project; its end as one of level info. It resolves no issue.

    Args:
        dsn: the project's; it is shown nowhere.
        timeout: seconds that each step of sending may take.
        name: how it is called in ``settled alerts list``.

    Raises:
        DeclarationError: the dsn is none.
        MissingExtra: sentry-sdk is not installed.
    """

    def __init__(self, dsn: str, *, timeout: float = 10.0, name: str = "sentry") -> None:
        self.name, self._timeout = name, timeout
        try:
            import sentry_sdk  # noqa: PLC0415 - an extra, loaded only when it is used
        except ImportError as error:
            raise MissingExtra("alerts to Sentry need their extra: pip install 'settled[alerts]'") from error
        self._sdk: Any = sentry_sdk
        self._sent = False
        try:  # a client of our own: the app's, if it has one, is left alone
            self._client = sentry_sdk.Client(dsn=dsn, default_integrations=False, transport=self._transport())
        except sentry_sdk.utils.BadDsn:
            raise DeclarationError("the Sentry dsn is none: it is https://key@host/project") from None

    def _transport(self) -> Any:
        """Return what sends at once, and says whether that went well: the client's own tells nobody."""
        from sentry_sdk.transport import Transport  # noqa: PLC0415 - an extra, loaded only when it is used

        receiver = self

        class Direct(Transport):
            def capture_envelope(self, envelope: Any) -> None:
                receiver.send(self, envelope.serialize())

        return Direct

    def send(self, transport: Any, body: bytes) -> None:
        """Post one envelope. Raises ``NotTaken``."""
        auth = transport.parsed_dsn.to_auth("settled")
        headers = {"content-type": "application/x-sentry-envelope", "x-sentry-auth": auth.to_header()}
        post(auth.get_api_url(), body, headers, self._timeout)
        self._sent = True

    def deliver(self, notice: Notice) -> None:
        """Send one alert. Raises ``NotTaken``."""
        scope = self._sdk.Scope(client=self._client)
        tool = str(notice.facts.get("tool") or "")
        scope.set_tag("kind", notice.kind)
        scope.set_tag("tool", tool)
        scope.set_context("alert", {"subject": notice.subject, "text": notice.text, **notice.facts})
        event: Any = {
            "message": f"Resolved: {notice.title}" if notice.resolved else notice.title,
            "level": "info" if notice.resolved else _LEVELS[notice.severity],
            "fingerprint": ["settled", notice.kind, tool],
            "extra": {"notice_id": notice.notice_id},
        }
        self._sent = False
        self._client.capture_event(event, scope=scope)
        if not self._sent:
            raise NotTaken("Sentry's client dropped it")
