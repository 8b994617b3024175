"""Answers of batches: some items done, others not. Only structure and codes are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from settled.core.faults.statuses import of_status
from settled.core.model import Evidence, Fault, FaultClass

if TYPE_CHECKING:
    from collections.abc import Iterable

_LEFT_OVER = ("UnprocessedItems", "UnprocessedKeys", "UnprocessedEntries")
_COUNTS = ("FailedRecordCount", "FailedEntryCount", "FailedPutCount", "FailedPutRecordCount")
_DEPENDED = 424
_VERSION = 409
"""Of an item of a bulk: the document is there, or has another version."""
_FAILED = 400
_SERVER = 500


def of_batch(body: Mapping[str, Any]) -> Fault | None:
    """Read AWS, Elasticsearch, OData (Microsoft Graph) and BigQuery; ``None`` if no item failed."""
    for field in _LEFT_OVER:
        if isinstance(body.get(field), Mapping | list) and body[field]:
            return partial(field, Evidence.SOME)
    for field in _COUNTS:
        if isinstance(body.get(field), int) and body[field] > 0:
            return partial(field, Evidence.SOME)
    return _of_entries(body) or _of_bulk(body) or _of_responses(body) or _of_rows(body)


def of_multistatus(body: Any) -> Fault | None:
    """Read a 207 with JSON: ``None`` if each item succeeded; in doubt if it cannot be told."""
    items = body if isinstance(body, list) else _first_list(body)
    statuses = [status for item in items if (status := _status(item)) is not None]
    if not statuses or len(statuses) != len(items):
        return partial("http_207", Evidence.MAYBE)
    return _of_statuses("http_207", statuses)


def refused_by_users_errors(payload: Any) -> str | None:
    """Return the first code in the ``userErrors`` of a mutation's payload (Shopify's), ``None`` if there are none."""
    errors = payload.get("userErrors") if isinstance(payload, Mapping) else None
    if not isinstance(errors, list) or not errors or not all(isinstance(error, Mapping) for error in errors):
        return None
    return next((error["code"] for error in errors if isinstance(error.get("code"), str)), "user_errors")


def brought_nothing(payload: Mapping[str, Any]) -> bool:
    """Tell whether such a payload holds nothing besides: it stands for nothing that was done."""
    return not any(value for name, value in payload.items() if name not in _BESIDE)


_BESIDE = ("userErrors", "__typename", "clientMutationId")


def partial(code: str, evidence: Evidence) -> Fault:
    """Return the fault of a batch of which items failed."""
    return Fault(FaultClass.PARTIAL, evidence, code)


def _of_entries(body: Mapping[str, Any]) -> Fault | None:
    failed, done = body.get("Failed"), body.get("Successful", [])
    if not isinstance(failed, list) or not failed or not isinstance(done, list):
        return None
    if not all(isinstance(entry, Mapping) and "Id" in entry and "Code" in entry for entry in failed):
        return None
    if done:
        return partial("Failed", Evidence.SOME)
    ours = all(entry.get("SenderFault") is True for entry in failed)
    return partial("Failed", Evidence.NONE if ours else Evidence.MAYBE)


def _of_bulk(body: Mapping[str, Any]) -> Fault | None:
    items = body.get("items")
    if body.get("errors") is not True or not isinstance(items, list) or not items:
        return None
    actions = [next(iter(item.values())) for item in items if isinstance(item, Mapping) and item]
    statuses = [_status(action) for action in actions]
    known = [status for status in statuses if status is not None] or [_SERVER]
    return _of_statuses("bulk_errors", known, unchanged=_VERSION)


def _of_responses(body: Mapping[str, Any]) -> Fault | None:
    """Read OData's JSON batch: an answer for each request, by its id."""
    found = body.get("responses")
    if not isinstance(found, list) or not all(isinstance(each, Mapping) and "id" in each for each in found):
        return None
    statuses = [_status(each) for each in found]
    return _of_statuses("responses", [each for each in statuses if each is not None]) if None not in statuses else None


def _of_rows(body: Mapping[str, Any]) -> Fault | None:
    """Read BigQuery's ``insertAll``, which inserts none or the others, as was asked."""
    rows = body.get("insertErrors")
    return partial("insertErrors", Evidence.MAYBE) if isinstance(rows, list) and rows else None


def _of_statuses(code: str, statuses: Iterable[int], *, unchanged: int = 0) -> Fault | None:
    """Weigh the statuses of all items; ``unchanged``: one more by which an item was surely not done."""
    every = list(statuses)
    failed = [status for status in every if status >= _FAILED]
    if not failed:
        return None
    if len(failed) < len(every):
        return partial(code, Evidence.SOME)
    refused = all(status == unchanged or _refused(status) for status in failed)
    return partial(code, Evidence.NONE if refused else Evidence.MAYBE)


def _refused(status: int) -> bool:
    """Tell whether an item was surely not done: one that waited for another (424) was not begun."""
    if status == _DEPENDED:
        return True
    return of_status(status, method="", asks_to_wait=False, doubtful=False).evidence is Evidence.NONE


def _status(item: Any) -> int | None:
    status = item.get("status", item.get("statusCode")) if isinstance(item, Mapping) else None
    return status if isinstance(status, int) and not isinstance(status, bool) else None


def _first_list(body: Any) -> list[Any]:
    lists = [value for value in body.values() if isinstance(value, list)] if isinstance(body, Mapping) else []
    return lists[0] if lists else []
