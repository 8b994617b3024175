"""aiohttp's client."""

from __future__ import annotations

from settled.core.faults import look
from settled.core.faults.carried import broken_body, by_answer
from settled.core.faults.connect import connecting, of_tunnel, unless_early
from settled.core.faults.rules import Situation, ambiguous, hopeless, is_a, retryable, rules, unready, unwritable
from settled.core.model import Evidence, Fault


def of_response(error: BaseException, situation: Situation) -> Fault | None:
    """Read a ClientResponseError. For an answer that it cannot parse, aiohttp makes up the status 400."""
    if error.__cause__ is not None and is_a(error.__cause__, "aiohttp", "HttpProcessingError"):
        return ambiguous("protocol_error")
    return by_answer(error, situation)


def of_proxy_answer(error: BaseException, _: Situation) -> Fault:
    """Read a proxy's refusal to connect: the request itself was never sent."""
    return of_tunnel(look.number(look.attr(error, "status")))


_EMPTY = (204, 205)


def of_content_type(error: BaseException, situation: Situation) -> Fault:
    """Read an answer that is no JSON: under a status of success a page of whatever stands in between may come, too."""
    fault = broken_body(error, situation)
    if fault.evidence is Evidence.DONE and look.attr(error, "status") not in _EMPTY:
        return ambiguous("broken_body", uncertain=True)
    return fault


RULES = rules(
    "aiohttp",
    final={
        "ClientConnectorError": connecting,
        "ClientConnectorCertificateError": unready("tls_certificate"),
        "ConnectionTimeoutError": retryable("connect_timeout"),
        "ServerFingerprintMismatch": unready("tls_certificate"),
        "ClientHttpProxyError": of_proxy_answer,
        "InvalidURL": unwritable("invalid_url"),
        "NonHttpUrlClientError": unwritable("invalid_url"),
        # of a redirect: the first hop was sent
        "RedirectClientError": hopeless("bad_redirect"),
        "InvalidUrlRedirectClientError": hopeless("bad_redirect"),
        "NonHttpUrlRedirectClientError": hopeless("bad_redirect"),
        "TooManyRedirects": hopeless("too_many_redirects"),
        "ServerDisconnectedError": unless_early(ambiguous("disconnected")),
        "ClientConnectionResetError": unless_early(ambiguous("connection_reset")),
        "ClientOSError": unless_early(ambiguous("connection_error")),
        "ServerTimeoutError": unless_early(ambiguous("timeout")),
        "SocketTimeoutError": unless_early(ambiguous("read_timeout")),
        "ClientPayloadError": broken_body,
        "ContentTypeError": of_content_type,
        "ClientResponseError": unless_early(of_response),
    },
    wraps={
        "ClientConnectionError": ambiguous("connection_error"),
        "ClientError": ambiguous("client_error"),
    },
    default=ambiguous("client_error"),
)
