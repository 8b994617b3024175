"""Every row of the table of faults: class and evidence for each source."""

import asyncio
import concurrent.futures
import errno
import http.client
import json
import socket
import ssl
import subprocess
import urllib.error
from email.message import Message
from types import SimpleNamespace

import httpx
import pydantic
import pytest
import tenacity

from settled.core.faults import classify, classify_mcp, classify_response, invalid_arguments, unusable_result
from settled.core.faults.python import CANCELLED
from tests.core.faults.fakes import answered, client_error, fake, made, rpc_error, through

R, P, U, M = "retryable none", "permanent none", "unknown maybe", "invalid none"
"""Retryable, permanent, ambiguous, model's fault: the letters of the table, as class and evidence."""

LOST = "permanent maybe"
DONE = "unknown done"
REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
RESET = ConnectionResetError(errno.ECONNRESET, "reset")
NO_NAME = socket.gaierror(-2, "Name or service not known")
CERTIFICATE = ssl.SSLCertVerificationError(1, "certificate verify failed")


def tls(reason, kind=ssl.SSLError, words=""):
    error = kind(1, words or reason)
    error.reason = reason
    return error


def shaking(reason):
    """As ``tls``, out of a handshake."""
    return through("ssl.do_handshake", tls(reason))


def said(fault):
    return "success" if fault is None else f"{fault.kind} {fault.evidence}"


def row(label, error, expected, **situation):
    return pytest.param(error, expected, situation, id=label)


# --- httpx: the real one ---

REQUEST = httpx.Request("POST", "https://service/x")


def status_error(status, method="POST", **response):
    request = httpx.Request(method, "https://service/x")
    return httpx.HTTPStatusError("", request=request, response=httpx.Response(status, request=request, **response))


def with_cause(error, cause):
    error.__cause__ = cause
    return error


HEAD = "httpcore._sync.http11._send_request_headers"

HTTPX = [
    row("ConnectError", httpx.ConnectError("refused"), R),
    row("ConnectError-reset-in-handshake", with_cause(httpx.ConnectError(""), RESET), R),
    row("ConnectTimeout", httpx.ConnectTimeout(""), R),
    row("ConnectError-certificate", with_cause(httpx.ConnectError(""), CERTIFICATE), P),
    row("ConnectError-dns-once", with_cause(httpx.ConnectError(""), NO_NAME), R),
    row("ConnectError-no-such-host", with_cause(httpx.ConnectError(""), socket.herror(1, "Unknown host")), R),
    row("ConnectError-dns-again", with_cause(httpx.ConnectError(""), NO_NAME), P, attempt=2),
    row("UnsupportedProtocol", httpx.UnsupportedProtocol(""), P),
    row("InvalidURL", httpx.InvalidURL(""), P),
    row("LocalProtocolError", through(HEAD, httpx.LocalProtocolError("")), P),
    row("LocalProtocolError-elsewhere", httpx.LocalProtocolError(""), U),
    row("PoolTimeout", httpx.PoolTimeout(""), R),
    row("ProxyError-CONNECT", httpx.ProxyError("", request=REQUEST), R),
    row("ProxyError-plain", httpx.ProxyError("", request=httpx.Request("POST", "http://service/x")), U),
    row("ProxyError-wss", httpx.ProxyError("", request=httpx.Request("GET", "wss://service/x")), R),
    row("ProxyError-no-request", httpx.ProxyError(""), U),
    row("ReadTimeout", httpx.ReadTimeout(""), U),
    row("ReadError", httpx.ReadError(""), U),
    row("RemoteProtocolError", httpx.RemoteProtocolError(""), U),
    row("CloseError", httpx.CloseError(""), U),
    row("WriteTimeout", httpx.WriteTimeout(""), U),
    row("WriteError", httpx.WriteError(""), U),
    row("DecodingError", httpx.DecodingError(""), U),
    row("DecodingError-2xx", made("httpx.DecodingError", response=httpx.Response(200)), DONE),
    row("DecodingError-500", made("httpx.DecodingError", response=httpx.Response(500)), U),
    row("TooManyRedirects", httpx.TooManyRedirects(""), LOST),
    row("HTTPStatusError-404", status_error(404), P),
    row("HTTPStatusError-502", status_error(502), U),
    row("HTTPStatusError-307", status_error(307), LOST),
    row("httpx2", made("httpx2.ReadTimeout"), U),
    row("httpx2-connect", made("httpx2.ConnectTimeout"), R),
    row("httpcore", made("httpcore.ConnectError"), R),
]


# --- requests and urllib3 ---


def u3(name, *args, **more):
    return made(f"urllib3.exceptions.{name}", *args, **more)


def connection_error(inner):
    return made("requests.exceptions.ConnectionError", inner)


def exhausted(reason):
    return u3("MaxRetryError", reason=reason)


