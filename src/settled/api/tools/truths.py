"""A model that says true where a number is wanted: read as 1 it would be an amount that nobody meant."""

from __future__ import annotations

from datetime import date, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from settled.api.tools.schema import Schema

_WANTED = "a number is wanted, not true or false"
_NUMBERS = (int, float, Decimal, timedelta, date, time)
"""And what is made of a number of seconds."""


def for_numbers(schema: Schema, given: Mapping[str, Any]) -> dict[str, str]:
    """Return the places of such arguments, with what is wrong. What is wrong with the others validation says."""
    try:
        taken = schema.bind((), given).plain if _holds_truth(given) else {}
    except Exception:  # noqa: BLE001 - it is bound once more, to be told of
        return {}
    return dict.fromkeys(_places(given, taken, ""), _WANTED) if taken else {}


def _holds_truth(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_truth, value.values()))
    return any(map(_holds_truth, value)) if isinstance(value, list | tuple) else isinstance(value, bool)


def _places(given: Any, taken: Any, place: str) -> Iterator[str]:
    """Walk over what was given and what was made of it, as far as the two have the same form."""
    if isinstance(given, bool):
        if isinstance(taken, _NUMBERS) and not isinstance(taken, bool):
            yield place
    elif isinstance(given, dict) and isinstance(taken, dict):
        for name in given.keys() & taken.keys():
            yield from _places(given[name], taken[name], f"{place}.{name}".lstrip("."))
    elif isinstance(given, list | tuple) and isinstance(taken, set | frozenset):
        if not any(isinstance(item, bool) for item in taken):
            yield from (f"{place}.{number}" for number, item in enumerate(given) if isinstance(item, bool))
    elif isinstance(given, list | tuple) and isinstance(taken, list | tuple):
        for number, (one, other) in enumerate(zip(given, taken, strict=False)):
            yield from _places(one, other, f"{place}.{number}")
