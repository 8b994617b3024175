"""Answers over HTTP: codes over statuses, errors inside of successes, bodies of any shape."""

import json

import pytest

from settled.core.faults import bodies, classify_response
from settled.core.model import Evidence, FaultClass

JSON = {"content-type": "application/json"}


def read(status, body, *, headers=JSON, **more):
    text = body if isinstance(body, bytes | str | None) else json.dumps(body)
    fault = classify_response(status, headers, text, **more)
    return None if fault is None else f"{fault.kind} {fault.evidence}"


def error(**fields):
    return {"error": {"message": "words", **fields}}


# --- codes ---


@pytest.mark.parametrize("status", [400, 403, 429, 500, 502, 503])
def test_an_aws_throttling_code_decides_over_the_status(status):
    assert read(status, {"__type": "com.amazonaws#ThrottlingException:http://internal"}) == "retryable none"
    header = {**JSON, "X-Amzn-ErrorType": "ThrottlingException:http://internal.amazon.com/"}
    assert read(status, "{}", headers=header) == "retryable none"
    assert read(status, "<Error><Code>SlowDown</Code></Error>", headers={}) == "retryable none"


def test_a_500_that_hands_on_a_throttling_proves_nothing():
    assert read(500, error(code="rate_limit_exceeded")) == "unknown maybe"
    assert read(529, error(type="overloaded_error")) == "retryable none"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("insufficient_quota", "permanent none"),
        ("dailyLimitExceeded", "permanent none"),
        ("rateLimitExceeded", "retryable none"),
        ("something_else", "retryable none"),
    ],
)
def test_429_by_code(code, words):
    assert read(429, error(code=code)) == words


def test_github_says_by_headers_that_a_403_is_about_the_pace():
    assert read(403, "{}", headers={"X-RateLimit-Remaining": "0"}) == "retryable none"
    assert read(403, "{}", headers={"Retry-After": "60"}) == "retryable none"
    assert classify_response(403, {"Retry-After": "60"}, None).code == "rate_limited"
    assert read(403, "{}", headers={"X-RateLimit-Remaining": "12"}) == "permanent none"


def test_google_asks_for_a_delay_in_the_body():
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.07s"}]
    fault = classify_response(429, {}, json.dumps(error(status="RESOURCE_EXHAUSTED", details=details)))
    assert (fault.throttled, fault.retry_after) == (True, 34.07)


def test_google_says_that_the_quota_of_a_day_is_spent():
    violations = [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}]
    fault = classify_response(429, {}, json.dumps(error(details=[{"violations": violations}])))
    assert (fault.kind, fault.evidence, fault.code) == (FaultClass.PERMANENT, Evidence.NONE, "daily_quota")


def test_idempotency_keys():
    assert read(400, error(type="idempotency_error")) == "permanent none"
    busy = classify_response(409, {}, json.dumps(error(type="idempotency_error", code="idempotency_key_in_use")))
    assert (busy.kind, busy.evidence, busy.in_progress) == (FaultClass.RETRYABLE, Evidence.MAYBE, True)
    razorpay = classify_response(500, {}, json.dumps(error(code="SERVER_ERROR", reason="idempotency_key_in_use")))
    assert razorpay.in_progress


def test_409_and_412_are_proved_by_a_code_alone():
    assert read(409, error(code="idempotency_key_reused")) == "permanent none"
    assert read(409, error(code="quotaExceeded")) == "permanent none"
    assert read(409, {}) == "permanent maybe"
    assert read(412, {}) == "permanent maybe"
    assert read(409, error(type="invalid_request_error")) == "permanent maybe"
    assert read(409, error(code="AlreadyExists")) == "permanent none"
    assert read(412, "<Error><Code>PreconditionFailed</Code></Error>", headers={}) == "permanent none"


@pytest.mark.parametrize(
    "body",
    [
        error(code="BucketAlreadyOwnedByYou"),
        error(status="ALREADY_EXISTS"),
        error(errors=[{"reason": "alreadyExists"}]),
        {"__type": "ConditionalCheckFailedException"},
        {"message": "Validation Failed", "errors": [{"field": "name", "code": "already_exists"}]},
    ],
)
def test_already_so(body):
    first = classify_response(400, JSON, json.dumps(body))
    assert (first.kind, first.evidence, first.own_success) == (FaultClass.PERMANENT, Evidence.NONE, False)
    later = classify_response(400, JSON, json.dumps(body), attempt=2, doubtful=True)
    assert (later.kind, later.evidence, later.own_success) == (FaultClass.PERMANENT, Evidence.MAYBE, True)