REQUESTS = [
    row("ConnectTimeout", made("requests.exceptions.ConnectTimeout"), R),
    row("NewConnectionError", connection_error(exhausted(u3("NewConnectionError", cause=REFUSED))), R),
    row("ConnectionRefusedError", connection_error(REFUSED), R),
    row("gaierror", connection_error(socket.gaierror(-3, "again")), R),
    row("NameResolutionError", connection_error(exhausted(u3("NameResolutionError", cause=NO_NAME))), R),
    row(
        "SSLError-certificate",
        made("requests.exceptions.SSLError", exhausted(u3("SSLError", CERTIFICATE))),
        P,
    ),
    row(
        "SSLError-handshake",
        made("requests.exceptions.SSLError", exhausted(u3("SSLError", shaking("WRONG_VERSION_NUMBER")))),
        R,
    ),
    row(
        "SSLError-plain-text-while-reading",
        made("requests.exceptions.SSLError", exhausted(u3("SSLError", tls("WRONG_VERSION_NUMBER")))),
        U,
    ),
    row(
        "SSLError-end-of-file-while-reading",
        made("requests.exceptions.SSLError", exhausted(u3("SSLError", tls("UNEXPECTED_EOF_WHILE_READING")))),
        U,
    ),
    row("bare", made("requests.exceptions.ConnectionError"), U),
    row("ProtocolError", connection_error(u3("ProtocolError", "aborted", RESET)), U),
    row("RemoteDisconnected", connection_error(u3("ProtocolError", "", http.client.RemoteDisconnected())), U),
    row("ConnectionResetError", connection_error(RESET), U),
    row("TimeoutError", connection_error(TimeoutError()), U),
    row(
        "host-unreachable-on-an-open-socket", connection_error(u3("ProtocolError", OSError(errno.EHOSTUNREACH, ""))), U
    ),
    row("ReadTimeout", made("requests.exceptions.ReadTimeout"), U),
    row("ChunkedEncodingError", made("requests.exceptions.ChunkedEncodingError"), U),
    row("ChunkedEncodingError-2xx", answered("requests.exceptions.ChunkedEncodingError", 200), DONE),
    row("ContentDecodingError-2xx", answered("requests.exceptions.ContentDecodingError", 201), DONE),
    row("JSONDecodeError-2xx", answered("requests.exceptions.JSONDecodeError", 200), DONE),
    row("JSONDecodeError-502", answered("requests.exceptions.JSONDecodeError", 502), U),
    row("InvalidURL", made("requests.exceptions.InvalidURL"), P),
    row("MissingSchema", made("requests.exceptions.MissingSchema"), P),
    row("InvalidHeader", made("requests.exceptions.InvalidHeader"), P),
    row("InvalidHeader-of-the-answer", made("requests.exceptions.InvalidHeader", u3("InvalidHeader")), U),
    row("HTTPError", answered("requests.exceptions.HTTPError", 422), P),
    row("HTTPError-without-answer", made("requests.exceptions.HTTPError"), U),
]

URLLIB3 = [
    row("NewConnectionError", u3("NewConnectionError"), R),
    row("ConnectTimeoutError", u3("ConnectTimeoutError"), R),
    row("NameResolutionError", u3("NameResolutionError", bases=(fake("urllib3.exceptions.NewConnectionError"),)), R),
    row("MaxRetryError-NewConnectionError", exhausted(u3("NewConnectionError")), R),
    row("MaxRetryError-ReadTimeoutError", exhausted(u3("ReadTimeoutError")), U),
    row("MaxRetryError-bare", u3("MaxRetryError"), U),
    row("ReadTimeoutError", u3("ReadTimeoutError"), U),
    row("ProtocolError", u3("ProtocolError"), U),
    row("IncompleteRead", u3("IncompleteRead"), U),
    row("InvalidHeader-of-the-answer", u3("InvalidHeader"), U),
    row("FullPoolError", u3("FullPoolError"), U),
    row("EmptyPoolError", u3("EmptyPoolError"), R),
    row("ProxyError-not-reached", u3("ProxyError", original_error=OSError("Tunnel connection failed: 502")), R),
    row("ProxyError", u3("ProxyError", original_error=RESET), U),
]

# --- aiohttp ---

OS_ERROR = fake("aiohttp.client_exceptions.ClientOSError", OSError)
CONNECTOR_ERROR = fake("aiohttp.client_exceptions.ClientConnectorError", OS_ERROR)
RESPONSE_ERROR = fake("aiohttp.client_exceptions.ClientResponseError")
SERVER_TIMEOUT = fake("aiohttp.client_exceptions.ServerTimeoutError", TimeoutError)


def aio(name, *bases, **attributes):
    return made(f"aiohttp.client_exceptions.{name}", bases=bases, **attributes)


AIOHTTP = [
    row("ClientConnectorError", CONNECTOR_ERROR(errno.ECONNRESET, "in the handshake"), R),
    row("ClientConnectorDNSError", aio("ClientConnectorDNSError", CONNECTOR_ERROR, os_error=NO_NAME), R),
    row("ClientConnectorSSLError", aio("ClientConnectorSSLError", CONNECTOR_ERROR), R),
    row("ClientConnectorCertificateError", aio("ClientConnectorCertificateError", CONNECTOR_ERROR), P),
    row("ConnectionTimeoutError", aio("ConnectionTimeoutError", SERVER_TIMEOUT), R),
    row("ServerDisconnectedError", aio("ServerDisconnectedError"), U),
    row("ClientOSError", OS_ERROR(errno.ECONNRESET, ""), U),
    row("ClientOSError-unreachable", OS_ERROR(errno.EHOSTUNREACH, ""), U),
    row("SocketTimeoutError", aio("SocketTimeoutError", SERVER_TIMEOUT), U),
    row("ServerTimeoutError", SERVER_TIMEOUT(), U),
    row("ClientPayloadError", aio("ClientPayloadError"), U),
    row("ContentTypeError-2xx", aio("ContentTypeError", RESPONSE_ERROR, status=200, headers={}), U),
    row("ContentTypeError-204", aio("ContentTypeError", RESPONSE_ERROR, status=204, headers={}), DONE),
    row("ContentTypeError-503", aio("ContentTypeError", RESPONSE_ERROR, status=503, headers={}), U),
    row("ClientResponseError", aio("ClientResponseError", status=404, headers=None), P),
    row(
        "ClientResponseError-of-an-unreadable-answer",
        aio("ClientResponseError", status=400, headers={}, cause=made("aiohttp.http_exceptions.HttpProcessingError")),
        U,
    ),
    row("ClientHttpProxyError", aio("ClientHttpProxyError", RESPONSE_ERROR, status=502, headers={}), R),
    row("ClientHttpProxyError-407", aio("ClientHttpProxyError", RESPONSE_ERROR, status=407, headers={}), P),
    row("ClientHttpProxyError-bare", aio("ClientHttpProxyError", RESPONSE_ERROR), R),
    row("RedirectClientError", aio("InvalidUrlRedirectClientError"), LOST),
]

