"""Rewinding a run: an operator sets calls aside, so that the next entry makes them anew.

A call that is set aside keeps its record, its state and its log; it gives up its key, and answers no ask any more. What
it did is still the run's to undo.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from settled.core import rules
from settled.core.approval.drafts import UNCONFIRMED, drop, scope_of_draft
from settled.core.books import RunRecord, RunState
from settled.core.call import Call, evolve
from settled.core.instead.by_hand import SET_ASIDE, close
from settled.core.model import Effect
from settled.core.parts import part_of
from settled.core.runs.entering import BARRED, Held, held, scope_of_run
from settled.core.runs.lanes import lane_of
from settled.core.runs.saga import DONE, begin_undoing, did_some, leaves_inside
from settled.core.states import UNSETTLED, Event, State
from settled.core.values import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from settled.core.books import Books, Step
    from settled.core.model import Moment, Owner

HAS_EFFECT = DONE | {State.COMPENSATING}


def set_aside_key(call: Call) -> str:
    """Return the key of a call that was set aside; its own is free then."""
    return f"{call.key}~{call.operation_id}"


def is_set_aside(call: Call) -> bool:
    """Whether an operator has set the call aside: it answers nobody any more."""
    return call.key.endswith(f"~{call.operation_id}")


class Passage(Struct, frozen=True):
    """The calls of a run from one on, the last begun first."""

    calls: tuple[Call, ...] = ()
    open: tuple[Call, ...] = ()
    """Unknown or at work: to be settled first. These and the next may be calls made inside of a call."""
    standing: tuple[Call, ...] = ()
    """What they did stands."""
    inner: tuple[str, ...] = ()
    """Runs that were entered inside of this one: they replay by themselves."""
    part_of: str = ""
    """The batch that the first call went on with: that one is to be named."""
    arriving: tuple[Call, ...] = ()
    """A request of them may still arrive, and would do anew what is undone before."""


def passage(books: Books, tenant: str, run_id: str, operation_id: str, now: Moment) -> Passage | None:
    """Look through the calls of a run from this one on; ``None`` if it is no call of the run that answers."""
    steps = books.begun_in(scope_of_run(tenant, run_id))
    first = next((step for step in steps if step.call.operation_id == operation_id), None)
    if first is None or is_set_aside(first.call):
        return None
    wholes = {step.call.operation_id: _whole_of(step.call, steps) for step in steps}
    begun = {step.call.operation_id for step in steps if _from(step.place, step.call, first.place, first.call)}
    later = [step for step in steps if wholes[step.call.operation_id] in begun and not is_set_aside(step.call)]
    inside = [step.call for step in _last_first(_with_inside(books, later))]
    effects = [call for call in inside if call.terms.effect is not Effect.READ]
    whole = wholes[operation_id]
    return Passage(
        tuple(step.call for step in _last_first(later)),
        tuple(call for call in effects if call.state in UNSETTLED),
        tuple(call for call in effects if call.state in HAS_EFFECT and did_some(call)),
        tuple(run.run_id for run in books.runs_within(tenant, run_id) if _replays(run)),
        "" if whole == operation_id else whole,
        tuple(call for call in effects if call.state in HAS_EFFECT and rules.seconds_to_rest(call, now) != 0),
    )


def _whole_of(call: Call, steps: Sequence[Step]) -> str:
    """Return the batch that a call went on with, or itself: nobody makes a part anew without its batch."""
    calls = {step.call.operation_id: step.call for step in steps}
    while (batch := calls.get(part_of(call))) is not None:
        call = batch
    return call.operation_id


def _with_inside(books: Books, steps: Iterable[Step]) -> Iterator[Step]:
    """Yield the calls, those made inside of one that says nothing of them, and drafts in doubt."""
    for step in steps:
        yield step
        if leaves_inside(step.call):
            yield from _with_inside(books, books.begun_in(f"call:{step.call.operation_id}"))
        if step.call.terms.drafted and step.call.state in UNCONFIRMED:  # one that was made is thrown away with it
            drafts = books.begun_in(scope_of_draft(step.call.operation_id))
            yield from (draft for draft in drafts if draft.call.state in UNSETTLED)


def _last_first(steps: Iterable[Step]) -> list[Step]:
    return sorted(steps, key=lambda step: step.place, reverse=True)


def _replays(run: RunRecord) -> bool:
    """Whether an inner run answers by itself; what was done in a lane stands among the run's own calls."""
    return run.state is not RunState.COMPENSATED and not lane_of(run)


