"""What is asked of the journal when a call is made, and what it can answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from settled.core.runs.lanes import lane_id

if TYPE_CHECKING:
    from collections.abc import Container

    from settled.core.call import Call
    from settled.core.matching.entry import Entry
    from settled.core.model import KeyKind, Leave, Owner, Terms


class Ask(Struct, frozen=True):
    """One asker's wish for one business action."""

    tenant: str
    tool: str
    terms: Terms
    kind: KeyKind
    identity: str
    """Digest of the arguments that say which action this is."""
    words: str
    """Digest of all arguments."""
    fingerprint: str
    arguments: bytes
    operation_id: str
    """A fresh id, used if the call is new; it doubles as the nonce that recognises our own claim."""
    owner: Owner
    lease: float
    """Seconds that a claim lives unless it is renewed."""
    key: str = ""
    """Given for business, step and random keys; made from scope and number otherwise."""
    scope: str = ""
    lane: str = ""
    run_id: str = ""
    run_entry: int = 0
    """The entry of the run that this asker works in, or that let it join; a later one fences it out."""
    lane_entry: int = 0
    """For a joined agent: the entry of its lane."""
    identity_declared: bool = False
    step: str = ""
    message: str = ""
    """Siblings of one message are exempt from the rule of doubt among themselves."""
    sibling: str = ""
    """This call's place in its message."""
    by_model: bool = False
    despite: frozenset[str] = frozenset()
    alive: frozenset[str] = frozenset()
    """Like calls whose owners were seen to live: they are at work, and this ask is another action."""
    around: frozenset[str] = frozenset()
    """Operation ids of the calls that this one is made inside of."""
    here: Container[str] = frozenset()
    """Operation ids whose askers wait in this process now: a live view."""
    told: str = ""
    """A like call outside of runs of which this process was last told that it is in doubt or at work."""
    while_unknown: str = "identity"
    untold: str = "tell"
    leave: Leave | None = None
    """The leave that a person must give first; ``None``: none is needed."""
    instead: tuple[str, int] | None = None
    """It is made in the place of another call, which did nothing: that one's operation id, and which of its fallbacks
    it is."""
    falls_to: tuple[str, ...] = ()
    """Tools that may be called in its place, and its own name if a person may be asked: what they do is a part of what
    it stands for."""
    entry: Entry | None = None

    @property
    def step_scope(self) -> str:
        """Where its steps are known: two lanes may use the same ones."""
        return lane_id(self.scope, self.lane) if self.lane_entry else self.scope

    @property
    def works_in(self) -> tuple[str, int]:
        """The record whose state this asker keeps, and its entry of it."""
        if self.lane_entry:
            return lane_id(self.run_id, self.lane), self.lane_entry
        return self.run_id, self.run_entry


class Begun(Struct, frozen=True):
    """The claim and the intent of an attempt are on record: invoke it."""

    call: Call


class WouldRun(Struct, frozen=True):
    """It would run, were it allowed to begin: as a new call, or as a further series of one that is on record."""

    call: Call | None = None


class Stands(Struct, frozen=True):
    """A call that is on record answers as it stands."""

    call: Call
    like: bool = False
    """Found by likeness (not by its key or step): it is an earlier call's answer."""


class Busy(Struct, frozen=True):
    """A live owner is at work on it."""

    call: Call
    like: bool = False


class Doubtful(Struct, frozen=True):
    """Its outcome is unknown: settle it first."""

    call: Call
    like: bool = False


class Conflict(Struct, frozen=True):
    """The same key came with other arguments."""

    call: Call


class Untold(Struct, frozen=True):
    """A model asks for something else of this tool without having been told of these calls."""

    calls: tuple[Call, ...]
    once: bool = True
    """It is told of them now, and may go on; else not before somebody says that another action is meant."""


class Barred(Struct, frozen=True):
    """Unknown calls of this tool must be settled first."""

    calls: tuple[Call, ...]


class Unsettled(Struct, frozen=True):
    """Nothing undoes this tool, and earlier calls of its run are unknown or at work."""

    calls: tuple[Call, ...]


class Suspect(Struct, frozen=True):
    """Calls that this one may be a repeat of are at work elsewhere: if their owners are dead, they are in doubt."""

    calls: tuple[Call, ...]


class Paused(Struct, frozen=True):
    """Somebody has paused this tool: nothing of it begins."""

    by: str
    reason: str


class Superseded(Struct, frozen=True):
    """A later entry works on this run, or it is rolled back; this one may start nothing more."""

    run_id: str
    why: str = "superseded"
    """Or ``rolled_back``; for a joined agent ``run_ended``."""


class BudgetSpent(Struct, frozen=True):
    """The run's budget does not grant this retry, or the run is ``rolled_back`` or has ended; nothing was recorded."""

    pool: str


ClaimReply = (
    Begun
    | WouldRun
    | Stands
    | Busy
    | Doubtful
    | Conflict
    | Untold
    | Barred
    | Unsettled
    | Suspect
    | Superseded
    | BudgetSpent
    | Paused
)
