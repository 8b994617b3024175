"""A business key written as a template over the arguments: ``order:{order_id}``, ``{customer.id}/{month}``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from math import isfinite
from string import Formatter
from typing import TYPE_CHECKING

from settled.core.encoding import numeric
from settled.core.encoding.value_types import UUID, fields_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_FIELD = re.compile(r"[A-Za-z]\w*(?:\.[A-Za-z]\w*)*")
_MISSING = object()


def template_parts(template: str, arguments: Mapping[str, object]) -> tuple[str, ...]:
    """The parts of the key, fixed texts and values in turn; joined, it reads ``order:17``.

    Hash these and not their concatenation: ``{a}{b}`` must not take ("ab", "c") for ("a", "bc"). Equal numbers give
    the same text however they are written.

    Raises:
        ValueError: the template is none (see ``template_roots``), or a value is missing, None, empty or not plain.
            A key made of nothing would make all such calls the same.
    """
    parts: list[str] = []
    for text, field in _parsed(template):
        parts.append(text)
        if field is not None:
            parts.append(_value(field, arguments))
    return tuple(parts)


def template_roots(template: str) -> tuple[str, ...]:
    """The arguments that the template speaks of.

    Raises:
        ValueError: it holds anything but ``{name}`` and ``{name.member}``, or no field at all.
    """
    return tuple(dict.fromkeys(field.partition(".")[0] for _, field in _parsed(template) if field is not None))


@lru_cache(maxsize=256)
def _parsed(template: str) -> tuple[tuple[str, str | None], ...]:
    """Pairs of fixed text and the field that follows it, None at the end."""
    pieces = tuple(_pieces(template))
    if all(field is None for _, field in pieces):
        raise ValueError(f"key template {template!r}: no field like {{order_id}}, so every call would get the same key")
    return pieces


def _pieces(template: str) -> Iterator[tuple[str, str | None]]:
    try:
        found = list(Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"key template {template!r}: {error}") from None
    for text, field, specification, conversion in found:
        if field is not None and (specification or conversion or not _FIELD.fullmatch(field)):
            raise ValueError(f"key template {template!r}: only {{name}} and {{name.member}} can be filled in")
        yield text, field


def _value(field: str, arguments: Mapping[str, object]) -> str:
    value: object = arguments
    for name in field.split("."):
        value = _member(value, name)
    text = _text(value)
    if text is None:
        raise ValueError(f"key: {field} is {_lack(value)}; a key needs text, a number, a date or a UUID there")
    return text


def _member(value: object, name: str) -> object:
    # Declared members only, never attributes: a template must not reach into code.
    members = value if isinstance(value, Mapping) else fields_of(value) or {}
    return members.get(name, _MISSING)


def _text(value: object) -> str | None:
    """The one text of a plain value; None if it has none."""
    if type(value) is int:  # first what most keys are made of
        return numeric.plain(value)
    if isinstance(value, Enum):
        return _text(value.value)
    if isinstance(value, str):
        return value if value.strip() else None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return numeric.plain(value) if value.is_finite() else None
    if isinstance(value, int):
        return numeric.plain(value)
    if isinstance(value, float):
        return numeric.plain(value) if isfinite(value) else None
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else None


def _lack(value: object) -> str:
    if value is _MISSING:
        return "missing"
    if value is None:
        return "None"
    return "empty" if isinstance(value, str) else f"a {type(value).__name__}"
