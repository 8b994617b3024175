"""HTTP statuses: what one says by itself.

A 4xx of the service is a refusal, which on the first attempt proves that nothing was executed; 408, 409, 412 and
424 are not. Once an earlier attempt is in doubt, a refusal may be what its success left behind, so it proves nothing.
5xx: some part of the other side failed, another part may have executed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.faults.rules import (
    ambiguous,
    exists,
    hopeless,
    in_progress,
    refused,
    retryable,
    throttled,
    unready,
    weakened,
)
from settled.core.values import replace

if TYPE_CHECKING:
    from settled.core.model import Fault

# 444, 460, 499: a proxy's note that its client went away; the service behind it was asked
# 424: what it depended on has failed, and that may have done its part (a model that ran, a tool that was called)
AMBIGUOUS = frozenset({408, 424, 444, 460, 499})
"""What was asked for may be done, or being done: no code says otherwise."""
_CONFLICT = frozenset({409, 412})
_AT_WORK = 409  # with a pause, by the IETF's draft on Idempotency-Key: the same request is under way
_BEFORE_EXECUTION = frozenset({421, 423, 425, 449})
# whatever happened before, these come from a gate in front of the execution
_GATE = frozenset({401, 402, 405, 406, 407, 411, 413, 414, 415, 419, 426, 428, 431, 440, 451, 498})
_GONE = frozenset({404, 410})
_REFUSED_5XX = frozenset({501, 505})
# Cloudflare: origin refused, no route to the origin, TLS to the origin failed. 522 also means that it fell silent
# after the connection was made.
_ORIGIN_NOT_REACHED = frozenset({521, 523, 525, 526})
_OVERLOADED = 529
_TOO_MANY = frozenset({420, 429})  # the first of them before there was the second
_UNAVAILABLE = 503
_TOO_LARGE = 413
_UNAUTHORIZED = frozenset({401, 419, 440, 498})  # the others: Laravel, IIS, ArcGIS of a session or token that expired
_WAY_WANTS_LOGIN = frozenset({407, 511})  # a proxy's, a network's: of what stands between us and everybody
_NO_FUNDS = 402  # by a gate or by the service: where refusals are kept, this is the one that most often is
_FORBIDDEN = 403
_CLIENT_ERROR, _SERVER_ERROR = 400, 500


def of_status(status: int, *, method: str, asks_to_wait: bool, doubtful: bool) -> Fault:
    """Read a status that is no success (400 to 599; anything else is ambiguous)."""
    code = f"http_{status}"
    if status in _WAY_WANTS_LOGIN:
        return replace(unready(code), gate=True)  # it says nothing of the call
    if _CLIENT_ERROR <= status < _SERVER_ERROR:
        return _of_4xx(status, code, method=method, asks_to_wait=asks_to_wait, doubtful=doubtful)
    if status == _OVERLOADED or (status == _UNAVAILABLE and asks_to_wait):
        return throttled(code)
    if status in _REFUSED_5XX:
        return refused(code)
    if status in _ORIGIN_NOT_REACHED:
        return retryable(code)
    return ambiguous(code, uncertain=status == _SERVER_ERROR)


def _of_4xx(status: int, code: str, *, method: str, asks_to_wait: bool, doubtful: bool) -> Fault:
    if status in _TOO_MANY:
        return throttled(code)
    if status in AMBIGUOUS:
        return ambiguous(code)
    if status == _AT_WORK and asks_to_wait:
        return in_progress(code)
    if status in _CONFLICT:
        return replace(hopeless(code), own_success=doubtful)
    if status in _BEFORE_EXECUTION or (status == _TOO_LARGE and asks_to_wait):
        return retryable(code)
    if status in _GATE:
        return replace(refused(code), refresh=status in _UNAUTHORIZED, gate=status != _NO_FUNDS)
    if status in _GONE and method == "DELETE":
        return exists(code, doubtful=doubtful)
    refusal = retryable(code) if asks_to_wait else replace(refused(code), gate=status == _FORBIDDEN)
    return weakened(refusal) if doubtful else refusal
