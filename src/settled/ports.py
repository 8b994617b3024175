"""What the library needs from outside, as protocols: a journal, a place for spilled evidence, sinks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from settled.core.books import RunRecord, Transition
    from settled.core.call import Call, LogRow
    from settled.core.doubt.late import Evidence
    from settled.core.model import Moment
    from settled.core.states import State
    from settled.transaction import Transaction

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class CallQuery:
    """Which calls to list; ``None`` means any. Newest first, at most ``limit``, after ``after``."""

    states: Sequence[State] | None = None
    tool: str | None = None
    tenant: str | None = None
    scope: str | None = None
    disputed: bool | None = None
    lease_over: bool = False
    """Only calls in processing whose lease is over by the journal's clock."""
    past_retention: bool = False
    """Only calls that may be due to expire."""
    limit: int = 100
    after: str | None = None
    """Operation id of the last row of the page before."""
    readable: bool = False
    """Leave out records that cannot be read, and tell of them in the log; else they are an error."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One row of the outbox."""

    alert_id: int
    kind: str
    """``unknown``, ``disputed``, ``undo`` (a step that is not undone), ``approval`` or ``by_hand`` (left to a person);
    ``partly_compensated``, ``finding`` or ``breaker``, which are about no call."""
    operation_id: str
    """The call's; or what else it is about: the scope of a run, the id of a finding, the name of a breaker."""
    at: float


@dataclass(frozen=True, slots=True)
class Report:
    """What a check of the journal found."""

    ok: bool
    facts: Mapping[str, Any] = field(default_factory=dict)
    problems: Sequence[str] = ()


