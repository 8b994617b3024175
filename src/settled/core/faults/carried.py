"""Answers that exceptions carry: found by their attributes, never by reading a stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from settled.core.faults import look
from settled.core.faults.answers import read_answer
from settled.core.faults.rules import Situation, ambiguous, hopeless, unusable

if TYPE_CHECKING:
    from settled.core.model import Fault

_REASONS = "CancellationReasons"
"""Of DynamoDB's transactions: why nothing of one was done, item by item."""
_STATUSES = ("status_code", "status", "code")


@dataclass(frozen=True, slots=True)
class Carried:
    """What an exception knows about the answer."""

    status: int
    headers: object
    body: object
    method: str

    @property
    def successful(self) -> bool:
        """Whether the status is 2xx."""
        return self.status in range(200, 300)


def carried(error: BaseException) -> Carried | None:
    """Return the answer that an exception of an HTTP client or SDK carries, ``None`` if it carries none."""
    response = look.attr(error, "response")
    if isinstance(response, Mapping):
        return _of_botocore(response)
    for holder in (response, error, look.attr(error, "resp")):
        for name in _STATUSES:
            status = look.number(look.attr(holder, name))
            if status is not None:
                return Carried(status, _headers(holder, error), _body(response, error), _method(response, error))
    return None


def by_answer(error: BaseException, situation: Situation) -> Fault | None:
    """Read an exception by the answer that it carries; ``None`` if it carries none."""
    answer = carried(error)
    return None if answer is None else _read(answer, situation)


def broken_body(error: BaseException, situation: Situation) -> Fault:
    """Read an answer whose body could not be used: executed if its status was a success, else by the status."""
    answer = carried(error)
    if answer is None:
        return ambiguous("broken_body", uncertain=True)
    return unusable("broken_body") if answer.successful else _read(answer, situation)


def _read(answer: Carried, situation: Situation) -> Fault:
    fault = read_answer(
        answer.status,
        answer.headers,
        answer.body,
        method=answer.method,
        doubtful=situation.doubtful,
        now=situation.now,
    )
    code = f"http_{answer.status}"
    return fault or (ambiguous(code) if answer.successful else hopeless(code))


def _of_botocore(response: Mapping[str, object]) -> Carried | None:
    """Read the parsed answer of botocore: code and message, put back as the service sends them."""
    meta, error = response.get("ResponseMetadata"), response.get("Error")
    meta, error = (part if isinstance(part, Mapping) else {} for part in (meta, error))
    status = look.number(meta.get("HTTPStatusCode"))
    code = error.get("Code")
    if status is None and not isinstance(code, str):
        return None
    body = {"__type": code, "message": error.get("Message"), _REASONS: response.get(_REASONS)}
    return Carried(status or 400, meta.get("HTTPHeaders"), body, "")


def _headers(*holders: object) -> object:
    every = (look.attr(holder, "headers") for holder in holders)
    return next((headers for headers in every if headers is not None), None)


def _body(response: object, error: BaseException) -> object:
    # _content holds what httpx and requests have loaded; content would load it
    for body in (look.attr(response, "_content"), look.attr(error, "body"), look.attr(error, "content")):
        if isinstance(body, bytes | str | Mapping | list):
            return body
    return None


def _method(response: object, error: BaseException) -> str:
    for holder in (look.attr(error, "request"), look.attr(response, "request"), look.attr(error, "request_info")):
        method = look.attr(holder, "method")
        if isinstance(method, str):
            return method
    return ""