# --- gRPC and Google ---

NEVER_CONNECTED = "failed to connect to all addresses; last error: Connection refused"
BACKEND_TOO_LARGE = "Stream removed (CLIENT: Received message larger than max (5000000 vs. 4194304))"
RETRY_INFO = (
    b"\x08\x08\x12\x01m\x1a6\n(type.googleapis.com/google.rpc.RetryInfo\x12\n\n\x08\x08\x03\x10\x80\xca\xb5\xee\x01"
)

READY, TRANSIENT_FAILURE, SHUT_DOWN = 2, 3, 4


def called_on(state, error, *, package="grpc"):
    """Return the error as it comes out of a call on a channel in that state."""
    channel = SimpleNamespace(check_connectivity_state=lambda _: state)
    return through(f"{package}._channel.__call__", error, self=SimpleNamespace(_channel=channel))


def awaited_on(state, error):
    """Do the same for grpc.aio."""
    channel = SimpleNamespace(check_connectivity_state=lambda _: state)
    call = SimpleNamespace(_cython_call=SimpleNamespace(_channel=channel))
    return through("grpc.aio._call.__await__", error, self=call)


def out_of_a_stream(name, error):
    return through(f"grpc.{name}", error)


GRPC = [
    row(
        "UNAVAILABLE-never-connected",
        called_on(TRANSIENT_FAILURE, rpc_error("UNAVAILABLE", NEVER_CONNECTED)),
        R,
    ),
    row("UNAVAILABLE-Connect-failed", called_on(TRANSIENT_FAILURE, rpc_error("UNAVAILABLE", "Connect failed")), R),
    # word for word the same, once a peer hands on what its own channel said
    row("UNAVAILABLE-handed-on-by-the-peer", called_on(READY, rpc_error("UNAVAILABLE", NEVER_CONNECTED)), U),
    row("UNAVAILABLE-channel-closed", called_on(SHUT_DOWN, rpc_error("UNAVAILABLE", NEVER_CONNECTED)), U),
    row("UNAVAILABLE-channel-not-seen", rpc_error("UNAVAILABLE", NEVER_CONNECTED), U),
    row(
        "UNAVAILABLE-other-channel",
        called_on(TRANSIENT_FAILURE, rpc_error("UNAVAILABLE", NEVER_CONNECTED), package="shop"),
        U,
    ),
    row("UNAVAILABLE-broke-later", called_on(TRANSIENT_FAILURE, rpc_error("UNAVAILABLE", "Socket closed")), U),
    row("UNAVAILABLE-Socket-closed", rpc_error("UNAVAILABLE", "Socket closed"), U),
    row("DEADLINE_EXCEEDED", rpc_error("DEADLINE_EXCEEDED"), U),
    row("CANCELLED", rpc_error("CANCELLED"), U),
    row("UNKNOWN", rpc_error("UNKNOWN"), U),
    row("INTERNAL", rpc_error("INTERNAL"), U),
    row("DATA_LOSS", rpc_error("DATA_LOSS"), LOST),
    row("ABORTED", rpc_error("ABORTED"), R),
    row(
        "RESOURCE_EXHAUSTED-RetryInfo",
        rpc_error("RESOURCE_EXHAUSTED", metadata=(("grpc-status-details-bin", RETRY_INFO),)),
        R,
    ),
    row("RESOURCE_EXHAUSTED-pushback", rpc_error("RESOURCE_EXHAUSTED", metadata=(("grpc-retry-pushback-ms", "5"),)), R),
    row("RESOURCE_EXHAUSTED", rpc_error("RESOURCE_EXHAUSTED"), R),
    row("answer-too-large", rpc_error("RESOURCE_EXHAUSTED", BACKEND_TOO_LARGE), LOST),
    row(
        "answer-too-large-to-send",
        rpc_error("RESOURCE_EXHAUSTED", "SERVER: Sent message larger than max (5 vs. 4)"),
        LOST,
    ),
    row("too-large-not-said-what", rpc_error("RESOURCE_EXHAUSTED", "Received message larger than max (5 vs. 4)"), LOST),
    row("request-too-large", rpc_error("RESOURCE_EXHAUSTED", "SERVER: Received message larger than max (5 vs. 4)"), P),
    row(
        "request-too-large-to-send",
        rpc_error("RESOURCE_EXHAUSTED", "CLIENT: Sent message larger than max (5 vs. 4)"),
        P,
    ),
    *(
        row(f"{name}-amid-answers-{way}", out_of_a_stream(way, rpc_error(name)), expected)
        for way in ("_channel._next", "aio._call._fetch_stream_responses", "aio._call.read")
        for name, expected in (("ABORTED", U), ("FAILED_PRECONDITION", LOST), ("PERMISSION_DENIED", P))
    ),
    row("INVALID_ARGUMENT", rpc_error("INVALID_ARGUMENT"), M),
    row("OUT_OF_RANGE", rpc_error("OUT_OF_RANGE"), M),
    *(
        row(name, rpc_error(name), P)
        for name in (
            *("FAILED_PRECONDITION", "NOT_FOUND", "ALREADY_EXISTS"),
            *("PERMISSION_DENIED", "UNAUTHENTICATED", "UNIMPLEMENTED"),
        )
    ),
    *(
        row(f"{name}-after-doubt", rpc_error(name), expected, doubtful=True)
        for name, expected in (
            *(("INVALID_ARGUMENT", LOST), ("FAILED_PRECONDITION", LOST), ("NOT_FOUND", LOST)),
            *(("PERMISSION_DENIED", P), ("UNAUTHENTICATED", P), ("UNIMPLEMENTED", P)),
        )
    ),
    row("ALREADY_EXISTS-after-doubt", rpc_error("ALREADY_EXISTS"), LOST, doubtful=True),
    *(
        row(
            f"aio-{state}",
            awaited_on(state, rpc_error("UNAVAILABLE", NEVER_CONNECTED, path="grpc.aio._call.AioRpcError")),
            said,
        )
        for state, said in ((TRANSIENT_FAILURE, R), (READY, U))
    ),
]


