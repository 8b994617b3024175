"""HTTP 207 with a JSON body: a list of answers, one for each item, each with a status of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from settled.core.faults.statuses import of_status
from settled.partial.outcome import AMBIGUOUS, Reader, by_fault, done, name_in, names_of, not_done, place, unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.partial.outcome import Outcome

_NAMES = ("id", "href", "key", "external_id")
_ELSEWHERE, _ERROR, _END = 300, 400, 600
_DEPENDED = 424
"""Another item that this one waits for has failed: this one was not begun."""


def multi_status(answer: Any, items: Sequence[Any]) -> Sequence[Outcome]:
    """Read a list (or the first list of an object) of objects with ``status`` or ``statusCode``.

    Matched by ``id``, ``href``, ``key`` or ``external_id`` where items and answers have one, else by place; a text or a
    number among the items may be such a name itself.
    """
    found = _entries(answer)
    if found is None or not all(isinstance(each, Mapping) for each in found):
        return [AMBIGUOUS] * len(items)
    entries = [(name_in(each, *_NAMES), _one(each)) for each in found]
    return place(names_of(items, entries, *_NAMES), entries)


def _entries(answer: Any) -> list[Any] | None:
    if isinstance(answer, list):
        return answer
    lists = [value for value in answer.values() if isinstance(value, list)] if isinstance(answer, Mapping) else []
    return lists[0] if lists else None


def _one(entry: Mapping[str, Any]) -> Outcome:
    status = entry.get("status", entry.get("statusCode"))
    if not isinstance(status, int) or isinstance(status, bool) or not 200 <= status < _END:  # noqa: PLR2004 - HTTP's
        return unknown("no_status")
    if status < _ELSEWHERE:
        return done(dict(entry), f"http_{status}")
    if status < _ERROR:
        return unknown(f"http_{status}")
    if status == _DEPENDED:
        return not_done(f"http_{status}")
    return by_fault(of_status(status, method="POST", asks_to_wait=False, doubtful=False))


def _merge(first: Any, values: Sequence[Any], items: Sequence[Any]) -> Any:
    del items
    if isinstance(first, list):
        return list(values)
    name = next(name for name, value in first.items() if isinstance(value, list))
    return {**first, name: list(values)}


http_207 = Reader(multi_status, _merge)
