"""google-api-core and google-api-python-client: gRPC's code where there is one, else HTTP's status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.faults import look
from settled.core.faults.carried import by_answer
from settled.core.faults.grpc import of_code, of_grpc
from settled.core.faults.rules import Situation, ambiguous, refused, retryable, rules, unready, weakened
from settled.core.values import replace

if TYPE_CHECKING:
    from settled.core.model import Fault


def of_call(error: BaseException, situation: Situation) -> Fault | None:
    """Read a GoogleAPICallError; ``None`` if it names neither code nor status."""
    rpc = look.attr(error, "errors")
    first = rpc[0] if isinstance(rpc, list | tuple) and rpc else None
    if isinstance(first, BaseException) and (said := of_grpc(first, situation)):
        return said
    name = look.attr(error, "grpc_status_code", "name")  # of the class: also where the answer came over HTTP
    if not isinstance(name, str) or look.attr(error, "response") is not None:
        return by_answer(error, situation)
    delay = _retry_delay(error)
    fault = of_code(name, never_connected=False, situation=situation)
    return replace(fault, retry_after=delay)


def of_http(error: BaseException, situation: Situation) -> Fault | None:
    """Read an HttpError. httplib2 sends anew, unseen, what got no answer: "already exists" may be our own success."""
    fault = by_answer(error, situation)
    if fault is None or look.attr(error, "resp", "previous") is not None:  # it was redirected
        return None if fault is None else weakened(fault)
    again = by_answer(error, replace(situation, doubtful=True))
    missing = look.number(look.attr(error, "resp", "status")) in _GONE
    return again if again is not None and (again.own_success or missing) else fault


_GONE = (404, 410)


def of_refresh(error: BaseException, _: Situation) -> Fault:
    """Read that no new token was given: who asks is turned away, or the giver was busy."""
    if look.attr(error, "retryable") is True:
        return retryable("token_not_refreshed")
    return replace(refused("token_not_refreshed"), refresh=True)


def of_token(error: BaseException, _: Situation) -> Fault | None:
    """Read that the giver of tokens was not reached; ``None`` where it may have been the service itself."""
    return retryable("token_not_fetched") if look.came_through([error], "refresh") else None


def _retry_delay(error: BaseException) -> float | None:
    details = look.attr(error, "details")
    for detail in details if isinstance(details, list | tuple) else ():
        seconds = look.number(look.attr(detail, "retry_delay", "seconds"))
        nanos = look.number(look.attr(detail, "retry_delay", "nanos"))
        if seconds is not None:
            return seconds + (nanos or 0) / 1e9
    return None


RULES = {
    **rules(
        "google",
        final={"GoogleAPICallError": of_call},
        wraps={"RetryError": ambiguous("retries_exhausted"), "GoogleAPIError": ambiguous("google_error")},
        default=ambiguous("google_error"),
    ),
    # of a token, before the request or after its 401: it does not get further
    **rules(
        "google",
        final={
            "DefaultCredentialsError": unready("no_credentials"),
            "RefreshError": of_refresh,
        },
        wraps={"TransportError": of_token},
    ),
    **rules("googleapiclient", final={"HttpError": of_http}, default=ambiguous("google_error")),
}
