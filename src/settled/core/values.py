"""Values: what nobody changes once it is made.

Those that a call makes dozens of (its record, commands, events, replies) are frozen ``msgspec.Struct``s: made in C, in
a fifth of the time of a frozen dataclass. What is declared once (policies, options) are dataclasses.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeVar, cast

from msgspec import Struct, structs

if TYPE_CHECKING:
    from typing import Any

__all__ = ["replace"]

T = TypeVar("T")


def replace(value: T, /, **changes: Any) -> T:
    """Return the value with some fields changed, whichever of the two it is."""
    if isinstance(value, Struct):
        return structs.replace(value, **changes)
    return cast("T", dataclasses.replace(cast("Any", value), **changes))
