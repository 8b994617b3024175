"""TLS errors: which of them prove that no request left.

A certificate that is not accepted and a failed handshake come before the first byte of the request. What breaks the
protocol later has the same names: a server that falls back to plain text has a wrong version number, too. So the error
must have come through the handshake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.faults import chain, look
from settled.core.faults.rules import Situation, ambiguous, is_a, retryable, rules, unready

if TYPE_CHECKING:
    from settled.core.model import Fault

_HANDSHAKE = "do_handshake"
"""The function of the ssl module, over sockets and in memory."""

_BEFORE_THE_REQUEST = (
    *("WRONG_VERSION_NUMBER", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE", "NO_CIPHERS_AVAILABLE"),
    *("HANDSHAKE_FAILURE", "PROTOCOL_VERSION", "UNRECOGNIZED_NAME", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"),
    *("UNKNOWN_CA", "CERTIFICATE", "DH_KEY_TOO_SMALL", "UNSAFE_LEGACY_RENEGOTIATION", "NO_APPLICATION_PROTOCOL"),
)


def of_tls(error: BaseException, _: Situation | None = None) -> Fault:
    """Read an SSL error of any library by the ssl module's own error inside it."""
    if rejected_certificate(error):
        return unready("tls_certificate")
    shaking = [inner for inner in chain.inside(error) if is_a(inner, "ssl", "SSLError")]
    reasons = [look.text(look.attr(inner, "reason")) for inner in shaking if look.came_through([inner], _HANDSHAKE)]
    if any(sign in reason for reason in reasons for sign in _BEFORE_THE_REQUEST):
        return retryable("tls_handshake")
    return ambiguous("tls_error")


def rejected_certificate(error: BaseException) -> bool:
    """Tell whether this error comes from a certificate that was not accepted."""
    return any(is_a(inner, "ssl", "SSLCertVerificationError") for inner in chain.inside(error))


RULES = rules(
    "ssl",
    final={
        "SSLCertVerificationError": unready("tls_certificate"),
        "SSLError": of_tls,
    },
)