def _from(place: int, call: Call, first: int, one: Call) -> bool:
    """Whether a call was begun from that one on; one of which no attempt was begun, by when it was asked for."""
    return place >= first if place and first else call.created.wall >= one.created.wall


class LookFrom(Struct, frozen=True):
    """Read what a rewind would set aside; changes nothing."""

    run_id: str
    tenant: str
    operation_id: str

    def apply(self, books: Books, now: Moment) -> Passage | None:
        """Return it."""
        return passage(books, self.tenant, self.run_id, self.operation_id, now)


class Refused(Struct, frozen=True):
    """The run cannot be rewound, and why not."""

    why: str


class HoldRun(Struct, frozen=True):
    """Take a run, so that nobody works on it meanwhile; an entry that is older begins nothing more."""

    run_id: str
    tenant: str
    claim: str
    owner: Owner
    lease: float
    dead: str = ""
    """The claim whose process was seen dead."""

    def apply(self, books: Books, now: Moment) -> RunRecord | Held | Refused:
        """Return the run, or who is at it."""
        run = books.run(self.tenant, self.run_id)
        if run is None:
            return Refused("there is no such run")
        if run.state in BARRED:
            return Refused(f"it is {run.state}: nothing of it is done any more")
        if run.claim == self.claim:
            return run  # the answer to this very transition was lost
        if held(run, now, dead=self.dead):
            return Held(run)
        taken = replace(
            run,
            entry=run.entry + 1,
            claim=self.claim,
            owner=self.owner,
            lease=now.plus(self.lease),
            changed=now.wall,
        )
        books.put_run(taken)
        return taken


class UndoOne(Struct, frozen=True):
    """Put on record that a call is being undone, by itself."""

    run_id: str
    tenant: str
    claim: str
    operation_id: str

    def apply(self, books: Books, now: Moment) -> Call | None:
        """Return the call; ``None`` if the run is another's by now."""
        run = books.run(self.tenant, self.run_id)
        if run is None or run.claim != self.claim:
            return None
        return begin_undoing(books, self.operation_id, "rewind", now)


class SetAside(Struct, frozen=True):
    """Set calls aside, in one commit, and let the run go."""

    run_id: str
    tenant: str
    claim: str
    operation_id: str
    expected: Sequence[str]
    """Operation ids of what was looked at: nothing else is set aside."""
    keep: bool
    """What they did may stand."""
    by: str
    reason: str

    def apply(self, books: Books, now: Moment) -> Sequence[Call] | Refused:
        """Return the calls that are set aside."""
        run = books.run(self.tenant, self.run_id)
        if run is None or run.claim != self.claim:
            return Refused("another process works on the run by now")
        seen = passage(books, self.tenant, self.run_id, self.operation_id, now)
        if seen is None:
            return ()  # the answer to this very transition was lost
        if seen.open or (seen.standing and not self.keep) or {c.operation_id for c in seen.calls} != {*self.expected}:
            return Refused("its calls have changed since they were looked at")
        detail = f"rewound by {self.by}: {self.reason}"
        aside = [_aside(books, call, detail, now) for call in seen.calls]
        kept = replace(run, state=RunState.KEPT, reason=detail, owner=None, lease=None, changed=now.wall)
        books.put_run(replace(kept, rewound=run.rewound + 1))
        return aside


def _aside(books: Books, call: Call, detail: str, now: Moment) -> Call:
    call = close(books, call, now, SET_ASIDE, "rewind")
    noted, row = evolve(call, Event.NOTE, now, detail=detail, sent_key=call.outward)
    books.put(noted, row)
    if noted.state in UNCONFIRMED:
        drop(books, noted, now)
    renamed = replace(noted, key=set_aside_key(call))
    books.put_key(renamed)
    return renamed


class LetGo(Struct, frozen=True):
    """Let a run go that was not rewound after all."""

    run_id: str
    tenant: str
    claim: str
    state: RunState

    def apply(self, books: Books, now: Moment) -> None:
        """Leave it as it was."""
        run = books.run(self.tenant, self.run_id)
        if run is not None and run.claim == self.claim:
            books.put_run(replace(run, state=self.state, owner=None, lease=None, changed=now.wall))