def api_core(name, grpc_error=None, **attributes):
    base = fake("google.api_core.exceptions.GoogleAPICallError")
    errors = (grpc_error,) if grpc_error else ()
    return made(f"google.api_core.exceptions.{name}", bases=(base,), errors=errors, **attributes)


def of_httplib2(status, previous=None):
    return SimpleNamespace(status=status, previous=previous)


GOOGLE = [
    row(
        "over-gRPC",
        api_core("ServiceUnavailable", called_on(TRANSIENT_FAILURE, rpc_error("UNAVAILABLE", NEVER_CONNECTED))),
        R,
    ),
    row("over-gRPC-aborted", api_core("Aborted", rpc_error("ABORTED")), R),
    row("over-HTTP-503", api_core("ServiceUnavailable", code=503, response=httpx.Response(503)), U),
    row("over-HTTP-429", api_core("TooManyRequests", code=429, response=httpx.Response(429)), R),
    row("by-code-alone", api_core("NotFound", grpc_status_code=type("Code", (), {"name": "NOT_FOUND"})), P),
    row("by-code-unavailable", api_core("X", grpc_status_code=type("Code", (), {"name": "UNAVAILABLE"})), U),
    row(
        "by-answer-before-code",
        api_core("X", response=httpx.Response(503), grpc_status_code=type("Code", (), {"name": "NOT_FOUND"})),
        U,
    ),
    row("RetryError", made("google.api_core.exceptions.RetryError", cause=REFUSED), U),
    *(
        row(f"googleapiclient-{status}", made("googleapiclient.errors.HttpError", resp=of_httplib2(status)), expected)
        for status, expected in ((400, P), (403, P), (404, LOST), (409, LOST), (412, LOST), (429, R), (503, U))
    ),
    row(
        "googleapiclient-redirected",
        made("googleapiclient.errors.HttpError", resp=of_httplib2(400, {"status": "303"})),
        LOST,
    ),
    row("googleapiclient-without-answer", made("googleapiclient.errors.HttpError"), U),
]

# --- botocore ---

BOTOCORE = [
    *(
        row(name, made(f"botocore.exceptions.{name}"), R)
        for name in ("EndpointConnectionError", "ConnectTimeoutError", "ProxyConnectionError")
    ),
    row("SSLError-certificate", made("botocore.exceptions.SSLError", cause=CERTIFICATE), P),
    row("SSLError-handshake", made("botocore.exceptions.SSLError", cause=shaking("SSLV3_ALERT_HANDSHAKE_FAILURE")), R),
    *(
        row(name, made(f"botocore.exceptions.{name}"), U)
        for name in ("ReadTimeoutError", "ConnectionClosedError", "ResponseStreamingError", "HTTPClientError")
    ),
    *(
        row(f"ClientError-{code}", client_error(code, 400), R)
        for code in ("Throttling", "SlowDown", "ThrottlingException")
    ),
    row("ClientError-RequestLimitExceeded", client_error("RequestLimitExceeded", 503), R),
    row("ClientError-429", client_error("Whatever", 429), R),
    row("ClientError-RequestTimeout", client_error("RequestTimeout", 400), U),
    row("ClientError-PriorRequestNotComplete", client_error("PriorRequestNotComplete", 400), U),
    *(row(f"ClientError-{status}", client_error("InternalError", status), U) for status in (500, 502, 503, 504)),
    *(
        row(f"ClientError-{code}", client_error(code, 400), P)
        for code in ("ConditionalCheckFailedException", "AccessDeniedException", "ResourceNotFoundException")
    ),
    row("ClientError-ValidationException", client_error("ValidationException", 400), M),
    row("ClientError-TransactionInProgress", client_error("TransactionInProgressException", 400), "retryable maybe"),
    row("ClientError-after-own-repeats", client_error("ConditionalCheckFailedException", 400, retries=1), LOST),
    row("ClientError-throttled-after-own-repeats", client_error("SlowDown", 503, retries=4), U),
]

