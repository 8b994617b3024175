"""A world of two small tools' classes, for tests of the replay itself: cheap, and with every kind of call."""

from __future__ import annotations

import random
from typing import Any

from bench.workloads.world.catalog import Planned, Task


class Till:
    """Keeps money, and says no where there is none."""

    def __init__(self) -> None:
        self.balance = 0
        self.receipts: list[str] = []
        self._dice = random.Random(1)

    def pay_in(self, amount: int, tags: list[str] | None = None) -> dict[str, Any]:
        self.balance += amount
        self.receipts.append(f"{amount} {tags or []}")
        if tags is not None:
            tags.append("kept")  # what it was given, it keeps
        return {"receipt": len(self.receipts), "draw": self._dice.randint(1, 10**6)}

    def pay_out(self, amount: int) -> dict[str, Any]:
        if amount > self.balance:
            return {"error": "not so much there"}
        self.balance -= amount
        return {"left": self.balance}

    def count(self) -> dict[str, int]:
        return {"balance": self.balance}

    def burn(self) -> None:
        raise RuntimeError("never")


class Walk:
    """Goes to places: where one is, is private, and matters to later calls."""

    def __init__(self) -> None:
        self._at: list[str] = []
        self.seen: dict[str, int] = {}

    def go(self, place: str) -> str:
        self._at.append(place)
        return "/".join(self._at)

    def look(self) -> list[str]:
        return list(self._at)

    def paint(self, colour: str) -> None:
        self.seen["/".join(self._at) + colour] = 1


CALLS = [
    Planned("go", {"place": "hall"}),
    Planned("look", {}),
    Planned("pay_in", {"amount": 5, "tags": ["a"]}),
    Planned("pay_in", {"amount": 5, "tags": ["a"]}),  # a twin: both are meant
    Planned("pay_out", {"amount": 100}),  # says no
    Planned("go", {"place": "yard"}),
    Planned("paint", {"colour": "red"}),
    Planned("pay_out", {"amount": 3}),
    Planned("count", {}),
]


def tasks() -> list[Task]:
    return [Task(f"tiny_{number}", tuple(CALLS), lambda: [Till(), Walk()]) for number in range(12)]
