"""Who looks at a call that waits for a person: one at a time, for a while, so that no two decide at cross purposes.

A decision is taken from whoever looks at the call, or from anybody where nobody does; and from who has claimed it only
while it stands as it stood then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from settled.core.approval.leave import person
from settled.core.doubt.settling import Refused
from settled.core.noted.notes import LOOKED_AT, noted, put, read

if TYPE_CHECKING:
    from settled.core.books import Books, Transition
    from settled.core.model import Moment


class LookAt(Struct, frozen=True):
    """Claim a call for somebody who looks at it; by the same person: anew, as it stands now."""

    operation_id: str
    by: str
    seconds: float
    """After which it is anybody's again, by the journal's wall clock."""
    take_over: bool = False
    """Also from somebody else."""

    def apply(self, books: Books, now: Moment) -> dict[str, Any] | Refused:
        """Return who looks at it, until when (``until``), and since which row of its log; or why it is not claimed."""
        _let_go_of_old_ones(books, now)
        call = books.by_id(self.operation_id)
        if call is None:
            return Refused("no call has this operation id")
        other = looked_at(books, self.operation_id, now)
        if other and person(other["by"]) != person(self.by) and not self.take_over:
            return Refused(f"{other['by']} looks at it", call)
        facts = {"by": self.by, "until": now.wall + self.seconds, "log_no": call.log_no}
        put(books, LOOKED_AT, self.operation_id, facts)
        return facts


class LookAway(Struct, frozen=True):
    """Let go of a call that one has claimed."""

    operation_id: str
    by: str

    def apply(self, books: Books, now: Moment) -> bool | Refused:
        """Return whether it was claimed."""
        other = looked_at(books, self.operation_id, now)
        if other and person(other["by"]) != person(self.by):
            return Refused(f"{other['by']} looks at it", books.by_id(self.operation_id))
        put(books, LOOKED_AT, self.operation_id, None)
        return bool(other)


class UnderClaim(Struct, frozen=True):
    """A person's decision on a call, unless somebody else looks at it, or it has changed since it was claimed."""

    transition: Transition[Any]
    operation_id: str
    by: str

    def apply(self, books: Books, now: Moment) -> Any:
        """Take the decision, and let go of the call; or say why it cannot be taken."""
        claim, call = looked_at(books, self.operation_id, now), books.by_id(self.operation_id)
        if claim and person(claim["by"]) != person(self.by):
            return Refused(f"{claim['by']} looks at it: ask {claim['by']}, or claim it with --take-over", call)
        if claim and call is not None and call.log_no != claim["log_no"]:
            return Refused("it has changed since you claimed it: look at it, and claim it again", call)
        reply = self.transition.apply(books, now)
        if claim and not isinstance(reply, Refused):
            put(books, LOOKED_AT, self.operation_id, None)
        return reply


def looked_at(books: Books, operation_id: str, now: Moment) -> dict[str, Any]:
    """Return who looks at a call; empty if nobody does, or no longer."""
    return counts(noted(books, LOOKED_AT, operation_id), now)


def counts(facts: dict[str, Any], now: Moment) -> dict[str, Any]:
    """Return a claim if it is not over."""
    return facts if facts and now.wall < facts["until"] else {}


def _let_go_of_old_ones(books: Books, now: Moment) -> None:
    for operation_id, text in books.notes(LOOKED_AT).items():
        if not counts(read(text), now):
            put(books, LOOKED_AT, operation_id, None)


__all__ = ["LookAt", "LookAway", "UnderClaim", "counts", "looked_at"]