# --- openai and anthropic ---


def sdk(name, cause=None, *, retries="0", **attributes):
    request = httpx.Request("POST", "https://models/x", headers={"x-stainless-retry-count": retries})
    return made(f"openai.{name}", cause=cause, request=request, **attributes)


def sdk_status(name, status, body=b"", library="openai"):
    base = fake(f"{library}.APIStatusError", fake(f"{library}.APIError"))
    return answered(f"{library}.{name}", status, body=body, bases=(base,))


def error_body(**error):
    return json.dumps({"error": {"message": "words", **error}}).encode()


MODELS = [
    row("APIConnectionError-ConnectError", sdk("APIConnectionError", httpx.ConnectError("")), R),
    row("APIConnectionError-after-own-repeats", sdk("APIConnectionError", httpx.ConnectError(""), retries="2"), U),
    row("APIConnectionError", sdk("APIConnectionError", httpx.ReadError("")), U),
    row("APIConnectionError-bare", sdk("APIConnectionError"), U),
    row("APITimeoutError", sdk("APITimeoutError", httpx.ReadTimeout("")), U),
    row("RateLimitError", sdk_status("RateLimitError", 429), R),
    row(
        "RateLimitError-insufficient_quota", sdk_status("RateLimitError", 429, error_body(code="insufficient_quota")), P
    ),
    row("OverloadedError", sdk_status("OverloadedError", 529, error_body(type="overloaded_error"), "anthropic"), R),
    row("InternalServerError", sdk_status("InternalServerError", 500), U),
    row("BadRequestError", sdk_status("BadRequestError", 400, error_body(code="context_length_exceeded")), P),
    row("UnprocessableEntityError", sdk_status("UnprocessableEntityError", 422), P),
    row("AuthenticationError", sdk_status("AuthenticationError", 401), P),
    row("PermissionDeniedError", sdk_status("PermissionDeniedError", 403), P),
    row("NotFoundError", sdk_status("NotFoundError", 404), P),
    row("LengthFinishReasonError", made("openai.LengthFinishReasonError"), M),
    row("ContentFilterFinishReasonError", made("openai.ContentFilterFinishReasonError"), M),
    row("in-a-stream", made("openai.APIError", code="rate_limit_exceeded", body=None), U),
    row("in-a-stream-by-type", made("openai.APIError", code=None, type="insufficient_quota"), LOST),
    row("in-a-stream-by-body", made("openai.APIError", body={"error": {"code": "invalid_api_key"}}), LOST),
    row("in-a-stream-unknown", made("openai.APIError", code="odd"), U),
]

# --- databases ---


def postgres(state, words="words", **attributes):
    return made("psycopg.errors.SomeState", words, bases=(fake("psycopg.Error"),), sqlstate=state, **attributes)


def operational(text):
    return made("psycopg.OperationalError", text, bases=(fake("psycopg.Error"),), sqlstate=None)


LIBPQ = 'connection to server at "10.0.0.1", port 5432 failed: Connection refused'

POSTGRES = [
    row("connection-failed", operational(f"connection failed: {LIBPQ}"), R),
    row("psycopg2", made("psycopg2.OperationalError", LIBPQ, bases=(fake("psycopg2.Error"),), pgcode=None), R),
    *(row(state, postgres(state), R) for state in ("08001", "08004", "57P03", "53300")),
    *(row(state, postgres(state), R) for state in ("40001", "40P01")),
    row("psycopg2-40001", made("psycopg2.Error", pgcode="40001"), R),
    *(row(state, postgres(state), R) for state in ("55P03", "57014", "25P03", "25P04")),
    *(row(state, postgres(state), U) for state in ("57P01", "57P02", "08003", "08006")),
    row("server-closed-the-connection", operational("consuming input failed: server closed the connection"), U),
    *(row(state, postgres(state), U) for state in ("08007", "40003")),
    row("23505", postgres("23505"), P),
    row("23505-after-doubt", postgres("23505"), LOST, doubtful=True),
    *(row(state, postgres(state), P) for state in ("23503", "22P02", "42601", "28P01", "42501", "0A000", "P0001")),
    *(row(state, postgres(state), P) for state in ("25P02", "3D000", "54000", "55000", "44000", "XX001", "XX002")),
    *(row(state, postgres(state), R) for state in ("53100", "53200", "58030", "25006", "57P05", "55006")),
    *(row(f"{state}-of-a-pooler", postgres(state), R) for state in ("26000", "42P05")),
    *(row(f"{state}-of-cockroach", postgres(state), U) for state in ("XXA00", "XXUUU")),
    *(row(f"{state}-of-its-kin", postgres(state), U) for state in ("XX000", "58000")),
    row("old-plan", postgres("0A000", words="cached plan must not change result type"), R),
    *(
        row(f"put-together-{n}", operational(words), P)
        for n, words in enumerate(
            (
                "the query has 1 placeholders but 2 parameters were passed",
                "cannot adapt type 'dict' using placeholder '%s' (format: AUTO)",
                "query parameter missing: name",
                "only '%s', '%b', '%t' are allowed as placeholders, got '%d'",
            )
        )
    ),
    row("nothing-to-fetch", operational("the last operation didn't produce records (command status: INSERT 0 1)"), U),
    row("psycopg2-pool", through("psycopg2.pool.getconn", made("psycopg2.pool.PoolError", "exhausted")), R),
    row("psycopg2-pool-put-back", through("psycopg2.pool.putconn", made("psycopg2.pool.PoolError", "closed")), U),
    row("unknown-state", postgres("99999"), U),
    row("asyncpg", made("asyncpg.exceptions.X", bases=(fake("asyncpg.PostgresError"),), sqlstate="40001"), R),
    row(
        "sqlalchemy",
        made("sqlalchemy.exc.IntegrityError", bases=(fake("sqlalchemy.exc.DBAPIError"),), orig=postgres("23505")),
        P,
    ),
    row("pool", made("psycopg_pool.PoolTimeout", bases=(fake("psycopg.OperationalError"),)), R),
]


