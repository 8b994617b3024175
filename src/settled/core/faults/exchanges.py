"""What the requests that were seen prove about an attempt: one place, few rules.

A transport that is watched (``settled.transports``) records each request of an attempt: how far it came, and what was
answered. That speaks of the effect only as far as these rules go:

1. **What was seen to leave is not unsaid.** ``none`` stands only if each request that may change something proves by
   itself that it did nothing: it was not sent, or its own answer is a refusal. A refused second connection says nothing
   of the first request.
2. **What was seen not to leave proves something only about itself.** Other requests may have gone where nobody looks.
   Doubt becomes ``none`` only if the attempt's own error is that of such a request (the same error, or one that carries
   the same answer; for our time-out: the attempt was cut off inside it), and the tool makes one request
   (``requests="one"``, the assumption that all reading of errors rests on), or says that nothing of it goes unseen
   (``requests="hooked"``; then any error will do).
3. **What can still be sent proves nothing.** The attempt must be over, or barred from sending.
4. **Reading changes nothing**: GET, HEAD and the like before the request that matters do no harm. Where they are all
   that was seen they prove nothing, unless nothing of the tool goes unseen, and each of them did nothing.
5. A success that was seen does not make the attempt a success: the tool may have had more to do. It stays ``maybe``,
   with the answer beside it.

The tool's own word (``NotExecuted``, ``not_executed=``, ``classify=``) is taken before all of this.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from settled.core.faults import chain, classify, classify_response
from settled.core.faults.carried import carried
from settled.core.faults.look import attr, number
from settled.core.faults.rules import weakened
from settled.core.model import Evidence, Exchange, Fault, FaultClass, Phase
from settled.core.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

READING = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Methods of requests that cannot be the effect of a tool that has one: another request may have been."""

MOST_KEPT = 8
"""Exchanges kept with an attempt: the first and the last ones."""
LONGEST_BODY = 1000
"""Characters of an answer that are kept."""
LONGEST_TARGET = 300
KEPT_HEADERS = frozenset(
    {
        *("content-type", "content-length", "date", "location", "retry-after", "retry-after-ms", "server"),
        *("idempotent-replayed", "stripe-should-retry", "x-should-retry", "x-amzn-errortype"),
        *("request-id", "x-request-id", "x-amzn-requestid", "x-amz-request-id", "cf-ray", "traceparent"),
    }
)
"""Headers of answers that hold no secrets, and tell something to those who ask the other side about it."""

CUT = "attempt_timeout"
"""The code of our own time-out: it has no error of a client's to be told by."""

_REFUSED_HERE = frozenset({"invalid_request", "invalid_header"})
"""What a client refuses to write, once it looks at it. A broken connection may have carried something."""

_NOTHING_LEFT = Fault(FaultClass.RETRYABLE, Evidence.NONE, "never_sent")


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """One request, as its transport has seen it so far."""

    method: str
    target: str = ""
    phase: Phase = Phase.NOT_SENT
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    whole: bool = False
    """The body is all of it."""
    errors: tuple[BaseException, ...] = ()
    """What it ended with, as each layer of its client raised it."""
    ended: bool = True
    """Nothing more is sent of it."""
    cut: bool = False
    """It was under way when the attempt was cut off."""
    begun: float = 0.0
    took: float = 0.0
    key: str = ""

    @property
    def changes(self) -> bool:
        """Whether it may have been the effect."""
        return self.method not in READING


@dataclass(frozen=True, slots=True, eq=False)
class Sight:
    """What was seen of an attempt."""

    exchanges: tuple[Seen, ...] = ()
    barred: bool = False
    """Nothing that changes anything has left, and none is let through any more."""
    bodies: bool = True
    """Bodies may be kept."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What is known of the tool and the attempt besides: how far a sight reaches."""

    several: bool = False
    """The tool makes several requests, not all of which need be seen."""
    hooked: bool = False
    """The tool says that none of its requests goes unseen."""
    over: bool = True
    doubtful: bool = False
    """An earlier attempt may have had its effect."""
    now: float | None = None


