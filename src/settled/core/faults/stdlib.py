"""Operating system and standard library: errno, sockets, http.client, urllib, asyncio's streams.

``OSError`` is read by its number, so that a bare ``OSError(errno, …)`` and its named subclass agree.
"""

from __future__ import annotations

import errno
import re

from settled.core.faults import look
from settled.core.faults.carried import by_answer
from settled.core.faults.connect import NOT_REACHED, of_dns, of_tunnel, unless_early
from settled.core.faults.rules import (
    Rule,
    Rules,
    Situation,
    ambiguous,
    exists,
    local,
    refused,
    retryable,
    rules,
    unready,
    unwritable,
)
from settled.core.model import Evidence, Fault, FaultClass

_AMBIGUOUS = {
    errno.ECONNRESET: "connection_reset",
    errno.ECONNABORTED: "connection_aborted",
    errno.EPIPE: "broken_pipe",
    errno.ETIMEDOUT: "timeout",
    errno.EAGAIN: "would_block",  # also of an answer that has not come: SO_RCVTIMEO, or a socket that does not block
    errno.EINTR: "interrupted",
    errno.ESTALE: "estale",  # also of a file that was written to, and of one that was emptied to be
}
_LOCAL = {
    errno.EMFILE: "too_many_files",
    errno.ENFILE: "too_many_files",
    errno.ENOMEM: "no_memory",
}
_CUT = {errno.ENOSPC: "disk_full", errno.EDQUOT: "disk_quota", errno.EIO: "io_error"}
_REFUSED = (
    *(errno.EROFS, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EINVAL),
    # of naming, moving or removing a file: the system does these wholly or not at all
    *(errno.EXDEV, errno.ENOTEMPTY, errno.ELOOP, errno.EMLINK),
)
_BUSY = (errno.EBUSY, errno.ETXTBSY)

_ALSO_LATER = (errno.EHOSTUNREACH, errno.ENETUNREACH)
"""What a connection that stands gets, too, when the way to the other side is lost while its answer is awaited."""
_CONNECTS, _STARTS = "create_connection", "_execute_child"
"""The function of socket and of asyncio that connects; that of subprocess that starts a process."""
_NEVER_STARTED = (errno.E2BIG, errno.ENOEXEC)

_CONNECTING = re.compile(r"Connect call failed|All connection attempts failed")
"""How asyncio and anyio call a connection that was never made."""
_TUNNEL = re.compile(r"Tunnel connection failed: (\d{3})")
"""How http.client calls a proxy's refusal to make one."""


_BEFORE = {
    "_acquire": {"asyncpg": local("pool_timeout")},
    "connect": {"asyncpg": retryable("connect_failed")},
    "cert_verify": {"requests": unready("tls_certificate")},  # there is no such file of certificates
}
"""Functions, by name and package, whose errors have no class of their own, and come before anything is sent."""


def _came_before(error: BaseException) -> Fault | None:
    for frame in look.frames(error):
        known = _BEFORE.get(frame.f_code.co_name)
        if known is not None and (fault := known.get(look.package(frame))) is not None:
            return fault
    return None


@unless_early
def of_os(error: BaseException, situation: Situation) -> Fault | None:
    """Read an OSError by its number; ``None`` if that says nothing."""
    number = look.number(look.attr(error, "errno"))
    before = _came_before(error)
    if before is not None:
        return before
    if number is None and isinstance(error, TimeoutError) and _amid_connecting(error):
        return retryable("connect_timeout")
    refused_tunnel = _TUNNEL.match(look.text(error))
    if refused_tunnel:
        return of_tunnel(look.number(refused_tunnel[1]))
    if _never_connected(error):
        return retryable(NOT_REACHED.get(number or 0, "connect_failed"))
    if number == errno.EAGAIN and look.came_through([error], _STARTS):
        return local("would_block")
    if number in _NEVER_STARTED and look.came_through([error], _STARTS):
        return unwritable(errno.errorcode[number].lower())
    if number in _ALSO_LATER and not look.came_through([error], _CONNECTS):
        return ambiguous(NOT_REACHED[number])
    return _by_number(number, situation)


def _amid_connecting(error: BaseException) -> bool:
    """Tell whether the socket module's own function that connects gave up."""
    return any(f.f_code.co_name == _CONNECTS and look.package(f) == "socket" for f in look.frames(error))


def _by_number(number: int | None, situation: Situation) -> Fault | None:
    if number is None:
        return None
    name = errno.errorcode.get(number, "os_error").lower()
    if number in {errno.EEXIST, errno.ENOENT}:
        return exists(name, doubtful=situation.doubtful)
    if number in _CUT:
        return Fault(FaultClass.PARTIAL, Evidence.SOME, _CUT[number])
    if number in _REFUSED:
        return refused(name)
    if number in _BUSY:
        return retryable(name)
    if number in _LOCAL:
        return local(_LOCAL[number])
    if number in NOT_REACHED:
        return retryable(NOT_REACHED[number])
    return ambiguous(_AMBIGUOUS[number]) if number in _AMBIGUOUS else None


def _never_connected(error: BaseException) -> bool:
    words = look.text(look.attr(error, "strerror") or error)
    if words.startswith("Multiple exceptions: "):  # asyncio's, when each address failed in another way
        each = words.split("[Errno ")[1:]
        return bool(each) and all(_CONNECTING.match(one.partition("] ")[2]) for one in each)
    return _CONNECTING.match(words) is not None


def of_url(error: BaseException, _: Situation) -> Fault | None:
    """Read urllib's URLError: a text as its reason is its own refusal, an error in it says more."""
    return unwritable("invalid_url") if isinstance(look.attr(error, "reason"), str) else None


def named(number: int) -> Rules:
    """Return rules for the classes of one errno, which may be raised without it."""

    def judge(error: BaseException, situation: Situation) -> Fault | None:
        return of_os(error, situation) or _by_number(number, situation)

    kind = type(OSError(number, ""))
    return rules(kind.__module__, final={kind.__qualname__: judge})


_NAMED = (
    *(errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE, errno.EAGAIN, errno.EINTR),
    *(errno.EEXIST, errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.EACCES),
)

RULES = {
    ("builtins", "OSError"): Rule(of_os, default=ambiguous("os_error")),
    ("builtins", "TimeoutError"): Rule(of_os, default=ambiguous("timeout")),
    **{name: rule for number in _NAMED for name, rule in named(number).items()},
    **rules("socket", final={"gaierror": of_dns, "herror": of_dns}),
    **rules("builtins", final={"EOFError": ambiguous("end_of_file")}),
    **rules("asyncio", final={"IncompleteReadError": ambiguous("incomplete_read")}),
    **rules(
        "http",
        final={
            "InvalidURL": unwritable("invalid_url"),
            "NotConnected": unwritable("not_connected"),
            "RemoteDisconnected": unless_early(ambiguous("disconnected")),
            "IncompleteRead": unless_early(ambiguous("incomplete_read")),
            "HTTPException": unless_early(ambiguous("protocol_error")),
        },
    ),
    **rules(
        "urllib",
        final={"HTTPError": by_answer, "ContentTooShortError": ambiguous("incomplete_read")},
        wraps={"URLError": of_url},
        default=ambiguous("url_error"),
    ),
}
