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
_FROM_PEER = "Error received from peer"
"""How the C core marks a status that the other side sent: it may hand on what its own backend said."""

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
    fault = of_code(name, asks_to_wait=wait is not None, never_connected=_local(error), situation=situation)
    if may_retry(metadata) is False and fault.kind in {FaultClass.RETRYABLE, FaultClass.UNKNOWN}:
        fault = replace(fault, kind=FaultClass.PERMANENT)
    return replace(fault, retry_after=wait)


def of_code(name: str, *, asks_to_wait: bool, never_connected: bool, situation: Situation) -> Fault:
    """Read a canonical status code (AIP-193, AIP-194)."""
    code = f"grpc_{name.lower()}"
    if name == "RESOURCE_EXHAUSTED":
        return throttled(code) if asks_to_wait else refused(code)
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


def _local(error: BaseException) -> bool:
    details = look.text(look.called(error, "details"))
    return details.startswith(_NEVER_CONNECTED) and _FROM_PEER not in look.text(
        look.called(error, "debug_error_string")
    )


def _details_bin(error: BaseException) -> bytes:
    try:
        pairs = list(look.called(error, "trailing_metadata") or ())  # type: ignore[call-overload] # any stranger's value
        return next((pair[1] for pair in pairs if pair[0] == "grpc-status-details-bin" and type(pair[1]) is bytes), b"")
    except Exception:  # noqa: BLE001 (metadata of a stranger may be of any shape)
        return b""


RULES = rules("grpc", final={"RpcError": of_grpc}, default=ambiguous("grpc_error"))
