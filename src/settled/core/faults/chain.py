"""Which errors stand inside of which: causes said outright, and contexts that merely came before."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from settled.core.faults import look
from settled.core.faults.rules import is_a

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DEEPEST = 10
MOST = 100
"""Errors looked at, all in all: groups can be wide."""

INNER = ("reason", "original_error", "os_error", "orig")
"""Where urllib3, urllib, aiohttp and SQLAlchemy keep the error that they wrap."""


def _holders(kind: Any) -> tuple[str, ...]:
    any_name = hasattr(kind, "__getattr__") or kind.__getattribute__ is not BaseException.__getattribute__
    return INNER if any_name else tuple(name for name in INNER if hasattr(kind, name))


holders = cast("Callable[[type], tuple[str, ...]]", lru_cache(1024)(_holders))
"""Which of these names an error of a class may answer to that has no attributes of its own."""


def stands_alone(error: BaseException) -> bool:
    """Tell, at the first look, that an error names no other, holds none, and came after none; else look closer."""
    if error.__cause__ is not None or error.__dict__ or not _holds_none(type(error)):
        return False
    if not error.__suppress_context__ and error.__context__ is not None:
        return False
    for thing in error.args:  # noqa: SIM110 - as in ``causes``
        if isinstance(thing, BaseException):
            return False
    return True


def _bare(kind: type[BaseException]) -> bool:
    try:
        return not (holders(kind) or issubclass(kind, BaseExceptionGroup))
    except Exception:  # noqa: BLE001 (a class of a stranger may raise anything)
        return False


_holds_none = cast("Callable[[type], bool]", lru_cache(1024)(_bare))
"""Whether an error of a class that has no attributes of its own can hold others in its arguments alone."""


def causes(error: BaseException, *, recognised: bool) -> list[BaseException]:
    """Return the errors that this one names as its cause: ``__cause__``, and what a known wrapper holds."""
    found = [] if error.__cause__ is None else [error.__cause__]
    if recognised:
        for thing in (*_held(error), *error.args):
            if isinstance(thing, BaseException):
                found.append(thing)  # noqa: PERF401 - most hold none: a loop costs less than a list made of nothing
    if not found:
        return []
    unique = {id(inner): inner for inner in found if inner is not error}
    return [inner for inner in unique.values() if not _only_how_timeouts_work(error, inner)]


def _held(error: BaseException) -> Sequence[object]:
    """Return what an error holds under the names of known wrappers."""
    try:
        names = INNER if error.__dict__ else holders(type(error))
    except Exception:  # noqa: BLE001 (a property of a stranger may raise anything)
        names = INNER
    return [look.attr(error, name) for name in names] if names else ()


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
    inner = () if stands_alone(error) else _inner(error)
    if not inner:  # as in most
        return [error], True
    found = {id(error): error}
    for _ in range(DEEPEST):
        new = {id(one): one for one in inner if id(one) not in found}
        if not new:
            return list(found.values()), True
        layer = list(new.values())[: MOST - len(found)]
        found |= {id(one): one for one in layer}
        if len(layer) < len(new):
            return list(found.values()), False
        inner = [one for outer in layer for one in _inner(outer)]
    return list(found.values()), False


def _inner(error: BaseException) -> Sequence[BaseException]:
    named, grouped = causes(error, recognised=True), members(error)
    return [*named, *grouped] if grouped else named


def _only_how_timeouts_work(error: BaseException, inner: BaseException) -> bool:
    # asyncio cancels what runs over its time; that cancellation is no event of its own
    return isinstance(error, TimeoutError) and is_a(inner, "asyncio", "CancelledError")
