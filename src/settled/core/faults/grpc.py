"""gRPC. UNAVAILABLE is "not a guarantee that the server has not seen anything" (grpc/status.h)."""

from __future__ import annotations

from settled.core.faults import look
from settled.core.faults.protobuf import retry_delay
from settled.core.faults.retry_after import may_retry, retry_after_lowered
from settled.core.faults.rules import (
    Situation,
    ambiguous,
    exists,
    hopeless,
    invalid,
    refused,
    retryable,
    rules,
    throttled,
    weakened,
)
from settled.core.model import Fault, FaultClass
from settled.core.values import replace

_NEVER_CONNECTED = ("failed to connect to all addresses", "Connect failed")
_TRANSIENT_FAILURE = 3
"""The state of a channel whose last try to connect failed (grpc/connectivity_state.h)."""

_TOO_LARGE = "message larger than max"
_NOT_TAKEN = ("SERVER: Received ", "CLIENT: Sent ")
"""Of a message that was too large: the request. Else, or not said (before 1.63), it may have been the answer."""

_READS = ("_next", "_fetch_stream_responses", "read")
"""The functions of grpc, sync and async, that bring the next answer of several."""

_GATE = ("PERMISSION_DENIED", "UNAUTHENTICATED", "UNIMPLEMENTED")
_PERMANENT = ("FAILED_PRECONDITION", "NOT_FOUND", "PERMISSION_DENIED", "UNAUTHENTICATED", "UNIMPLEMENTED")
_INVALID = ("INVALID_ARGUMENT", "OUT_OF_RANGE")
_MAY_BE_OWN_SUCCESS = ("FAILED_PRECONDITION", "NOT_FOUND")


def of_grpc(error: BaseException, situation: Situation) -> Fault | None:
    """Read an RpcError by its status code; ``None`` if it has none."""
    name = look.attr(look.called(error, "code"), "name")
    if not isinstance(name, str):
        return None
    metadata = look.lowered(look.called(error, "trailing_metadata"))
    delay = retry_delay(_details_bin(error))
    wait = retry_after_lowered(metadata, now=situation.now)
    wait = delay if wait is None else wait
    fault = _of_size(error) if name == "RESOURCE_EXHAUSTED" else None
    fault = fault or of_code(name, never_connected=_never_connected(error), situation=situation)
    if _amid_answers(error) and not fault.gate:
        fault = weakened(fault)
    if may_retry(metadata) is False and fault.kind in {FaultClass.RETRYABLE, FaultClass.UNKNOWN}:
        fault = replace(fault, kind=FaultClass.PERMANENT)
    return replace(fault, retry_after=wait)


def of_code(name: str, *, never_connected: bool, situation: Situation) -> Fault:
    """Read a canonical status code (AIP-193, AIP-194).

    ``RESOURCE_EXHAUSTED`` is what 429 is over HTTP, also where it names no pause: of a rate more often than of a quota.
    """
    code = f"grpc_{name.lower()}"
    if name == "RESOURCE_EXHAUSTED":
        return throttled(code)
    if name == "UNAVAILABLE":
        return retryable("connect_failed") if never_connected else ambiguous(code)
    if name == "ABORTED":
        return retryable(code)
    if name == "ALREADY_EXISTS":
        return exists(code, doubtful=situation.doubtful)
    if name in _INVALID:
        return weakened(refused(code)) if situation.doubtful else invalid(code)
    if name in _PERMANENT:
        fault = replace(refused(code), refresh=name == "UNAUTHENTICATED", gate=name in _GATE)
        return weakened(fault) if situation.doubtful and name in _MAY_BE_OWN_SUCCESS else fault
    return hopeless(code) if name == "DATA_LOSS" else ambiguous(code)


def _of_size(error: BaseException) -> Fault | None:
    """Read that a message was too large: the client refuses an answer, too, once the other side has done its work."""
    details = look.text(look.called(error, "details"))
    if _TOO_LARGE not in details:
        return None
    return refused("grpc_too_large") if details.startswith(_NOT_TAKEN) else hopeless("grpc_answer_too_large")


def _never_connected(error: BaseException) -> bool:
    """Tell whether it is our own channel that reached nobody.

    A service hands on, word for word, what its own backend's channel said, and nothing in the error marks it. But then
    our channel stands: its state shows in the functions of grpc that the error came through.
    """
    if not look.text(look.called(error, "details")).startswith(_NEVER_CONNECTED):
        return False
    makers = (frame.f_locals.get("self") for frame in look.frames(error) if look.package(frame) == "grpc")
    channels = (look.attr(maker, *way) for maker in makers for way in (("_channel",), ("_cython_call", "_channel")))
    ask = "check_connectivity_state"
    return any(look.called(each, ask, False) == _TRANSIENT_FAILURE for each in channels)  # noqa: FBT003 - not to connect


def _amid_answers(error: BaseException) -> bool:
    """Tell whether it came while answers were read one by one: what came before them is not seen."""
    return any(frame.f_code.co_name in _READS and look.package(frame) == "grpc" for frame in look.frames(error))


def _details_bin(error: BaseException) -> bytes:
    try:
        pairs = list(look.called(error, "trailing_metadata") or ())  # type: ignore[call-overload] # any stranger's value
        return next((pair[1] for pair in pairs if pair[0] == "grpc-status-details-bin" and type(pair[1]) is bytes), b"")
    except Exception:  # noqa: BLE001 (metadata of a stranger may be of any shape)
        return b""


RULES = rules("grpc", final={"RpcError": of_grpc}, default=ambiguous("grpc_error"))
