"""Undoing a run: what is to be undone, in which order, and the transitions that put it on record.

Last begun first: whatever a step relied on was done before it began, also where its own outcome came to be known late.
``rollback.py`` is the machine that performs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from settled.core.answer import STATUS_OF
from settled.core.approval.drafts import UNCONFIRMED, scope_of_draft
from settled.core.books import RunRecord, RunState, Step
from settled.core.call import Call, evolve
from settled.core.model import Effect, Part, Standing
from settled.core.parts import split_of
from settled.core.runs.closing import close_waiting
from settled.core.runs.entering import BARRED, UNDONE, Held, held, scope_of_run
from settled.core.runs.lanes import lane_of
from settled.core.states import UNSETTLED, Event, State
from settled.core.values import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from settled.core.books import Books
    from settled.core.model import Moment, Owner

DONE = frozenset({State.SUCCEEDED, State.PARTIAL})
WITHOUT_EFFECT = frozenset({State.NOT_DONE, State.FAILED, State.PARKED, State.REFUSED})


class Outline(Struct, frozen=True):
    """How a run stands that is to be undone."""

    open: tuple[Call, ...] = ()
    """At work or unknown: to be settled first."""
    undo: tuple[Call | RunRecord, ...] = ()
    """Done, or being undone; inner runs as one step each. The last begun comes first."""
    lost: tuple[Call, ...] = ()
    """Their records have expired: nobody can say what is to be undone."""

    @property
    def is_undone(self) -> bool:
        """Whether nothing of the run is left."""
        return not (self.open or self.undo or self.lost)


def outline(books: Books, tenant: str, run_id: str) -> Outline:
    """Look through a run's calls and its inner runs."""
    steps = sorted(_steps(books, scope_of_run(tenant, run_id)), key=lambda step: step.place)
    calls = [step.call for step in steps]
    undo: list[tuple[int, Call | RunRecord]] = [(step.place, step.call) for step in steps if _stands(step.call)]
    inner = [run for run in books.runs_within(tenant, run_id) if not lane_of(run)]  # a lane's calls are the run's
    within = [run for run in inner if run.state is not RunState.COMPENSATED]
    undo += [(_place_of(books, each), each) for each in within]
    undo.sort(key=lambda each: each[0], reverse=True)
    return Outline(
        tuple(call for call in calls if call.state in UNSETTLED and not _may_stay(call)),
        tuple(what for _, what in undo),
        tuple(call for call in calls if call.state is State.EXPIRED and call.terms.compensate and _was_done(call)),
    )


def _was_done(call: Call) -> bool:
    return call.note not in {f"was {state}" for state in (*WITHOUT_EFFECT, State.COMPENSATED)}


def _stands(call: Call) -> bool:
    """Whether its effect is there, and is to go."""
    return call.state is State.COMPENSATING or (call.state in DONE and not _may_stay(call) and did_some(call))


def did_some(call: Call) -> bool:
    """Whether it did something itself: what a batch has left was done, and is undone, in other calls."""
    split = split_of(call)
    return split is None or any(item.part is Part.DONE for item in split[1])


def _may_stay(call: Call) -> bool:
    return call.terms.waived and not call.terms.compensate


def leaves_inside(call: Call) -> bool:
    """Whether what was called inside of it stands by itself: undoing the call itself undoes none of that."""
    return call.terms.effect is Effect.READ or call.state in WITHOUT_EFFECT or not call.terms.compensate


def _steps(books: Books, scope: str) -> Iterator[Step]:
    """Yield the calls with effects; those made inside of a call that is not undone as a whole, too."""
    for step in books.begun_in(scope):
        call = step.call
        if call.terms.effect is not Effect.READ:
            yield step
        if leaves_inside(call):
            yield from _steps(books, f"call:{call.operation_id}")
        if call.terms.drafted and call.state in UNCONFIRMED:
            yield from _steps(books, scope_of_draft(call.operation_id))


def _place_of(books: Books, run: RunRecord, seen: frozenset[str] = frozenset()) -> int:
    """An inner run stands where its last call was begun. ``seen``: the runs around it, none of them inside of it."""
    own = [step.place for step in books.begun_in(scope_of_run(run.tenant, run.run_id))]
    within = [inner for inner in books.runs_within(run.tenant, run.run_id) if inner.run_id not in seen]
    return max([*own, *(_place_of(books, inner, seen | {run.run_id}) for inner in within)], default=0)


