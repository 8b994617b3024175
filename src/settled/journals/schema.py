"""Steps of a schema, for every journal in tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the schema; ``additive``: what an older release wrote reads as before."""

    version: int
    additive: bool
    statements: Sequence[str]
