"""What tools of Pydantic AI answer: kept in the journal, and looked at for failures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from pydantic_ai.exceptions import (
    ApprovalRequired,
    CallDeferred,
    ModelRetry,
    SkipToolExecution,
    ToolFailed,
    ToolFailedError,
    ToolRetryError,
)
from pydantic_ai.messages import ToolReturn, UserContent
from pydantic_core import to_jsonable_python

from settled.adapters import neutral
from settled.adapters.values import Packer
from settled.api.tools.foreign import Values
from settled.core.faults import look

if TYPE_CHECKING:
    from collections.abc import Iterator

    from settled.core.model import Fault

ASKS_AGAIN = (ModelRetry, ToolRetryError)
_FUNCTIONS = "pydantic_ai._function_schema"
"""The framework's module that calls functions."""
_BEFORE = "before_tool_execute"
"""Another capability's hook that comes before the tool's function."""
_CONTROL = (ApprovalRequired, CallDeferred, SkipToolExecution)


class Returned(Exception):  # noqa: N818 - the name says what is wrong
    """An error that the tool's own system may have answered with."""


def _classes(of: Any) -> Iterator[type]:
    """Yield what a union is made of, and what comes from that: a picture is a kind of its own."""
    if isinstance(of, type):
        yield of
        yield from of.__subclasses__() if of is not str else ()
    for part in get_args(of):
        yield from _classes(part)


def _failed(outcome: Any) -> Fault | None:
    if not isinstance(outcome, Exception):
        return None
    if isinstance(outcome, _CONTROL + ASKS_AGAIN):
        return neutral.CONTROL
    if isinstance(outcome, Returned | ToolFailed | ToolFailedError):
        return neutral.returned_error("tool_failed", str(outcome))
    return None


def controls(error: BaseException) -> bool:
    """Whether the framework directs itself by it."""
    return _failed(error) is neutral.CONTROL


def said_by_the_function(error: BaseException) -> bool:
    """Whether the tool's own function asks to be called again, or a hook before it: then nothing was done.

    Not so what stands around the function, which may have called it; nor a failure that was turned into such a request,
    as Pydantic AI does with its own time-out.
    """
    asked = error.__cause__ if isinstance(error, ToolRetryError) else error
    if asked is None or (asked.__cause__ or asked.__context__) is not None:
        return False
    frames = (frame for each in (error, asked) for frame in look.frames(each))
    return any(f.f_globals.get("__name__") == _FUNCTIONS or f.f_code.co_name == _BEFORE for f in frames)


_packer = Packer([*(kind for kind in _classes(UserContent) if kind is not str), ToolReturn], to_jsonable_python)
VALUES = Values(_packer.pack, _packer.unpack, _failed)
