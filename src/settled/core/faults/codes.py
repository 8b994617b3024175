"""Error codes of providers. They decide over the status: AWS throttles with 400, 403, 502 and 503 alike.

Sources: botocore's lists of throttled and transient codes, Stripe's and Slack's error codes, Google's reasons of
``usageLimits``, ``google.rpc.Code``, Apollo's and Shopify's GraphQL codes, Salesforce's and Meta's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from settled.core.faults.rules import ambiguous, exists, in_progress, invalid, refused, retryable, throttled
from settled.core.values import replace

if TYPE_CHECKING:
    from settled.core.model import Fault


def _set(codes: str) -> frozenset[str]:
    return frozenset(codes.split())


AWS_THROTTLED = _set(
    "Throttling ThrottlingException ThrottledException RequestThrottledException RequestThrottled "
    "TooManyRequestsException ProvisionedThroughputExceededException RequestLimitExceeded "
    "BandwidthLimitExceeded LimitExceededException SlowDown EC2ThrottledException KMSThrottlingException"
)

THROTTLED = AWS_THROTTLED | _set(
    "rate_limit rate_limited ratelimited rate_limit_error rate_limit_exceeded RATE_LIMITED rateLimitExceeded "
    "userRateLimitExceeded sharingRateLimitExceeded account_rate_limit_exceeded too_many_requests RATE_LIMIT "
    "RATE_LIMIT_EXCEEDED graphql_rate_limit COMPLEXITY_BUDGET_EXHAUSTED ProvisionedThroughputExceeded "
    "TOO_MANY_REQUESTS THROTTLED throttled slow_down overloaded overloaded_error engine_overloaded ThrottlingError "
    "meta_4 meta_17 meta_32 meta_341 meta_613 meta_80001 meta_80003 meta_80004 meta_80006 meta_80007 meta_80008 "
    "meta_130429 meta_131048 meta_131056"
)

_QUOTA = _set(
    "insufficient_quota quota_exceeded quotaExceeded dailyLimitExceeded billing_hard_limit_reached "
    "billing_not_active billing_error access_terminated"
)

_IN_PROGRESS = _set("idempotency_key_in_use TransactionInProgressException")
_AT_WORK = re.compile(r"(?<!not_)(?<!not)in_?progress", re.IGNORECASE)
"""The other side is still at work on something."""
_ON_A_REQUEST = re.compile(r"request|idempot", re.IGNORECASE)
"""Such a code speaks of a request, which may be an earlier try of ours. Else it is somebody else's operation."""
_LATE = re.compile(r"time_?d?_?out|deadline_?exceeded", re.IGNORECASE)
"""Something behind the other side took too long, and may be at it still."""

_OTHER_REQUEST = _set(
    "idempotency_error idempotency_key_reused IdempotentParameterMismatch IdempotentParameterMismatchException "
    "IdempotencyParameterMismatchException"
)

_TRANSIENT = _set(
    "RequestTimeout RequestTimeoutException PriorRequestNotComplete InternalError InternalFailure "
    "InternalServerError ServiceUnavailable internal_error fatal_error service_unavailable request_timeout "
    "api_error server_error INTERNAL_SERVER_ERROR INTERNAL UNAVAILABLE UNKNOWN internal_server_error "
    "timeout_error meta_1 meta_2 meta_131000 meta_131016"
)

_ABORTED = _set(
    "ABORTED TransactionConflict TransactionConflictException ConcurrentModificationException OperationAborted "
    "UNABLE_TO_LOCK_ROW ConditionalRequestConflict conflict_error ConcurrentModification "
    "ReplicatedWriteConflictException TooManyUpdates"
)
"""Another one was at work on the same thing: nothing was done."""

_EXPIRED = _set(
    "ExpiredToken ExpiredTokenException token_expired UNAUTHENTICATED authentication_error RequestExpired "
    "expired_token TokenRefreshRequired InvalidToken UnrecognizedClientException InvalidClientTokenId "
    "InvalidAccessKeyId AuthFailure InvalidSignatureException SignatureDoesNotMatch IncompleteSignature "
    "IncompleteSignatureException MissingAuthenticationToken MissingAuthenticationTokenException "
    "RequestTimeTooSkewed INVALID_SESSION_ID not_authed invalid_auth account_inactive token_revoked invalid_grant "
    "API_KEY_INVALID meta_102 meta_190"
)
"""Who asks is not known, or no longer, or has the wrong time."""

