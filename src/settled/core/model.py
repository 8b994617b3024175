"""The values that everything else speaks in: faults, attempts, owners, instants, leave, terms."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class FaultClass(StrEnum):
    """Why an attempt failed, in the one sense that matters: what may be done next."""

    RETRYABLE = "retryable"
    """The same request may well work later."""
    PERMANENT = "permanent"
    """It would end the same way."""
    PARTIAL = "partial"
    """Some items of a batch were done, some were not."""
    UNKNOWN = "unknown"
    """Nothing is known: it is repeated only where that does no harm."""
    INVALID = "invalid"
    """The arguments are wrong; whoever gave them is told."""
    CANCELLED = "cancelled"
    """Whoever asked for it has called it off."""


class Evidence(StrEnum):
    """What an attempt's end proves about the effect."""

    NONE = "none"
    """Proved: not executed."""
    MAYBE = "maybe"
    """May have been executed."""
    SOME = "some"
    """Executed in part."""
    DONE = "done"
    """Executed; the answer cannot be used."""


class Phase(StrEnum):
    """How far a request came, as its transport saw it."""

    NOT_SENT = "not_sent"
    """No byte of it has left."""
    UNSEEN = "unseen"
    """It was handed to a transport that does not tell how far it came."""
    SENDING = "sending"
    """Its first bytes were handed on to be sent; whether any left is not known."""
    SENT = "sent"
    """Bytes of it have left."""
    ANSWERED = "answered"
    """The head of an answer has come."""


class Exchange(Struct, frozen=True, array_like=True):
    """One request that an attempt made and what came of it, as it is kept: bounded, without secrets."""

    method: str
    target: str
    """Scheme, host and path; never the query."""
    phase: Phase
    status: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    """Of the answer: only those that are known to hold no secrets, names in lower case."""
    body: str = ""
    """Of the answer: its beginning."""
    error: str = ""
    """The client's own error, by its name."""
    begun: float = 0.0
    """Seconds since the epoch."""
    took: float = 0.0
    """Seconds until the last news of it."""
    key: str = ""
    """Whether an idempotency key went along: ``ours``, the tool's ``own``, or none."""


class Part(StrEnum):
    """What became of one item of a batch."""

    DONE = "done"
    FAILED = "failed"
    """Proved not done, and repeating is pointless."""
    NOT_DONE = "not_done"
    """Proved not done; it may be tried again."""
    UNKNOWN = "unknown"
    """It may have been done."""


class BatchItem(Struct, frozen=True, array_like=True):
    """One item of a batch, as the answer to one attempt tells of it."""

    key: str
    """Its own, the same whatever call goes on with it."""
    part: Part
    code: str = ""
    arguments: bytes = b""
    """Of one in doubt, on the way to a record of its own: the call's arguments, with this item alone."""


class Fault(Struct, frozen=True, array_like=True):
    """One failed attempt, classified. ``kind``: what may be done next; ``evidence``: what it proves about the effect.

    ``code`` is stable and short (``"connect_refused"``, ``"http_502"``); ``message`` may hold
    details and is redacted before it is kept or shown.
    """

    kind: FaultClass
    evidence: Evidence
    code: str
    message: str = ""
    throttled: bool = False
    """The other side asked for a slower pace: feeds a rate limit, never a breaker."""
    retry_after: float | None = None
    """Seconds to wait at the least, as the other side asked."""
    local: bool = False
    """The fault is ours (pool exhausted, no file handles): says nothing about the other side."""
    own_success: bool = False
    """On a repeat this refusal ("already exists") may be our own first attempt's success."""
    in_progress: bool = False
    """The other side still works on our key: wait and ask again."""
    refresh: bool = False
    """Worth one more try after fresh credentials (401)."""
    uncertain: bool = False
    """Nobody can say whether a repeat helps (500, malformed answers): at most three tries."""
    gate: bool = False
    """Turned away in front of the execution (403, 405, 451), or by us before it left: says nothing of an earlier try,
    not even where the other side keeps its refusals."""
    seen: tuple[Exchange, ...] = ()
    """The requests that the attempt made, where its transports were watched (``settled.transports``)."""
    items: tuple[BatchItem, ...] = ()
    """What became of each item of a batch, in their order."""

    @property
    def final(self) -> bool:
        """Whether the call has failed for good.

        Not where it was not the call that was turned away but who asked (401, no credentials), or where our side would
        not speak to the other one (a certificate): a repeat is pointless now, and not once that is put right.
        """
        return self.kind in (FaultClass.PERMANENT, FaultClass.INVALID) and not (self.refresh or self.local)