def rd(name, text="", base="RedisError", **attributes):
    return made(f"redis.exceptions.{name}", text, bases=(fake(f"redis.exceptions.{base}"),), **attributes)


OF_A_PIPELINE = "Command # 2 (SET a\nb 1) of pipeline caused error: "

REDIS = [
    row(
        "refused",
        rd("ConnectionError", "Error 111 connecting to localhost:6379. Connection refused.", cause=REFUSED),
        R,
    ),
    row("connect-timeout", rd("TimeoutError", "Timeout connecting to server"), R),
    row("max-number-of-clients", rd("ConnectionError", "max number of clients reached"), R),
    row("BusyLoadingError", rd("BusyLoadingError", base="ConnectionError"), R),
    row("MaxConnectionsError", rd("MaxConnectionsError", base="ConnectionError"), R),
    row("TimeoutError", rd("TimeoutError", "Timeout reading from localhost:6379"), U),
    row("ConnectionError", rd("ConnectionError", "Connection closed by server."), U),
    row("ConnectionError-writing", rd("ConnectionError", "Error 32 while writing to socket. Broken pipe."), U),
    *(
        row(name, rd(name, base="ResponseError"), R)
        for name in (
            *("ReadOnlyError", "ClusterDownError", "TryAgainError", "MasterDownError", "MovedError", "AskError"),
            *("ExecAbortError",),
        )
    ),
    row("ResponseError", rd("ResponseError", "WRONGTYPE"), P),
    row("NoPermissionError", rd("NoPermissionError", base="ResponseError"), P),
    row("DataError", rd("DataError"), P),
    row("WatchError", rd("WatchError"), R),
    row("OutOfMemoryError", rd("OutOfMemoryError", base="ResponseError"), R),
    *(row(word, rd("ResponseError", f"{word} words"), R) for word in ("BUSY", "MISCONF", "NOREPLICAS")),
    *(row(word, rd("ResponseError", f"{word} words"), P) for word in ("BUSYGROUP", "BUSYKEY", "ERR")),
    *(
        row(f"{word}-after-doubt", rd("ResponseError", f"{word} words"), LOST, doubtful=True)
        for word in ("BUSYGROUP", "BUSYKEY")
    ),
    row("miscounted", rd("ResponseError", "Wrong number of response items from pipeline execution"), U),
    row("in-a-pipeline", rd("ResponseError", f"{OF_A_PIPELINE}WRONGTYPE"), LOST),
    row("in-a-pipeline-for-now", rd("ResponseError", f"{OF_A_PIPELINE}NOREPLICAS Not enough"), U),
    row("in-a-pipeline-read-only", rd("ReadOnlyError", f"{OF_A_PIPELINE}words", base="ResponseError"), U),
]

# --- MCP's exception; its results are below ---


def mcp_error(code):
    return made("mcp.shared.exceptions.McpError", error=type("ErrorData", (), {"code": code, "message": "words"}))


MCP = [
    row("-32602", mcp_error(-32602), M),
    row("-32601", mcp_error(-32601), M),
    row("-32603", mcp_error(-32603), U),
    row("-32001", mcp_error(-32001), U),
    row("-32000", mcp_error(-32000), U),
    *(row(str(code), mcp_error(code), P) for code in (-32700, -32600, -32020, -32021, -32022)),
    row("-32042", mcp_error(-32042), P),
    row("-32800", mcp_error(-32800), "cancelled maybe"),
    row("of-the-server", mcp_error(-31999), U),
    row("MCPError", made("mcp.shared.exceptions.MCPError", code=-32602), M),
    row("ToolError", made("fastmcp.exceptions.ToolError", "no such user"), U),
    row("ToolError-32602", made("fastmcp.exceptions.ToolError", "MCP error -32602: no"), M),
]

# --- operating system, standard library, processes, Python ---


def os_error(number):
    return OSError(number, "words")


def http_error(status, **headers):
    message = Message()
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    return urllib.error.HTTPError("http://service", status, "words", message, None)