_INVALID = _set(
    "ValidationError ValidationException MissingParameter InvalidParameter InvalidParameterValue "
    "InvalidParameterException InvalidParameterCombination SerializationException INVALID_ARGUMENT "
    "OUT_OF_RANGE BAD_USER_INPUT GRAPHQL_PARSE_FAILED GRAPHQL_VALIDATION_FAILED invalid_arguments"
)

_REFUSED = _set(
    "AccessDenied AccessDeniedException NoSuchKey NoSuchBucket ResourceNotFoundException invalid_request_error "
    "context_length_exceeded permission_error not_found_error request_too_large invalid_api_key "
    "model_not_found content_policy_violation content_filter FORBIDDEN PERMISSION_DENIED NOT_FOUND "
    "FAILED_PRECONDITION UNIMPLEMENTED OPERATION_RESOLUTION_FAILURE PERSISTED_QUERY_NOT_FOUND "
    "PERSISTED_QUERY_NOT_SUPPORTED ACCESS_DENIED "
    "no_permission missing_scope channel_not_found user_not_found not_in_channel is_archived msg_too_long "
    "MAX_COST_EXCEEDED no_text invalid_blocks invalid_arg_name restricted_action ekm_access_denied access_denied"
)

# of those: they come from a gate in front of the execution, whatever happened before
_GATE = _EXPIRED | _set(
    "AccessDenied AccessDeniedException permission_error invalid_api_key FORBIDDEN PERMISSION_DENIED UNIMPLEMENTED "
    "ACCESS_DENIED no_permission missing_scope "
    "restricted_action ekm_access_denied access_denied request_too_large"
)

_EXISTS = re.compile(
    r"(?i:already|duplicate)|ConditionalCheckFailed(Exception)?|PreconditionFailed(Exception)?"
    r"|version_conflict_engine_exception|name_taken|ResourceInUseException|ResourceConflictException"
)
"""In a code, never in a text: the thing is there, or the condition on it no longer holds."""


def of_codes(codes: list[str], *, doubtful: bool) -> Fault | None:
    """Read the codes of one answer; the most telling one decides. ``None`` if none is known."""
    known = {
        "in_progress": _first(codes, _IN_PROGRESS),
        "at_work": _first_like(codes, _AT_WORK),
        "quota": _first(codes, _QUOTA),
        "throttled": _first(codes, THROTTLED),
        "exists": _first_like(codes, _EXISTS),
        "refused": _first(codes, _OTHER_REQUEST | _EXPIRED | _REFUSED),
        "aborted": _first(codes, _ABORTED),
        "invalid": next((code for code in codes if code in _INVALID or code.endswith(".Malformed")), None),
        "transient": _first(codes, _TRANSIENT),
    }
    group, code = next(((group, code) for group, code in known.items() if code), ("", ""))
    match group:
        case "in_progress":
            return in_progress(code)
        case "at_work":
            return in_progress(code) if doubtful or _ON_A_REQUEST.search(code) else retryable(code)
        case "throttled":
            return throttled(code)
        case "aborted":
            return retryable(code)
        case "exists":
            return exists(code, doubtful=doubtful)
        case "quota" | "refused":
            return replace(refused(code), refresh=code in _EXPIRED, gate=code in _GATE)
        case "invalid":
            return invalid(code)
        case "transient":
            return ambiguous(code, uncertain=True)
        case _:
            return None


def spent(code: str) -> bool:
    """Tell whether this code names a quota that is spent, which comes under a status of mere haste, too."""
    return code in _QUOTA


def proves_refusal(code: str) -> bool:
    """Tell whether this code says why nothing was done, also where the status (409, 412) leaves it open."""
    return code in _OTHER_REQUEST or code in _QUOTA or code in _ABORTED or _EXISTS.search(code) is not None


def at_work(code: str) -> bool:
    """Tell whether this code says that something is in progress."""
    return _AT_WORK.search(code) is not None


def late(codes: list[str]) -> Fault | None:
    """Read a code that is not in the lists and tells of a time-out: it proves nothing, whatever its status."""
    code = _first_like(codes, _LATE)
    return None if code is None else ambiguous(code, uncertain=True)


def _first(codes: list[str], known: frozenset[str]) -> str | None:
    return next((code for code in codes if code in known), None)


def _first_like(codes: list[str], pattern: re.Pattern[str]) -> str | None:
    return next((code for code in codes if pattern.search(code)), None)
