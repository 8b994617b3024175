"""The bulk answer of Elasticsearch and OpenSearch: status 200, and ``errors: true`` where items failed.

Source: the Bulk API's documentation: one entry for each action, in the order of the actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from settled.core.faults.statuses import of_status
from settled.partial.outcome import (
    AMBIGUOUS,
    Reader,
    by_fault,
    done,
    failed,
    name_in,
    names_of,
    not_done,
    place,
    unknown,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from settled.partial.outcome import Outcome

_ACTIONS = frozenset({"index", "create", "update", "delete"})
_TURNED_AWAY = frozenset({429, 503})
"""The shard's queue is full, or the shard is not there: the item was not tried."""
_CONFLICT, _ERROR, _END = 409, 400, 600


def _read(answer: Any, items: Sequence[Any]) -> Sequence[Outcome]:
    entries = answer.get("items") if isinstance(answer, Mapping) else None
    if not isinstance(entries, list):
        return [AMBIGUOUS] * len(items)
    found = [(_name(entry), _one(entry)) for entry in entries]
    plain = names_of(items, found)
    return place([_name(item) if own is None else own for item, own in zip(items, plain, strict=True)], found)


def _name(item: Any) -> Hashable | None:
    """Return the document's id: of the item itself, or of the action it stands in."""
    inner = _action(item)
    return name_in(item if inner is None else inner, "_id", "id")


def _action(item: Any) -> Mapping[str, Any] | None:
    if isinstance(item, Mapping) and len(item) == 1:
        name, inner = next(iter(item.items()))
        if name in _ACTIONS and isinstance(inner, Mapping):
            return inner
    return None


def _one(entry: Any) -> Outcome:
    inner = _action(entry)
    status = inner.get("status") if inner is not None else None
    if inner is None or not isinstance(status, int) or isinstance(status, bool) or not 200 <= status < _END:  # noqa: PLR2004 - HTTP's
        return unknown("no_status")
    if status < _ERROR:
        return done(entry, f"http_{status}")
    error = inner.get("error")
    kind = error.get("type") if isinstance(error, Mapping) else None
    code = kind if isinstance(kind, str) and kind else f"http_{status}"
    if status in _TURNED_AWAY:
        return not_done(code, throttled=True)
    if status == _CONFLICT:
        return failed(code)  # the document is there, or has another version: this item changed nothing
    return by_fault(of_status(status, method="POST", asks_to_wait=False, doubtful=False), code)


def _merge(first: Any, values: Sequence[Any], items: Sequence[Any]) -> Any:
    del items
    return {**first, "errors": False, "items": list(values)}


elasticsearch_bulk = Reader(_read, _merge)
