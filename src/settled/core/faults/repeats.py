"""Repeats that a client makes by itself: of their tries only the last one's end is seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from settled.core.faults import look
from settled.core.faults.rules import is_a, roots

if TYPE_CHECKING:
    from collections.abc import Iterable

_REPEATERS = frozenset({"botocore", "openai", "anthropic", "requests", "tenacity", "google"})


def hidden(errors: Iterable[BaseException]) -> bool:
    """Tell whether one of these errors is the last of several tries of which the others are not known."""
    return any(map(_last_of_many, errors))


def _last_of_many(error: BaseException) -> bool:
    if _REPEATERS.isdisjoint(roots(type(error))):
        return False
    response = look.attr(error, "response")
    if isinstance(response, Mapping):
        meta = response.get("ResponseMetadata")
        return bool(look.number(meta.get("RetryAttempts")) if isinstance(meta, Mapping) else 0)
    sent = look.lowered(look.attr(error, "request", "headers"))
    return (
        sent.get("x-stainless-retry-count", "0") != "0"
        or (look.number(look.attr(error, "last_attempt", "attempt_number")) or 1) > 1
        or bool(look.attr(response, "raw", "retries", "history"))
        or is_a(error, "google", "RetryError")
    )
