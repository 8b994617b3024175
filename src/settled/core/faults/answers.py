"""One answer over HTTP: status, headers, body, read together.

Order: what a success encloses; provider codes, which know more than the status; the status; the headers by which the
other side asks for a pause or says that a repeat is pointless.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from settled.core.faults import bodies, enclosed, look
from settled.core.faults.codes import AWS_THROTTLED, at_work, late, of_codes, proves_refusal, spent
from settled.core.faults.retry_after import RESETS, may_retry, retry_after_lowered
from settled.core.faults.rules import invalid, refused, throttled, weakened
from settled.core.faults.statuses import AMBIGUOUS, of_status
from settled.core.model import Evidence, Fault, FaultClass
from settled.core.values import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from settled.core.faults.bodies import Body

_FORBIDDEN = 403
_CONFLICT = 409
_BAD_REQUEST = (400, 422)
_UNAVAILABLE = 503
_OF_CACHES = frozenset({"x-varnish", "x-served-by", "x-cache"})
_PAUSES = ("retry-after", "retry-after-ms")
_THROTTLING_5XX = (503, 529)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, taken apart."""

    status: int
    headers: Mapping[str, str]
    body: Body
    method: str
    doubtful: bool

    @property
    def asks_to_wait(self) -> bool:
        """Whether it names a pause outright: ``Retry-After: soon`` names none."""
        named = {name: self.headers[name] for name in _PAUSES if name in self.headers}
        return bool(named) and retry_after_lowered(named, now=0.0) is not None

    @property
    def from_between(self) -> bool:
        """Whether it may be of a cache or a proxy that gave up on the service: a page, or its marks.

        Varnish, and CDNs that are built on it, put ``Retry-After`` on the 503 that says that the service did not answer
        in time, too (``vcl_backend_error``).
        """
        kind = self.headers.get("content-type", "").lower()
        named = f"{self.headers.get('via', '')} {self.headers.get('server', '')}".lower()
        page = kind.startswith("text/html") or self.body.text[:15].lower().startswith(("<!doctype html", "<html"))
        return page or "varnish" in named or not _OF_CACHES.isdisjoint(self.headers)

    @property
    def codes(self) -> list[str]:
        """The error codes of header and body."""
        named = [bodies.bare(value) for value in (self.headers.get("x-amzn-errortype"),) if value]
        return named + bodies.codes(self.body)


def classify_response(
    status: int,
    headers: Mapping[str, str],
    body: bytes | str | None,
    *,
    method: str | None = None,
    attempt: int = 1,
    doubtful: bool = False,
    now: float | None = None,
) -> Fault | None:
    """Return the fault in an answer over HTTP, ``None`` if it is a success.

    Args:
        status: HTTP status. Redirects (3xx) are no fault of the service: ``None``.
        headers: names in any case.
        body: the whole body, or ``None`` if it is not at hand: a cut one would look broken.
        method: of the request. 404 on a repeated DELETE may be our own success.
        attempt: number of this attempt over all owners.
        doubtful: an earlier attempt may have had its effect.
        now: wall clock, seconds since 1970, for dates in ``Retry-After``.

    Never raises for anything in headers or body.
    """
    del attempt  # what matters of it is whether an earlier one is in doubt
    return read_answer(status, headers, body, method=method, doubtful=doubtful, now=now)


def read_answer(
    status: int, headers: object, body: object, *, method: str | None, doubtful: bool, now: float | None
) -> Fault | None:
    """Do the same for headers of any type and for a body that is parsed already."""
    answer = Answer(status, look.lowered(headers), bodies.read(body), (method or "").upper(), doubtful)
    fault = _of_success(answer) if status in range(100, 400) else _of_failure(answer)
    if fault is None:
        return None
    fault = _pointless(fault, answer)
    wait = _wait(fault, answer, now)
    return replace(fault, message=fault.message or bodies.message(answer.body), retry_after=wait)


