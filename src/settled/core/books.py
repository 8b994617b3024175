"""What a rule sees of the journal while one transition is under way.

A transition is a value with ``apply(books, now)``. A journal runs it inside one atomic operation:
it gives the rule these look-ups, keeps what the rule puts, commits, and hands the reply back.
So every journal follows the same rules, and knows none of them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from settled.core.call import Call, LogRow
    from settled.core.model import Moment, Owner
    from settled.core.states import State

R_co = TypeVar("R_co", covariant=True)


class RunState(StrEnum):
    """Where a run stands."""

    ACTIVE = "active"
    COMPLETED = "completed"
    """Entered again it replays."""
    KEPT = "kept"
    """It failed, and nothing was undone: it may be entered again."""
    ROLLING_BACK = "rolling_back"
    COMPENSATED = "compensated"
    """All that it did is undone."""
    PARTLY_COMPENSATED = "partly_compensated"
    """What could not be undone, or is not known, stands in the queue."""


class Step(Struct, frozen=True):
    """A call of a run, with its place in the journal's order: where its first attempt was put on record."""

    place: int
    call: Call


class Change(Struct, frozen=True):
    """One name of a run's state and its new value; ``None``: it was removed."""

    name: str
    value: bytes | None
    serial: int
    """Grows within an entry: an older value never overwrites a newer one."""


class RunRecord(Struct, frozen=True):
    """One task of an agent, over all times that a process works on it."""

    run_id: str
    tenant: str
    entry: int = 0
    """Number of the entry that is at work; an older one is fenced out."""
    turn: str | None = None
    since: int = 1
    """First entry of the open turn."""
    spent: Mapping[str, int] = {}
    """Retries made, per tool, over all entries."""
    state: RunState = RunState.ACTIVE
    on_error: str = "keep"
    """What follows when it fails: ``keep`` what was done, or ``compensate``."""
    claim: str = ""
    """The nonce of the entry, or of the rollback, that is at work: it recognises itself."""
    owner: Owner | None = None
    """The process that works on it; ``None``: nobody does."""
    lease: Moment | None = None
    reason: str = ""
    """Why it failed, or is undone."""
    parent: str = ""
    """The run that it was first entered in; it is undone with it."""
    begun: float = 0.0
    """When it was entered first, seconds since the epoch."""
    changed: float = 0.0
    tokens: int = 0
    """Model tokens sent, over all entries, where they are counted (see ``core/attempts/metering.py``)."""
    rewound: int = 0
    """How often calls of it were set aside."""


class Books(Protocol):
    """The records, as one transition sees them."""

    def by_id(self, operation_id: str) -> Call | None:
        """Return the call with this operation id."""

    def by_key(self, key: str) -> Call | None:
        """Return the call with this key (keys contain the tenant)."""

    def by_step(self, scope: str, step: str) -> str | None:
        """Return the operation id that a step stands for in a scope."""

    def alike(self, scope: str, lane: str, tool: str, identity: str, entries: Sequence[int]) -> Sequence[Call]:
        """Return the calls of one identity made in ``entries`` (in order), in order of creation."""

    def made(self, scope: str, tool: str, entries: Sequence[int]) -> Sequence[Call]:
        """Return the calls of one tool made in ``entries`` that may have had an effect."""

    def unsettled(self, tenant: str, scope: str, tool: str, identity: str | None = None) -> Sequence[Call]:
        """Return the calls of one tool in one scope whose outcome is open (unknown, or at work); of one identity."""

    def adrift(self, state: State, tenant: str, tools: Sequence[str] | None, now: Moment, limit: int) -> Sequence[Call]:
        """Return the oldest calls in a state whose lease is over, at most ``limit``; ``tools``: of these alone.

        What another transaction is at may be left out.
        """

    def last_n(self, scope: str, lane: str, tool: str, identity: str) -> int:
        """Return the highest number given to a call of this identity; 0 if none."""

    def owed(self, tenant: str, tool: str, fingerprint: str) -> Sequence[str]:
        """Return the operation ids of like calls whose outcome is owed, the oldest first."""

    def run(self, tenant: str, run_id: str) -> RunRecord | None:
        """Return the record of a run."""

    def turn(self, tenant: str, run_id: str, turn: str) -> Sequence[int]:
        """Return the entries in which one turn of a run was worked on, in order."""

    def put(self, call: Call, row: LogRow) -> None:
        """Keep a call and the log row of its change."""

    def put_key(self, call: Call) -> None:
        """Keep the key that a call has now: the one that it had is free. Nothing else of it is kept by this."""

    def prolong(self, call: Call) -> None:
        """Keep a longer lease; no log row, since no state changes."""

    def forget(self, call: Call) -> None:
        """Remove a call that nothing can ask for any more; its log stays."""

    def put_step(self, scope: str, step: str, operation_id: str) -> None:
        """Let a step stand for a call; the first one wins."""

    def put_owed(self, call: Call) -> None:
        """Owe the outcome of a call to whoever asks for a like one; harmless when repeated."""

    def drop_owed(self, call: Call) -> None:
        """Owe it no longer."""

    def put_run(self, run: RunRecord) -> None:
        """Keep the record of a run."""

    def put_turn(self, tenant: str, run_id: str, turn: str, entry: int) -> None:
        """Note that a turn of a run is worked on in an entry."""

    def begun_in(self, scope: str) -> Sequence[Step]:
        """Return the calls made in a scope, in the order in which they were begun.

        Those that were begun anew elsewhere belong there (see ``put_moved``).
        """

    def put_moved(self, call: Call, scope: str) -> None:
        """Note that a call of another scope, which was not done there, was begun anew in this one."""

    def in_doubt(self, scope: str) -> Sequence[Call]:
        """Return the calls of a scope, of whatever tool, whose outcome is open."""

    def runs_within(self, tenant: str, run_id: str) -> Sequence[RunRecord]:
        """Return the runs that were entered first inside of this one."""

    def run_state(self, tenant: str, run_id: str, before: int) -> Mapping[str, bytes]:
        """Return the run's state as the turns that began before entry ``before`` left it."""

    def put_run_state(self, run: RunRecord, changes: Sequence[Change]) -> None:
        """Keep what changed of a run's state in its open turn."""

    def alert(self, call: Call, kind: str) -> None:
        """Put an alert into the outbox, in the same commit."""

    def alert_of(self, kind: str, subject: str, at: float) -> None:
        """Put an alert that is about no call into the outbox, in the same commit; ``at``: seconds since 1970."""

    def note(self, kind: str, name: str) -> str | None:
        """Return what was noted of this kind under a name (see ``core/noted/notes.py``)."""

    def notes(self, kind: str) -> Mapping[str, str]:
        """Return all that was noted of this kind, by name."""

    def put_note(self, kind: str, name: str, text: str | None) -> None:
        """Note a text under a name; ``None``: nothing any more."""


class Transition(Protocol[R_co]):
    """One atomic change of the journal, safe to repeat when its answer was lost."""

    def apply(self, books: Books, now: Moment) -> R_co:
        """Change ``books`` by the rules; ``now`` is the journal's clock."""
