"""The connect phase: name, address, handshake. Whatever fails there, no request left."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from settled.core.faults import chain, look
from settled.core.faults.rules import Situation, is_a, retryable, unready
from settled.core.faults.tls import rejected_certificate

if TYPE_CHECKING:
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
