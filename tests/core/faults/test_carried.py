"""Answers that exceptions carry: where each client keeps status, headers, body and method."""

import json
from types import SimpleNamespace

import httpx
import pytest

from settled.core.faults import classify
from settled.core.faults.carried import carried
from settled.core.model import Evidence, FaultClass
from tests.core.faults.fakes import client_error, fake, made

SPENT = json.dumps({"error": {"message": "the quota is spent", "code": "insufficient_quota"}})
HEADERS = {"Retry-After": "7"}
DELETE = SimpleNamespace(method="DELETE")
WEDNESDAY = {"Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT"}
AT = 1_792_567_680.0  # half a minute before


def httpx_error(status, headers=None, body=""):
    request = httpx.Request("DELETE", "https://service")
    response = httpx.Response(status, headers=headers or {}, content=body, request=request)
    return httpx.HTTPStatusError("", request=request, response=response)


def requests_error(status, headers=None, body=""):
    response = SimpleNamespace(status_code=status, headers=headers or {}, _content=body.encode(), request=DELETE)
    return made("requests.exceptions.HTTPError", response=response)


def aiohttp_error(status, headers=None, body=""):
    return made("aiohttp.client_exceptions.ClientResponseError", status=status, headers=headers, request_info=DELETE)


def sdk_error(status, headers=None, body=""):
    base = fake("openai.APIStatusError")
    response = SimpleNamespace(status_code=status, headers=headers or {})
    parsed = json.loads(body) if body else None
    return made("openai.RateLimitError", bases=(base,), response=response, body=parsed, request=DELETE)


def google_error(status, headers=None, body=""):
    response = SimpleNamespace(status=status, headers=headers or {})
    return made("googleapiclient.errors.HttpError", resp=response, content=body.encode(), request=DELETE)


CLIENTS = [httpx_error, requests_error, aiohttp_error, sdk_error, google_error]
WITH_BODY = [httpx_error, requests_error, sdk_error, google_error]


@pytest.mark.parametrize("client", CLIENTS)
def test_headers(client):
    fault = classify(client(429, HEADERS))
    assert (fault.code, fault.throttled, fault.retry_after) == ("http_429", True, 7.0)


@pytest.mark.parametrize("client", CLIENTS)
def test_the_time_at_which_it_is_read(client):
    assert classify(client(429, WEDNESDAY), now=AT).retry_after == 30.0
    assert classify(client(429, WEDNESDAY)).retry_after is None


@pytest.mark.parametrize("client", WITH_BODY)
def test_bodies(client):
    fault = classify(client(429, HEADERS, SPENT))
    assert (fault.kind, fault.code, fault.message) == (FaultClass.PERMANENT, "insufficient_quota", "the quota is spent")


@pytest.mark.parametrize("client", CLIENTS)
def test_methods(client):
    assert classify(client(404), doubtful=True).own_success
    assert carried(client(404)).method == "DELETE"


def test_a_method_that_is_not_known():
    assert carried(made("aiohttp.client_exceptions.ClientResponseError", status=404)).method == ""


def test_headers_of_the_error_itself_count_where_the_answer_has_none():
    error = made("aiohttp.client_exceptions.ClientResponseError", resp=SimpleNamespace(status=429), headers=HEADERS)
    assert classify(error).retry_after == 7.0


def test_botocore():
    error = client_error("SlowDown", 503, headers={"retry-after": "7"})
    fault = classify(error)
    assert (fault.code, fault.message, fault.retry_after) == ("SlowDown", "said the service", 7.0)
    assert (carried(error).status, carried(error).method) == (503, "")
    assert carried(client_error("Odd", None)).status == 400


@pytest.mark.parametrize(
    ("status", "kind"), [(200, FaultClass.UNKNOWN), (204, FaultClass.UNKNOWN), (302, FaultClass.PERMANENT)]
)
def test_an_error_with_a_status_that_is_none(status, kind):
    fault = classify(requests_error(status))
    assert (fault.kind, fault.evidence, fault.code) == (kind, Evidence.MAYBE, f"http_{status}")


def test_a_broken_body_of_a_redirect():
    response = SimpleNamespace(status_code=302, headers={}, _content=b"")
    fault = classify(made("requests.exceptions.ChunkedEncodingError", response=response))
    assert (fault.code, fault.evidence) == ("http_302", Evidence.MAYBE)


def test_already_so_behind_a_failed_server_keeps_the_status_and_the_hint():
    body = json.dumps({"error": {"message": "words", "code": "AlreadyExists"}})
    fault = classify(requests_error(500, body=body), doubtful=True)
    assert (fault.code, fault.evidence, fault.own_success) == ("http_500", Evidence.MAYBE, True)


def test_a_401_with_a_code_is_worth_fresh_credentials_all_the_same():
    body = json.dumps({"error": {"message": "words", "code": "invalid_api_key"}})
    fault = classify(requests_error(401, body=body))
    assert (fault.code, fault.refresh) == ("invalid_api_key", True)
