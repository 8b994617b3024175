"""How long the other side asks us to wait.

RFC 9110 §10.2.3 (``Retry-After``) and §5.6.7 (the three forms of a date); ``retry-after-ms`` and ``x-should-retry``
of OpenAI and Anthropic, ``x-ms-retry-after-ms`` of Azure; ``x-ratelimit-reset`` of GitHub, and of OpenRouter in
milliseconds, ``x-rate-limit-reset`` of X and Okta, ``ratelimit-reset`` of the IETF's draft,
``x-ratelimit-reset-after`` of Discord; ``grpc-retry-pushback-ms`` of gRFC A6.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from settled.core.faults import look

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST = 1e12
"""Seconds. Nobody waits for it; it keeps what is added to it finite."""

_NEAR = 86_400.0 * 366
"""Seconds. So far from now a pause is not asked for, and a date well may be."""
FIRST_EPOCH = 1e9
"""Smaller numbers in ``x-ratelimit-reset`` are no time since 1970, and nobody says what else they are."""
_UNITS = ((1e11, 1.0), (1e14, 1e3), (1e17, 1e6), (1e20, 1e9))
"""Times since 1970 below the first are in this part of a second: seconds up to the year 5138, then milliseconds, …"""

RESETS = {
    "x-ratelimit-reset": "x-ratelimit-remaining",
    "x-rate-limit-reset": "x-rate-limit-remaining",
    "ratelimit-reset": "ratelimit-remaining",
    "x-ratelimit-reset-after": "x-ratelimit-remaining",
}
"""When requests are let through again, and how many remain: sent with every answer, also where nothing is asked."""
_DELTAS = frozenset({"ratelimit-reset", "x-ratelimit-reset-after"})
"""Seconds from now on, where they are no time since 1970."""

_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+", re.ASCII)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_TIME = r"(?P<h>\d{2}):(?P<m>\d{2}):(?P<s>\d{2})"
_MONTH = f"(?P<month>{'|'.join(_MONTHS)})"
_DATES = (
    re.compile(rf"[A-Z][a-z]{{2}}, (?P<day>\d{{2}}) {_MONTH} (?P<year>\d{{4}}) {_TIME} GMT", re.ASCII),
    re.compile(rf"[A-Z][a-z]+, (?P<day>\d{{2}})-{_MONTH}-(?P<year>\d{{2}}) {_TIME} GMT", re.ASCII),
    re.compile(rf"[A-Z][a-z]{{2}} {_MONTH} (?P<day>[ \d]\d) {_TIME} (?P<year>\d{{4}})", re.ASCII),
)


def retry_after(headers: Mapping[str, str], *, now: float | None) -> float | None:
    """Return the seconds to wait at the least, or ``None`` if the answer does not say.

    Args:
        headers: of the answer, in any case; gRPC metadata as well.
        now: wall clock, seconds since 1970. The answer's own ``Date`` is used instead where there is one, so that
            neither clock needs to be right. ``None``: a date counts only beside a ``Date``.

    Returns:
        Finite, not negative: a date that has passed gives 0. Never raises; what cannot be read gives ``None``.
    """
    return retry_after_lowered(look.lowered(headers), now=now)


def retry_after_lowered(headers: Mapping[str, str], *, now: float | None) -> float | None:
    """Do the same for headers whose names are in lower case."""
    then = http_date(headers.get("date", ""), near=now)
    at = now if then is None else then
    for found in (
        _seconds(headers.get("retry-after-ms"), unit=0.001),
        _seconds(headers.get("x-ms-retry-after-ms"), unit=0.001),
        _pause(headers.get("retry-after"), at),
        _until(http_date(headers.get("retry-after", ""), near=at), at),
        _seconds(headers.get("grpc-retry-pushback-ms"), unit=0.001),
        _reset(headers, at),
    ):
        if found is not None:
            return found
    return None


def may_retry(headers: Mapping[str, str]) -> bool | None:
    """Return whether the other side itself says that a repeat makes sense; ``None`` if it says nothing.

    Args:
        headers: with names in lower case.
    """
    if headers.get("grpc-retry-pushback-ms", "").startswith("-"):
        return False
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").lower())


def http_date(value: str, *, near: float | None = None) -> float | None:
    """Return seconds since 1970 of a date in one of the three forms of RFC 9110, else ``None``.

    Args:
        value: IMF-fixdate, RFC 850 or asctime.
        near: a time that decides the century of RFC 850 (never more than 50 years after it).
    """
    for form in _DATES:
        match = form.fullmatch(value.strip())
        if match:
            return _timestamp(match, near)
    return None


def _timestamp(match: re.Match[str], near: float | None) -> float | None:
    part = match.groupdict()
    try:
        year = _century(int(part["year"]), near) if len(part["year"]) == len("94") else int(part["year"])
        second = min(int(part["s"]), 59)  # a leap second
        clock = (int(part["h"]), int(part["m"]), second)
        return datetime(year, _MONTHS.index(part["month"]) + 1, int(part["day"]), *clock, tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def _century(short: int, near: float | None) -> int:
    try:
        present = datetime.fromtimestamp(near or FIRST_EPOCH, UTC).year
    except (ValueError, OverflowError, OSError):
        present = 2001
    year = present - present % 100 + short
    return year - 100 if year > present + 50 else year


def _seconds(value: str | None, *, unit: float = 1.0) -> float | None:
    if value is None or not _NUMBER.fullmatch(value.strip()):
        return None
    return min(float(value) * unit, LONGEST)


def _pause(value: str | None, at: float | None) -> float | None:
    """Read ``Retry-After``: seconds; or a time since 1970, where it is one of our days (Moneybird's)."""
    seconds = _seconds(value)
    if seconds is None or at is None or abs(seconds - at) > _NEAR:
        return seconds
    return _until(seconds, at)


def _until(target: float | None, at: float | None) -> float | None:
    if target is None or at is None:
        return None
    wait = target - at
    return min(max(wait, 0.0), LONGEST) if wait == wait else None  # noqa: PLR0124 (only a NaN differs from itself)


def _reset(headers: Mapping[str, str], at: float | None) -> float | None:
    for name, remaining in RESETS.items():
        value = headers.get(name, "").strip()
        if not _NUMBER.fullmatch(value) or headers.get(remaining, "0") != "0":
            continue
        wait = _since(float(value), at, delta=name in _DELTAS)
        if wait is not None:
            return wait
    return None


def _since(value: float, at: float | None, *, delta: bool) -> float | None:
    if value < FIRST_EPOCH:
        return value if delta else None
    unit = next((unit for below, unit in _UNITS if value < below), None)
    return None if unit is None else _until(value / unit, at)