def first_intents(rows: Sequence[tuple[str, int, int]], calls: Sequence[Call]) -> list[Step]:
    """Give each call its place: where the first attempt that may have had the effect was put on record.

    ``rows``: operation id, attempt, place in the log, of each intent.
    """
    places = {(operation_id, attempt): place for operation_id, attempt, place in reversed(rows)}
    last = {operation_id: place for operation_id, _, place in sorted(rows, key=lambda row: row[2])}
    steps = []
    for call in calls:
        no = next((a.no for a in call.attempts if a.standing is not Standing.NONE), 0)
        steps.append(Step(places.get((call.operation_id, no), last.get(call.operation_id, 0)), call))
    return sorted(steps, key=lambda step: step.place)


class LookThrough(Struct, frozen=True):
    """Read how a run stands; changes nothing."""

    run_id: str
    tenant: str

    def apply(self, books: Books, now: Moment) -> Outline:
        """Return it."""
        del now
        return outline(books, self.tenant, self.run_id)


# --- the rollback -----------------------------------------------------------------------------


class Rolling(Struct, frozen=True):
    """The rollback is on record, and the caller's: no call of the run begins any more."""

    run: RunRecord
    closed: tuple[str, ...] = ()
    """Operation ids of calls that waited for a person's leave, and wait no more."""


class Ended(Struct, frozen=True):
    """There is nothing to roll back, or nobody to do it for: this is how the run stands."""

    run: RunRecord | None


class StartRollback(Struct, frozen=True):
    """Bar the run's calls, refuse what waits for leave, and take the rollback on, unless another process works on it.

    The entry that is at work starts it by its own number; everybody else waits for its lease, or sees it dead.
    """

    run_id: str
    tenant: str
    reason: str
    claim: str
    owner: Owner
    lease: float
    entry: int | None = None
    dead: str = ""

    def apply(self, books: Books, now: Moment) -> Rolling | Held | Ended:
        """Return whose it is."""
        run = books.run(self.tenant, self.run_id)
        if run is None or run.state is RunState.COMPENSATED:
            return Ended(run)
        if run.claim == self.claim and run.state is RunState.ROLLING_BACK:
            return Rolling(run)  # the answer to this very transition was lost
        own = run.state is not RunState.ROLLING_BACK and (run.entry == self.entry or self._undoes_around(books, run))
        if not own and held(run, now, dead=self.dead):
            return Held(run)
        if not own and self.entry is not None:
            return Ended(run)  # a later entry, or somebody's rollback, has come between
        begun = replace(
            run,
            entry=run.entry + 1,
            state=RunState.ROLLING_BACK,
            claim=self.claim,
            owner=self.owner,
            lease=now.plus(self.lease),
            reason=self._why(run),
            changed=now.wall,
        )
        books.put_run(begun)
        return Rolling(begun, close_waiting(books, scope_of_run(run.tenant, run.run_id), now))

    def _why(self, run: RunRecord) -> str:
        """What a run is undone for is said once: who goes on with it does so for the same reason."""
        return run.reason if run.state in BARRED and run.reason else self.reason or run.reason

    def _undoes_around(self, books: Books, run: RunRecord) -> bool:
        """Whether this process undoes the run around this one: then nothing begins in it, whoever works on it."""
        outer = books.run(run.tenant, run.parent) if run.parent else None
        return (
            outer is not None and outer.state is RunState.ROLLING_BACK and self.claim == claim_within(outer.claim, run)
        )


def claim_within(claim: str, inner: RunRecord) -> str:
    """Return the claim under which a rollback undoes a run inside of its own."""
    return f"{claim}/{inner.run_id}"


class OfRollback(Struct, frozen=True):
    """A transition of one rollback, which changes nothing once the run's rollback has become another's."""

    run_id: str
    tenant: str
    claim: str

    def ours(self, books: Books) -> RunRecord | None:
        """Return the run if this rollback is still its one."""
        run = books.run(self.tenant, self.run_id)
        return run if run is not None and run.claim == self.claim and run.state is RunState.ROLLING_BACK else None


class News(Struct, frozen=True):
    """A call that was open is known to be done meanwhile: its turn may come first."""

    operation_id: str


class Undo(OfRollback, frozen=True):
    """Put on record that a step is being undone: from here on its value stands no more."""

    operation_id: str
    open: Sequence[str] = ()
    """The calls that were open when it was decided that this step is the next one."""

    def apply(self, books: Books, now: Moment) -> Call | News | None:
        """Return the step; ``None`` if the rollback has become another's."""
        if self.ours(books) is None:
            return None
        for operation_id in self.open:
            other = books.by_id(operation_id)
            if other is not None and other.state in DONE:
                return News(operation_id)
        return begin_undoing(books, self.operation_id, "rollback", now)