class Effect(StrEnum):
    """What a repeat of the tool would do to the world."""

    READ = "read"
    """Nothing: it changes nothing."""
    IDEMPOTENT = "idempotent"
    """Nothing more than the first."""
    DEDUPLICATED = "deduplicated"
    """Nothing, while the other side remembers the key that goes along (``remote_retention``)."""
    TRANSACTIONAL = "transactional"
    """Its effect is rows in the journal's own database, in one commit with the record: it is never in doubt."""
    WRITE = "write"
    """The same once more."""


class KeyKind(StrEnum):
    """Where a call's key comes from, in order of precedence."""

    BUSINESS = "business"
    """Declared by the tool or given for one call."""
    STEP = "step"
    """A step id given outside of any run."""
    SCOPED = "scoped"
    """From run (or enclosing call), lane, tool, identity and number."""
    RANDOM = "random"
    """A call outside of any run: one fresh key, on record before the first attempt."""


class Standing(StrEnum):
    """What is known of one attempt's effect."""

    OPEN = "open"
    """Its intent is on record, its end is not."""
    NONE = "none"
    """Proved that it had none."""
    MAYBE = "maybe"
    SOME = "some"
    """In part: of a batch, some items."""
    DONE = "done"


IN_DOUBT = frozenset({Standing.OPEN, Standing.MAYBE})


class Moment(Struct, frozen=True, array_like=True):
    """One instant on two clocks.

    ``wall``: seconds since the epoch, for people and retention. ``mono``: seconds on a clock that
    counts suspend and never jumps, meaningful only within one ``boot`` of one machine. Both are finite.
    """

    wall: float
    boot: str
    mono: float

    def since(self, earlier: Moment) -> float | None:
        """Seconds from ``earlier`` to here, or ``None`` when the two clocks cannot be compared."""
        return self.mono - earlier.mono if self.boot == earlier.boot else None

    def plus(self, seconds: float) -> Moment:
        """Return the instant ``seconds`` later, on the same boot."""
        return Moment(self.wall + seconds, self.boot, self.mono + seconds)


class Owner(Struct, frozen=True, array_like=True):
    """A process, named so that another one on the same machine can tell whether it lives."""

    host: str
    boot: str
    space: str
    """The namespace that ``pid`` is counted in; another one's numbers mean nothing here."""
    pid: int
    started: str


class Attempt(Struct, frozen=True, array_like=True):
    """One try of a call."""

    no: int
    epoch: int
    owner: Owner
    begun: Moment
    standing: Standing = Standing.OPEN
    ended: Moment | None = None
    """When its answer, or the giving up on it, was recorded."""
    over: Moment | None = None
    """When it was known that it can do nothing more (its function returned, its process is dead)."""
    fault: Fault | None = None

    @property
    def in_doubt(self) -> bool:
        """Whether this attempt may have had an effect that nobody knows of."""
        return self.standing in IN_DOUBT


class Leave(Struct, frozen=True, array_like=True):
    """A person's leave for one call as it is on record: asked for, then given, then used. Single use."""

    why: str
    """What asks for it: the rule, or the threshold that was passed."""
    until: float
    """Wall-clock seconds after which it must be asked for anew: undecided, or given and not used."""
    version: str = ""
    """Of the tool, when it was asked for."""
    persons: int = 1
    """How many different ones must agree."""
    within: float = 86_400.0
    """Seconds to decide, and again to use it."""
    by: tuple[str, ...] = ()
    """Who has agreed so far."""
    given: bool = False
    used: bool = False
    by_hand: str = ""
    """Nobody gives leave: a person does it, and ``why`` says what. What was tried before, and how it failed."""


class Terms(Struct, frozen=True):
    """What a tool's declaration means for the record, kept with the call for other processes.

    All times are seconds.
    """

    effect: Effect = Effect.WRITE
    declared: bool = True
    version: str = ""
    lifetime: float | None = None
    """``max_request_lifetime``: from sending to the last moment at which it can take effect."""
    attempt_lifetime: float | None = None
    """``max_attempt_lifetime``: after this an attempt of a lost owner counts as over."""
    timeout: float | None = None
    """Of one attempt."""
    remote_retention: float | None = None
    """For which the other side of a ``deduplicated`` tool remembers a key."""
    remote_errors: str = ""
    """``stored``: it keeps refusals under the key too, and gives them again."""
    retention: float | None = 72 * 3600.0
    """From the call's last change until it expires; ``None``: it never does."""
    probed: bool = False
    """The tool has a probe."""
    compensate: str = ""
    """The tool that undoes a call of this one."""
    irreversible: bool = False
    """Nothing undoes it."""
    waived: bool = False
    """Its effect may stay when its run is undone."""
    drafted: bool = False
    """A draft comes first, which its attempts confirm."""
