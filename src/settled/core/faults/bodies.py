"""Bodies of answers: read as JSON, XML or an event stream, and the error codes that stand in known places.

Codes only, never prose: a text that a user wrote must not decide whether a call is repeated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from settled.core.faults import look

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST = 1 << 20
"""Bytes. A larger body is not looked into."""

LONGEST_PAUSE = 1e9
"""Seconds. A larger number is no pause that somebody asks for."""

MISSING = object()

_DECODER = json.JSONDecoder()
_XML_CODE = re.compile(r"<Code>\s*([\w.:-]{1,100})\s*</Code>", re.ASCII)
_CODE = re.compile(r"[\w.:#/-]{1,200}", re.ASCII)
_CODE_FIELDS = ("__type", "code", "Code", "type", "status", "reason", "errorCode", "error_code")
_LISTS = ("errors", "details", "CancellationReasons")
_MOST_ITEMS = 50
_NESTED = 3


@dataclass(frozen=True, slots=True)
class Body:
    """A body as far as it could be read. ``value``: its JSON, or ``MISSING``."""

    text: str = ""
    value: Any = MISSING
    whole: bool = True
    """The text is all of it: not larger than ``LARGEST``, and there was a body."""
    more: bool = False
    """Something stands after the value: it is one of several, as in lines of JSON."""

    @property
    def json(self) -> Mapping[str, Any]:
        """Return its JSON object, the first one of a list (Gemini sends lists), or an empty one."""
        value = self.value
        if isinstance(value, list) and value:
            value = value[0]
        return value if isinstance(value, Mapping) else {}


def read(body: object) -> Body:
    """Read a body given as bytes, text, parsed JSON or ``None``."""
    if body is None:
        return Body(whole=False)
    if isinstance(body, bytes | bytearray | str):
        if len(body) > LARGEST:
            return Body(whole=False)
        text = body if isinstance(body, str) else bytes(body).decode("utf-8", "replace")
        text = text.lstrip("\ufeff \t\r\n")
        value, rest = _parsed(text)
        return Body(text, value, more=bool(rest))
    return Body("", body)


def parsed(text: str) -> Any:
    """Return the JSON value with which a text begins, or ``MISSING``."""
    return _parsed(text)[0]


def _parsed(text: str) -> tuple[Any, str]:
    """Return it with what stands after it."""
    text = text.removeprefix(")]}'").lstrip()
    try:
        value, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return MISSING, ""
    return value, text[end:].strip()


def codes(body: Body) -> list[str]:
    """Return the error codes in a body, without name spaces (``com.amazonaws…#Name`` gives ``Name``)."""
    found = [*_of_object(body.json, _NESTED)]
    if body.text.startswith("<"):
        found += _XML_CODE.findall(body.text)
    return list(dict.fromkeys(bare(code) for code in found))


def bare(code: str) -> str:
    """Return an AWS error type without its name space and without what follows a colon."""
    return code.rpartition("#")[2].partition(":")[0]


def _of_object(value: Any, depth: int) -> Iterator[str]:
    if not isinstance(value, Mapping) or depth == 0:
        return
    for field in _CODE_FIELDS:
        yield from _code(value.get(field))
    error = value.get("error")
    yield from _code(error)
    yield from _of_object(error, depth - 1)
    if "fbtrace_id" in value:
        yield from _of_meta(value)
    for item in [item for name in _LISTS for item in _items(value.get(name))]:
        yield from _of_object(item, depth - 1)
        yield from _of_object(item.get("extensions"), depth - 1)
    yield from _of_object(_json_in(value.get("message")), depth - 1)


def _code(value: Any) -> Iterator[str]:
    if isinstance(value, str) and _CODE.fullmatch(value):
        yield value


def _of_meta(value: Mapping[str, Any]) -> Iterator[str]:
    """Give the code of Meta's Graph API (also WhatsApp's), which is a number of its own, under a status of 400."""
    code = look.number(value.get("code"))
    if code is not None:
        yield f"meta_{code}"
    if value.get("is_transient") is True:
        yield "meta_2"


def _items(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value[:_MOST_ITEMS] if isinstance(item, Mapping)] if isinstance(value, list) else []


def _json_in(value: Any) -> Any:
    # Gemini hands on the error of its backend as JSON in the text
    return parsed(value.strip()) if isinstance(value, str) and value.lstrip()[:1] == "{" else None


def error_details(body: Body) -> list[Mapping[str, Any]]:
    """Return the ``details`` of a Google error (``google.rpc``)."""
    error = body.json.get("error")
    return _items(error.get("details")) if isinstance(error, Mapping) else []


def retry_delay(body: Body) -> float | None:
    """Return the seconds in Google's ``RetryInfo``, or those that Telegram and Discord name; else ``None``."""
    parameters = body.json.get("parameters")
    for holder in (parameters if isinstance(parameters, Mapping) else {}, body.json):
        seconds = holder.get("retry_after")
        if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds < LONGEST_PAUSE:
            return float(seconds)
    for detail in error_details(body):
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and re.fullmatch(r"\d{1,9}(\.\d{1,9})?s", delay, re.ASCII):
            return float(delay[:-1])
    return None


def daily_quota(body: Body) -> bool:
    """Tell whether a quota of a day is spent (Google's ``QuotaFailure``, HubSpot's policy): no budget outlasts that."""
    if body.json.get("policyName") == "DAILY":
        return True
    violations = [item for detail in error_details(body) for item in _items(detail.get("violations"))]
    return any("PerDay" in look.text(violation.get("quotaId")) for violation in violations)


def secondary_limit(body: Body) -> bool:
    """Tell whether GitHub's refusal is of its secondary limits: it comes with 403, and need not name a pause."""
    return "secondary-rate-limits" in look.text(body.json.get("documentation_url"))


def field_errors(body: Body) -> bool:
    """Tell whether a refusal names the wrong fields by structure: GitHub's ``field``, FastAPI's ``loc``, ``param``."""
    listed = [*_items(body.json.get("errors")), *_items(body.json.get("detail"))]
    return any(item.get("field") or item.get("loc") or item.get("pointer") for item in listed)


def message(body: Body) -> str:
    """Return what a body says to people, for the record only."""
    value = body.json
    error = value.get("error")
    inner = error if isinstance(error, Mapping) else {}
    for said in (inner.get("message"), value.get("message"), value.get("Message"), error, value.get("detail")):
        if isinstance(said, str) and said:
            return look.text(said)
    return look.text(body.text)
