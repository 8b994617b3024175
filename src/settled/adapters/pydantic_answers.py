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

if TYPE_CHECKING:
    from collections.abc import Iterator

    from settled.core.model import Fault

ASKS_AGAIN = (ModelRetry, ToolRetryError)
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


def failure_behind(error: BaseException) -> bool:
    """Whether a failure was turned into a request to ask again; Pydantic AI does so with its own time-out."""
    asked = error.__cause__ if isinstance(error, ToolRetryError) else error
    return asked is not None and (asked.__cause__ or asked.__context__) is not None


_packer = Packer([*(kind for kind in _classes(UserContent) if kind is not str), ToolReturn], to_jsonable_python)
VALUES = Values(_packer.pack, _packer.unpack, _failed)
