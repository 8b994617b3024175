"""requests: its ConnectionError says nothing, the error inside it does."""

from __future__ import annotations

from settled.core.faults.carried import broken_body, by_answer
from settled.core.faults.rules import ambiguous, hopeless, refused, retryable, rules
from settled.core.faults.tls import of_tls

RULES = rules(
    "requests",
    final={
        "ConnectTimeout": retryable("connect_timeout"),
        "ReadTimeout": ambiguous("read_timeout"),
        "SSLError": of_tls,
        "ChunkedEncodingError": broken_body,
        "ContentDecodingError": broken_body,
        "JSONDecodeError": broken_body,
        "InvalidURL": refused("invalid_url"),
        "MissingSchema": refused("invalid_url"),
        "InvalidSchema": refused("invalid_url"),
        "URLRequired": refused("invalid_url"),
        "InvalidHeader": refused("invalid_header"),
        "TooManyRedirects": hopeless("too_many_redirects"),
        "HTTPError": by_answer,
    },
    wraps={
        "ConnectionError": ambiguous("connection_error"),
        "RetryError": ambiguous("retries_exhausted"),
        "Timeout": ambiguous("timeout"),
        "RequestException": ambiguous("request_error"),
    },
    default=ambiguous("request_error"),
)
