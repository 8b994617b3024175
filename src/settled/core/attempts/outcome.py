"""How an attempt's end is read: a value or an exception becomes success or a fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from settled.core.commands import Raised, Returned
from settled.core.faults import classify
from settled.core.faults.exchanges import CUT, READING, Reach, kept, weigh
from settled.core.model import Effect, Evidence, Fault, FaultClass, Part
from settled.core.values import replace
from settled.errors import NotExecuted, PartlyDone, ToolSignal

if TYPE_CHECKING:
    from settled.core.commands import Ended
    from settled.core.policy import Policy


Clean = Callable[[str], str]


class AttemptTimeout(TimeoutError):  # noqa: N818 - as TimeoutError itself
    """Our own limit for one attempt was reached; the function may still run."""


class TooLate(TimeoutError):  # noqa: N818 - as TimeoutError itself
    """The lease or the asker's time was over before the attempt could start: nothing was sent."""


_OURS = (ToolSignal, TooLate, AttemptTimeout)
"""Errors of our own, which say by themselves what became of the attempt."""
NEVER_SENT = Fault(FaultClass.RETRYABLE, Evidence.NONE, "never_sent", local=True)
"""Of an attempt whose intent may be on record, and that was not begun."""


def read(ended: Ended, policy: Policy, clean: Clean | None, *, attempt: int, doubtful: bool) -> Fault | None:
    """Return the fault of an attempt; ``None`` if it succeeded.

    Its message is cleaned of secrets, unless whoever shows it does that (``clean`` is ``None``): then what was seen of
    its requests is not kept either.
    """
    outcome = ended.outcome
    if type(outcome) is Returned:
        if policy.classify is None and policy.verify is None:
            return None
        fault = _of_value(outcome.value, policy)
        if fault is None:
            return None
    else:
        # who keeps refusals under our key gives the first try's answer again: it need not be weakened by doubt
        unsure = doubtful and policy.terms.remote_errors != "stored"
        fault = _of_error(ended, outcome, policy, attempt=attempt, doubtful=unsure)
        if outcome.not_sent:
            fault = _not_sent(fault)
    if ended.sight is not None and clean is not None:
        fault = replace(fault, seen=kept(ended.sight, clean))
    return fault if clean is None or not fault.message else replace(fault, message=clean(fault.message))


def _not_sent(fault: Fault) -> Fault:
    if fault.evidence is not Evidence.MAYBE:
        return fault
    kind = FaultClass.RETRYABLE if fault.kind is FaultClass.UNKNOWN else fault.kind
    return replace(fault, kind=kind, evidence=Evidence.NONE)


def _of_value(value: object, policy: Policy) -> Fault | None:
    """Look at a returned value. A look that fails after the effect says nothing about it."""
    try:
        fault = _own(value, policy)
        good = fault is not None or policy.verify is None or bool(policy.verify(value))
    except Exception as error:  # noqa: BLE001 - the tool's own code, after the effect
        return _doubt("look_failed", f"classify or verify raised {type(error).__name__}")
    return fault if good else _doubt("verify_failed")


def _own(outcome: object, policy: Policy) -> Fault | None:
    fault = policy.classify(outcome) if policy.classify else None
    if fault is not None and not isinstance(fault, Fault):
        raise TypeError("classify must return a Fault or None")
    return fault


def _doubt(code: str, message: str = "") -> Fault:
    return Fault(FaultClass.UNKNOWN, Evidence.MAYBE, code, message, uncertain=True)


def _of_error(ended: Ended, outcome: Raised, policy: Policy, *, attempt: int, doubtful: bool) -> Fault:
    error = outcome.error
    if isinstance(error, _OURS):
        said = of_signal(error)
        if said is not None:
            return said
        if isinstance(error, TooLate):  # says nothing of the other side, which was not reached
            return replace(NEVER_SENT, message=_text(error))
        if isinstance(error, AttemptTimeout):  # ours: it says nothing that the tool could know better
            cut = Fault(FaultClass.UNKNOWN, Evidence.MAYBE, CUT, _text(error))
            return _weighed(cut, ended, outcome, policy, doubtful)
    try:
        own = None if policy.classify is None else _own(error, policy)
    except Exception as failed:  # noqa: BLE001 - the tool's own code, after the effect
        return _doubt("look_failed", f"classify raised {type(failed).__name__}")
    if own is not None:
        return own
    if policy.not_executed and isinstance(error, policy.not_executed):
        return Fault(FaultClass.PERMANENT, Evidence.NONE, type(error).__name__, _text(error))
    fault = classify(error, attempt=attempt, doubtful=doubtful, now=ended.wall)
    if policy.terms.effect is Effect.READ:
        return fault
    proves_little = policy.several or isinstance(error, BaseExceptionGroup) or _method(error) in READING
    return _weighed(_weakened(fault) if proves_little else fault, ended, outcome, policy, doubtful)


def _weighed(fault: Fault, ended: Ended, outcome: Raised, policy: Policy, doubtful: bool) -> Fault:  # noqa: FBT001 - one of many
    """Hold what the error says against what was seen of the requests."""
    if ended.sight is None or policy.terms.effect is Effect.READ:
        return fault
    reach = Reach(policy.several, policy.hooked, ended.over, doubtful, ended.wall)
    return weigh(fault, outcome.error, ended.sight, reach)


def _method(error: BaseException) -> str:
    """Return the method of the request that failed, where the client's exception carries it."""
    try:
        return str(getattr(getattr(error, "request", None), "method", "") or "").upper()
    except Exception:  # noqa: BLE001 - httpx raises where an exception has no request
        return ""


def _weakened(fault: Fault) -> Fault:
    """That one request did nothing proves nothing about the others that the tool has made."""
    if fault.evidence is not Evidence.NONE:
        return fault
    kind = FaultClass.UNKNOWN if fault.kind is FaultClass.RETRYABLE else fault.kind
    return replace(fault, kind=kind, evidence=Evidence.MAYBE)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an exception that cannot say what it is
        return type(error).__name__


def of_signal(error: BaseException) -> Fault | None:
    """Return what the tool itself said by its exception (``Executed`` counts as its return)."""
    if isinstance(error, NotExecuted):
        kind = FaultClass.RETRYABLE if error.retryable else FaultClass.PERMANENT
        return Fault(kind, Evidence.NONE, error.code, error.message, retry_after=error.retry_after)
    if isinstance(error, PartlyDone):
        return _of_items(error) if error.items else _of_parts(error)
    return None


def _of_parts(error: PartlyDone) -> Fault:
    said = f"{len(error.done)} done, {len(error.failed)} failed"
    return Fault(FaultClass.PARTIAL, Evidence.SOME, error.code, said)


def _of_items(error: PartlyDone) -> Fault:
    """Read what became of each item: of all of them the same is no part, but a failure of the whole."""
    items, parts = error.items, {item.part for item in error.items}
    code = next((item.code for item in items if item.part is not Part.DONE and item.code), error.code)
    said = f"{sum(item.part is Part.DONE for item in items)} of {len(items)} items done"
    if parts == {Part.UNKNOWN}:
        return Fault(FaultClass.UNKNOWN, Evidence.MAYBE, code, said, uncertain=True)
    if parts & {Part.DONE, Part.UNKNOWN}:
        return Fault(FaultClass.PARTIAL, Evidence.SOME, code, said, throttled=error.throttled, items=items)
    kind = FaultClass.RETRYABLE if Part.NOT_DONE in parts else FaultClass.PERMANENT
    return Fault(kind, Evidence.NONE, code, said, throttled=error.throttled, items=items)
