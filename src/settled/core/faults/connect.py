"""The connect phase: name, address, handshake. Whatever fails there, no request left."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from settled.core.faults import chain, look, repeats
from settled.core.faults.early import came_early
from settled.core.faults.rules import Situation, is_a, retryable, unready
from settled.core.faults.statuses import of_status
from settled.core.faults.tls import not_let_in, rejected_certificate
from settled.core.model import Evidence, FaultClass

if TYPE_CHECKING:
    from types import FrameType

    from settled.core.faults.rules import Judge
    from settled.core.model import Fault

NOT_REACHED = {
    errno.ECONNREFUSED: "connect_refused",
    errno.EHOSTUNREACH: "unreachable",
    errno.ENETUNREACH: "unreachable",
    errno.EADDRNOTAVAIL: "no_address",
}

# getaddrinfo's numbers on Linux; on BSD and macOS; on Windows
_DNS_AGAIN = (-3, 2, 11002)
_DNS_NO_NAME = (-2, -5, 8, 7, 11001)


def connecting(error: BaseException, situation: Situation) -> Fault:
    """Read an error that a library raises for the connect phase alone, by what lies inside it."""
    if rejected_certificate(error):
        return unready("tls_certificate")
    inside = chain.inside(error)
    name = next((inner for inner in inside if is_a(inner, "socket", "gaierror", "herror")), None)
    if name is not None:
        return of_dns(name, situation)
    numbers = [look.number(look.attr(inner, "errno")) for inner in inside]
    return retryable(next((NOT_REACHED[n] for n in numbers if n is not None and n in NOT_REACHED), "connect_failed"))


def of_dns(error: BaseException, situation: Situation) -> Fault:
    """Read a failed look-up. A name that does not exist gets one more chance: resolvers are flaky."""
    number = look.attr(error, "errno")
    if number in _DNS_NO_NAME and situation.attempt > 1:
        return unready("dns_no_name")
    return retryable("dns_again" if number in _DNS_AGAIN else "dns")


def of_tunnel(status: int | None) -> Fault:
    """Read a proxy's refusal of a tunnel by its status. No request was sent; some statuses refuse everybody."""
    said = None if status is None else of_status(status, method="", asks_to_wait=False, doubtful=False)
    return unready("proxy") if said is not None and said.kind is FaultClass.PERMANENT else retryable("proxy")


def unless_early(said: Fault | Judge) -> Judge:
    """Return a rule that says this, unless the error came while the connection was made: then nothing was sent.

    What proves something by itself keeps its word.
    """

    def judge(error: BaseException, situation: Situation) -> Fault | None:
        fault = said(error, situation) if callable(said) else said
        if fault is not None and fault.evidence is not Evidence.MAYBE:
            return fault
        if came_early(error) or cut_off(error):
            return retryable("connect_failed")
        return unready("tls_client_certificate") if not_let_in(error) else fault

    return judge


_TASKS = frozenset({"gather", "create_task", "ensure_future", "as_completed", "wait", "run_coroutine_threadsafe"})
_CONNECTS = {"connect": "aiohttp", "create_connection": "asyncio", "connect_tcp": "anyio"}


def cut_off(error: BaseException) -> bool:
    """Tell whether asyncio's time limit ended an attempt to connect: its cancellation came through what connects."""
    cancelled = error.__cause__
    if cancelled is None or not isinstance(error, TimeoutError) or not is_a(cancelled, "asyncio", "CancelledError"):
        return False
    if chain.context(cancelled) is not None:  # it connected as it handled something else
        return False
    way = list(look.frames(cancelled))
    connects = next((at for at, frame in enumerate(way) if look.package(frame) == _CONNECTS.get(_name(frame))), None)
    if connects is None or any(map(_makes_tasks, (*look.frames(error), *way[:connects]))):
        return False
    return not repeats.hidden((cancelled,))


def _name(frame: FrameType) -> str:
    return frame.f_code.co_name


def _makes_tasks(frame: FrameType) -> bool:
    """Tell whether a function makes tasks: of several at work, the cancellation shows the way of one alone."""
    return look.package(frame) != "asyncio" and not _TASKS.isdisjoint(frame.f_code.co_names)
