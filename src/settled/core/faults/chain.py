"""Which errors stand inside of which: causes said outright, and contexts that merely came before."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from settled.core.faults import look
from settled.core.faults.rules import is_a

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

DEEPEST = 10
MOST = 100
"""Errors looked at, all in all: groups can be wide."""

INNER = ("reason", "original_error", "os_error", "orig")
"""Where urllib3, urllib, aiohttp and SQLAlchemy keep the error that they wrap."""


def holders(kind: type) -> tuple[str, ...]:
    """Return which of these names an error of a class may answer to that has no attributes of its own."""
    return _holders(cast("Hashable", kind))


@lru_cache(maxsize=1024)
def _holders(kind: Any) -> tuple[str, ...]:
    any_name = hasattr(kind, "__getattr__") or kind.__getattribute__ is not BaseException.__getattribute__
    return INNER if any_name else tuple(name for name in INNER if hasattr(kind, name))


def causes(error: BaseException, *, recognised: bool) -> list[BaseException]:
    """Return the errors that this one names as its cause: ``__cause__``, and what a known wrapper holds."""
    found: list[object] = [error.__cause__] if error.__cause__ is not None else []
    if recognised:
        names = INNER if look.attr(error, "__dict__") else holders(type(error))
        found += [inner for name in names if (inner := look.attr(error, name)) is not None]
        found += error.args
    if not found:
        return []
    unique = {id(inner): inner for inner in found if isinstance(inner, BaseException) and inner is not error}
    return [inner for inner in unique.values() if not _only_how_timeouts_work(error, inner)]


def members(error: BaseException) -> Sequence[BaseException]:
    """Return the members of a group."""
    return error.exceptions if isinstance(error, BaseExceptionGroup) else ()


def context(error: BaseException) -> BaseException | None:
    """Return what was being handled when this was raised; ``None`` if the raiser hid it by ``from None``."""
    hidden = error.__suppress_context__ and error.__cause__ is None
    earlier = None if hidden else error.__context__
    return None if earlier is None or _only_how_timeouts_work(error, earlier) else earlier


def inside(error: BaseException) -> list[BaseException]:
    """Return an error and what it names as its causes, theirs and so on, breadth first, bounded."""
    return within(error)[0]


def within(error: BaseException) -> tuple[list[BaseException], bool]:
    """Do the same; and tell whether that is all of it."""
    found, layer = {id(error): error}, [error]
    for _ in range(DEEPEST):
        inner = [one for outer in layer for one in [*causes(outer, recognised=True), *members(outer)]]
        new = {id(one): one for one in inner if id(one) not in found}
        if not new:
            return list(found.values()), True
        layer = list(new.values())[: MOST - len(found)]
        found |= {id(one): one for one in layer}
        if len(layer) < len(new):
            return list(found.values()), False
    return list(found.values()), False


def _only_how_timeouts_work(error: BaseException, inner: BaseException) -> bool:
    # asyncio cancels what runs over its time; that cancellation is no event of its own
    return isinstance(error, TimeoutError) and is_a(inner, "asyncio", "CancelledError")
