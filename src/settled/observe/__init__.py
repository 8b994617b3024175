"""Receivers of alerts, for ``Guard(alerts=…)``: what people are told through. Each imports what it needs itself."""

from settled.observe.apprise import Apprise
from settled.observe.sentry import Sentry
from settled.observe.webhook import Webhook, verify

__all__ = ["Apprise", "Sentry", "Webhook", "verify"]