STDLIB = [
    *(
        row(errno.errorcode[number], through("socket.create_connection", os_error(number)), R)
        for number in (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EADDRNOTAVAIL)
    ),
    *(
        row(f"{errno.errorcode[number]}-not-seen-to-connect", os_error(number), expected)
        for number, expected in (
            *((errno.ECONNREFUSED, R), (errno.EADDRNOTAVAIL, R)),
            *((errno.EHOSTUNREACH, U), (errno.ENETUNREACH, U)),
        )
    ),
    row("ConnectionRefusedError-without-number", ConnectionRefusedError(), R),
    row("EAI_AGAIN", socket.gaierror(-3, "again"), R),
    row("EAI_NONAME-once", NO_NAME, R, attempt=1),
    row("EAI_NONAME", NO_NAME, P, attempt=2),
    *(
        row(errno.errorcode[number], os_error(number), U)
        for number in (errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED, errno.ETIMEDOUT)
    ),
    row("BrokenPipeError-without-number", BrokenPipeError(), U),
    *(row(errno.errorcode[number], os_error(number), R) for number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM)),
    row("EAGAIN-of-a-process", through("subprocess._execute_child", os_error(errno.EAGAIN)), R),
    row("EAGAIN", os_error(errno.EAGAIN), U),
    row("EINTR", os_error(errno.EINTR), U),
    row("BlockingIOError-after-some-bytes", BlockingIOError(errno.EAGAIN, "", 5), U),
    *(
        row(errno.errorcode[number], os_error(number), "partial some")
        for number in (errno.ENOSPC, errno.EDQUOT, errno.EIO)
    ),
    *(
        row(errno.errorcode[number], os_error(number), P)
        for number in (
            *(errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT, errno.EISDIR, errno.ENOTDIR),
            *(errno.ENAMETOOLONG, errno.EINVAL, errno.EXDEV, errno.ENOTEMPTY, errno.ELOOP, errno.EMLINK),
        )
    ),
    row("FileExistsError", FileExistsError(errno.EEXIST, ""), P),
    row("FileExistsError-after-doubt", FileExistsError(errno.EEXIST, ""), LOST, doubtful=True),
    *(row(errno.errorcode[number], os_error(number), R) for number in (errno.EBUSY, errno.ETXTBSY)),
    row("ESTALE", os_error(errno.ESTALE), U),
    row("other-number", os_error(errno.EFBIG), U),
    row("no-number", OSError("words"), U),
    row("asyncio-connect", OSError(errno.ETIMEDOUT, "Connect call failed ('10.0.0.1', 1)"), R),
    row(
        "asyncio-connect-to-all",
        OSError(
            "Multiple exceptions: [Errno 111] Connect call failed ('::1', 1), [Errno 113] Connect call failed ('1', 1)"
        ),
        R,
    ),
    row(
        "several-of-which-one-is-another",
        OSError("Multiple exceptions: [Errno 111] Connect call failed, [Errno 104] x"),
        U,
    ),
    row(
        "several-of-which-the-first-is-another",
        OSError("Multiple exceptions: [Errno 104] x, [Errno 111] Connect call failed"),
        U,
    ),
    row("certificate", CERTIFICATE, P),
    row("a-handshake-in-words-alone", tls("UNEXPECTED_EOF", words="HANDSHAKE_FAILURE, said the peer"), U),
    row("URLError-refused", urllib.error.URLError(REFUSED), R),
    row("URLError-broken-pipe", urllib.error.URLError(BrokenPipeError(errno.EPIPE, "")), U),
    row("URLError-of-something-else", urllib.error.URLError(None), U),
    row("URLError-own-refusal", urllib.error.URLError("no host given"), P),
    row("HTTPError-404", http_error(404), P),
    row("HTTPError-503-Retry-After", http_error(503, Retry_After="3"), R),
    row("RemoteDisconnected", http.client.RemoteDisconnected(), U),
    row("IncompleteRead", http.client.IncompleteRead(b""), U),
    row("http-InvalidURL", http.client.InvalidURL(), P),
    row("asyncio-IncompleteReadError", asyncio.IncompleteReadError(b"", 5), U),
]

PROCESS = [
    row("FileNotFoundError-on-spawn", FileNotFoundError(errno.ENOENT, "no such file", "pay"), P),
    # not "none": a script, too, ends with 127 after its first half ran
    *(row(f"exit-{code}", subprocess.CalledProcessError(code, "pay"), LOST) for code in (126, 127)),
    row("exit-1", subprocess.CalledProcessError(1, "pay"), U),
    row("signal-9", subprocess.CalledProcessError(-9, "pay"), U),
    row("signal-15", subprocess.CalledProcessError(-15, "pay"), U),
    row("TimeoutExpired", subprocess.TimeoutExpired("pay", 1), U),
]


class Receipt(pydantic.BaseModel):
    total: int


def validation_error():
    try:
        Receipt(total="much")
    except pydantic.ValidationError as error:
        return error


def json_error():
    try:
        json.loads("{")
    except json.JSONDecodeError as error:
        return error


def retry_error(last, attempts):
    attempt = tenacity.Future(attempts)
    attempt.set_exception(last)
    return with_cause(tenacity.RetryError(attempt), last)


PYTHON = [
    row("TimeoutError", TimeoutError(), U),
    row("CancelledError", asyncio.CancelledError(), "cancelled maybe"),
    row("futures-CancelledError", concurrent.futures.CancelledError(), "cancelled maybe"),
    row("ValidationError-out-of-a-tool", validation_error(), U),
    row("JSONDecodeError-out-of-a-tool", json_error(), U),
    *(
        row(type(error).__name__, error, LOST)
        for error in (
            *(TypeError(), AttributeError(), KeyError(), IndexError(), NameError(), ImportError(), AssertionError()),
            *(
                ValueError(),
                ZeroDivisionError(),
                NotImplementedError(),
                RecursionError(),
                UnicodeDecodeError("u", b"", 0, 1, ""),
            ),
        )
    ),
    *(
        row(type(error).__name__, error, U)
        for error in (MemoryError(), SystemExit(), KeyboardInterrupt(), RuntimeError())
    ),
    row("tenacity-one-try", retry_error(REFUSED, 1), R),
    row("tenacity-several-tries", retry_error(REFUSED, 3), U),
]

