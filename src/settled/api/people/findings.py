"""What comparisons with the tools' ledgers have found, as it stands in the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from settled.api import secrets
from settled.core.doubt.settling import Refused
from settled.core.noted.findings import Finding, See, finding_of
from settled.core.noted.notes import FINDING
from settled.errors import DeclarationError
from settled.journals.unread import UnreadableError, readable

if TYPE_CHECKING:
    from settled.api.guard import Guard
    from settled.ports import Journal

MARK: Final = "fd_"
"""How the id of a finding begins."""


def all_findings(journal: Journal) -> list[Finding]:
    """Return every finding that is remembered, the oldest first. Of what cannot be read the log tells."""
    found = readable(_read, journal.notes(FINDING).items())
    return sorted(found, key=lambda finding: (finding.found, finding.finding_id))


def open_finding(journal: Journal, finding_id: str) -> Finding | None:
    """Return one finding, if it waits for a person. Raises ``JournalError`` if it cannot be read."""
    text = journal.notes(FINDING).get(finding_id)
    found = None if text is None else _read((finding_id, text))
    return found if found is not None and found.state == "open" else None


def _read(note: tuple[str, str]) -> Finding:
    name, text = note
    try:
        return finding_of(text)
    except (TypeError, ValueError) as fault:
        raise UnreadableError(f"finding {name}", str(fault)) from fault


def open_findings(journal: Journal) -> list[Finding]:
    """Return the findings that wait for a person, the oldest first."""
    return [finding for finding in all_findings(journal) if finding.state == "open"]


def see(guard: Guard, finding_id: str, *, by: str, reason: str) -> Finding:
    """Take a finding out of the queue, for good, under a name and a reason. Raises ``DeclarationError``."""
    if not by.strip() or not reason.strip():
        raise DeclarationError("a decision needs a name (by=) and a reason (reason=)")
    seen = guard.journal.perform(See(finding_id, secrets.clean(by.strip()), secrets.clean(reason)))
    if isinstance(seen, Refused):
        raise DeclarationError(f"{finding_id}: {seen.why}")
    return seen


def words(finding: Finding) -> str:
    """Return in a sentence what was found."""
    called = f" ({finding.ref})" if finding.ref else ""
    match finding.kind:
        case "missing":
            return f"{finding.operation_id} counts as done, and the ledger of {finding.tool} has no effect of it"
        case "doubled":
            return f"the ledger of {finding.tool} has one more effect{called} of {finding.operation_id}"
        case "orphaned":
            like = f"; {finding.operation_id}, which was alike, is proved not done" if finding.operation_id else ""
            return f"the ledger of {finding.tool} has an effect{called} that no call on record explains{like}"
