"""Outputs of Pydantic AI that are refused after their function has made them: what it did is done all the same.

The framework calls the agent's output validators inside of what it shows of the function, and their ``ModelRetry``
looks like the function's own, by which that says that it did nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from settled.core.faults import look
from settled.core.values import replace

if TYPE_CHECKING:
    from settled.api.calls.result import Result

_BEFORE = frozenset({"hook_execute", "before_output_process"})
"""The framework's functions that enter an output function, or what comes before it."""


class Refused:
    """In the place of an output that nobody gets; it is not kept."""

    def __init__(self, why: str) -> None:
        self.why = why


def refused_after(error: BaseException) -> bool:
    """Whether the request to ask again came after the function had returned."""
    cause = error if error.__cause__ is None else error.__cause__
    names = {frame.f_code.co_name for each in (error, cause) for frame in look.frames(each)}
    return not names & _BEFORE


def refusal(result: Result[Any]) -> str:
    """Return what the model is told: that it is done, and why it is asked again all the same."""
    why = f": {result.value.why}" if isinstance(result.value, Refused) else ""
    told = replace(result, value=None, value_available=False)
    return f"it is done, but its output was not accepted{why}. {told.for_model()}"
