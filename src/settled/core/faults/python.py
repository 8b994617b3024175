"""Python itself, and what stands between a tool and its caller: bugs, cancellation, executors, validation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.faults import look
from settled.core.faults.rules import Rule, Situation, ambiguous, hopeless, invalid, rules, unusable
from settled.core.faults.unsent import of_unsent
from settled.core.model import Evidence, Fault, FaultClass

if TYPE_CHECKING:
    from collections.abc import Iterable

CANCELLED = Fault(FaultClass.CANCELLED, Evidence.MAYBE, "cancelled")

_BUGS = (
    *("ArithmeticError", "AssertionError", "AttributeError", "BufferError", "ImportError", "LookupError"),
    *("NameError", "NotImplementedError", "RecursionError", "SyntaxError", "TypeError", "ValueError"),
)


def of_bug(error: BaseException, _: Situation) -> Fault:
    """Read a plain Python error out of a tool: it comes again, and may come after the effect."""
    return of_unsent(error) or hopeless(f"bug_{type(error).__name__}")


def invalid_arguments(error: BaseException) -> Fault:
    """Return the fault of arguments that did not bind or validate: the tool was never entered."""
    return _with_message(invalid("invalid_arguments"), error)


def unusable_result(error: BaseException) -> Fault:
    """Return the fault of a tool that returned, with a result that is not what it declared."""
    return _with_message(unusable("invalid_result"), error)


def _with_message(fault: Fault, error: BaseException) -> Fault:
    return Fault(fault.kind, fault.evidence, fault.code, look.describe(error), uncertain=fault.uncertain)


def of_group(faults: Iterable[Fault]) -> Fault:
    """Read errors that happened side by side: only what all of them prove is proved."""
    every = list(faults)
    evidence = {fault.evidence for fault in every}
    if len(evidence) == 1:
        stubborn = [fault for fault in every if fault.kind is FaultClass.PERMANENT]
        return (stubborn or every)[0]
    doubtful = [fault for fault in every if fault.evidence is not Evidence.NONE]
    return next((f for f in doubtful if f.evidence is Evidence.MAYBE), ambiguous("group"))


# Out of a tool, a broken text is some answer that it could not read; arguments are checked before the tool is entered.
_MALFORMED = ambiguous("malformed_answer", uncertain=True)

RULES = {
    **{("builtins", name): Rule(of_bug, wraps=True, bug=True) for name in _BUGS},
    **rules("json", final={"JSONDecodeError": _MALFORMED}),
    **rules("pydantic", "pydantic_core", final={"ValidationError": _MALFORMED}),
    **rules("asyncio", "concurrent", final={"CancelledError": CANCELLED}),
    **rules("concurrent", final={"BrokenExecutor": ambiguous("worker_died")}),
    # of several tries, the last one's error says nothing about those before
    **rules("tenacity", final={}, wraps={"RetryError": ambiguous("retries_exhausted")}),
}
