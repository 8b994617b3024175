"""httpx (and httpcore beneath it): its classes tell the phases of a request apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.faults import chain, look
from settled.core.faults.carried import broken_body, by_answer
from settled.core.faults.connect import connecting
from settled.core.faults.rules import Situation, ambiguous, hopeless, local, refused, retryable, rules

if TYPE_CHECKING:
    from settled.core.model import Fault


def of_proxy(error: BaseException, _: Situation) -> Fault:
    """Read a ProxyError: for https it comes from CONNECT, before the request."""
    scheme = look.text(look.attr(error, "request", "url", "scheme"))
    return retryable("proxy") if scheme in {"https", "wss"} else ambiguous("proxy")


_HEAD = "_send_request_headers"
"""httpcore's function that checks and writes the head of a request."""


def of_local_protocol(error: BaseException, _: Situation) -> Fault:
    """Read a LocalProtocolError: it proves something only of a head that was refused.

    Over HTTP/2 an answer that breaks the protocol is told by it too; over HTTP/1 a body longer than was said.
    """
    if look.came_through(chain.inside(error), _HEAD):
        return refused("invalid_request")
    return ambiguous("protocol_error")


RULES = rules(
    *("httpx", "httpx2", "httpcore"),
    final={
        "ConnectError": connecting,
        "ConnectTimeout": retryable("connect_timeout"),
        "PoolTimeout": local("pool_timeout"),
        "UnsupportedProtocol": refused("unsupported_protocol"),
        "InvalidURL": refused("invalid_url"),
        "LocalProtocolError": of_local_protocol,
        "ProxyError": of_proxy,
        "ReadTimeout": ambiguous("read_timeout"),
        "ReadError": ambiguous("read_error"),
        "WriteTimeout": ambiguous("write_timeout"),
        "WriteError": ambiguous("write_error"),
        "CloseError": ambiguous("close_error"),
        "RemoteProtocolError": ambiguous("protocol_error"),
        "DecodingError": broken_body,
        "TooManyRedirects": hopeless("too_many_redirects"),
        "HTTPStatusError": by_answer,
    },
    wraps={
        "TimeoutException": ambiguous("timeout"),
        "HTTPError": ambiguous("http_error"),
        "NetworkError": ambiguous("network_error"),
        "ProtocolError": ambiguous("protocol_error"),
    },
    default=ambiguous("http_error"),
)
