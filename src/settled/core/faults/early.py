"""What comes before a request, seen by the functions that an error came through: TLS's handshake, a proxy's tunnel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.faults import chain, look

if TYPE_CHECKING:
    from types import FrameType

_BEFORE = {
    "do_handshake": frozenset({"ssl"}),  # over sockets and in memory
    "_tunnel": frozenset({"http", "urllib3"}),
    "connect": frozenset({"aiohttp"}),  # a connector's, which asks a proxy for its tunnel, too
    "_init_socks5_connection": frozenset({"httpcore", "httpcore2"}),
}
"""Functions that are over before the first byte of a request, by name and package."""
_HTTPCORE = ("httpcore", "httpcore2")
_SENDS = ("handle_request", "handle_async_request")
_AFTER = "ftplib"
"""It opens a second connection, with a handshake, after it has told the server to take a file."""


def came_early(error: BaseException) -> bool:
    """Tell whether an error, or its cause, came before the request on its connection was sent.

    Where it has several causes, one of them may have come later: then that is not told.
    """
    at = error
    for _ in range(chain.DEEPEST):
        frames = list(look.frames(at))
        if any(look.package(frame) == _AFTER for frame in frames):
            return False
        if any(map(_before, frames)):
            return True
        inner = () if chain.members(at) else chain.causes(at, recognised=True)
        if len(inner) != 1:
            return False
        at = inner[0]
    return False


def _before(frame: FrameType) -> bool:
    name, package = frame.f_code.co_name, look.package(frame)
    if package in _BEFORE.get(name, ()):
        return True
    # httpcore's connection through a tunnel: the flag is set once that stands
    return name in _SENDS and package in _HTTPCORE and look.attr(frame.f_locals.get("self"), "_connected") is False
