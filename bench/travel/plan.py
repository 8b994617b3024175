"""What each trip is to be, and where it fails: drawn by the seed and the trip's number, and known to all sides."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

Fails = Literal["", "no_car", "declined", "address", "late"]
"""No car is left; the card is declined; the mail has no address; the traveller changes their mind after the mail."""
NAME = "trip-"
STAY = "/stay"
"""Ends the name of a trip's inner run."""
SERVICES = ("flight", "hotel", "car", "card", "mail")


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that a trip consists of, with the tools that do it and undo it."""

    name: str
    service: str
    does: str
    undoes: str
    """Empty: nothing does."""
    asked: bool = True
    """Whether the service can be asked what became of a request to do it."""
    undo_asked: bool = True


_ALL = (
    Part("flight", "flight", "book_flight", "cancel_flight"),
    Part("room", "hotel", "book_room", "cancel_room"),
    Part("dinner", "hotel", "book_dinner", "cancel_dinner", asked=False, undo_asked=False),
    Part("car", "car", "rent_car", "return_car"),
    Part("hold", "card", "hold_amount", "release_amount"),
    Part("payment", "card", "charge_card", "refund_card", asked=False),
    Part("mail", "mail", "send_mail", ""),
)
PARTS = {part.name: part for part in _ALL}
"""In the order of a trip; the car is rented while the amount is held."""
TOGETHER = frozenset({"car", "hold"})
"""Made side by side: of these none is before the other."""
DOES = {part.does: part for part in _ALL}
UNDOES = {part.undoes: part for part in _ALL if part.undoes}


@dataclass(frozen=True, slots=True)
class Trip:
    """One trip as it is meant."""

    name: str
    dinner: bool
    fails: Fails
    for_good: frozenset[str]
    """Parts whose cancelling the service refuses for good."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that it consists of, in their order."""
        return tuple(name for name in PARTS if name != "dinner" or self.dinner)


def trip_of(seed: int, name: str) -> Trip:
    """Return the trip of that name."""
    draw = random.Random(f"{seed}/{name}")  # noqa: S311 - a plan that can be repeated, no secret
    kinds: tuple[Fails, ...] = ("no_car", "declined", "address", "late", "")
    fails = draw.choices(kinds, (8, 8, 1, 1, 82))[0]
    dinner = draw.random() < 0.12
    for_good = frozenset(name for name in ("flight", "car") if draw.random() < 0.02)
    return Trip(name, dinner, fails, for_good)


def trips(seed: int, number: int) -> list[Trip]:
    """Return all trips of a play."""
    return [trip_of(seed, f"{NAME}{no:06d}") for no in range(number)]


def trip_name(run: str) -> str:
    """Return the trip that a run belongs to, by the run's name."""
    return run.removesuffix(STAY)
