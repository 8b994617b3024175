"""httpx (and httpcore beneath it): its classes tell the phases of a request apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.faults import chain, look
from settled.core.faults.carried import broken_body, by_answer
from settled.core.faults.connect import connecting, of_tunnel, unless_early
from settled.core.faults.early import came_early
from settled.core.faults.rules import Situation, ambiguous, hopeless, is_a, local, names, retryable, rules, unwritable
from settled.core.model import Fault

if TYPE_CHECKING:
    from settled.core.faults.rules import Judge


def of_proxy(error: BaseException, _: Situation) -> Fault:
    """Read a ProxyError: for https it comes from CONNECT, before the request. Its words begin with the status."""
    scheme = look.text(look.attr(error, "request", "url", "scheme"))
    if scheme not in {"https", "wss"} and not came_early(error):
        return ambiguous("proxy")
    return of_tunnel(look.number(look.text(error).partition(" ")[0]))


_HEAD = "_send_request_headers"
"""httpcore's function that checks and writes the head of a request."""


def of_local_protocol(error: BaseException, _: Situation) -> Fault:
    """Read a LocalProtocolError: it proves something only of a head that was refused.

    Over HTTP/2 an answer that breaks the protocol is told by it too; over HTTP/1 a body longer than was said.
    """
    if look.came_through(chain.inside(error), _HEAD):
        return unwritable("invalid_request")
    return ambiguous("protocol_error")


_HEAD_OF_THE_ANSWER = "_receive_response"
"""httpcore's function that waits for it, over HTTP/2."""
_REFUSED_STREAM = 7


def of_remote_protocol(error: BaseException, _: Situation) -> Fault:
    """Read a RemoteProtocolError: over HTTP/2 the other side may say that it has left a request alone.

    RFC 9113 §8.7: by a stream that is refused, or by the last one that it has looked at as it goes away.
    """
    inside = chain.inside(error)
    told = any(_left_alone(argument) for inner in inside for argument in inner.args)
    if told and look.came_through(inside, _HEAD_OF_THE_ANSWER):
        return retryable("stream_refused")
    return ambiguous("protocol_error")


def _left_alone(event: object) -> bool:
    match type(event).__name__:
        case "StreamReset":
            refused = look.number(look.attr(event, "error_code")) == _REFUSED_STREAM
            return refused and look.attr(event, "remote_reset") is True
        case "ConnectionTerminated":
            return look.number(look.attr(event, "last_stream_id")) == 0
        case _:
            return False


_NATIVE = frozenset({"httpcore", "httpcore2", "anyio", "builtins", "socket", "ssl"})
"""Of what httpx's own transports, and httpcore, make their errors."""


def own(said: Fault | Judge) -> Judge:
    """Return the rule for an error of the phase in which httpx itself raises it.

    A transport over another client has its own idea of which phase that client's errors belong to: httpx-aiohttp calls
    a server that hangs up, after whatever it has done, a ``ConnectTimeout``. There the cause decides.
    """

    def judge(error: BaseException, situation: Situation) -> Fault | None:
        cause = error.__cause__
        if cause is not None and names(type(cause))[0][0] not in _NATIVE:
            # a cancellation: of a task that the transport has made
            return ambiguous("connection_error") if is_a(cause, "asyncio", "CancelledError") else None
        return said if isinstance(said, Fault) else said(error, situation)

    return judge


RULES = rules(
    *("httpx", "httpx2", "httpcore", "httpcore2"),
    final={
        "ConnectError": own(connecting),
        "ConnectTimeout": own(retryable("connect_timeout")),
        "PoolTimeout": own(local("pool_timeout")),
        "UnsupportedProtocol": own(unwritable("unsupported_protocol")),
        "InvalidURL": unwritable("invalid_url"),
        "LocalProtocolError": of_local_protocol,
        "ProxyError": own(of_proxy),
        "ReadTimeout": unless_early(ambiguous("read_timeout")),
        "ReadError": unless_early(ambiguous("read_error")),
        "WriteTimeout": unless_early(ambiguous("write_timeout")),
        "WriteError": unless_early(ambiguous("write_error")),
        "CloseError": ambiguous("close_error"),
        "RemoteProtocolError": unless_early(of_remote_protocol),
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