class Journal(Protocol):
    """Where calls are recorded. Every transition is one atomic, durable operation.

    ``perform`` returns only after the commit. Both verbs raise ``JournalError`` when nothing was
    changed or when it cannot be known; a transition may then be performed again, since each
    recognises its own repetition. They never raise anything else for a fault of the store.

    One that may lose records has ``refuses(what)`` besides: it says why no tools of an effect (``write``), or no runs
    to be undone (``compensate``), may be used there; empty if they may.
    """

    @property
    def url(self) -> str:
        """The journal's address, without secrets."""

    @property
    def journal_id(self) -> str:
        """The identity it was given when it was created."""

    @property
    def durable(self) -> bool:
        """Whether records outlive the process."""

    def perform(self, transition: Transition[R]) -> R:
        """Perform one transition, blocking the calling thread until it is committed."""

    async def aperform(self, transition: Transition[R]) -> R:
        """Perform one transition without blocking the event loop."""

    def now(self) -> Moment:
        """Read the journal's clock."""

    def get(self, operation_id: str) -> Call | None:
        """Return one call."""

    def find(self, query: CallQuery) -> Sequence[Call]:
        """List calls."""

    def count(self) -> Mapping[State, int]:
        """Return how many calls stand in each state."""

    def log(self, operation_id: str) -> Sequence[LogRow]:
        """Return the log of one call, oldest first."""

    def runs(self, limit: int = 100, *, named: str | None = None) -> Sequence[RunRecord]:
        """List runs, newest first; ``named``: those with this id, of whatever tenant."""

    def run(self, tenant: str, run_id: str) -> RunRecord | None:
        """Return the record of a run."""

    def undoing(self, limit: int = 100) -> Sequence[RunRecord]:
        """Return the runs that are being undone, or are undone in part, the oldest first."""

    def alerts(self, limit: int = 100) -> Sequence[Alert]:
        """Return alerts that were not delivered yet, oldest first."""

    def delivered(self, alert_ids: Sequence[int]) -> None:
        """Take delivered alerts out of the outbox."""

    def notes(self, kind: str) -> Mapping[str, str]:
        """Return what is noted of a kind beside the calls, by name (see ``core/noted/notes.py``)."""

    def save_breakers(
        self, snapshots: Mapping[str, Mapping[str, Any]], opened: Sequence[str] = ()
    ) -> Mapping[str, int]:
        """Keep the breakers' states; return for each name how often it was reset from outside.

        Those that have ``opened`` are put into the outbox, in the same commit.
        """

    def breakers(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the breakers' last kept states."""

    def reset_breakers(self, names: Sequence[str] | None = None) -> Sequence[str]:
        """Ask every process to reset these breakers (``None``: all); return the names."""

    def agree(self, name: str, seen: int, text: str) -> tuple[int, str]:
        """Change a breaker's shared state if nobody has since it had changed ``seen`` times.

        Returns how often it has changed now, and how it stands: ``text``, where that took effect.
        """

    def agreed(self) -> Mapping[str, tuple[int, str]]:
        """Return the shared states of breakers: how often each has changed, and how it stands."""

    def seal(self) -> bool:
        """Chain the log heads that are new since the last seal; return whether there were any."""

    def head(self) -> str:
        """Return the newest seal, to be kept elsewhere and given to ``verify``."""

    def verify(self, head: str | None = None) -> Report:
        """Check every chain; with ``head``, also that the log was not cut off since then."""

    def check(self) -> Report:
        """Look at health and settings: schema, durability, integrity, size."""

    def close(self) -> None:
        """Let go of files and threads. Harmless when repeated."""


class Joint(Protocol):
    """Work of a tool that is to be committed together with its record."""

    look: Transition[Any]
    """Says what stands in its way; ``None``: nothing. It changes no record."""
    first: Any
    """The claim, or the next intent: what the record will be looked up by."""

    ended: Any
    """How the tool has ended; ``None``: it was not called."""
    committed: bool
    """Set by the journal: the rows of the last ``run``, and their record, are committed."""

    def run(self, transaction: Transaction) -> Transition[Any] | None:
        """Call the tool; return what puts it on record, ``None`` to roll everything back."""


class TransactionalJournal(Journal, Protocol):
    """A journal in a database where tools may have rows of their own."""

    def together(self, work: Joint) -> Any:
        """Do work in one transaction, in the calling thread.

        Returns what ``look`` says, or what ``run``'s transition says: the rows stand only where that has put a call on
        record. Returns ``None`` where they are rolled back, or where it is not known whether they are.

        Raises:
            JournalError: The journal cannot be used. Whether a commit took effect may not be known.
        """


class Ear(Protocol):
    """Hears of calls that other processes end. A journal that has one has it as ``ear``."""

    def heed(self, operation_id: str, wake: Callable[[str], object]) -> None:
        """Let ``wake`` be called, from any thread, once it is listened for this call, and at its next change.

        Does not block. Harmless when repeated.
        """

    def hears(self, operation_id: str) -> bool:
        """Return whether the next change of this call will be heard of."""

    def leave(self, operation_id: str) -> None:
        """Nobody here waits for this call any more."""


class SpillFile(Protocol):
    """Where evidence goes that the journal could not take."""

    def keep(self, evidence: Evidence) -> None:
        """Keep it durably; never raises for what is in it."""

    def drain(self, take: Callable[[Evidence], None]) -> int:
        """Hand each kept piece to ``take``, oldest first; forget those it took without raising."""


@dataclass(frozen=True, slots=True)
class Notice:
    """An alert, or its end, as receivers are told of it. No arguments and no results are in it."""

    notice_id: str
    """The same at each try, from whatever process."""
    kind: str
    """As an ``Alert``'s; or ``test``."""
    subject: str
    """What it is about: what a receiver tells repetitions, and the end, by."""
    title: str
    text: str
    severity: Literal["info", "warning", "error", "critical"]
    at: float
    """Seconds since 1970."""
    journal_id: str
    resolved: bool = False
    """It is over: decided on, settled, closed."""
    facts: Mapping[str, Any] = field(default_factory=dict)


class NotTaken(Exception):  # noqa: N818 - what has become of the notice
    """A receiver has not taken a notice; the message holds no secret. ``away``: it takes no other one now either."""

    def __init__(self, why: str, *, away: bool = False, retry_after: float | None = None) -> None:
        super().__init__(why)
        self.away, self.retry_after = away, retry_after


class Receiver(Protocol):
    """Tells people of alerts. It may block, for a bounded time: it is called in a thread of its own."""

    name: str
    """The same in each process; without secrets."""

    def deliver(self, notice: Notice) -> None:
        """Tell of one alert. Raises ``NotTaken``, or anything, if that has failed: then it is tried again."""


class Sink(Protocol):
    """Is told of events; must not raise and must not block."""

    def __call__(self, event: str, facts: Mapping[str, Any]) -> None:
        """Take one event."""
