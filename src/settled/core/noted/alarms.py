"""What is noted of alerts while they are delivered: who delivers, how far each has come, which are open.

A row of the outbox is written with what makes it due. Who delivers it notes an open alarm by what it is about, so that
the next row about the same is not told again, and so that somebody tells of its end once it is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict

from settled.core.model import Owner
from settled.core.noted.notes import ALARM, DELIVERY, SENDING, noted, put

if TYPE_CHECKING:
    from settled.core.books import Books
    from settled.core.model import Moment


class TakeDelivery(Struct, frozen=True):
    """Be the one process that delivers alerts now, or stay so."""

    nonce: str
    """Names the process."""
    seconds: float
    """For which nobody else delivers; 0: anybody may."""
    owner: Owner | None = None
    """The process, so that others can see whether it lives."""
    dead: str = ""
    """The nonce of a process that was seen dead: its time need not be waited out."""

    def apply(self, books: Books, now: Moment) -> bool:
        """Return whether it is ours."""
        facts = noted(books, SENDING, "alerts")
        if facts and facts["nonce"] not in (self.nonce, self.dead) and now.wall < facts["until"]:
            return False
        owner = None if self.owner is None else asdict(self.owner)
        put(books, SENDING, "alerts", {"nonce": self.nonce, "until": now.wall + self.seconds, "owner": owner})
        return True


def deliverer(facts: dict[str, Any]) -> tuple[str, Owner] | None:
    """Return nonce and process of who delivers by this note; ``None``: nobody, or an older release that names none."""
    owner = facts.get("owner")
    return (facts["nonce"], Owner(**owner)) if owner else None


def delivers_since(facts: dict[str, Any], wall: float) -> bool:
    """Whether by this note some process has told receivers, or was there to do so, since a time on the wall clock."""
    return bool(facts) and facts["until"] >= wall


class Tried(Struct, frozen=True):
    """Note how far the delivery of an alert, or of its end, has come."""

    name: str
    facts: dict[str, Any] | None
    """``None``: it has come to its end, or is needed no more."""

    def apply(self, books: Books, now: Moment) -> None:
        """Keep it, or forget it."""
        del now
        put(books, DELIVERY, self.name, self.facts)


class Raise(Struct, frozen=True):
    """Note an alarm of which every receiver was told; ``None``: it is over, and they know."""

    subject: str
    facts: dict[str, Any] | None
    delivery: str = ""
    """The delivery that this ends."""

    def apply(self, books: Books, now: Moment) -> None:
        """Keep it, or forget it; and forget the delivery that came to its end."""
        del now
        put(books, ALARM, self.subject, self.facts)
        if self.delivery:
            put(books, DELIVERY, self.delivery, None)


__all__ = ["Raise", "TakeDelivery", "Tried", "deliverer", "delivers_since"]
