"""What a guard does for people and schedules: settling, deciding, rewinding, pausing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from settled.api.people import care, deciding
from settled.api.people.deciding_many import Filter
from settled.api.people.evidence import evidence
from settled.api.people.ledgers import acompare_all, checked_since
from settled.api.people.listing import listed
from settled.api.people.pausing import pause
from settled.api.runs import rewinding
from settled.api.steps import adrive, drive
from settled.core.values import replace
from settled.drivers.loops import aside
from settled.drivers.waiting import in_loop
from settled.errors import DeclarationError

if TYPE_CHECKING:
    from settled.api.calls.result import Result
    from settled.api.guard import Guard
    from settled.api.people.care import Reconciled
    from settled.core.doubt.settling import Verdict
    from settled.drivers.floor import Floor


class Operating:
    """The part of a guard that is not for agents."""

    floor: Floor
    tenant: str

    @property
    def _guard(self) -> Guard:
        return cast("Guard", self)

    def reconcile(
        self,
        *,
        limit: int = 1000,
        progress: care.Progress | None = None,
        ledger: bool = False,
        since: float | None = None,
    ) -> Reconciled:
        """Settle what can be settled: orphans, unknown calls with a probe, spilled evidence. Makes no attempt.

        ``ledger``: then compare the journal with the tools' own lists of their effects, ``since`` seconds back (a
        day); given, it also says that calls have been on record here for so long.
        """
        checked_since(since)
        if ledger and in_loop():
            raise DeclarationError("a ledger may be async: await guard.areconcile(ledger=True)")
        self.floor.bring()
        done = care.reconcile(self._guard, limit, progress)
        return replace(done, ledgers=self.floor.home.run(acompare_all(self._guard, since))) if ledger else done

    async def areconcile(
        self,
        *,
        limit: int = 1000,
        progress: care.Progress | None = None,
        ledger: bool = False,
        since: float | None = None,
    ) -> Reconciled:
        """Like ``reconcile``, from async code; ``progress`` is told how many of how many calls were looked at."""
        checked_since(since)
        await aside(self.floor.bring)
        done = await care.areconcile(self._guard, limit, progress)
        return replace(done, ledgers=await acompare_all(self._guard, since)) if ledger else done

    def resolve(
        self,
        operation_id: str,
        verdict: Verdict,
        *,
        by: str,
        reason: str,
        result: object = care.NOT_GIVEN,
        then: Literal["rerun", "fail"] = "fail",
        force: bool = False,
    ) -> Result[Any]:
        """Take a person's verdict on an unknown call; return how the call stands then.

        ``result``: what a call that happened returned, if it is known; ``None`` counts as known. ``then``: what
        follows from ``did_not_happen``. ``force``: also where it could still take effect, or nothing can
        prove that it cannot; such a verdict is marked as asserted. Raises ``DeclarationError`` if it cannot be taken.
        """
        return care.resolve(
            self._guard, operation_id, verdict, by=by, reason=reason, result=result, then=then, force=force
        )

    def approve(self, operation_id: str, *, by: str, reason: str = "") -> Result[Any]:
        """Give a person's leave for one call that waits for it; return how it stands then.

        Whoever waits for the call goes on; else it is made when its program asks again. Raises ``DeclarationError``
        if the leave cannot be given: the call waits for none, nobody decided in time, or ``by`` has agreed already.
        """
        return deciding.decide(self._guard, operation_id, give=True, by=by, reason=reason)

    def refuse(self, operation_id: str, *, by: str, reason: str) -> Result[Any]:
        """Refuse a call that waits for leave, or is left to a person: it is never made. Raises ``DeclarationError``."""
        return deciding.decide(self._guard, operation_id, give=False, by=by, reason=reason)

    def rewind(
        self,
        run_id: str,
        *,
        from_call: str,
        by: str,
        reason: str,
        effects: rewinding.Effects = "refuse",
        dry_run: bool = False,
    ) -> rewinding.Rewound:
        """Set aside the calls of a run from one on: its next entry makes them anew, with whatever arguments.

        ``from_call``: the operation id of the first of them. ``effects``: what becomes of what they did: ``"refuse"``
        the rewind if there is any, ``"undo"`` it first, the last begun first, or ``"keep"`` it besides what is made
        anew. Raises ``DeclarationError`` where it cannot be done; nothing is set aside then.
        """
        steps = rewinding.rewind(
            self._guard, run_id, from_call, by=by, reason=reason, effects=effects, dry_run=dry_run, tenant=self.tenant
        )
        return drive(self._guard, steps)

    async def arewind(
        self,
        run_id: str,
        *,
        from_call: str,
        by: str,
        reason: str,
        effects: rewinding.Effects = "refuse",
        dry_run: bool = False,
    ) -> rewinding.Rewound:
        """Like ``rewind``, from async code."""
        steps = rewinding.rewind(
            self._guard, run_id, from_call, by=by, reason=reason, effects=effects, dry_run=dry_run, tenant=self.tenant
        )
        return await adrive(self._guard, steps)

    def pause(self, tool: str, *, by: str, reason: str) -> None:
        """Let nothing of a tool begin, in any process on this journal, until it is resumed; what has begun ends.

        Its calls are ``rejected`` (``paused``). What it is to undo waits. Raises ``DeclarationError`` if it is paused.
        """
        pause(self._guard, tool, by=by, reason=reason)

    def resume(self, tool: str, *, by: str, reason: str) -> None:
        """Let a paused tool be called again. Raises ``DeclarationError`` if it is not paused."""
        pause(self._guard, tool, by=by, reason=reason, resume=True)

    def waiting(self, *, tool: str | None = None, run: str | None = None, limit: int = 100) -> dict[str, Any]:
        """Return what waits for a person, of this guard's tenant, as plain data that JSON can hold.

        ``total``, and lists: ``calls`` (the oldest first, at most ``limit``), ``findings`` (of comparisons with a
        tool's ledger), ``unreadable`` (records of which nobody can tell). As ``settled queue list --json`` has it.
        Raises ``JournalError``.
        """
        meant = Filter(tool, tenant=self.tenant, run=run)
        return listed(self.floor.journal, meant, limit).facts()

    def evidence(self, operation_id: str) -> dict[str, Any] | None:
        """Return all that is known of a recorded call, or ``None`` if there is none of this guard's tenant.

        Its arguments and result, every attempt with what proves what, its log, the leave that it waits for, and which
        verdicts are open: plain data that JSON can hold, as ``settled calls show --json`` has it. Raises
        ``JournalError``.
        """
        call = care.own(self._guard, operation_id)
        return None if call is None else evidence(self._guard, call)

    def look(self, operation_id: str) -> Result[Any] | None:
        """Return how a recorded call stands, or ``None`` if there is none."""
        return care.look(self._guard, operation_id)
