"""Runs: entering and leaving one. A new entry fences the older one out and answers from what it did.

One entry is at work at a time: it holds the run by a lease, as an owner holds a call. ``saga.py`` undoes runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from settled.core.books import RunRecord, RunState
from settled.core.matching.entry import Entry
from settled.core.runs.lanes import closed, lane_id
from settled.core.values import replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from settled.core.ask import Ask
    from settled.core.books import Books, Change
    from settled.core.call import Call
    from settled.core.model import Moment, Owner

_CUT = "\x1fcut off"
"""Between a turn and nothing: the name under which the entries of turns are noted that were cut off before it."""
_THEN = "\x1fthen"
"""After a turn: the name under which the entries of turns that followed it are noted."""
UNDONE = frozenset({RunState.COMPENSATED, RunState.PARTLY_COMPENSATED})
BARRED = UNDONE | {RunState.ROLLING_BACK}
"""No call of such a run begins any more."""


def scope_of_run(tenant: str, run_id: str) -> str:
    """Return the scope that a run's calls are found under; two tenants never share one."""
    return f"run:{len(tenant)}:{tenant}:{run_id}"


def run_of(scope: str) -> str | None:
    """Return the run id that a scope names (see ``scope_of_run``); ``None`` if it names none."""
    kind, _, rest = scope.partition(":")
    length, _, rest = rest.partition(":")
    return rest[int(length) + 1 :] if kind == "run" and length.isdecimal() else None


def barred(books: Books, ask: Ask) -> str:
    """Return why the asker's run, or the call that it is made inside of, lets nothing more begin; empty: it does."""
    if ask.run_id:
        run = books.run(ask.tenant, ask.run_id)
        if run is not None and (run.state in BARRED or undone_around(books, run)):
            return "rolled_back"
        if run is None or run.entry != ask.run_entry:
            return "superseded"
        if ask.lane_entry:
            lane = books.run(ask.tenant, lane_id(ask.run_id, ask.lane))
            why = closed(run, ask.run_entry) or ("superseded" if lane is None or lane.entry != ask.lane_entry else "")
            if why:
                return why
    around = books.by_id(ask.scope.removeprefix("call:")) if ask.scope.startswith("call:") else None
    later = around is not None and ask.entry is not None and len(around.attempts) > ask.entry.no
    return "superseded" if later else ""


def undone_around(books: Books, run: RunRecord) -> RunRecord | None:
    """Return a run around this one that is, or was, undone: this one is undone with it."""
    seen, outer = {run.run_id}, books.run(run.tenant, run.parent) if run.parent else None
    while outer is not None and outer.run_id not in seen:
        if outer.state in BARRED:
            return outer
        seen.add(outer.run_id)
        outer = books.run(outer.tenant, outer.parent) if outer.parent else None
    return None


def of_a_run_undone(books: Books, call: Call) -> bool:
    """Whether the run that the call was made in, or one around that, was undone: nothing of it is done any more."""
    while call.scope.startswith("call:"):
        outer = books.by_id(call.scope.removeprefix("call:"))
        if outer is None:
            return False
        call = outer
    run_id = run_of(call.scope)
    run = None if run_id is None else books.run(call.tenant, run_id)
    return run is not None and (run.state in BARRED or undone_around(books, run) is not None)


class Held(Struct, frozen=True):
    """Another process works on the run, or undoes it."""

    run: RunRecord


class Undone(Struct, frozen=True):
    """The run was, or is being, rolled back: nothing more is done in it."""

    run: RunRecord


def held(run: RunRecord, now: Moment, *, dead: str = "") -> bool:
    """Whether somebody else may be at work on the run; ``dead``: the claim whose owner was seen dead."""
    if run.owner is None or run.lease is None or run.claim == dead:
        return False
    left = now.since(run.lease)
    return left is not None and left < 0