def weigh(fault: Fault, error: BaseException, sight: Sight, reach: Reach) -> Fault:
    """Return the fault of an attempt with the evidence that its requests leave it, or bring it."""
    changing = [each for each in sight.exchanges if each.changes]
    absent = [_absence(each, sight, reach) for each in changing]
    if fault.evidence is Evidence.NONE:
        return fault if all(absent) else weakened(fault)
    if fault.evidence is not Evidence.MAYBE or not (reach.over or sight.barred):
        return fault
    if not changing and reach.hooked:
        changing = list(sight.exchanges)
        absent = [_absence(each, sight, reach) for each in changing]
    if not absent or not all(absent) or not _speaks(error, fault, changing, reach):
        return fault
    return _proved(fault, [each for each in absent if each is not None])


def _proved(fault: Fault, absent: list[Fault]) -> Fault:
    """Return the fault as proved: by the refusal that was seen, else as one that may well go better."""
    answered = [each for each in absent if each is not _NOTHING_LEFT]
    if answered and fault.kind is not FaultClass.CANCELLED:
        return replace(answered[-1], message=answered[-1].message or fault.message)
    kind = FaultClass.RETRYABLE if fault.kind is FaultClass.UNKNOWN else fault.kind
    return replace(fault, kind=kind, evidence=Evidence.NONE, uncertain=False)


def _absence(each: Seen, sight: Sight, reach: Reach) -> Fault | None:
    """Return the fault that proves that this request did nothing; ``None`` if nothing proves it."""
    match each.phase:
        case Phase.NOT_SENT:
            return _NOTHING_LEFT if each.ended or sight.barred else None
        case Phase.UNSEEN:  # its error knows, if anything does
            said = _error(each)
            return _NOTHING_LEFT if said is not None and said.evidence is Evidence.NONE else None
        case Phase.SENDING:
            said = _error(each)
            return _NOTHING_LEFT if said is not None and said.code in _REFUSED_HERE else None
        case Phase.SENT:
            return None
        case Phase.ANSWERED:
            said = _answer(each, reach) if each.status is not None else _error(each)  # of a database, its error
            return said if said is not None and said.evidence is Evidence.NONE else None


def _error(each: Seen) -> Fault | None:
    return classify(each.errors[0]) if each.errors else None


def _answer(each: Seen, reach: Reach) -> Fault | None:
    body = each.body if each.whole else None
    return classify_response(
        each.status or 0, each.headers, body, method=each.method, doubtful=reach.doubtful, now=reach.now
    )


def _speaks(error: BaseException, fault: Fault, exchanges: list[Seen], reach: Reach) -> bool:
    """Whether it is these requests that the attempt's error speaks of."""
    if reach.hooked:
        return True
    if reach.several or isinstance(error, BaseExceptionGroup):
        return False
    if fault.code == CUT:
        return any(each.cut for each in exchanges)
    inside = chain.inside(error)
    raised = {id(inner) for inner in inside}
    if any(id(own) in raised for each in exchanges for own in each.errors):
        return True
    return any(_status(inner) == exchanges[-1].status for inner in inside if exchanges[-1].status)


def _status(error: BaseException) -> int | None:
    answer = carried(error)
    if answer is not None:
        return answer.status
    return next((status for name in _STATUSES if (status := number(attr(error, name))) is not None), None)


_STATUSES = ("http_status", "response_status_code", "response_code", "http_code", "errcode")
"""As stripe, Kiota (Microsoft Graph), GitLab and xmlrpc call it: names that none but an answer's status has."""


# --- what is kept -------------------------------------------------------------------------


def kept(sight: Sight, clean: Callable[[str], str]) -> tuple[Exchange, ...]:
    """Return what the record keeps: bounded, cleaned of secrets, without bodies where they may hold secrets."""
    exchanges = sight.exchanges
    if len(exchanges) > MOST_KEPT:
        half = MOST_KEPT // 2
        exchanges = exchanges[:half] + exchanges[-half:]
    return tuple(_kept(each, clean, bodies=sight.bodies) for each in exchanges)


def _kept(each: Seen, clean: Callable[[str], str], *, bodies: bool) -> Exchange:
    headers = sorted((name, clean(value)[:LONGEST_TARGET]) for name, value in each.headers.items())
    return Exchange(
        each.method,
        clean(each.target)[:LONGEST_TARGET],
        each.phase,
        each.status,
        tuple(pair for pair in headers if pair[0] in KEPT_HEADERS),
        clean(_text(each))[:LONGEST_BODY] if bodies else "",
        type(each.errors[0]).__name__ if each.errors else "",
        round(each.begun, 6),
        round(each.took, 6),
        each.key,
    )


def _text(each: Seen) -> str:
    text = each.body.decode("utf-8", "replace")
    return text if each.whole or not text else f"{text}…"