def test_after_doubt_a_refusal_proves_nothing_but_a_gate_does():
    for status in (400, 403, 404, 410, 422):
        assert read(status, {}, doubtful=True) == "permanent maybe", status
    for status in (401, 407, 413):
        assert read(status, {}, doubtful=True) == "permanent none", status
    assert read(429, {}, doubtful=True) == "retryable none"
    assert read(400, {"__type": "ValidationException"}, doubtful=True) == "permanent maybe"
    assert read(422, {"errors": [{"field": "name", "code": "custom"}]}, doubtful=True) == "permanent maybe"


def test_a_repeat_after_a_proved_failure_is_as_good_as_a_first_attempt():
    assert read(400, {}, attempt=2, doubtful=False) == "permanent none"


def test_fields_that_are_wrong_are_the_models_fault():
    assert read(422, {"detail": [{"loc": ["body", "amount"], "msg": "words", "type": "missing"}]}) == "invalid none"
    assert read(400, {"errors": [{"field": "key", "code": "custom"}]}) == "invalid none"
    assert read(422, {"detail": "the amount is missing"}) == "permanent none"


def test_a_401_is_worth_fresh_credentials():
    assert classify_response(401, {}, None).refresh
    assert classify_response(400, {}, json.dumps({"__type": "ExpiredTokenException"})).refresh
    assert not classify_response(403, {}, None).refresh


# --- errors inside of successes ---

SUCCESSES = [
    "",
    "null",
    "[]",
    "{}",
    "Error handling guide: what to do when a call fails",
    {"error": None},
    {"error": "words that the user wrote"},
    {"error": {"code": "card_declined", "message": "words"}, "id": "run_1", "status": "failed"},
    {"error": {"note": "no message"}},
    {"error": {"message": "neither code nor type"}},
    {"ok": True, "error": "fatal_error"},
    {"ok": False},
    {"ok": False, "error": "Something with spaces"},
    {"ok": 0, "error": "fatal_error"},
    {"errors": []},
    {"errors": "none"},
    {"errors": [{"title": "JSON:API has no message"}]},
    {"errors": [{"message": "words"}], "page": 2},
    {"errors": True},
    {"errors": False, "items": [{"index": {"status": 201}}]},
    {"errors": True, "items": []},
    {"items": [{"index": {"status": 400}}]},
    {"UnprocessedItems": {}},
    {"Failed": []},
    {"Failed": [{"name": "a job of the user's"}]},
    {"FailedRecordCount": 0, "Records": []},
    {"jsonrpc": "2.0", "id": 1, "result": {}},
    {"jsonrpc": "2.0", "id": 1, "error": {"code": "text"}},
    [{"error": {"code": 1, "message": "words"}}, {"id": 2}],
]


@pytest.mark.parametrize("body", SUCCESSES, ids=str)
def test_a_success_stays_one(body):
    headers = JSON if not isinstance(body, str) or body in {"", "null", "[]", "{}"} else {"content-type": "text/plain"}
    assert read(200, body, headers=headers, method="POST") is None
    assert read(200, body, headers={}, method="POST") is None