class EnterRun(Struct, frozen=True):
    """Start an entry of a run; ``answered`` are the steps that the history holds answers of."""

    run_id: str
    tenant: str
    turn: str | None = None
    answered: Sequence[str] = ()
    claim: str = ""
    """A fresh nonce: the entry recognises itself when the journal's answer was lost."""
    owner: Owner | None = None
    """The process that enters; ``None``: it holds no lease, and waits for nobody's."""
    lease: float = 30.0
    """Seconds."""
    on_error: str = "keep"
    parent: str = ""
    parent_entry: int = 0
    """The entry of that one that it is entered in; 0: whichever."""
    dead: str = ""
    """The claim of an entry whose process was seen dead: its lease need not be waited out."""
    turn_was: str = ""
    """What this turn was named by before its history was shortened: its entries are this turn's."""
    cut_off: Sequence[str] | None = None
    """Names of the turns just before this one that nobody saw the end of; ``None``: the record tells whether it did."""
    follows: str = ""
    """The turn before this one, where it is known. Others that followed it were given up: their message was edited."""
    after: Sequence[str] = ()
    """What was answered last before this turn began: its id, and the steps that it may be.

    Turns may look alike and share a name. The entry that has made this step, and those before, were at another one.
    """

    def apply(self, books: Books, now: Moment) -> Entry | Held | Undone:
        """Return the memory of the new entry; or who works on the run, or that it is undone."""
        run = books.run(self.tenant, self.run_id) or RunRecord(self.run_id, self.tenant, begun=now.wall)
        if self.claim and run.claim == self.claim and run.state is RunState.ACTIVE:
            return self._memory(books, run, run.entry)  # the answer to this very transition was lost
        if self.owner is not None and held(run, now, dead=self.dead):
            return Held(run)
        outer = books.run(self.tenant, self.parent) if self.parent else None
        superseded = outer is not None and self.parent_entry not in (0, outer.entry)
        outdated = outer is not None and (outer.state in BARRED or superseded)
        if run.state in BARRED or outdated:
            return Undone(run if outer is None or run.state in BARRED else outer)
        around = undone_around(books, run)
        if around is not None:
            return Undone(around)
        no = run.entry + 1
        entered = self._entered(books, run, no, now)
        self._note_cut_off(books, run)
        self._carry_over(books)
        memory = self._memory(books, entered, no)
        if entered.parent and books.run(self.tenant, entered.parent) is None:  # nothing was done in it but in its parts
            books.put_run(RunRecord(entered.parent, self.tenant, begun=now.wall, changed=now.wall))
        books.put_run(entered)
        if self.turn is not None:
            books.put_turn(self.tenant, self.run_id, self.turn, no)
            if self.after:
                books.put_turn(self.tenant, self.run_id, self._place(self.turn), no)
            if self.follows:
                books.put_turn(self.tenant, self.run_id, f"{self.follows}{_THEN}", no)
        return memory

    def _entered(self, books: Books, run: RunRecord, no: int, now: Moment) -> RunRecord:
        return replace(
            run,
            entry=no,
            turn=self.turn,
            since=run.since if run.turn in (self.turn, self.turn_was or self.turn) else no,
            state=RunState.ACTIVE,
            on_error=self.on_error,
            claim=self.claim,
            owner=self.owner,
            lease=None if self.owner is None else now.plus(self.lease),
            reason="",
            parent=run.parent if run.entry else self._parent(books),
            changed=now.wall,
        )

    def _parent(self, books: Books) -> str:
        """Return the run around this one; none where that lies inside of this one, or two would undo each other."""
        seen, name = {self.run_id}, self.parent
        while name and name not in seen:
            seen.add(name)
            outer = books.run(self.tenant, name)
            name = outer.parent if outer is not None else ""
        return "" if name else self.parent

    def _memory(self, books: Books, run: RunRecord, no: int) -> Entry:
        earlier = self._earlier(books, range(run.since, no), no)
        entry = Entry(no, earlier, self._past(books, earlier, no))
        for step in self.answered:
            _mark(books, entry, scope_of_run(self.tenant, self.run_id), step)
        return entry

    def _earlier(self, books: Books, just_before: range, no: int) -> Sequence[int]:
        """Return the entries of this turn; another turn may have come between (a message that is delivered again)."""
        if self.turn is None:
            return just_before
        entries = [entry for entry in books.turn(self.tenant, self.run_id, self.turn) if entry < no]
        over = self._over(books, no, self.turn) if entries else 0
        if self.turn_was:  # turns whose message is out of sight share a name: this one began under its own
            over = max(over, min(books.turn(self.tenant, self.run_id, self.turn_was), default=no) - 1)
        return tuple(sorted(entry for entry in entries if entry > over))

    def _over(self, books: Books, no: int, turn: str) -> int:
        """Return the last entry that was surely at an earlier turn; 0 if there is none.

        Ids of calls come again: what was made since an entry of this very turn began is no earlier one's.
        """
        call = self._answered_last(books)
        own = [entry for entry in books.turn(self.tenant, self.run_id, self._place(turn)) if entry < no] if call else ()
        return 0 if call is None or call.entry >= min(own, default=no) else call.entry

    def _answered_last(self, books: Books) -> Call | None:
        """Return the call that was answered last before this turn, as far as the history shows one."""
        scope = scope_of_run(self.tenant, self.run_id)
        found = next((each for step in self.after[1:] if (each := books.by_step(scope, step))), "")
        return books.by_id(found) if found else None

    def _past(self, books: Books, earlier: Sequence[int], no: int) -> Sequence[int]:
        """Return the entries of turns before this one that were cut off, or given up for it: no history shows them."""
        return tuple(sorted({*self._noted(books, self.turn), *self._given_up(books, no)}.difference(earlier)))

    def _given_up(self, books: Books, no: int) -> set[int]:
        """Return the entries of turns that followed the same one. What is answered in this history was not given up."""
        instead = books.turn(self.tenant, self.run_id, f"{self.follows}{_THEN}") if self.follows else ()
        own = {no, *books.turn(self.tenant, self.run_id, self.turn or "")}
        if own.issuperset(instead):
            return set()
        shown = self._answered_last(books)
        return {each for each in instead if shown is None or each > shown.entry} - own

    def _note_cut_off(self, books: Books, run: RunRecord) -> None:
        """Note which turns before this one were cut off, for all entries of it, and for the next one if it is, too."""
        if self.turn is None or not run.entry:
            return
        cut = run.state is not RunState.COMPLETED if self.cut_off is None else bool(self.cut_off)
        if not cut:
            return
        entries = {each for name in self.cut_off or () for each in books.turn(self.tenant, self.run_id, name)}
        if not entries and run.turn not in (self.turn, self.turn_was):  # it had another name, or it has none
            entries = {*range(run.since, run.entry + 1), *self._noted(books, run.turn)}
        for each in sorted(entries.difference(self._noted(books, self.turn))):
            books.put_turn(self.tenant, self.run_id, f"{self.turn}{_CUT}", each)

    def _noted(self, books: Books, turn: str | None) -> Sequence[int]:
        return () if turn is None else books.turn(self.tenant, self.run_id, f"{turn}{_CUT}")

    def _place(self, turn: str) -> str:
        """Return the name of a turn together with what was answered before it."""
        return f"{turn}\x1f{self.after[0]}" if self.after else turn

    def _carry_over(self, books: Books) -> None:
        if self.turn is None or not self.turn_was:
            return
        for name, was in {self.turn: self.turn_was, self._place(self.turn): self._place(self.turn_was)}.items():
            known = set(books.turn(self.tenant, self.run_id, name))
            for entry in books.turn(self.tenant, self.run_id, was):
                if entry not in known:
                    books.put_turn(self.tenant, self.run_id, name, entry)


