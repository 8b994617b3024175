"""What the machine asks of the world (commands), and what the world reports back (events)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from settled.core.books import Transition
    from settled.core.call import Call
    from settled.core.exchanges import Sight
    from settled.core.late import Evidence
    from settled.core.model import Moment, Owner


# --- commands -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Transact:
    """Perform one journal transition; answered with its reply."""

    transition: Transition[Any]


@dataclass(frozen=True, slots=True)
class Admit:
    """Ask all breakers of this call; answered with ``Admitted`` or ``Shut``."""


@dataclass(frozen=True, slots=True)
class Report:
    """Tell the breakers how an admitted attempt went; answered with ``Woke``."""

    verdict: str


@dataclass(frozen=True, slots=True)
class Spend:
    """Take one retry from the process's pool; answered with ``Granted``."""

    cost: float


@dataclass(frozen=True, slots=True)
class Refund:
    """Give back what ``Spend`` took: the retry was not made."""

    cost: float


@dataclass(frozen=True, slots=True)
class Invoke:
    """Call the tool's function for one attempt; answered with ``Ended``."""

    call: Call | None
    no: int
    timeout: float | None
    """Seconds after which the caller leaves it; ``None``: never."""
    deadline: float | None
    first: bool = True
    """The asker's first attempt: it pays into the process's retry pool."""


@dataclass(frozen=True, slots=True)
class Refresh:
    """Let the tool get fresh credentials; answered with ``Woke``. The next attempt shows whether they help."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait; answered with ``Woke``."""

    seconds: float


@dataclass(frozen=True, slots=True)
class AwaitCall:
    """Wait until the call changes in this process, at most ``seconds``; answered with ``Woke``."""

    operation_id: str
    seconds: float
    local: float
    """Seconds to wait at the most if the call is at work in this process, whose end is seen at once."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask the tool's own system whether the effect happened; answered with ``Probed``."""

    call: Call
    seconds: float = 30.0
    """A probe that takes longer has told nothing."""


@dataclass(frozen=True, slots=True)
class CheckOwners:
    """Find out which of these processes live; answered with ``Owners``."""

    owners: tuple[Owner, ...]


@dataclass(frozen=True, slots=True)
class Spill:
    """Keep evidence outside the journal, which cannot be written; answered with ``Woke``."""

    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Tell:
    """Tell whoever watches; answered with ``Woke``. Nothing depends on it."""

    event: str
    call: Call | None = None
    facts: Mapping[str, object] = field(default_factory=dict)


Command = (
    Transact
    | Admit
    | Report
    | Spend
    | Refund
    | Invoke
    | Refresh
    | Sleep
    | AwaitCall
    | Probe
    | CheckOwners
    | Spill
    | Tell
)


# --- events -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reply:
    """The journal's reply. ``at``: the driver's monotonic clock, seconds, as in every event."""

    value: Any
    at: float


@dataclass(frozen=True, slots=True)
class Admitted:
    """The breakers let this attempt through."""

    at: float


@dataclass(frozen=True, slots=True)
class Shut:
    """A breaker is open."""

    scope: str
    retry_after: float
    at: float


@dataclass(frozen=True, slots=True)
class Granted:
    """``refused_by`` names the pool that did not grant; empty if granted."""

    refused_by: str
    at: float


@dataclass(frozen=True, slots=True)
class Returned:
    """The tool's function returned ``value``; ``data`` is its encoding, or ``None`` with a ``note``."""

    value: object
    data: bytes | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Raised:
    """The tool's function raised, or the caller left it (``TimeoutError`` of our own)."""

    error: BaseException
    not_sent: bool = False
    """The function was never entered, or its transport proved that no byte left."""
    data: bytes | None = None
    """The encoding of what a tool said of a partly done call."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt ended for its caller."""

    outcome: Returned | Raised
    over: bool
    """The function has returned; otherwise it still runs somewhere."""
    draw: float
    """A random number in [0, 1) for the backoff."""
    at: float
    abandoned: bool = False
    """The asker has gone: record this, begin nothing more."""
    wall: float | None = None
    """Seconds since the epoch, for dates in what the other side asks for."""
    sight: Sight | None = None
    """What watched transports have seen of it."""


@dataclass(frozen=True, slots=True)
class Woke:
    """Time passed."""

    at: float
    local: bool = False
    """The call that was awaited is at work in this very process."""
    abandoned: bool = False


@dataclass(frozen=True, slots=True)
class Probed:
    """What the probe said: ``happened`` is ``None`` when it could not tell."""

    happened: bool | None
    began: Moment
    ended: Moment
    at: float
    data: bytes | None = None
    note: str = ""
    fence: bool = False


@dataclass(frozen=True, slots=True)
class Owners:
    """For each owner: lives, is dead, or cannot be told; and this boot's clock."""

    alive: tuple[bool | None, ...]
    now: Moment
    at: float


E = TypeVar("E")


def expect(event: object, kind: type[E]) -> E:
    """Return the event if it is of the kind that answers the command; a driver that mixes them up is wrong."""
    if not isinstance(event, kind):
        raise TypeError(f"the driver answered with {type(event).__name__}, not with {kind.__name__}")
    return event


Event = Reply | Admitted | Shut | Granted | Ended | Woke | Probed | Owners

if TYPE_CHECKING:
    T = TypeVar("T")
    Flow = Generator[Command, Event, T]
