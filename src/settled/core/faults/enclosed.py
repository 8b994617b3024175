"""Errors inside of an answer whose status says success.

Known forms only, by structure and codes: what else a body says is the tool's own business (``classify=``). The
document that was asked for (GET, HEAD) may be about errors; so may a text. Neither is looked into.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from settled.core.faults import batches, bodies, jsonrpc
from settled.core.faults.codes import THROTTLED, of_codes
from settled.core.faults.rules import ambiguous, hopeless, refused, throttled, unusable, weakened
from settled.core.faults.statuses import of_status
from settled.core.model import Evidence, Fault

if TYPE_CHECKING:
    from settled.core.faults.bodies import Body

_MULTI_STATUS = 207
_READING = frozenset({"GET", "HEAD", "OPTIONS", "PROPFIND", "REPORT"})
_XML_ERROR = re.compile(r"(?:<\?xml[^>]*\?>\s*)?<Error(?:\s[^>]*)?(?:/>|>)")
_CODE = re.compile(r"[a-z][a-z0-9_]{1,80}", re.ASCII)
_ENVELOPE = frozenset({"error", "type", "request_id", "user_id"})


def of_success(status: int, content_type: str, body: Body, *, method: str, doubtful: bool) -> Fault | None:
    """Read an answer with a status of success; ``None``: it is one."""
    kind = content_type.partition(";")[0].strip().lower()
    if _unreadable(kind, body):
        return unusable("unreadable_body")
    if method in _READING:
        return None
    if kind == "text/event-stream":
        return _of_events(body.text, doubtful=doubtful)
    if kind and not kind.endswith(("json", "xml", "json-1.0", "json-1.1")):
        return None
    if status == _MULTI_STATUS:
        return batches.of_multistatus(body.value)
    if _XML_ERROR.match(body.text):
        return of_codes(bodies.codes(body), doubtful=doubtful) or ambiguous("xml_error", uncertain=True)
    return of_object(body, doubtful=doubtful)


def of_object(body: Body, *, doubtful: bool) -> Fault | None:
    """Read JSON: JSON-RPC, GraphQL, batches, ``ok: false``, an object that is nothing but an error.

    The first of several values (lines of JSON) may be the one item that was refused.
    """
    value = body.json
    if not value or (isinstance(body.value, list) and len(body.value) > 1):
        return None
    said = (
        jsonrpc.of_envelope(value)
        or _of_graphql(value)
        or _of_user_errors(value)
        or batches.of_batch(value)
        or _of_not_ok(value, doubtful=doubtful)
        or _of_error_object(value, body, doubtful=doubtful)
    )
    return weakened(said) if said is not None and body.more else said


def done_besides(body: Body) -> Fault | None:
    """Read an answer whose status says failure, but whose body shows that a part of it was done; else ``None``.

    A service may give it all the status of one field or item that failed: Apollo does, by ``extensions.http``.
    """
    if isinstance(body.value, list) and len(body.value) > 1:
        return None
    said = _of_graphql(body.json) if was_begun(body) else batches.of_batch(body.json)
    return said if said is not None and said.evidence is Evidence.SOME else None


def was_begun(body: Body) -> bool:
    """Tell whether some field of a GraphQL request was executed: its answer has ``data``, and an error with a path.

    A plain REST answer may look alike: a form's ``data``, and ``errors`` with the paths of its fields.
    """
    answers = body.value if isinstance(body.value, list) else [body.value]
    return any(_begun(answer) for answer in answers if isinstance(answer, Mapping))


_OF_GRAPHQL = frozenset({"locations", "extensions"})
"""What an error of GraphQL has besides message and path, and one of a form has not."""


def _begun(answer: Mapping[str, Any]) -> bool:
    data, errors = answer.get("data", ...), answer.get("errors")
    if not (data is None or isinstance(data, Mapping)) or not isinstance(errors, list):
        return False
    of_fields = [error for error in errors if isinstance(error, Mapping) and not _OF_GRAPHQL.isdisjoint(error)]
    paths = [path for error in of_fields if isinstance(path := error.get("path"), list) and path]
    return any(data is None or (isinstance(path[0], str) and path[0] in data) for path in paths)


def _unreadable(kind: str, body: Body) -> bool:
    return kind == "application/json" and body.whole and bool(body.text) and body.value is bodies.MISSING


def _of_not_ok(value: Mapping[str, Any], *, doubtful: bool) -> Fault | None:
    code = value.get("error")
    if value.get("ok") is not False or not isinstance(code, str) or not _CODE.fullmatch(code):
        return None
    return of_codes([code], doubtful=doubtful) or ambiguous(code, uncertain=True)


def _of_error_object(value: Mapping[str, Any], body: Body, *, doubtful: bool) -> Fault | None:
    error = value.get("error")
    if not isinstance(error, Mapping) or not set(value) <= _ENVELOPE or not isinstance(error.get("message"), str):
        return None
    code = error.get("code")
    known = of_codes(bodies.codes(body), doubtful=doubtful)
    if known is None and isinstance(code, int) and code in range(400, 600):
        known = of_status(code, method="", asks_to_wait=False, doubtful=doubtful)
    return known or (ambiguous("error_object", uncertain=True) if code or error.get("type") else None)


def _of_events(text: str, *, doubtful: bool) -> Fault | None:
    """Read an event stream: an error in it proves nothing about what came before.

    What has no data is no event: a comment that keeps the way open, an id to begin anew from.
    """
    events = [_event(block) for block in re.split(r"\r?\n\r?\n", text)]
    for place, (name, value) in enumerate([event for event in events if any(event)]):
        body = bodies.read(value)
        said = jsonrpc.of_envelope(body.json) or _of_error_object(body.json, body, doubtful=doubtful)
        if said is None and name == "error":
            said = ambiguous("stream_error", uncertain=True)
        if said is not None:
            return weakened(said) if place else said
    return None


def _event(block: str) -> tuple[str, str]:
    fields = [line.partition(":") for line in block.splitlines()]
    name = next((value.strip() for field, _, value in fields if field == "event"), "")
    return name, "\n".join(value.removeprefix(" ") for field, _, value in fields if field == "data")


def _of_graphql(value: Mapping[str, Any]) -> Fault | None:
    """Read a GraphQL answer by ``extensions.code`` (and GitHub's ``type`` of a limit), never by its messages."""
    errors = value.get("errors")
    if not set(value) <= {"data", "errors", "extensions"} or not isinstance(errors, list) or not errors:
        return None
    if not all(isinstance(error, Mapping) and isinstance(error.get("message"), str) for error in errors):
        return None
    data = value.get("data")
    if isinstance(data, Mapping) and any(field is not None for field in data.values()):
        return batches.partial("graphql_partial", Evidence.SOME)
    fault = _of_graphql_codes([_graphql_code(error) for error in errors])
    # One with a path is of a field: where it may not be null, the others' data is gone, and not what they did.
    return weakened(fault) if data or any(error.get("path") for error in errors) else fault


def _of_user_errors(value: Mapping[str, Any]) -> Fault | None:
    """Read the payloads of mutations that were refused field by field, in an answer without errors."""
    data = value.get("data")
    if not isinstance(data, Mapping) or not set(value) <= {"data", "extensions"}:
        return None
    codes = {name: batches.refused_by_users_errors(payload) for name, payload in data.items()}
    refusals = [name for name, code in codes.items() if code]
    if not refusals:
        return None
    if len(refusals) < len(data):
        return batches.partial("user_errors", Evidence.SOME)
    nothing = all(batches.brought_nothing(data[name]) for name in refusals)
    return refused("user_errors") if nothing else hopeless("user_errors")


def _of_graphql_codes(codes: list[str]) -> Fault:
    if all(code in THROTTLED for code in codes):
        return throttled(codes[0])
    known = [fault for code in codes if (fault := of_codes([code], doubtful=False)) is not None]
    refusals = [fault for fault in known if fault.evidence is Evidence.NONE and not fault.throttled]
    if len(refusals) == len(codes):
        return refusals[0]
    return next((fault for fault in known if fault.uncertain), hopeless("graphql_error"))


def _graphql_code(error: Mapping[str, Any]) -> str:
    extensions = error.get("extensions")
    code = extensions.get("code") if isinstance(extensions, Mapping) else None
    if not isinstance(code, str):
        kind = error.get("type")
        code = kind if isinstance(kind, str) and kind in THROTTLED else ""
    return code
