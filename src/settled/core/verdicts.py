"""What a probe can say about one call."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Happened:
    """The effect is there; ``result`` is what the call would have returned."""

    result: object = None


@dataclass(frozen=True, slots=True)
class NotHappened:
    """The effect is not there now. Proof only once nothing that was sent can still arrive.

    ``fence``: the tool promised that a later arrival of this key will have no effect.
    """

    fence: bool = False


@dataclass(frozen=True, slots=True)
class Inconclusive:
    """It cannot be told."""

    why: str = ""
