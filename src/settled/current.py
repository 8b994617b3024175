"""The call that is being made here and now: its key for the tool, its scope for calls inside it."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - help() reads it
from contextvars import ContextVar
from typing import Any

from msgspec import Struct, field

from settled.core.matching.entry import Entry
from settled.recorder import Recorder  # noqa: TC001 - help() reads it


class CurrentCall(Struct, frozen=True, eq=False):
    """What a tool, its probe or its ``undo=`` may know of a call."""

    key: str
    """The idempotency key, in the tool's ``key_format``; the same for all attempts."""
    attempt: int
    """Number of this attempt, from 1 on, over all processes; for probes: how many there were."""
    operation_id: str = ""
    """Empty for calls that need no record."""
    deadline: float | None = None
    """Seconds on ``time.monotonic()`` after which no more time should be spent."""
    arguments: Mapping[str, Any] = {}
    """For probes and ``undo=``: the recorded arguments, redacted where the tool says so."""
    first_sent: float | None = None
    """For probes and ``undo=``: when the first attempt was put on record, seconds since the epoch."""
    items: tuple[str, ...] = ()
    """Of a batch (``partial=``): the key of each of its items, the same whatever call goes on with it."""
    around: frozenset[str] = frozenset()
    """Operation ids of this call and of those that it is made inside of."""
    entry: Entry = field(default_factory=Entry)
    covered: bool = False
    """What it, or a call around it, declares says what becomes of its effects when the run is undone."""
    wire: Recorder | None = None
    """Takes down what watched transports send for this attempt."""

    @property
    def headers(self) -> Mapping[str, str]:
        """HTTP headers that hand the key on: ``{"Idempotency-Key": …}``; empty without a record."""
        return {"Idempotency-Key": self.key} if self.key else {}


current: ContextVar[CurrentCall | None] = ContextVar("settled_current_call", default=None)
"""Set around each attempt."""