def begin_undoing(books: Books, operation_id: str, detail: str, now: Moment) -> Call | None:
    """Put on record that what a call did is being undone, if it did anything; return how it stands."""
    call = books.by_id(operation_id)
    if call is None or call.state not in DONE:
        return call
    changed, row = evolve(call, Event.UNDO, now, detail=detail, reason="", held=False)
    books.put(changed, row)
    return changed


class StepUndone(OfRollback, frozen=True):
    """Put on record that a step is undone; its compensation's own record must say so."""

    operation_id: str
    compensation: str

    def apply(self, books: Books, now: Moment) -> Call | None:
        """Return the step; ``None`` if the rollback has become another's."""
        if self.ours(books) is None:
            return None
        call, undoing = books.by_id(self.operation_id), books.by_id(self.compensation)
        done = undoing is not None and undoing.state is State.SUCCEEDED
        if call is None or call.state is not State.COMPENSATING or not done:
            return call
        changed, row = evolve(call, Event.UNDONE, now, detail=f"by {self.compensation}", reason="", held=False)
        books.put(changed, row)
        return changed


class Stuck(OfRollback, frozen=True):
    """Put on record why a step is not undone: it stands in the queue. The others go on."""

    operation_id: str
    reason: str
    """``undo_failed``, ``undo_unknown``, ``undo_not_done``, ``undo_refused``, ``tool_missing``, ``irreversible``, …"""
    note: str = ""

    def apply(self, books: Books, now: Moment) -> Call | None:
        """Return the step; ``None`` if the rollback has become another's."""
        if self.ours(books) is None:
            return None
        call = books.by_id(self.operation_id)
        if call is None or call.state is not State.COMPENSATING or (call.reason, call.note) == (self.reason, self.note):
            return call
        detail = f"{self.reason}: {self.note}" if self.note else self.reason
        changed, row = evolve(call, Event.NOTE, now, detail=detail, reason=self.reason, note=self.note)
        books.put(changed, row)
        books.alert(changed, "undo")
        return changed


class EndRollback(OfRollback, frozen=True):
    """Say how the rollback has ended: by what the records show, and nothing else."""

    def apply(self, books: Books, now: Moment) -> RunRecord | None:
        """Return the run; ``None`` if the rollback has become another's."""
        run = self.ours(books)
        if run is None:
            found = books.run(self.tenant, self.run_id)
            again = found is not None and found.claim == self.claim and found.state in UNDONE
            return found if again else None
        undone = outline(books, self.tenant, self.run_id).is_undone
        state = RunState.COMPENSATED if undone else RunState.PARTLY_COMPENSATED
        ended = replace(run, state=state, owner=None, lease=None, changed=now.wall)
        books.put_run(ended)
        if state is RunState.PARTLY_COMPENSATED:
            books.alert_of("partly_compensated", scope_of_run(self.tenant, self.run_id), now.wall)
        return ended


class Heed(Struct, frozen=True):
    """A compensation that was in doubt has been settled: let its step, and the run, stand accordingly."""

    operation_id: str
    """The compensation's."""

    def apply(self, books: Books, now: Moment) -> Call | None:
        """Return the step as it stands then."""
        undoing = books.by_id(self.operation_id)
        step = books.by_id(undoing.scope.removeprefix("undo:")) if undoing is not None else None
        if undoing is None or step is None or step.state is not State.COMPENSATING or not step.reason:
            return step
        if undoing.state is State.SUCCEEDED:
            changed, row = evolve(step, Event.UNDONE, now, detail=f"by {self.operation_id}", reason="", note="")
        elif undoing.state in WITHOUT_EFFECT:
            reason = f"undo_{STATUS_OF[undoing.state]}"
            changed, row = evolve(step, Event.NOTE, now, detail=reason, reason=reason, note="")
        else:
            return step
        books.put(changed, row)
        return changed


class Conclude(Struct, frozen=True):
    """A person, or late evidence, may have brought the last step of a partly undone run to its end."""

    run_id: str
    tenant: str

    def apply(self, books: Books, now: Moment) -> RunRecord | None:
        """Return the run as it stands then."""
        run = books.run(self.tenant, self.run_id)
        if run is None or run.state is not RunState.PARTLY_COMPENSATED:
            return run
        if not outline(books, self.tenant, self.run_id).is_undone:
            return run
        concluded = replace(run, state=RunState.COMPENSATED, changed=now.wall)
        books.put_run(concluded)
        return concluded
