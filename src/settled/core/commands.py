"""What the machine asks of the world (commands), and what the world reports back (events)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from settled.core.attempts.breaker import Verdict
    from settled.core.attempts.progress import Begin
    from settled.core.books import Transition
    from settled.core.call import Call
    from settled.core.doubt.late import Evidence
    from settled.core.faults.exchanges import Sight
    from settled.core.matching.claim import Claim
    from settled.core.model import Fault, Moment, Owner
    from settled.core.runs.entering import Checkpoint


# --- commands -----------------------------------------------------------------------------


class Transact(Struct, frozen=True):
    """Perform one journal transition; answered with its reply."""

    transition: Transition[Any]


class Admit(Struct, frozen=True):
    """Ask all breakers of this call; answered with ``Admitted`` or ``Shut``."""


class Report(Struct, frozen=True):
    """Tell the breakers how an admitted attempt went; answered with ``Woke``."""

    verdict: Verdict


class Repeat(Struct, frozen=True):
    """Make ready for a repeat: take what it costs, wait, get fresh credentials if so, ask all breakers.

    Answered with ``Admitted``, or with what came in between: ``Refused``, which has taken nothing, ``Woke`` of an asker
    that has gone, ``Shut``. ``Refund`` gives back what was taken.
    """

    cost: float
    """Of one retry, in the process's pool."""
    seconds: float
    elsewhere: int | None = None
    """Tokens that others have sent in the same run, where that was looked up: the repeat sends some itself."""
    refresh: bool = False
    """Let the tool get fresh credentials. The attempt shows whether they help."""


class Refund(Struct, frozen=True):
    """Give back what ``Repeat`` took: the retry was not made."""

    cost: float


class Invoke(Struct, frozen=True):
    """Call the tool's function for one attempt; answered with ``Ended``.

    Of a call that needs no record nothing is written before and after, so all is done in one command: the first attempt
    asks all breakers, as ``Admit`` does (and may be answered with ``Shut``); how an attempt ended is read, and told to
    the breakers, as ``Report`` does.
    """

    call: Call | None
    """``None``: it needs no record."""
    no: int
    timeout: float | None
    """Seconds after which the caller leaves it; ``None``: never."""
    deadline: float | None
    first: bool = True
    """The asker's first attempt: it pays into the process's retry pool."""


@lru_cache(maxsize=100)
def first_of(timeout: float | None) -> Invoke:
    """Return the first attempt of a call that needs no record and has no deadline: the same for all of them."""
    return Invoke(None, 1, timeout, None)


@lru_cache(maxsize=100)
def another(timeout: float | None, no: int) -> Invoke:
    """Return a further attempt of such a call."""
    return Invoke(None, no, timeout, None, first=False)


class Join(Struct, frozen=True):
    """Make one attempt within one transaction with its intent and its end; answered with ``Joined``."""

    first: Claim | Begin
    no: int
    deadline: float | None
    start: bool
    """The asker's first attempt: it pays into the process's retry pool."""
    checkpoint: Checkpoint | None = None
    """Of the run's state, kept in the same commit."""


class Sleep(Struct, frozen=True):
    """Wait; answered with ``Woke``."""

    seconds: float


class AwaitCall(Struct, frozen=True):
    """Wait until the call changes in this process, at most ``seconds``; answered with ``Woke``."""

    operation_id: str
    seconds: float
    local: float
    """Seconds to wait at the most if the call is at work in this process, whose end is seen at once."""
    heard: float = 0.0
    """Seconds to wait at the most where changes by other processes are heard of; 0: not longer than ``seconds``."""


class Probe(Struct, frozen=True):
    """Ask the tool's own system whether the effect happened; answered with ``Probed``."""

    call: Call
    seconds: float = 30.0
    """A probe that takes longer has told nothing."""


class CheckOwners(Struct, frozen=True):
    """Find out which of these processes live; answered with ``Owners``."""

    owners: tuple[Owner, ...]


class Spill(Struct, frozen=True):
    """Keep evidence outside the journal, which cannot be written; answered with ``Woke``."""

    evidence: Evidence


class Tell(Struct, frozen=True):
    """Tell whoever watches; answered with ``Woke``. Nothing depends on it."""

    event: str
    call: Call | None = None
    facts: Mapping[str, object] = {}


ADMIT = Admit()
REPORTS: dict[Verdict, Report] = {
    "success": Report("success"),
    "failure": Report("failure"),
    "neutral": Report("neutral"),
}
"""Made once: every attempt on record gives one."""

Command = (
    Transact | Admit | Report | Repeat | Refund | Invoke | Join | Sleep | AwaitCall | Probe | CheckOwners | Spill | Tell
)


# --- events -------------------------------------------------------------------------------


class Reply(Struct, frozen=True):
    """The journal's reply. ``at``: the driver's monotonic clock, seconds, as in every event."""

    value: Any
    at: float


@final
class Admitted(Struct, frozen=True):
    """The breakers let this attempt through."""

    at: float


@final
class Shut(Struct, frozen=True):
    """A breaker is open."""

    scope: str
    retry_after: float
    at: float


@final
class Refused(Struct, frozen=True):
    """A pool did not grant a repeat."""

    pool: str
    at: float


@final
class Returned(Struct, frozen=True):
    """The tool's function returned ``value``; ``data`` is its encoding, or ``None`` with a ``note``."""

    value: object
    data: bytes | None
    note: str = ""


@final
class Raised(Struct, frozen=True):
    """The tool's function raised, or the caller left it (``TimeoutError`` of our own)."""

    error: BaseException
    not_sent: bool = False
    """The function was never entered, or its transport proved that no byte left."""
    data: bytes | None = None
    """The encoding of what a tool said of a partly done call."""
    note: str = ""


@final
class Ended(Struct, frozen=True):
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
    fault: Fault | None = None
    """How it was read, where the call needs no record; ``None``: it succeeded."""


class Joined(Struct, frozen=True):
    """An attempt in one transaction with its record has ended, or was not made.

    ``ended`` is ``None`` where the function was not called; ``reply`` says why. Where it was, ``reply`` is the call as
    recorded, or ``None``: everything was rolled back.
    """

    reply: Any
    ended: Ended | None
    at: float
    loose: bool = False
    """The tool has ended the transaction itself: whether its rows stand is not known."""


class Woke(Struct, frozen=True):
    """Time passed."""

    at: float
    local: bool = False
    """The call that was awaited is at work in this very process."""
    abandoned: bool = False


class Probed(Struct, frozen=True):
    """What the probe said: ``happened`` is ``None`` when it could not tell."""

    happened: bool | None
    began: Moment
    ended: Moment
    at: float
    data: bytes | None = None
    note: str = ""
    fence: bool = False


class Owners(Struct, frozen=True):
    """For each owner: lives, is dead, or cannot be told; and this boot's clock."""

    alive: tuple[bool | None, ...]
    now: Moment
    at: float


E = TypeVar("E")


def expect(event: object, kind: type[E]) -> E:
    """Return the event if it is of the kind that answers the command; a driver that mixes them up is wrong."""
    if type(event) is not kind and not isinstance(event, kind):
        raise TypeError(f"the driver answered with {type(event).__name__}, not with {kind.__name__}")
    return event


Event = Reply | Admitted | Shut | Refused | Ended | Joined | Woke | Probed | Owners

if TYPE_CHECKING:
    T = TypeVar("T")
    Flow = Generator[Command, Event, T]
