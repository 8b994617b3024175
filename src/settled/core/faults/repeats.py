"""Repeats that a client makes by itself: of their tries only the last one's end is seen."""

from __future__ import annotations

from collections.abc import Mapping

from settled.core.faults import chain, look
from settled.core.faults.rules import is_a, names

_REPEATERS = frozenset({"botocore", "openai", "anthropic", "requests", "tenacity", "google"})


def hidden(error: BaseException) -> bool:
    """Tell whether an error, or one inside it, is the last of several tries of which the others are not known."""
    return any(_last_of_many(inner) for inner in chain.inside(error))


def _last_of_many(error: BaseException) -> bool:
    if not any(root in _REPEATERS for root, _ in names(type(error))):
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
