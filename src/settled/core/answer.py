"""What an asker is given, before values are decoded and words are chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from settled.core.states import State

Status = Literal[
    "succeeded", "failed", "not_done", "partial", "unknown", "in_progress", "awaiting_approval", "refused",
    "compensating", "compensated", "expired", "conflict", "invalid", "rejected",
]  # fmt: skip
"""What an asker is told; the words of the records' states, and three for asks that have no record."""

if TYPE_CHECKING:
    from settled.core.call import Call
    from settled.core.commands import Returned
    from settled.core.model import Fault

STATUS_OF: dict[State, Status] = {
    State.PROCESSING: "in_progress",
    State.SUCCEEDED: "succeeded",
    State.FAILED: "failed",
    State.NOT_DONE: "not_done",
    State.PARKED: "not_done",
    State.PARTIAL: "partial",
    State.UNKNOWN: "unknown",
    State.AWAITING_APPROVAL: "awaiting_approval",
    State.REFUSED: "refused",
    State.COMPENSATING: "compensating",
    State.COMPENSATED: "compensated",
    State.EXPIRED: "expired",
}


class Answer(Struct, frozen=True):
    """The outcome of one ask."""

    status: Status
    reason: str = ""
    call: Call | None = None
    value: object = None
    fresh: bool = False
    """``value`` is what this asker's own attempt returned; otherwise decode the record's result."""
    fault: Fault | None = None
    like: bool = False
    """Answered from an earlier like call."""
    earlier: tuple[Call, ...] = ()
    retry_after: float | None = None
    recorded: bool = True
    attempts: int = 0
    note: str = ""


def from_record(call: Call, *, like: bool = False) -> Answer:
    """Return the answer that a recorded call gives as it stands."""
    return Answer(
        STATUS_OF[call.state],
        reason=call.reason or (call.fault.code if call.fault else ""),
        call=call,
        fault=call.fault,
        like=like,
        attempts=len(call.attempts),
        note=call.note,
    )


def by_itself(returned: Returned, attempts: int) -> Answer:
    """Return the answer of an ask that succeeded and needs no record."""
    return Answer("succeeded", value=returned.value, fresh=True, recorded=False, attempts=attempts)


def rejected(reason: str, *, calls: tuple[Call, ...] = (), retry_after: float | None = None) -> Answer:
    """Return the answer for an ask of which nothing was tried."""
    return Answer("rejected", reason=reason, earlier=calls, retry_after=retry_after)