FAULTS = {
    "s3-slow-down": ("<?xml version='1.0'?>\n<Error><Code>SlowDown</Code></Error>", "retryable none"),
    "s3-internal-error": ("<Error><Code>InternalError</Code></Error>", "unknown maybe"),
    "s3-empty": ("<Error/>", "unknown maybe"),
    "openai": (error(code="context_length_exceeded"), "permanent none"),
    "openai-unknown-code": (error(code="odd"), "unknown maybe"),
    "openai-type": (error(type="odd"), "unknown maybe"),
    "openrouter-429": (error(code=429), "retryable none"),
    "openrouter-502": (error(code=502), "unknown maybe"),
    "anthropic": ({"type": "error", **error(type="overloaded_error")}, "retryable none"),
    "gemini": ([error(code=400, status="INVALID_ARGUMENT")], "invalid none"),
    "slack": ({"ok": False, "error": "ratelimited"}, "retryable none"),
    "slack-auth": ({"ok": False, "error": "invalid_auth"}, "permanent none"),
    "slack-internal": ({"ok": False, "error": "internal_error"}, "unknown maybe"),
    "slack-unknown": ({"ok": False, "error": "something_new"}, "unknown maybe"),
    "json-rpc": ({"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "words"}}, "invalid none"),
    "json-rpc-internal": ({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "words"}}, "unknown maybe"),
    "dynamodb": ({"UnprocessedItems": {"orders": [{}]}}, "partial some"),
    "kinesis": ({"FailedRecordCount": 1, "Records": []}, "partial some"),
    "sqs": ({"Successful": [{"Id": "0"}], "Failed": [{"Id": "1", "Code": "x"}]}, "partial some"),
    "sqs-all-ours": ({"Failed": [{"Id": "1", "Code": "x", "SenderFault": True}]}, "partial none"),
    "sqs-all": ({"Failed": [{"Id": "1", "Code": "x", "SenderFault": False}]}, "partial maybe"),
    "bulk-some": ({"errors": True, "items": [{"index": {"status": 201}}, {"index": {"status": 429}}]}, "partial some"),
    "bulk-all": ({"errors": True, "items": [{"index": {"status": 400}}]}, "partial none"),
    "bulk-all-503": ({"errors": True, "items": [{"index": {"status": 503}}]}, "partial maybe"),
    "bulk-all-versions": ({"errors": True, "items": [{"create": {"status": 409}}]}, "partial none"),
    "odata": ({"responses": [{"id": "1", "status": 201}, {"id": "2", "status": 429}]}, "partial some"),
    "odata-all": ({"responses": [{"id": "1", "status": 503}, {"id": "2", "status": 424}]}, "partial maybe"),
    "odata-refused": ({"responses": [{"id": "1", "status": 400}, {"id": "2", "status": 424}]}, "partial none"),
    "bigquery": ({"kind": "x#y", "insertErrors": [{"index": 0, "errors": [{"reason": "stopped"}]}]}, "partial maybe"),
    "openrouter-429-user": ({**error(code=429), "user_id": "u_1"}, "retryable none"),
    "bulk-odd": ({"errors": True, "items": [3]}, "partial maybe"),
}


@pytest.mark.parametrize(("body", "words"), FAULTS.values(), ids=FAULTS)
def test_an_error_inside_of_a_success(body, words):
    headers = {"content-type": "application/xml"} if isinstance(body, str) else JSON
    assert read(200, body, headers=headers, method="POST") == words
    assert read(200, body, headers={}) == words


@pytest.mark.parametrize("method", ["GET", "HEAD", "get", "OPTIONS"])
@pytest.mark.parametrize("body", [body for body, _ in FAULTS.values()], ids=FAULTS)
def test_a_document_that_was_asked_for_is_not_searched_for_errors(method, body):
    headers = {"content-type": "application/xml"} if isinstance(body, str) else JSON
    assert read(200, body, headers=headers, method=method) is None


def test_a_redirect_and_what_is_said_in_between_are_no_faults():
    for status in (300, 301, 399):
        assert read(status, error(code="odd")) is None
    assert read(100, None) is None
    assert read(99, None) == "unknown maybe"


def test_the_types_of_content_that_are_searched():
    for kind in ("application/problem+json", "application/x-amz-json-1.0", "application/x-amz-json-1.1; charset=utf-8"):
        assert read(200, error(code="odd"), headers={"content-type": kind}) == "unknown maybe"


def test_other_types_of_content_are_not_searched():
    assert read(200, "<Error><Code>SlowDown</Code></Error>", headers={"content-type": "text/html"}) is None


def test_streams():
    sse = {"content-type": "text/event-stream; charset=utf-8"}
    overloaded = 'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"words"}}\n\n'
    started = 'event: message_start\ndata: {"type":"message_start"}\n\n'
    assert read(200, overloaded, headers=sse) == "retryable none"
    assert read(200, started + overloaded, headers=sse) == "unknown maybe"
    assert read(200, started.replace("\n", "\r\n") + overloaded, headers=sse) == "unknown maybe"
    assert read(200, started + "event: error\ndata: words\n\n", headers=sse) == "unknown maybe"
    assert read(200, started + "data: [DONE]\n\n", headers=sse) is None
    assert read(200, 'data: {"error":{"message":"words","code":"odd"}}\n\n', headers=sse) == "unknown maybe"


def graphql(*codes, **body):
    errors = [{"message": "Throttled", "extensions": {"code": code} if code else {}} for code in codes]
    return {"errors": errors, **body}


GRAPHQL = [
    (graphql("THROTTLED"), "retryable none"),
    (graphql("THROTTLED", data=None), "retryable none"),
    (graphql("THROTTLED", data={"pay": None}), "unknown maybe"),
    (graphql("THROTTLED", "", data=None), "permanent maybe"),
    (graphql(""), "permanent maybe"),
    (graphql("", data={"pay": {"id": 1}}), "partial some"),
    (graphql("INTERNAL_SERVER_ERROR", data=None), "unknown maybe"),
    (graphql("BAD_USER_INPUT"), "invalid none"),
    (graphql("FORBIDDEN"), "permanent none"),
    (graphql("ODD"), "permanent maybe"),
    ({"errors": [{"message": "words", "type": "RATE_LIMITED"}]}, "retryable none"),
    ({"errors": [{"message": "words", "extensions": "odd"}], "data": None}, "permanent maybe"),
    (graphql("FORBIDDEN", "THROTTLED"), "permanent maybe"),
    ({"data": None, "errors": [graphql("FORBIDDEN")["errors"][0] | {"path": ["refund"]}]}, "permanent maybe"),
    (graphql("FORBIDDEN", "INTERNAL_SERVER_ERROR"), "unknown maybe"),
]


@pytest.mark.parametrize(("body", "words"), GRAPHQL)
def test_graphql(body, words):
    assert read(200, body, method="POST") == words


MULTI_STATUS = [
    ([{"status": 201}, {"status": 409}], "POST", "partial some"),
    ({"results": [{"status": 400}, {"status": 404}]}, "POST", "partial none"),
    ({"results": [{"statusCode": 500}]}, "POST", "partial maybe"),
    ({"results": [{"status": 200}, {"status": 204}]}, "POST", None),
    ({"results": [{"status": "failed"}]}, "POST", "partial maybe"),
    ("<multistatus/>", "POST", "partial maybe"),
    ("<multistatus/>", "PROPFIND", None),
    ([{"status": 408}, {"status": 404}], "POST", "partial maybe"),
    ([{"status": 409}], "POST", "partial maybe"),
    ([{"status": 503}, {"status": 424}], "POST", "partial maybe"),
    ([{"status": 422}, {"status": 424}], "POST", "partial none"),
]


@pytest.mark.parametrize(("body", "method", "words"), MULTI_STATUS)
def test_207(body, method, words):
    assert read(207, body, headers={}, method=method) == words


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_body_that_is_not_what_it_says(method):
    assert read(200, '{"id": 1', method=method) == "unknown done"
    assert read(200, b"\xff\xfe<html>", method=method) == "unknown done"
    assert classify_response(200, JSON, "{", method=method).code == "unreadable_body"
    assert read(200, '{"id": 1}', method=method) is None
    assert read(200, '\ufeff {"id": 1}', method=method) is None
    assert read(200, ')]}\'\n{"id": 1}', method=method) is None
    assert read(200, '{"id": 1}\n{"id": 2}', method=method) is None
    assert read(204, b"", method=method) is None
    assert read(200, None, method=method) is None
    assert read(200, '{"id": 1', headers={}, method=method) is None


# --- the corners of the forms ---


def test_an_earlier_doubt_is_passed_on():
    already = {"ok": False, "error": "already_reacted"}
    assert read(200, already) == "permanent none"
    assert classify_response(200, JSON, json.dumps(already), doubtful=True).own_success
    assert classify_response(200, JSON, json.dumps(error(code="already_exists")), doubtful=True).own_success
    assert classify_response(200, JSON, json.dumps(error(code=400)), doubtful=True).evidence is Evidence.MAYBE
    event = f"data: {json.dumps(error(code='already_exists'))}\n\n"
    assert classify_response(200, {"content-type": "text/event-stream"}, event, doubtful=True).own_success
    assert classify_response(200, {"content-type": "text/event-stream"}, event).evidence is Evidence.NONE


def test_numbers_as_codes_are_statuses_of_failures_alone():
    assert read(200, error(code=400)) == "permanent none"
    assert read(200, error(code=399)) == "unknown maybe"
    assert read(200, error(code=401)) == "permanent none"
    assert read(200, error(code=503)) == "unknown maybe"
    assert classify_response(200, JSON, json.dumps(error(code=404))).code == "http_404"
    for code in (399, 600):
        assert classify_response(200, JSON, json.dumps(error(code=code))).code == "error_object"


def test_envelopes_may_be_full():
    assert read(200, {"type": "error", "request_id": "req_1", **error(code="odd")}) == "unknown maybe"
    assert read(200, graphql("", data=None, extensions={"cost": 1})) == "permanent maybe"
    assert read(200, {**graphql("THROTTLED"), "extensions": {"cost": 1}}) == "retryable none"


def test_events_are_put_together():
    sse = {"content-type": "text/event-stream"}
    fault = classify_response(200, sse, "event: error\ndata: words\n\n")
    assert (fault.code, fault.uncertain) == ("stream_error", True)
    two_lines = 'data:  {"error": {"code": "odd",\ndata: "message": "words"}}\n\n'
    assert read(200, two_lines, headers=sse) == "unknown maybe"
    assert read(200, 'data:{"error": {"code": "odd", "message": "words"}}\n\n', headers=sse) == "unknown maybe"
    unnamed = classify_response(200, sse, "data: words\n\n")
    assert unnamed is None
    split_text = json.dumps(error(code="odd")).replace("words", "a\ndata: b")
    assert read(200, f"data: {split_text}\n\n", headers=sse) is None


def test_graphql_codes_that_say_already_so():
    fault = classify_response(200, JSON, json.dumps(graphql("ALREADY_EXISTS")))
    assert (fault.code, fault.kind, fault.evidence) == ("ALREADY_EXISTS", FaultClass.PERMANENT, Evidence.NONE)
    assert classify_response(200, JSON, json.dumps(graphql("ALREADY_EXISTS", ""))).evidence is Evidence.MAYBE


def test_fields_by_pointer():
    assert read(422, {"errors": [{"pointer": "/amount"}]}) == "invalid none"


def test_entries_need_both_fields():
    assert read(200, {"Failed": [{"Id": "1"}]}) is None
    assert read(200, {"Failed": [{"Code": "x"}]}) is None
    assert read(200, {"Failed": [{"Id": "1", "Code": "x"}], "Successful": "odd"}) is None
    assert read(207, [{"statusCode": 201}, {"statusCode": 500}]) == "partial some"
    assert read(207, [{"status": True}]) == "partial maybe"


# --- any shape ---


def test_bodies_are_read_up_to_a_limit():
    padding = " " * bodies.LARGEST
    assert read(400, json.dumps({"__type": "SlowDown"}) + padding) == "permanent none"
    assert read(200, '{"id": 1' + padding) is None


@pytest.mark.parametrize(
    "body",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"error":' * 50 + "{}" + "}" * 50,
        "9" * 5000,
        '{"error": {"errors": 5, "details": {"a": 1}, "message": 7}}',
        '{"error": [1, 2]}',
        '{"__type": 5, "code": [], "errors": [null, 3, {"extensions": 4}]}',
        '{"error": {"message": "{\\"error\\": {\\"message\\": \\"{}\\"}}"}}',
        b"\x00\xff\xfe",
        "\ud800",
    ],
    ids=range(10),
)
@pytest.mark.parametrize("status", [200, 207, 400, 429, 500])
def test_odd_bodies_do_not_raise(status, body):
    classify_response(status, JSON, body)
    classify_response(status, {"content-type": "text/event-stream"}, body)
    classify_response(status, {}, body)


def test_what_the_answer_says_is_kept_for_the_record():
    assert classify_response(400, {}, json.dumps(error(code="odd"))).message == "words"
    assert classify_response(400, {}, "<p>" + "x" * 5000).message == ("<p>" + "x" * 5000)[:1000]
    assert classify_response(400, {}, None).message == ""
