"""What waits for a person, at one moment: the calls, who looks at them, and what a ledger has found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from settled.api.people import facts
from settled.api.people.findings import open_findings
from settled.api.people.queue import claims, run_of
from settled.journals.unread import noting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from settled.api.people.deciding_many import Filter
    from settled.api.people.facts import Facts
    from settled.core.call import Call
    from settled.core.model import Moment
    from settled.core.noted.findings import Finding
    from settled.ports import Journal


@dataclass(frozen=True, slots=True)
class Listed:
    """What waits for a person."""

    now: Moment
    calls: Sequence[Call]
    """All that are meant, the oldest first."""
    runs: Sequence[str | None]
    """Of those calls that are shown."""
    findings: Sequence[Finding]
    looking: Mapping[str, dict[str, Any]]
    """Operation id -> who looks at it, and until when."""
    unread: Sequence[str]
    """Records that cannot be read."""

    def __bool__(self) -> bool:
        return bool(self.calls or self.findings)

    def facts(self) -> Facts:
        """Return it as plain data, with stable names."""
        rows = [
            facts.of_call(call, self.now) | {"run": run} | facts.of_claim(self.looking.get(call.operation_id))
            for call, run in zip(self.calls, self.runs, strict=False)
        ]
        return {
            "total": len(self.calls) + len(self.findings),
            "calls": rows,
            "findings": [facts.of_finding(finding) for finding in self.findings],
            "unreadable": list(self.unread),
        }


def listed(journal: Journal, meant: Filter, limit: int) -> Listed:
    """Return what waits and fits the filter, with the runs of the first ``limit`` calls. Raises ``JournalError``."""
    with noting() as unread:
        noted = [finding for finding in open_findings(journal) if meant.finds(finding)]
        found = meant.chosen(journal)
        runs = [run_of(journal, call) for call in found[:limit]]
        return Listed(journal.now(), found, runs, noted, claims(journal), list(unread))
