"""smtplib and aiosmtplib: what a mail server replies.

A mail is taken over with the positive reply to its data, not before (RFC 5321). The errors are kinds of ``OSError``,
without a number of the system's. ``SMTPResponseException`` itself is raised for a reply to QUIT, when all may be
done.
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
    return _of_code(_code(error))


def _code(error: object) -> int | None:
    """Return the code of a reply; aiosmtplib's is plainly called so."""
    named = look.attr(error, "smtp_code")
    return look.number(look.attr(error, "code") if named is None else named)


def of_recipients(error: BaseException, _: Situation) -> Fault | None:
    """Read that every recipient was refused, by the reply to the first one that may be taken later, if to any."""
    replies = look.attr(error, "recipients")
    answers = [*replies.values()] if isinstance(replies, Mapping) else replies if isinstance(replies, list) else []
    codes = [look.number(each[0]) if isinstance(each, tuple) and each else _code(each) for each in answers]
    return _of_code(next((code for code in codes if code in _LATER), codes[0] if codes else None))


def of_login(error: BaseException, situation: Situation) -> Fault | None:
    """Read that a login was refused."""
    said = of_reply(error, situation)
    return said if said is None or _code(error) in _LATER else replace(said, refresh=True)


_BEFORE_ANY_MAIL = frozenset({"connect", "ehlo", "helo", "starttls", "login"})


def of_disconnected(error: BaseException, _: Situation) -> Fault | None:
    """Read that the server hung up: while it was greeted it has taken over nothing; later perhaps another mail."""
    steps = {frame.f_code.co_name for frame in look.frames(error) if look.package(frame) == "smtplib"}
    return retryable("disconnected") if steps & _BEFORE_ANY_MAIL else ambiguous("disconnected")


def _of_code(code: int | None) -> Fault | None:
    if code in _LATER:
        return retryable(f"smtp_{code}")
    return refused(f"smtp_{code}") if code in _NEVER else None


_REFUSALS = {
    "SMTPAuthenticationError": of_login,
    "SMTPRecipientsRefused": of_recipients,
    **dict.fromkeys(("SMTPHeloError", "SMTPSenderRefused", "SMTPDataError"), of_reply),
}

RULES = {
    **rules(
        "smtplib",
        final={
            **_REFUSALS,
            "SMTPConnectError": of_reply,
            "SMTPNotSupportedError": refused("smtp_not_supported"),
            "SMTPServerDisconnected": of_disconnected,
        },
        wraps={"SMTPException": ambiguous("smtp_error")},
        default=ambiguous("smtp_error"),
    ),
    **rules(
        "aiosmtplib",
        final={
            **_REFUSALS,
            **dict.fromkeys(("SMTPRecipientRefused", "SMTPConnectResponseError"), of_reply),
            "SMTPConnectTimeoutError": retryable("connect_timeout"),
            "SMTPConnectError": retryable("connect_failed"),
            "SMTPNotSupported": refused("smtp_not_supported"),
        },
        wraps={"SMTPException": ambiguous("smtp_error")},
        default=ambiguous("smtp_error"),
    ),
}
