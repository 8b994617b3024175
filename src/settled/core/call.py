"""A recorded call, and how it changes: every change is one row in its log."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from settled.core.model import IN_DOUBT, Attempt, Fault, KeyKind, Leave, Moment, Owner, Standing, Terms
from settled.core.states import Event, State, next_state

if TYPE_CHECKING:
    from collections.abc import Sequence


class Call(Struct, frozen=True):
    """The record of one business action of one tool."""

    operation_id: str
    key: str
    kind: KeyKind
    tenant: str
    tool: str
    terms: Terms
    scope: str
    """``run:<id>``, ``call:<operation id>`` for calls made inside another call, or empty."""
    lane: str
    identity: str
    words: str
    fingerprint: str
    n: int
    arguments: bytes
    state: State
    epoch: int
    claim: str
    """The owner's nonce: it recognises its own claim when the journal's answer was lost."""
    owner: Owner
    lease: Moment
    created: Moment
    changed: Moment
    entry: int = 0
    """The entry of the scope in which it was made."""
    series: int = 0
    """The entry in which its last series began."""
    before: int = 0
    """How many attempts were made before the last series."""
    message: str = ""
    step: str = ""
    attempts: tuple[Attempt, ...] = ()
    result: bytes | None = None
    fault: Fault | None = None
    reason: str = ""
    note: str = ""
    decided: str = ""
    """Who or what settled it: ``answer``, ``late``, ``probe``, ``person:<name>``."""
    disputed: bool = False
    asserted: bool = False
    """Settled by a person's word, without proof."""
    held: bool = False
    not_before: float | None = None
    """Wall-clock seconds before which a parked call is not tried."""
    despite: tuple[str, ...] = ()
    leave: Leave | None = None
    """A person's leave, where one is needed."""
    log_no: int = 0
    log_head: str = ""
    sent_key: str = ""
    """The key that its tool is given, where that is not ``key`` (see ``outward``)."""

    @property
    def outward(self) -> str:
        """The key that its tool is given, and that the tool's own system may be asked about.

        It differs from ``key`` once a rewind has set a call aside: what that one did may be found under the old one.
        """
        return self.sent_key or self.key

    @property
    def first_intent(self) -> Moment:
        """When the first attempt was put on record."""
        return self.attempts[0].begun if self.attempts else self.created

    @property
    def doubted_before(self) -> bool:
        """Whether an attempt before the last one may have had an effect."""
        return len(self.attempts) > 1 and any_in_doubt(self.attempts[:-1])

    @property
    def doubtful(self) -> tuple[Attempt, ...]:
        """The attempts that may have had an effect nobody knows of."""
        return tuple([a for a in self.attempts if a.standing in IN_DOUBT])


class LogRow(Struct, frozen=True):
    """One change of one call. ``head`` chains it to the row before it."""

    operation_id: str
    no: int
    at: float
    event: Event
    state: State
    epoch: int
    attempt: int
    detail: str
    digest: str
    """What the change brought, as a digest: the payload itself may be erased later. In the first row
    ``digest of the arguments as they are stored/digest of what is called`` (``named``), later that of the result."""
    head: str


def chain(previous: str, row: LogRow) -> str:
    """Return the head after ``row``: SHA-256 over the former head and all fields of the row."""
    return _head(previous, structs.astuple(row)[:-1])


_CHAINED = "\x1f".join(("%s", "%s", "%s", "%r", *("%s",) * 6))
"""The former head and all fields of a row; of its instant all digits."""


def _head(previous: str, fields: tuple[object, ...]) -> str:
    text = _CHAINED % (previous, *fields)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def named(call: Call) -> str:
    """Return the digest of what never changes about a call: whose it is, of which tool, where, and under which key.

    ``ascii`` writes the same in every release of Python, and quotes each part, so that no two calls read alike.
    """
    return sha256(
        ascii((call.tenant, call.tool, call.scope, call.lane, call.identity, call.n, call.outward)).encode()
    ).hexdigest()


def _brought(payload: bytes | None) -> str:
    return sha256(payload).hexdigest() if payload else ""


def evolve(call: Call, event: Event, now: Moment, *, detail: str = "", **changes: Any) -> tuple[Call, LogRow]:
    """Apply ``event`` to ``call`` by the table; return the new record and its log row.

    Raises ``IllegalTransition`` where the table has no row for it.
    """
    state, no = next_state(call.state, event), call.log_no + 1
    fields = (
        call.operation_id,
        no,
        now.wall,
        event,
        state,
        changes.get("epoch", call.epoch),
        len(changes.get("attempts", call.attempts)),
        detail,
        _brought(changes.get("result")) if call.log_no else f"{_brought(call.arguments)}/{named(call)}",
    )
    head = _head(call.log_head, fields)
    after = structs.replace(call, state=state, changed=now, log_no=no, log_head=head, **changes)
    return after, LogRow(*fields, head)


def with_attempt(call: Call, no: int, **changes: Any) -> tuple[Attempt, ...]:
    """Return the attempts with number ``no`` changed."""
    return tuple([structs.replace(a, **changes) if a.no == no else a for a in call.attempts])


def attempt_of(call: Call, no: int) -> Attempt | None:
    """Return the attempt with number ``no``."""
    for attempt in call.attempts:
        if attempt.no == no:
            return attempt
    return None


def opened(call: Call, owner: Owner, epoch: int, now: Moment) -> tuple[Attempt, ...]:
    """Return the attempts with the intent of one more."""
    return (*call.attempts, Attempt(len(call.attempts) + 1, epoch, owner, now))


def standing_of(fault: Fault | None) -> Standing:
    """Return what an attempt's end says about its effect."""
    return Standing.DONE if fault is None else Standing(fault.evidence)


def any_in_doubt(attempts: Sequence[Attempt]) -> bool:
    """Whether one of the attempts may have had an effect nobody knows of."""
    return any(a.standing in IN_DOUBT for a in attempts)