def _of_success(answer: Answer) -> Fault | None:
    if answer.status >= 300:  # noqa: PLR2004 (redirects begin here)
        return None
    kind = answer.headers.get("content-type", "")
    return enclosed.of_success(answer.status, kind, answer.body, method=answer.method, doubtful=answer.doubtful)


def _of_failure(answer: Answer) -> Fault:
    besides = enclosed.done_besides(answer.body)
    if besides is not None:
        return besides
    fault = _of_refusal(answer)
    return weakened(fault) if enclosed.was_begun(answer.body) else fault


def _of_refusal(answer: Answer) -> Fault:
    asks_to_wait = answer.asks_to_wait and not (answer.status == _UNAVAILABLE and answer.from_between)
    by_status = of_status(answer.status, method=answer.method, asks_to_wait=asks_to_wait, doubtful=answer.doubtful)
    if answer.status == _FORBIDDEN and _paced(answer):
        return throttled("rate_limited")
    if bodies.daily_quota(answer.body):
        return refused("daily_quota")
    by_code = of_codes(answer.codes, doubtful=answer.doubtful)
    if by_code is not None:
        return _agreed(by_code, by_status, answer)
    if by_status.evidence is Evidence.NONE and not (by_status.gate or by_status.throttled):
        by_status = late(answer.codes) or by_status
    if answer.status in _BAD_REQUEST and bodies.field_errors(answer.body) and not answer.doubtful:
        return invalid(by_status.code)
    return by_status


def _paced(answer: Answer) -> bool:
    """Tell whether a 403 is about the pace: GitHub's primary and secondary limits."""
    spent = answer.headers.get("x-ratelimit-remaining") == "0"
    return answer.asks_to_wait or spent or bodies.secondary_limit(answer.body)


def _agreed(by_code: Fault, by_status: Fault, answer: Answer) -> Fault:
    """Weigh the code against the status: each may know what the other does not."""
    if by_code.throttled or by_code.in_progress:
        return by_code if _throttler(answer) else weakened(by_code)
    if answer.status >= 500:  # noqa: PLR2004 (failures of the service begin here)
        return replace(by_status, own_success=by_code.own_success)
    if by_status.throttled and not spent(by_code.code):
        return by_status
    if by_status.evidence is Evidence.MAYBE and by_code.evidence is Evidence.NONE and not _proves(by_code, answer):
        return weakened(by_code) if by_code.kind is FaultClass.RETRYABLE else by_status
    return replace(by_code, refresh=by_code.refresh or by_status.refresh)


def _proves(by_code: Fault, answer: Answer) -> bool:
    # a 409 may say no more than "invalid_request_error": that leaves open whether something was done before
    if answer.doubtful or answer.status in AMBIGUOUS:
        return False
    return answer.status == _CONFLICT if at_work(by_code.code) else proves_refusal(by_code.code)


def _throttler(answer: Answer) -> bool:
    # a 500 may hand on the throttling of some service behind it, after half of the work; so does a 424 by its name
    if (answer.status < 500 and answer.status not in AMBIGUOUS) or answer.status in _THROTTLING_5XX:  # noqa: PLR2004 (same)
        return True
    return any(code in AWS_THROTTLED for code in answer.codes)


def _pointless(fault: Fault, answer: Answer) -> Fault:
    """Honour what the other side says about a repeat: it changes what is tried, never what is proved."""
    said = may_retry(answer.headers)
    if said is False and fault.kind in {FaultClass.RETRYABLE, FaultClass.UNKNOWN} and not fault.in_progress:
        return replace(fault, kind=FaultClass.PERMANENT)
    if said is True and fault.kind is FaultClass.PERMANENT and answer.status == _CONFLICT:
        return replace(fault, kind=FaultClass.RETRYABLE)
    return fault


def _wait(fault: Fault, answer: Answer, now: float | None) -> float | None:
    headers = answer.headers
    if not fault.throttled:
        headers = {name: value for name, value in headers.items() if name not in RESETS}
    wait = retry_after_lowered(headers, now=now)
    return bodies.retry_delay(answer.body) if wait is None else wait
