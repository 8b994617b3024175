"""botocore and boto3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.faults import chain, look, repeats
from settled.core.faults.carried import by_answer
from settled.core.faults.codes import of_codes
from settled.core.faults.rules import Situation, ambiguous, is_a, retryable, rules, unready, unwritable, weakened
from settled.core.faults.tls import of_tls

if TYPE_CHECKING:
    from settled.core.model import Fault


def in_stream(error: BaseException, situation: Situation) -> Fault:
    """Read an EventStreamError. Its answer began well, and what came before the error is not seen.

    Codes in a stream begin with a small letter, those of the tables with a capital one.
    """
    code = look.text(look.called(look.called(look.attr(error, "response"), "get", "Error"), "get", "Code"))
    said = of_codes([code, code[:1].upper() + code[1:]], doubtful=situation.doubtful)
    return ambiguous("stream_error", uncertain=True) if said is None else weakened(said)


def of_upload(error: BaseException, situation: Situation) -> Fault | None:
    """Read boto3's failed upload by the error that it was handling. Parts that were sent make no file by themselves."""
    why = chain.context(error)
    if why is None or not is_a(why, "botocore", "ClientError") or repeats.hidden((why,)):
        return None
    return by_answer(why, situation)


_OF_BOTOCORE = rules(
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
        "EventStreamError": in_stream,
        "ClientError": by_answer,
    },
    wraps={"HTTPClientError": ambiguous("http_error"), "BotoCoreError": ambiguous("botocore_error")},
    default=ambiguous("botocore_error"),
)

RULES = {**_OF_BOTOCORE, **rules("boto3", final={"S3UploadFailedError": of_upload})}
