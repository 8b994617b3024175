"""smtplib: what a mail server replies. A mail is taken over with the positive reply to its data, not before (RFC 5321).

The errors are kinds of ``OSError``, without a number of the system's. ``SMTPResponseException`` itself is raised for a
reply to QUIT, when all may be done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from settled.core.faults import look
from settled.core.faults.rules import Situation, ambiguous, refused, retryable, rules
from settled.core.values import replace

if TYPE_CHECKING:
    from settled.core.model import Fault

_LATER, _NEVER = range(400, 500), range(500, 600)


def of_reply(error: BaseException, _: Situation) -> Fault | None:
    """Read a refusal by its code; ``None`` if it has none."""
    return _of_code(look.number(look.attr(error, "smtp_code")))


def of_recipients(error: BaseException, _: Situation) -> Fault | None:
    """Read that every recipient was refused, by the reply to the first one that may be taken later, if to any."""
    replies = look.attr(error, "recipients")
    answers = list(replies.values()) if isinstance(replies, Mapping) else []
    codes = [look.number(each[0]) for each in answers if isinstance(each, tuple) and each]
    return _of_code(next((code for code in codes if code in _LATER), codes[0] if codes else None))


def of_login(error: BaseException, situation: Situation) -> Fault | None:
    """Read that a login was refused."""
    said = of_reply(error, situation)
    return said if said is None or look.number(look.attr(error, "smtp_code")) in _LATER else replace(said, refresh=True)


def _of_code(code: int | None) -> Fault | None:
    if code in _LATER:
        return retryable(f"smtp_{code}")
    return refused(f"smtp_{code}") if code in _NEVER else None


RULES = rules(
    "smtplib",
    final={
        "SMTPAuthenticationError": of_login,
        "SMTPRecipientsRefused": of_recipients,
        **dict.fromkeys(("SMTPConnectError", "SMTPHeloError", "SMTPSenderRefused", "SMTPDataError"), of_reply),
        "SMTPNotSupportedError": refused("smtp_not_supported"),
        "SMTPServerDisconnected": ambiguous("disconnected"),
    },
    wraps={"SMTPException": ambiguous("smtp_error")},
    default=ambiguous("smtp_error"),
)
