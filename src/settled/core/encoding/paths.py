"""Where in a value: the paths that rules are written for, and that refusals name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

EACH = "[]"
"""The step of a parsed path that stands for every element of a list."""

_PART = re.compile(r"([^.\[\]]+)((?:\[\])*)")
_LONGEST_NAME = 60


def parse(path: str) -> tuple[str, ...]:
    """Split ``items[].sku`` into ``("items", EACH, "sku")``.

    Raises:
        ValueError: the text is not such a path.
    """
    steps: list[str] = []
    for part in path.split("."):
        found = _PART.fullmatch(part)
        if found is None or found[1] != found[1].strip():
            raise ValueError(f"{path!r} is not a path: write a.b for a member, items[] for each element of a list")
        steps += [found[1], *[EACH] * found[2].count(EACH)]
    return tuple(steps)


def render(steps: Iterable[str | int]) -> str:
    """Write steps as people read them: ``items[2].sku``."""
    return "".join(_step(step) for step in steps).removeprefix(".")


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if len(step) > _LONGEST_NAME:
        step = f"{step[:_LONGEST_NAME]}..."
    return f".{step}" if step.isidentifier() else f"[{step!a}]"


class RefusedValueError(ValueError):
    """A value that cannot be taken. Tells where and why, never what: it may be a secret."""

    def __init__(self, reason: str, steps: tuple[str | int, ...] = ()) -> None:
        super().__init__(reason, steps)
        self.reason = reason
        self.steps = steps

    def within(self, step: str | int) -> Self:
        """Add, in place, the member or element that holds the place known so far."""
        self.steps = (step, *self.steps)
        self.args = (self.reason, self.steps)
        return self

    @property
    def path(self) -> str:
        """The place, as ``items[2].sku``; empty for the value as a whole."""
        return render(self.steps)

    def __str__(self) -> str:
        return f"{self.path or 'the value'}: {self.reason}"
