"""One verdict on many calls, chosen by a filter: each is decided by itself, and each has its own result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from settled.api import secrets
from settled.api.people import care, explain, queue
from settled.core.doubt.settling import Refused, Resolve
from settled.core.encoding.loosening import nearest
from settled.errors import DeclarationError
from settled.journals.unread import noting
from settled.ports import CallQuery

if TYPE_CHECKING:
    from collections.abc import Iterator

    from settled.api.guard import Guard
    from settled.core.call import Call
    from settled.core.doubt.settling import Verdict
    from settled.core.model import Moment
    from settled.core.noted.findings import Finding
    from settled.ports import Journal


@dataclass(frozen=True, slots=True)
class Filter:
    """Which of the calls that wait for a person are meant; ``None`` means any."""

    tool: str | None = None
    waiting: tuple[explain.Waiting, ...] | None = None
    """Why they wait: ``unknown``, ``orphan``, ``disputed``, ``undo``, ``approval``, ``by_hand``."""
    older_than: float | None = None
    """Seconds since they were made."""
    tenant: str | None = None
    run: str | None = None
    """As the queue lists it: what undoes a step of a run, or is called inside of one, is the run's."""
    limit: int | None = None
    """At most so many, the oldest."""

    def chosen(self, journal: Journal) -> list[Call]:
        """Return them, the oldest first. Raises ``JournalError``."""
        now = journal.now()
        return [call for call in queue.waiting(journal) if self._means(journal, call, now)][: self.limit]

    def _means(self, journal: Journal, call: Call, now: Moment) -> bool:
        return (
            self.tool in (None, call.tool)
            and (self.waiting is None or explain.waiting(call, now) in self.waiting)
            and (self.older_than is None or now.wall - call.created.wall >= self.older_than)
            and self.tenant in (None, call.tenant)
            and (self.run is None or self.run == queue.run_of(journal, call))
        )

    def finds(self, finding: Finding) -> bool:
        """Whether a ledger's finding is meant: it stands by itself, for no run and in no state of a call."""
        by_call = self.waiting is not None or self.run is not None or self.older_than is not None
        return not by_call and self.tool in (None, finding.tool) and self.tenant in (None, finding.tenant)

    def mistaken(self, guard: Guard) -> str:
        """Return what is wrong with a filter that means nothing: no call, and no tool known here, has what it names."""
        journal = guard.journal
        if (
            self.tool is not None
            and self.tool not in guard.tools
            and not journal.find(CallQuery(tool=self.tool, limit=1))
        ):
            known = sorted({*guard.tools, *(call.tool for call in queue.waiting(journal))})
            return f"no call on record is of a tool {self.tool!r}{nearest(self.tool, known) if known else ''}"
        if self.tenant not in (None, guard.tenant) and not journal.find(CallQuery(tenant=self.tenant, limit=1)):
            return f"no call on record is of a tenant {self.tenant!r}"
        return ""

    def misses_run(self, guard: Guard) -> bool:
        """Whether no tenant has the run that is named; one whose record cannot be read is there."""
        if self.run is None:
            return False
        with noting() as unread:
            return not guard.journal.runs(1, named=self.run) and not unread


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a person says of a call, or of each of many."""

    verdict: Verdict
    by: str
    reason: str
    then: Literal["rerun", "fail"] = "fail"
    force: bool = False
    result: Any = care.NOT_GIVEN
    """Of one call that happened, if it is known."""


@dataclass(frozen=True, slots=True)
class Decided:
    """What became of one of them."""

    call: Call
    """As it stands then; with ``dry_run``, as it would."""
    why: str = ""
    """Why the verdict could not be taken; empty: it was."""


def decide_all(guard: Guard, calls: list[Call], ruling: Ruling, *, dry_run: bool = False) -> Iterator[Decided]:
    """Give the verdict on each call, of whatever tenant, under the lock of its epoch. Raises ``JournalError``."""
    for call in calls:
        yield rehearsed(guard, call, ruling) if dry_run else _decided(guard, call, ruling)


def rehearsed(guard: Guard, call: Call, ruling: Ruling) -> Decided:
    """Return what would become of a call, by the journal's own rules, without changing it."""
    by, reason = secrets.clean(ruling.by.strip()), secrets.clean(ruling.reason)
    verdict = Resolve(call.operation_id, ruling.verdict, by, reason, ruling.then, force=ruling.force)
    claim = queue.claims(guard.journal).get(call.operation_id)
    after: Any = queue.rehearse(call, verdict, guard.journal.now(), claim)
    return Decided(call, after.why) if isinstance(after, Refused) else Decided(after)


def rule(guard: Guard, call: Call, ruling: Ruling, *, seen: Call | None = None) -> None:
    """Give a verdict on a call of whatever tenant; ``seen``: as the person saw it. Raises ``DeclarationError``."""
    care.resolve(
        guard,
        call.operation_id,
        ruling.verdict,
        by=ruling.by,
        reason=ruling.reason,
        result=ruling.result,
        then=ruling.then,
        force=ruling.force,
        any_tenant=True,
        seen=seen,
    )


def _decided(guard: Guard, call: Call, ruling: Ruling) -> Decided:
    try:
        rule(guard, call, ruling, seen=call)
    except DeclarationError as error:
        return Decided(guard.journal.get(call.operation_id) or call, str(error).removeprefix(f"{call.operation_id}: "))
    return Decided(guard.journal.get(call.operation_id) or call)


__all__ = ["Decided", "Filter", "Ruling", "decide_all", "rehearsed", "rule"]
