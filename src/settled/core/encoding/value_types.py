"""Types that come from modules the core does not otherwise use, and values that are made of fields.

``uuid`` rolls dice and ``zoneinfo`` reads the system's time-zone data; only their types are wanted here.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from uuid import UUID
from zoneinfo import ZoneInfo

__all__ = ["UUID", "ZoneInfo", "fields_of"]


def fields_of(value: object) -> dict[str, object] | None:
    """The fields of an instance of a dataclass or a pydantic model; None for any other value."""
    if isinstance(value, type):
        return None
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    # By its mark and not by its class: the core does not import pydantic.
    declared = getattr(type(value), "__pydantic_fields__", None)
    if declared is None:
        return None
    return {name: getattr(value, name) for name in declared} | (getattr(value, "__pydantic_extra__", None) or {})
