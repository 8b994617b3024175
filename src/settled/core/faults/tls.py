"""TLS errors: which of them prove that no request left.

A certificate that is not accepted and a failed handshake come before the first byte of the request. What breaks the
protocol later has the same names: a server that falls back to plain text has a wrong version number, too. So the error
must have come through the handshake. In TLS 1.3 the client's handshake is over before the server has looked at the
client's certificate: if it refuses that one, its alert comes in the place of an answer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from settled.core.faults import chain, look
from settled.core.faults.early import came_early
from settled.core.faults.rules import Situation, ambiguous, is_a, retryable, rules, unready

if TYPE_CHECKING:
    from settled.core.model import Fault

_NOT_LET_IN = re.compile(r"ALERT_(?:(?:BAD_)?CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED|UNSUPPORTED_CERTIFICATE)")
"""TLS alerts by which the other side refuses our certificate, or wants one. It then looks at no request of ours."""


def of_tls(error: BaseException, _: Situation | None = None) -> Fault:
    """Read an SSL error of any library by the ssl module's own error inside it."""
    if rejected_certificate(error):
        return unready("tls_certificate")
    if not_let_in(error):
        return unready("tls_client_certificate")
    return retryable("tls_handshake") if came_early(error) else ambiguous("tls_error")


def not_let_in(error: BaseException) -> bool:
    """Tell whether the other side did not accept our certificate, or wanted one."""
    inside = [inner for inner in chain.inside(error) if is_a(inner, "ssl", "SSLError")]
    return any(_NOT_LET_IN.search(look.text(look.attr(inner, "reason"))) for inner in inside)


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
