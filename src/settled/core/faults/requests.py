"""requests, and its fork niquests: their ConnectionError says nothing, the error inside it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.faults import chain
from settled.core.faults.carried import broken_body, by_answer
from settled.core.faults.connect import unless_early
from settled.core.faults.rules import Situation, ambiguous, hopeless, is_a, retryable, rules, unwritable
from settled.core.faults.tls import of_tls

if TYPE_CHECKING:
    from settled.core.model import Fault


def of_header(error: BaseException, _: Situation) -> Fault:
    """Read an InvalidHeader: of our own request, or, around urllib3's error of that name, of the answer."""
    if any(is_a(inner, "urllib3", "InvalidHeader") for inner in chain.inside(error)):
        return ambiguous("protocol_error")
    return unwritable("invalid_header")


RULES = rules(
    *("requests", "niquests"),
    final={
        "ConnectTimeout": retryable("connect_timeout"),
        "ReadTimeout": unless_early(ambiguous("read_timeout")),
        "SSLError": of_tls,
        "ChunkedEncodingError": broken_body,
        "ContentDecodingError": broken_body,
        "JSONDecodeError": broken_body,
        "InvalidURL": unwritable("invalid_url"),
        "MissingSchema": unwritable("invalid_url"),
        "InvalidSchema": unwritable("invalid_url"),
        "URLRequired": unwritable("invalid_url"),
        "InvalidHeader": of_header,
        "InvalidJSONError": unwritable("invalid_request"),
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
