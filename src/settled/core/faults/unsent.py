"""Plain errors that come up before a client has a request to send: seen by the functions that they came through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.faults import look
from settled.core.faults.early import came_early
from settled.core.faults.rules import retryable, unready, unwritable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from settled.core.model import Fault

    Locals = Mapping[str, object]


def _always(_: Locals) -> bool:
    return True


def _none_made(known: Locals) -> bool:
    return known.get("req") is None


_BUILDING: Mapping[str, Mapping[str, Callable[[Locals], bool]]] = {
    "build_request": {"httpx": _always, "httpx2": _always},
    "_build_request": {"openai": _always, "anthropic": _always},
    "prepare_request": {"requests": _always},
    "_request": {"aiohttp": _none_made},
    "getaddrinfo": {"socket": _always},  # a name that is none
}
"""By the name of a function, and its package: whether it has not got further than to put together what is sent."""

_CLOSED = {
    "send": ("httpx", "Cannot send a request, as the client has been closed."),
    "_request": ("aiohttp", "Session is closed"),
}
"""Where a client says that it was closed, and how."""


_STARTS = "_execute_child"
"""subprocess's function that starts a process: what breaks in on it, as a signal's time limit, comes as that runs."""


def _never_started(error: BaseException) -> bool:
    """Tell whether subprocess itself found what it was given to be nothing that a process can be given."""
    if type(error).__module__ != "builtins":
        return False
    ways = [(look.package(frame), frame.f_code.co_name) for frame in look.frames(error)]
    return ("subprocess", _STARTS) in ways and ways[-1][0] in {"subprocess", "os"}


def of_unsent(error: BaseException) -> Fault | None:
    """Return what an error says that came before anything was sent; ``None`` if that is not seen."""
    for frame in look.frames(error):
        name, package = frame.f_code.co_name, look.package(frame)
        library, words = _CLOSED.get(name, ("", ""))
        if library and package.startswith(library) and look.text(error) == words:
            return unready("client_closed")
        building = _BUILDING.get(name, {}).get(package)
        if building is not None and building(frame.f_locals):
            return unwritable("invalid_request")
    return unwritable("invalid_request") if _never_started(error) else None


def of_unknown(error: BaseException) -> Fault | None:
    """Read an error that has no rule: it may have come before anything was sent, or while a connection was made."""
    said = of_unsent(error)
    return retryable("connect_failed") if said is None and came_early(error) else said