SOURCES = {
    "httpx": HTTPX,
    "requests": REQUESTS,
    "urllib3": URLLIB3,
    "aiohttp": AIOHTTP,
    "grpc": GRPC,
    "google": GOOGLE,
    "botocore": BOTOCORE,
    "models": MODELS,
    "postgres": POSTGRES,
    "redis": REDIS,
    "mcp": MCP,
    "stdlib": STDLIB,
    "process": PROCESS,
    "python": PYTHON,
}


@pytest.mark.parametrize(
    ("error", "expected", "situation"),
    [pytest.param(*param.values, id=f"{source}-{param.id}") for source, params in SOURCES.items() for param in params],
)
def test_every_row(error, expected, situation):
    assert said(classify(error, **situation)) == expected


# --- HTTP statuses ---

STATUSES = {
    P: (400, 404, 405, 406, 410, 411, 414, 415, 422, 431, 501, 505, 401, 403, 407, 451, 402, 413, 418, 428),
    U: (408, 424, 444, 460, 499, 500, 502, 503, 504, 520, 522, 524, 527, 530, 598, 599),
    LOST: (409, 412),
    R: (421, 423, 425, 429, 521, 523, 525, 526, 529),
    "success": (200, 201, 202, 204, 206, 301, 302, 303, 304, 307, 308),
}


@pytest.mark.parametrize(
    ("status", "expected"), [(status, word) for word, group in STATUSES.items() for status in group]
)
def test_every_status(status, expected):
    assert said(classify_response(status, {}, None, method="POST")) == expected


PAGE = b"<!DOCTYPE html>\n<html><head><title>503 Backend fetch failed</title></head>"


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({}, b'{"error": "busy"}', R),
        ({"Via": "1.1 vegur"}, b"", R),
        ({"Content-Type": "text/html; charset=utf-8"}, b"", U),
        ({}, PAGE, U),
        ({"X-Varnish": "32770"}, b"", U),
        ({"Via": "1.1 edge (Varnish/7.5)"}, b"", U),
        ({"X-Served-By": "cache-fra1", "X-Cache": "MISS"}, b"", U),
    ],
)
def test_a_pause_named_by_a_cache_proves_nothing_of_the_service_behind_it(headers, body, expected):
    fault = classify_response(503, headers | {"Retry-After": "5"}, body, method="POST")
    assert (said(fault), fault.retry_after) == (expected, 5.0)


@pytest.mark.parametrize("status", [413, 429, 503])
def test_retry_after_makes_a_refusal_a_request_to_wait(status):
    fault = classify_response(status, {"Retry-After": "3"}, None, method="POST")
    assert (said(fault), fault.retry_after) == (R, 3.0)


@pytest.mark.parametrize("status", [-1, 0, 99, 600, 999, 10**9])
def test_a_status_that_is_none_is_ambiguous(status):
    assert said(classify_response(status, {}, None)) == U


def test_what_the_flags_say():
    names = ("throttled", "refresh", "uncertain", "own_success", "local", "gate")

    def flags(status, **situation):
        fault = classify_response(status, {}, None, **situation)
        return {name for name in names if getattr(fault, name)}

    assert flags(401) == {"refresh", "gate"}
    assert flags(402) == set()
    assert flags(403) == flags(405) == flags(413) == flags(451) == {"gate"}
    assert flags(422) == set()
    assert flags(409) == set()
    assert flags(409, doubtful=True) == flags(412, doubtful=True) == {"own_success"}
    assert flags(429) == {"throttled"}
    assert flags(529) == {"throttled"}
    assert flags(500) == {"uncertain"}
    assert flags(404) == set()
    assert classify(httpx.PoolTimeout("")).local
    assert classify(OSError(errno.EMFILE, "")).local
    assert not classify(REFUSED).local


# --- what the caller alone can tell ---


def test_arguments_and_results_that_do_not_validate():
    wrong, unusable = invalid_arguments(validation_error()), unusable_result(validation_error())
    assert (said(wrong), wrong.code, wrong.uncertain) == (M, "invalid_arguments", False)
    assert (said(unusable), unusable.code, unusable.uncertain) == (DONE, "invalid_result", True)
    assert "Receipt" in unusable_result(validation_error()).message


def test_mcp_results():
    def result(text, **more):
        return {"content": [{"type": "text", "text": text}], "isError": True, **more}

    wrong = result("Error executing tool pay: 1 validation error for payArguments\namount")
    assert said(classify_mcp(wrong)) == M
    assert said(classify_mcp(wrong, tool="pay")) == M
    assert said(classify_mcp(wrong, tool="book")) == U
    assert said(classify_mcp(result("Error executing tool pay: 1 validation error for Receipt"))) == U
    assert said(classify_mcp(result("Unknown tool: pay"), tool="pay")) == M
    assert said(classify_mcp(result("Unknown tool: hammer"), tool="pay")) == U
    assert said(classify_mcp(result("Unknown tool: pay"))) == U
    assert said(classify_mcp(result("MCP error -32602: Tool nope not found"))) == M
    assert said(classify_mcp(result("MCP error -32603: Internal error"))) == U
    assert said(classify_mcp(result("Error executing tool crash"))) == U


def test_cancelled_is_told_by_its_own_class():
    assert classify(asyncio.CancelledError()).code == CANCELLED.code
