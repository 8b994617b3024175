"""One exception tree. Codes are stable; every error can be pickled; messages say what to do next.

SettledError
├── CallError                 a call did not give its value; carries the ``Result``
│   ├── CallFailed            final: proved not done, and repeating is pointless
│   ├── CallNotDone           proved not done; may be tried again
│   ├── CallUnknown           the effect may have happened; in the queue
│   ├── CallPartial           done in part
│   ├── CallInProgress        another owner is at work on it, or a person's leave is waited for
│   ├── CallConflict          the same key came with other arguments
│   ├── CallRejected          nothing was tried: breaker, budget, deadline, untold calls
│   ├── CallRefused           a person (or an end that was recorded) refused it
│   ├── InvalidArguments      the arguments do not fit the tool
│   └── ResultUnavailable     it succeeded, but its value was not kept
├── RunError                  a run cannot be entered; carries its ``status``
│   ├── RunInProgress         another process works on it
│   ├── RunUndone             it was rolled back: nothing is done in it any more
│   └── TokenRefused          the token with which it was to be joined is worth nothing here
├── JournalError              the journal cannot be read or written; nothing was executed
├── DeclarationError          a tool or guard is declared in a way that cannot work
│   └── MissingExtra          an optional part of the library is not installed
├── ForkedError               a child forked inside a tool went on as if it were its parent
├── AttemptLeft               a request was held back: its attempt was over before it could be sent
└── ToolSignal                raised by tools to say what they know
    ├── NotExecuted           nothing happened
    ├── Executed              it happened, here is the result
    └── PartlyDone            some items happened
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from settled.api.calls.result import Result


class SettledError(Exception):
    """Base of all errors of this library. ``code`` is stable across releases."""

    code = "settled_error"


class CallError(SettledError):
    """A call that did not give its value. ``result`` holds the whole ``Result``."""

    code = "call_error"

    def __init__(self, result: Result[Any]) -> None:
        super().__init__(result)
        self.result = result

    def __str__(self) -> str:
        """Say what happened, as the result's own message does, and what an operator can type."""
        result = self.result
        wanted = "make it anew" if result.hint.startswith("settled runs rewind") else "look at it"
        hint = f"; to {wanted}: {result.hint}" if result.hint else ""
        ids = result.operation_id or "not recorded"
        if not result.operation_id and result.status == "rejected" and result.earlier:  # it speaks of "listed" calls
            ids += f"; listed: {', '.join(each.operation_id for each in result.earlier)}"
        return f"{result.tool}: {result.message} [{ids}]{hint}"


class CallFailed(CallError):
    """Proved not done, for good: the same request would fail again."""

    code = "failed"


class CallNotDone(CallError):
    """Proved not done; it may be tried again (see ``result.retry_after``, seconds)."""

    code = "not_done"


class CallUnknown(CallError):
    """The effect may have happened. It stands in the queue; do not repeat it in another way."""

    code = "unknown"


class CallPartial(CallError):
    """Some items were done, some were not (``result.value``)."""

    code = "partial"


class CallInProgress(CallError):
    """Another owner is at work on this call, or a person's leave is waited for; ask again later."""

    code = "in_progress"


class CallConflict(CallError):
    """The key is known with other arguments; nothing was executed."""

    code = "conflict"


class CallRejected(CallError):
    """Nothing was tried; ``result.reason`` says why."""

    code = "rejected"


class CallRefused(CallError):
    """Refused, undone or expired: the old value does not stand."""

    code = "refused"


class InvalidArguments(CallError):
    """The arguments do not fit the tool's signature; nothing was recorded or executed."""

    code = "invalid"


class ResultUnavailable(CallError):
    """The call succeeded, but its value cannot be given again (too large, not encodable, lost)."""

    code = "result_unavailable"


class RunError(SettledError):
    """A run that cannot be entered. ``run_id`` names it, ``status`` says how it stands."""

    code = "run_error"

    def __init__(self, run_id: str, status: str, message: str) -> None:
        super().__init__(run_id, status, message)
        self.run_id, self.status, self.message = run_id, status, message

    def __str__(self) -> str:
        """Say why."""
        return self.message


class RunInProgress(RunError):
    """Another process works on the run; nothing was done here."""

    code = "run_in_progress"


class RunUndone(RunError):
    """The run was rolled back (``compensated`` or ``partly_compensated``); nothing is done in it any more."""

    code = "run_undone"


class TokenRefused(RunError):
    """A run cannot be joined by this token; nothing was done.

    ``status`` says why: ``malformed``, ``signature``, ``expired``, ``tenant``, ``journal``, ``lane``, ``unknown_run``,
    ``superseded`` (the run was entered again since), ``run_ended``. The token itself is not repeated.
    """

    code = "token_refused"


class JournalError(SettledError):
    """The journal cannot be read or written. Calls that need a record were not executed."""

    code = "journal"


class ForkedError(SettledError):
    """A child that was forked inside a tool went on as if it were its parent; it records nothing."""

    code = "forked"


class AttemptLeft(SettledError):
    """Raised inside a tool by a watched transport: the attempt was over before this request could be sent."""

    code = "attempt_left"


class DeclarationError(SettledError):
    """A tool or guard is declared in a way that cannot work; the message says what to write."""

    code = "declaration"


class MissingExtra(DeclarationError):
    """An optional part of the library is asked for that is not installed; the message says how to install it."""

    code = "missing_extra"


class ToolSignal(SettledError):
    """What a tool says about its own effect."""


class NotExecuted(ToolSignal):
    """Nothing happened at the other side.

    ``retryable``: whether the same request may work later (default: no).
    ``retry_after``: seconds to wait at the least.
    """

    code = "not_executed"

    def __init__(self, message: str = "", *, retryable: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message, self.retryable, self.retry_after = message, retryable, retry_after

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep the keyword arguments through pickle."""
        return _rebuild_not_executed, (self.message, self.retryable, self.retry_after)


def _rebuild_not_executed(message: str, retryable: bool, retry_after: float | None) -> NotExecuted:  # noqa: FBT001 - positional for pickle
    return NotExecuted(message, retryable=retryable, retry_after=retry_after)


class Executed(ToolSignal):
    """It happened, and ``result`` is the call's value: it counts as the tool's return."""

    code = "executed"

    def __init__(self, result: object = None) -> None:
        super().__init__(result)
        self.result = result


class PartlyDone(ToolSignal):
    """Some items happened (``done``), some did not (``failed``).

    Of a batch (``partial=``, ``items=``) they are told apart by the items that the call was given; of any other tool
    only how many there are goes on record.
    """

    code = "partly_done"
    items: Any = ()
    """What became of each item, once the answer was held against what was asked."""
    throttled = False
    answered, answer = False, None
    """What the tool returned, where its answer told of the items."""

    def __init__(self, done: Iterable[object] = (), failed: Iterable[object] = ()) -> None:
        self.done, self.failed = list(done), list(failed)
        super().__init__(self.done, self.failed)
