"""botocore and boto3."""

from __future__ import annotations

from settled.core.faults.carried import by_answer
from settled.core.faults.rules import ambiguous, retryable, rules, unready, unwritable
from settled.core.faults.tls import of_tls

RULES = rules(
    "botocore",
    final={
        "EndpointConnectionError": retryable("connect_failed"),
        "ConnectTimeoutError": retryable("connect_timeout"),
        "ProxyConnectionError": retryable("proxy"),
        "SSLError": of_tls,
        "ReadTimeoutError": ambiguous("read_timeout"),
        "ConnectionClosedError": ambiguous("disconnected"),
        "ResponseStreamingError": ambiguous("incomplete_read"),
        "IncompleteReadError": ambiguous("incomplete_read"),
        "ParamValidationError": unwritable("invalid_request"),
        "NoCredentialsError": unready("no_credentials"),
        "PartialCredentialsError": unready("no_credentials"),
        "CredentialRetrievalError": unready("no_credentials"),
        "TokenRetrievalError": unready("no_credentials"),
        "SSOError": unready("no_credentials"),
        "ProfileNotFound": unready("no_credentials"),
        "NoRegionError": unready("no_region"),
        "InvalidRegionError": unready("no_region"),
        "UnknownEndpointError": unready("no_region"),
        "UnknownServiceError": unready("no_service"),
        "EndpointProviderError": unwritable("invalid_request"),
        "ClientError": by_answer,
    },
    wraps={"HTTPClientError": ambiguous("http_error"), "BotoCoreError": ambiguous("botocore_error")},
    default=ambiguous("botocore_error"),
)
