"""settled: every tool call an agent makes ends settled."""

from importlib import import_module
from typing import TYPE_CHECKING

from settled import partial, tokens
from settled.api.calls.bound import BoundCall, PendingCall
from settled.api.calls.result import Result
from settled.api.guard import Guard
from settled.api.people.worker import Worker
from settled.api.runs.run import Run
from settled.api.tools.giving_way import Person, Say, Skip
from settled.api.tools.models import ModelOptions
from settled.api.tools.options import ToolOptions, tool_options
from settled.api.tools.tool import Tool, tool
from settled.core.attempts.backoff import Backoff
from settled.core.attempts.budget import RetryBudget, TokenWindow
from settled.core.attempts.threshold import BreakerPolicy
from settled.core.doubt.ledger import Effect
from settled.core.model import Evidence, Fault, FaultClass
from settled.core.verdicts import Happened, Inconclusive, NotHappened
from settled.current import CurrentCall as Call
from settled.current import current as _current
from settled.errors import (
    CallConflict,
    CallError,
    CallFailed,
    CallInProgress,
    CallNotDone,
    CallPartial,
    CallRefused,
    CallRejected,
    CallUnknown,
    DeclarationError,
    Executed,
    InvalidArguments,
    JournalError,
    NotExecuted,
    PartlyDone,
    ResultUnavailable,
    RunError,
    RunInProgress,
    RunUndone,
    SettledError,
    TokenRefused,
)
from settled.transaction import Transaction

if TYPE_CHECKING:
    from settled import observe, transports

__version__ = "0.1.0"
__all__ = [
    "Backoff",
    "BoundCall",
    "BreakerPolicy",
    "Call",
    "CallConflict",
    "CallError",
    "CallFailed",
    "CallInProgress",
    "CallNotDone",
    "CallPartial",
    "CallRefused",
    "CallRejected",
    "CallUnknown",
    "DeclarationError",
    "Effect",
    "Evidence",
    "Executed",
    "Fault",
    "FaultClass",
    "Guard",
    "Happened",
    "Inconclusive",
    "InvalidArguments",
    "JournalError",
    "ModelOptions",
    "NotExecuted",
    "NotHappened",
    "PartlyDone",
    "PendingCall",
    "Person",
    "Result",
    "ResultUnavailable",
    "RetryBudget",
    "Run",
    "RunError",
    "RunInProgress",
    "RunUndone",
    "Say",
    "SettledError",
    "Skip",
    "TokenRefused",
    "TokenWindow",
    "Tool",
    "ToolOptions",
    "Transaction",
    "Worker",
    "current_call",
    "observe",
    "partial",
    "tokens",
    "tool",
    "tool_options",
    "transports",
]


def current_call() -> Call:
    """Return the call that is being made here and now. Raises ``LookupError`` outside of a guarded call."""
    call = _current.get()
    if call is None:
        raise LookupError("no guarded call is being made here")
    return call


if not TYPE_CHECKING:  # to a type checker it would say that every name is there

    def __getattr__(name: str) -> object:
        """Import a part that many programs do without, when it is first named: what it needs takes time to load."""
        if name not in ("observe", "transports"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return import_module(f"{__name__}.{name}")
