"""What a comparison with a tool's ledger has found, for a person: noted once, however often it is found again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from settled.core.doubt.ledger import Kind  # noqa: TC001 - msgspec reads the types
from settled.core.doubt.settling import Refused
from settled.core.noted.notes import FINDING, LEDGER, noted, put, read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.core.books import Books
    from settled.core.model import Moment

KEPT: Final = 90 * 86400.0
"""Seconds for which a finding is remembered that somebody has seen, or that is so no longer."""


class Finding(Struct, frozen=True):
    """One effect too many or too few."""

    finding_id: str
    kind: Kind
    """``missing``: a call that counts as done, and the ledger has no effect of it. ``orphaned``: an effect that no call
    explains. ``doubled``: a further effect of one call."""
    tool: str
    tenant: str
    operation_id: str = ""
    """The call that it is about; of an orphaned one a like call that was proved not done, if there is one."""
    key: str = ""
    ref: str = ""
    """The ledger's name for the effect."""
    at: float = 0.0
    """When the effect happened by the ledger, or else the call was done; seconds since 1970."""
    found: float = 0.0
    """When it was found first."""
    state: str = "open"
    """``open``; ``seen`` by a person; ``gone``: a later comparison does not find it any more."""
    by: str = ""
    reason: str = ""


def finding_of(text: str) -> Finding:
    """Return the finding that a note holds."""
    return msgspec.convert(read(text), Finding)


class TakeLedger(Struct, frozen=True):
    """Claim the comparison of one ledger, if it is due: several workers share them."""

    tool: str
    tenant: str
    every: float
    seconds: float
    """For which nobody else begins one."""
    nonce: str

    def apply(self, books: Books, now: Moment) -> dict[str, Any] | None:
        """Return what is noted of the ledger, if the comparison is ours."""
        name = ledger_name(self.tenant, self.tool)
        facts = noted(books, LEDGER, name)
        if facts.get("nonce") == self.nonce:
            return facts
        held = now.wall < facts.get("until", 0.0) <= now.wall + self.seconds
        done: float = facts.get("done", 0.0)
        if (
            held or done <= now.wall < done + self.every
        ):  # what lies further ahead was noted before the clock was set back
            return None
        taken = {"first": now.wall, **facts, "nonce": self.nonce, "until": now.wall + self.seconds}
        put(books, LEDGER, name, taken)
        return taken


class Note(Struct, frozen=True):
    """Put on record what a comparison has found; what is not found any more is gone."""

    tool: str
    tenant: str
    findings: Sequence[Finding]
    since: float
    """From when on effects and calls were compared, in seconds since 1970."""
    strangers_since: float = 0.0
    """From when on an effect that no call explains was one to be found."""
    whole: bool = True
    """The ledger was read as a whole: what it does not show is not there."""

    def apply(self, books: Books, now: Moment) -> tuple[int, int]:
        """Return how many are new, and how many are gone."""
        ours = {op: finding_of(text) for op, text in books.notes(FINDING).items()}
        ours = {name: f for name, f in ours.items() if (f.tool, f.tenant) == (self.tool, self.tenant)}
        known = {name for name, finding in ours.items() if finding.state != "gone"}
        new = [finding for finding in self.findings if finding.finding_id not in known]
        for finding in new:
            self._put(books, msgspec.structs.replace(finding, found=now.wall))
            books.alert_of("finding", finding.finding_id, now.wall)
        again = {finding.finding_id for finding in self.findings}
        lost = [f for f in ours.values() if f.state == "open" and f.finding_id not in again]
        gone = [finding for finding in lost if self._looked_for(books, finding)] if self.whole else []
        for finding in gone:
            self._put(books, msgspec.structs.replace(finding, state="gone"))
        for finding in ours.values():
            if finding.state != "open" and finding.found < now.wall - KEPT and finding.finding_id not in again:
                put(books, FINDING, finding.finding_id, None)
        name = ledger_name(self.tenant, self.tool)
        put(books, LEDGER, name, {"first": now.wall, **noted(books, LEDGER, name), "done": now.wall, "until": 0.0})
        return len(new), len(gone)

    def _looked_for(self, books: Books, finding: Finding) -> bool:
        """Whether this comparison would have found it, were it still so."""
        if finding.kind == "orphaned":
            return finding.at >= max(self.since, self.strangers_since)
        call = books.by_id(finding.operation_id) if finding.kind == "missing" else None
        return (finding.at if call is None else call.first_intent.wall) >= self.since

    @staticmethod
    def _put(books: Books, finding: Finding) -> None:
        put(books, FINDING, finding.finding_id, msgspec.to_builtins(finding))


class See(Struct, frozen=True):
    """A person has seen a finding: it is out of the queue, and stays so when it is found again."""

    finding_id: str
    by: str
    reason: str

    def apply(self, books: Books, now: Moment) -> Finding | Refused:
        """Return it as it stands then."""
        del now
        text = books.note(FINDING, self.finding_id)
        if text is None:
            return Refused("there is no such finding")
        finding = finding_of(text)
        if (finding.state, finding.by, finding.reason) == ("seen", self.by, self.reason):
            return finding
        if finding.state != "open":
            return Refused(f"it is {finding.state}" + (f" by {finding.by}" if finding.by else ""))
        seen = msgspec.structs.replace(finding, state="seen", by=self.by, reason=self.reason)
        put(books, FINDING, self.finding_id, msgspec.to_builtins(seen))
        return seen


def ledger_name(tenant: str, tool: str) -> str:
    """Return the name of the note on a tool's ledger."""
    return f"{len(tenant)}:{tenant}:{tool}"


__all__ = ["Finding", "Note", "See", "TakeLedger", "finding_of", "ledger_name"]
