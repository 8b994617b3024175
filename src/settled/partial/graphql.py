"""A GraphQL mutation with one root field for each item: ``data`` and ``errors`` in one answer.

Source: the GraphQL specification, section 7.1 (response format): ``path`` begins with the field's response key; the
keys of ``data`` come in the order of the selection. Only codes are read, never messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from settled.core.faults import batches
from settled.core.faults.codes import of_codes
from settled.partial.outcome import AMBIGUOUS, MISSING, Reader, by_fault, done, failed, unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.partial.outcome import Outcome

Alias = Callable[[Any, int], str]


def graphql_by(alias: Alias) -> Reader:
    """Read answers whose fields are named by ``alias(item, position)``, as the tool's own query names them."""

    def read(answer: Any, items: Sequence[Any]) -> Sequence[Outcome]:
        return _read(answer, [alias(item, n) for n, item in enumerate(items)])

    return Reader(
        read, lambda first, values, items: _merge(first, values, [alias(each, n) for n, each in enumerate(items)])
    )


def _in_order(answer: Any, items: Sequence[Any]) -> Sequence[Outcome]:
    """Without names the fields stand for the items in their order, if there are as many."""
    data = answer.get("data") if isinstance(answer, Mapping) else None
    if isinstance(data, Mapping) and len(data) == len(items):
        return _read(answer, list(data))
    return _read({**answer, "data": None}, [""] * len(items)) if _is_answer(answer) and not data else _none(items)


def _none(items: Sequence[Any]) -> list[Outcome]:
    return [AMBIGUOUS] * len(items)


def _is_answer(answer: Any) -> bool:
    return isinstance(answer, Mapping) and isinstance(answer.get("errors", []), list)


def _read(answer: Any, names: Sequence[str]) -> Sequence[Outcome]:
    if not _is_answer(answer) or ("data" not in answer and not answer.get("errors")):
        return _none(names)
    data, errors = answer.get("data"), [each for each in answer.get("errors") or [] if isinstance(each, Mapping)]
    if len(set(names)) < len(names) and isinstance(data, Mapping):
        return _none(names)
    return [_one(name, data, errors) for name in names]


def _one(name: str, data: Any, errors: Sequence[Mapping[str, Any]]) -> Outcome:
    if isinstance(data, Mapping) and data.get(name) is not None:
        return _of_payload(data[name])
    own = [error for error in errors if _root(error) in (name, None)]
    if own:
        return _refused(own)
    if isinstance(data, Mapping):
        return done(None) if name in data else MISSING
    return unknown("graphql_error") if errors else MISSING


def _of_payload(payload: Any) -> Outcome:
    code = batches.refused_by_users_errors(payload)
    if code is None:
        return done(payload)
    return failed(code) if batches.brought_nothing(payload) else unknown(code)


def _root(error: Mapping[str, Any]) -> Any:
    path = error.get("path")
    return path[0] if isinstance(path, list) and path else None


def _refused(errors: Sequence[Mapping[str, Any]]) -> Outcome:
    outcomes = [_by_code(error) for error in errors]
    return next((each for each in outcomes if each.part == "unknown"), outcomes[0])


def _by_code(error: Mapping[str, Any]) -> Outcome:
    extensions = error.get("extensions")
    code = extensions.get("code") if isinstance(extensions, Mapping) else error.get("type")
    fault = of_codes([code], doubtful=False) if isinstance(code, str) else None
    return (
        by_fault(fault) if fault is not None else unknown(code if isinstance(code, str) and code else "graphql_error")
    )


def _merge(first: Any, values: Sequence[Any], names: Sequence[str]) -> Any:
    kept = {name: value for name, value in first.items() if name != "errors"}
    return {**kept, "data": dict(zip(names, values, strict=True))}


def _merge_in_order(first: Any, values: Sequence[Any], items: Sequence[Any]) -> Any:
    del items
    return _merge(first, values, list(first.get("data") or [f"item{n}" for n in range(len(values))]))


graphql = Reader(_in_order, _merge_in_order)
