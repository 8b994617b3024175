"""What comes before a request, seen by the functions that an error came through: TLS's handshake, a proxy's tunnel."""

from __future__ import annotations

from types import FrameType

from settled.core.faults import chain, look

_BEFORE = {
    "do_handshake": frozenset({"ssl"}),  # over sockets and in memory
    "_tunnel": frozenset({"http", "urllib3"}),
    "connect": frozenset({"aiohttp"}),  # a connector's, which asks a proxy for its tunnel, too
    "_init_socks5_connection": frozenset({"httpcore", "httpcore2"}),
}
"""Functions that are over before the first byte of a request, by name and package."""
_HTTPCORE = ("httpcore", "httpcore2")
_SENDS = ("handle_request", "handle_async_request")
_TELLING = frozenset({*_BEFORE, *_SENDS})
"""The names alone: few frames have one, and their packages take longer to find."""
_AFTER = "ftplib"
"""It opens a second connection, with a handshake, after it has told the server to take a file."""


def came_early(error: BaseException) -> bool:
    """Tell whether an error, or its cause, came before the request on its connection was sent.

    Where it has several causes, one of them may have come later: then that is not told.
    """
    at, frames = error, list[FrameType]()
    for _ in range(chain.DEEPEST):
        here = list(look.frames(at))
        frames += here
        for frame in here:
            if frame.f_code.co_name in _TELLING and _before(frame):
                return all(look.package(each) != _AFTER for each in frames)
        inner = () if chain.stands_alone(at) or chain.members(at) else chain.causes(at, recognised=True)
        if len(inner) != 1:
            return False
        at = inner[0]
    return False


def _before(frame: FrameType) -> bool:
    name = frame.f_code.co_name
    if name in _BEFORE:
        return look.package(frame) in _BEFORE[name]
    if name not in _SENDS or look.package(frame) not in _HTTPCORE:
        return False
    return look.attr(frame.f_locals.get("self"), "_connected") is False  # by its tunnel: set once that stands
