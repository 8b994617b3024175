"""SDKs of single vendors, whose errors carry the answer in their own way.

Most repeat by themselves and do not tell: then only those refusals count that an executed first try rules out.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from settled.core.faults import look
from settled.core.faults.answers import read_answer
from settled.core.faults.carried import by_answer
from settled.core.faults.codes import of_codes
from settled.core.faults.rules import Situation, ambiguous, refused, retryable, rules, throttled, weakened
from settled.core.values import replace

if TYPE_CHECKING:
    from settled.core.model import Fault

_GONE = 404


def of_stripe(error: BaseException, situation: Situation) -> Fault | None:
    """Read a refusal by Stripe. A repeat of the SDK's has the key of the first try, but for a DELETE."""
    status = look.number(look.attr(error, "http_status"))
    if status is None:
        return None
    body, headers = look.attr(error, "json_body"), look.attr(error, "headers")
    fault = read_answer(status, headers, body, method="", doubtful=situation.doubtful, now=situation.now)
    return weakened(fault) if fault is not None and status == _GONE else fault


def of_gitlab(error: BaseException, situation: Situation) -> Fault | None:
    """Read GitLab's refusal."""
    status, body = look.number(look.attr(error, "response_code")), look.attr(error, "response_body")
    if status is None:
        return None
    return read_answer(status, {}, body, method="", doubtful=situation.doubtful, now=situation.now)


def of_slack(error: BaseException, _: Situation) -> Fault | None:
    """Read Slack's ``ok: false``. The SDK sends anew, unseen, what got no answer."""
    response = look.attr(error, "response")
    data = look.attr(response, "data")
    said = next((each for each in (data, response) if isinstance(each, Mapping)), {})
    code = said.get("error")
    fault = of_codes([code], doubtful=True) if isinstance(code, str) else None
    return weakened(fault) if fault is not None and fault.throttled else fault


def of_flood(error: BaseException, _: Situation) -> Fault:
    """Read Telegram's RetryAfter."""
    pause = look.attr(error, "retry_after")
    seconds = pause.total_seconds() if isinstance(pause, timedelta) else look.number(pause)
    return replace(throttled("telegram_retry_after"), retry_after=None if seconds is None else float(seconds))


_TELEGRAM = {
    "BadRequest": refused("telegram_bad_request"),
    "Forbidden": replace(refused("telegram_forbidden"), gate=True),
    "InvalidToken": replace(refused("telegram_invalid_token"), refresh=True),
}


def of_amqp(error: BaseException, _: Situation) -> Fault | None:
    """Read that a broker was not reached, or hung up before it had accepted us; ``None`` later on."""
    return retryable("connect_failed") if look.came_through([error], "_create_connection") else None


RULES = {
    **rules("twilio", final={"TwilioRestException": by_answer}),
    **rules("python_http_client", final={"HTTPError": by_answer}),
    **rules("notion_client", final={"APIResponseError": by_answer, "HTTPResponseError": by_answer}),
    **rules("gspread", final={"APIError": by_answer}),
    **rules("gitlab", final={"GitlabError": of_gitlab}),
    **rules("stripe", final=dict.fromkeys(("CardError", "InvalidRequestError", "IdempotencyError"), of_stripe)),
    **rules("slack_sdk", final={"SlackApiError": of_slack}, default=ambiguous("slack_error")),
    **rules(
        "telegram",
        final={
            "RetryAfter": of_flood,
            **_TELEGRAM,
        },
    ),
    **rules(
        "aiogram",
        final={
            "TelegramRetryAfter": of_flood,
            "TelegramBadRequest": _TELEGRAM["BadRequest"],
            "TelegramNotFound": _TELEGRAM["BadRequest"],
            "TelegramForbiddenError": _TELEGRAM["Forbidden"],
            "TelegramUnauthorizedError": _TELEGRAM["InvalidToken"],
        },
    ),
    # they repeat by themselves within the function that raises it, where it is seen
    **rules("discord", "nextcord", "disnake", final={"HTTPException": by_answer}),
    **rules(
        "pika",
        final={"AMQPConnectionError": of_amqp, "UnroutableError": refused("unroutable")},
        default=ambiguous("connection_error"),
    ),
}