def _mark(books: Books, entry: Entry, scope: str, step: str) -> None:
    operation_id = books.by_step(scope, step)
    call = books.by_id(operation_id) if operation_id else None
    if call is not None:
        entry.tell(call)


class Checkpoint(NamedTuple):
    """What changed of a run, to be kept in the commit of a call's end; of an intent, only the tokens."""

    run_id: str
    entry: int
    changes: Sequence[Change]
    tokens: int = 0
    """Model tokens sent in it over all entries, where they are counted; 0: the record says so already."""


class LeaveRun(Struct, frozen=True):
    """End an entry: the run is completed, or kept as it is. A later entry's run is left alone."""

    run_id: str
    tenant: str
    entry: int
    state: RunState
    reason: str = ""
    changes: Sequence[Change] = ()
    tokens: int = 0
    """Model tokens sent over all entries, where they are counted."""

    def apply(self, books: Books, now: Moment) -> RunRecord | None:
        """Return the record as it stands then."""
        run = books.run(self.tenant, self.run_id)
        if run is None or run.entry != self.entry or run.state is not RunState.ACTIVE:
            return run
        tokens = max(run.tokens, self.tokens)
        left = replace(
            run, state=self.state, reason=self.reason, owner=None, lease=None, changed=now.wall, tokens=tokens
        )
        books.put_run(left)
        if self.changes:
            books.put_run_state(left, self.changes)
        return left


class RenewRuns(Struct, frozen=True):
    """Prolong the leases of runs at work here; one that was taken over is left alone."""

    held: Sequence[tuple[str, str, str]]
    """Tenant, run id, claim."""
    lease: float
    tokens: Mapping[str, int] = {}
    """By claim: model tokens sent, where they are counted, and the record does not say so yet."""

    def apply(self, books: Books, now: Moment) -> tuple[str, ...]:
        """Return the claims that are lost."""
        return tuple(
            claim for tenant, run_id, claim in self.held if not self._renewed(books, now, tenant, run_id, claim)
        )

    def _renewed(self, books: Books, now: Moment, tenant: str, run_id: str, claim: str) -> bool:
        run = books.run(tenant, run_id)
        if run is None or run.claim != claim or run.owner is None:
            return False
        tokens = max(run.tokens, self.tokens.get(claim, 0))
        books.put_run(replace(run, lease=now.plus(self.lease), tokens=tokens))
        return True


class ReadState(Struct, frozen=True):
    """Read a run's state as the turns that began before an entry left it."""

    run_id: str
    tenant: str
    before: int

    def apply(self, books: Books, now: Moment) -> Mapping[str, bytes]:
        """Return name -> value, encoded."""
        del now
        return books.run_state(self.tenant, self.run_id, self.before)


class SaveState(Struct, frozen=True):
    """Keep what changed of a run's state, apart from any call."""

    run_id: str
    tenant: str
    entry: int
    changes: Sequence[Change]
    tokens: int = 0
    """Model tokens sent over all entries, where they are counted."""

    def apply(self, books: Books, now: Moment) -> bool:
        """Return whether it was kept: a later entry's state is not overwritten."""
        del now
        return keep_state(books, self.tenant, Checkpoint(self.run_id, self.entry, self.changes, self.tokens))


def keep_state(books: Books, tenant: str, checkpoint: Checkpoint) -> bool:
    """Keep what changed in an entry, unless a later one has begun; tokens only grow: an older answer may come late."""
    run = books.run(tenant, checkpoint.run_id)
    if run is None or run.entry != checkpoint.entry:
        return False
    if checkpoint.tokens > run.tokens:
        run = replace(run, tokens=checkpoint.tokens)
        books.put_run(run)
    books.put_run_state(run, checkpoint.changes)
    return True
