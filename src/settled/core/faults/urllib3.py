"""urllib3, also beneath requests and botocore; its fork beneath niquests has either name."""

from __future__ import annotations

from settled.core.faults.connect import connecting, unless_early
from settled.core.faults.rules import ambiguous, local, retryable, rules, unwritable
from settled.core.faults.tls import of_tls

RULES = rules(
    *("urllib3", "urllib3_future"),
    final={
        "NewConnectionError": connecting,
        "ConnectTimeoutError": retryable("connect_timeout"),
        "EmptyPoolError": local("pool_timeout"),
        "FullPoolError": ambiguous("pool_full"),  # a connection is put back into it: the request was made
        "ClosedPoolError": local("pool_closed"),
        "LocationValueError": unwritable("invalid_url"),
        "InvalidHeader": ambiguous("protocol_error"),  # of the answer: two lengths, a Retry-After that is none
        "SSLError": of_tls,
        "ReadTimeoutError": unless_early(ambiguous("read_timeout")),
        "ProtocolError": unless_early(ambiguous("protocol_error")),
        "IncompleteRead": ambiguous("incomplete_read"),
        "DecodeError": ambiguous("broken_body"),
        "ResponseError": ambiguous("retries_exhausted"),
    },
    wraps={
        "MaxRetryError": ambiguous("retries_exhausted"),
        "ProxyError": ambiguous("proxy"),
        "TimeoutError": ambiguous("timeout"),
        "HTTPError": ambiguous("http_error"),
    },
)
