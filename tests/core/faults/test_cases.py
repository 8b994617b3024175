"""Failures seen in the field, as far as they are a matter of classification."""

import asyncio
import json

import pytest

from settled.core.faults import classify, classify_mcp, classify_response, retry_after
from settled.core.model import Evidence, FaultClass
from tests.core.faults.fakes import client_error

AT = 1_792_567_680.0  # Wed, 21 Oct 2026 07:28:00 GMT


@pytest.mark.case("CASE-005")
def test_case_005_own_write_looks_like_conflict():
    def read(**situation):
        return classify(client_error("ConditionalCheckFailedException", 400), **situation)

    first, later = read(), read(attempt=2, doubtful=True)
    assert (first.kind, first.evidence, first.own_success) == (FaultClass.PERMANENT, Evidence.NONE, False)
    assert (later.evidence, later.own_success) == (Evidence.MAYBE, True)
    by_the_sdk = classify(client_error("ConditionalCheckFailedException", 400, retries=1))
    assert (by_the_sdk.evidence, by_the_sdk.own_success) == (Evidence.MAYBE, True)


@pytest.mark.case("CASE-033")
@pytest.mark.parametrize("name", ["Retry-After", "retry-after"])
def test_case_033_retry_after_httpdate(name):
    def wait(value, **headers):
        fault = classify_response(429, {name: value, **headers}, None, now=AT)
        assert fault.throttled
        return fault.retry_after

    assert wait("Wed, 21 Oct 2026 07:29:00 GMT") == 60.0
    assert wait("Wednesday, 21-Oct-26 07:29:00 GMT") == 60.0
    assert wait("Wed, 21 Oct 2026 07:27:00 GMT") == 0.0
    assert wait("Wed, 21 Oct 2026 07:29:00 GMT", date="Wed, 21 Oct 2026 07:23:00 GMT") == 360.0
    assert wait("next Wednesday") is None


@pytest.mark.case("CASE-035")
def test_case_035_retry_after_huge():
    assert retry_after({"retry-after": "9999999999"}, now=AT) == 9999999999.0
    assert retry_after({"retry-after": "86400"}, now=AT) == 86400.0
    assert retry_after({"retry-after": "300"}, now=AT) == 300.0
    assert retry_after({"retry-after": "9" * 500}, now=AT) + AT < float("inf")


def test_a_retry_after_may_be_a_time_since_1970():
    """ArjanCodes/moneysnake#24: taken for seconds it is a pause of half a century."""
    assert retry_after({"retry-after": str(int(AT) + 12)}, now=AT) == 12.0
    assert retry_after({"retry-after": str(int(AT) - 12)}, now=AT) == 0.0
    date = {"date": "Wed, 21 Oct 2026 07:28:00 GMT"}
    assert retry_after({"retry-after": str(int(AT) + 12), **date}, now=AT - 300) == 12.0
    assert retry_after({"retry-after": str(int(AT) + 12)}, now=None) == AT + 12


@pytest.mark.case("CASE-037")
def test_case_037_quota_429_is_permanent():
    body = {"error": {"message": "You exceeded your quota", "type": "insufficient_quota", "code": "insufficient_quota"}}
    fault = classify_response(429, {}, json.dumps(body))
    assert (fault.kind, fault.evidence, fault.throttled) == (FaultClass.PERMANENT, Evidence.NONE, False)
    assert (fault.code, fault.message) == ("insufficient_quota", "You exceeded your quota")


@pytest.mark.case("CASE-040")
def test_case_040_graphql_200_throttled():
    def read(code, message="words", **body):
        error = {"message": message, "extensions": {"code": code} if code else {}}
        return classify_response(200, {}, json.dumps({"errors": [error], **body}))

    throttled = read("THROTTLED")
    assert (throttled.kind, throttled.evidence, throttled.throttled) == (FaultClass.RETRYABLE, Evidence.NONE, True)
    partial = read("THROTTLED", data={"shop": {"name": "x"}})
    assert (partial.kind, partial.evidence) == (FaultClass.PARTIAL, Evidence.SOME)
    only_words = read("", message="Throttled")
    assert (only_words.kind, only_words.throttled) == (FaultClass.PERMANENT, False)


@pytest.mark.case("CASE-041")
def test_case_041_mcp_error_as_success():
    def result(text, *, failed):
        return {"content": [{"type": "text", "text": text}], "isError": failed}

    assert classify_mcp(result("missing required parameter: owner", failed=False)) is None
    assert classify_mcp(result("Error handling guide", failed=False)) is None
    assert classify_mcp(result("Error handling guide", failed=True)).evidence is Evidence.MAYBE
    for content in ([], None, "text", [3], [{"type": "image"}], [{"text": None}], {"text": "one block"}, 5):
        assert classify_mcp({"content": content, "isError": True}).kind is FaultClass.UNKNOWN


@pytest.mark.case("CASE-049")
def test_case_049_4xx_and_breaker():
    for status in (400, 401, 403, 404, 422):
        assert classify_response(status, {}, None).kind in {FaultClass.PERMANENT, FaultClass.INVALID}
    assert classify_response(400, {}, json.dumps({"__type": "ValidationException"})).kind is FaultClass.INVALID
    assert classify_response(500, {}, None).kind is FaultClass.UNKNOWN


@pytest.mark.case("CASE-051")
def test_case_051_cancelled_error_two_meanings():
    fault = classify(asyncio.CancelledError())
    assert (fault.kind, fault.evidence) == (FaultClass.CANCELLED, Evidence.MAYBE)
