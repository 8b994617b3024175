"""The state of a task's tools as plain data: all that a later call can see, except dice and clocks."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import random
from typing import Any

_UNSEEN = (random.Random, dt.datetime)
"""Dice make ids and readings, clocks make time stamps: neither says what was done."""


def digest(objects: list[object]) -> str:
    """Return a digest of the state; equal states have equal ones."""
    text = json.dumps(_plain(objects, {}), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any, seen: dict[int, int]) -> Any:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, _UNSEEN):
        return None
    if id(value) in seen:
        return {"as": seen[id(value)]}  # a folder knows its parent
    seen[id(value)] = len(seen)
    if isinstance(value, dict):
        return {str(key): _plain(each, seen) for key, each in sorted(value.items(), key=_by_name)}
    if isinstance(value, list | tuple):
        return [_plain(each, seen) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if hasattr(value, "__dict__"):
        return {"kind": type(value).__name__, "has": _plain(vars(value), seen)}
    return str(value)


def _by_name(item: tuple[Any, Any]) -> str:
    return str(item[0])
