"""How known APIs refuse: because of the pace, of who asks, of another one at work; and which of it passes by itself."""

import json

import pytest

from settled.core.faults import classify, classify_response
from tests.core.faults.fakes import client_error

PASSING, WHO_ASKS, FINAL = "retryable none", "permanent none, not final", "permanent none, final"
AT_WORK, MAYBE = "retryable maybe", "unknown maybe"


def said(fault):
    words = f"{fault.kind} {fault.evidence}"
    return f"{words}, {'' if fault.final else 'not '}final" if words == "permanent none" else words


def read(status, body=b"", **more):
    headers = more.pop("headers", {})
    text = body if isinstance(body, bytes) else json.dumps(body)
    return said(classify_response(status, headers, text, **more))


def graph(code, **more):
    """As Meta's Graph API answers, WhatsApp's messages too."""
    error = {"message": "(#) words", "type": "OAuthException", "code": code, "fbtrace_id": "AbC", **more}
    return {"error": error}


def google(status, reason):
    return {"error": {"code": 400, "status": status, "details": [{"@type": "google.rpc.ErrorInfo", "reason": reason}]}}


def cancelled(*reasons):
    return {"__type": "x#TransactionCanceledException", "CancellationReasons": [{"Code": code} for code in reasons]}


ANSWERS = {
    "meta-rate": (400, graph(4), PASSING),
    "whatsapp-rate": (400, graph(130429), PASSING),
    "whatsapp-pair": (400, graph(131056), PASSING),
    "meta-token": (400, graph(190), WHO_ASKS),
    "meta-session": (401, graph(102), WHO_ASKS),
    "meta-unknown": (500, graph(1), MAYBE),
    "meta-transient": (400, graph(99, is_transient=True), MAYBE),
    "meta-parameter": (400, graph(100), FINAL),
    "a-number-that-is-not-metas": (400, {"error": {"message": "words", "code": 4}}, FINAL),
    "github-secondary": (
        403,
        {"message": "words", "documentation_url": "/rest/overview#secondary-rate-limits"},
        PASSING,
    ),
    "github-forbidden": (403, {"message": "words", "documentation_url": "/rest/issues#create-an-issue"}, FINAL),
    "salesforce-lock": (400, [{"errorCode": "UNABLE_TO_LOCK_ROW", "message": "words"}], PASSING),
    "salesforce-session": (401, [{"errorCode": "INVALID_SESSION_ID", "message": "words"}], WHO_ASKS),
    "salesforce-duplicate": (400, [{"errorCode": "DUPLICATE_VALUE", "message": "words"}], FINAL),
    "google-aborted": (409, {"error": {"code": 409, "status": "ABORTED", "message": "words"}}, PASSING),
    "s3-aborted": (409, b"<Error><Code>OperationAborted</Code></Error>", PASSING),
    "s3-two-at-once": (409, b"<Error><Code>ConditionalRequestConflict</Code></Error>", PASSING),
    "notion-two-at-once": (409, {"object": "error", "status": 409, "code": "conflict_error"}, PASSING),
    "stripe-locked": (429, {"error": {"type": "invalid_request_error", "code": "lock_timeout"}}, PASSING),
    "openai-spent": (429, {"error": {"type": "insufficient_quota", "code": "insufficient_quota"}}, FINAL),
    "hubspot-pace": (429, {"errorType": "RATE_LIMIT", "policyName": "TEN_SECONDLY_ROLLING"}, PASSING),
    "hubspot-day": (429, {"errorType": "RATE_LIMIT", "policyName": "DAILY"}, FINAL),
    "github-graphql": (
        200,
        {"errors": [{"type": "RATE_LIMIT", "code": "graphql_rate_limit", "message": "w"}]},
        PASSING,
    ),
    "github-graphql-403": (403, {"errors": [{"type": "RATE_LIMIT", "message": "words"}]}, PASSING),
    "github-graphql-gone": (200, {"errors": [{"type": "NOT_FOUND", "message": "words"}]}, "permanent maybe"),
    "shopify-cost": (200, {"errors": [{"message": "w", "extensions": {"code": "MAX_COST_EXCEEDED"}}]}, FINAL),
    "monday-cost": (
        200,
        {"errors": [{"message": "w", "extensions": {"code": "COMPLEXITY_BUDGET_EXHAUSTED"}}]},
        PASSING,
    ),
    "google-pace": (403, google("PERMISSION_DENIED", "RATE_LIMIT_EXCEEDED"), PASSING),
    "google-key": (400, google("INVALID_ARGUMENT", "API_KEY_INVALID"), WHO_ASKS),
    "google-no-rights": (403, google("PERMISSION_DENIED", "IAM_PERMISSION_DENIED"), FINAL),
    "dynamodb-pace": (400, cancelled("None", "ProvisionedThroughputExceeded"), PASSING),
    "dynamodb-condition": (400, cancelled("None", "ConditionalCheckFailed"), FINAL),
    "aws-key-pace": (400, {"__type": "KMSThrottlingException"}, PASSING),
    "dynamodb-replicas": (400, {"__type": "ReplicatedWriteConflictException"}, PASSING),
    "iam-two-at-once": (
        409,
        b"<ErrorResponse><Error><Code>ConcurrentModification</Code></Error></ErrorResponse>",
        PASSING,
    ),
    "a-proxy-wants-a-login": (407, b"<html>", WHO_ASKS),
    "a-dependency-failed": (424, {"message": "the model failed"}, MAYBE),
    "oauth": (400, {"error": "invalid_grant", "error_description": "words"}, WHO_ASKS),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_how_a_known_api_refuses(name):
    status, body, words = ANSWERS[name]
    assert read(status, body) == words


@pytest.mark.parametrize(
    ("status", "words"),
    [(420, PASSING), (449, PASSING), (419, WHO_ASKS), (440, WHO_ASKS), (498, WHO_ASKS), (430, FINAL), (477, FINAL)],
)
def test_statuses_of_old_and_of_single_vendors(status, words):
    assert read(status) == words


BLANK = [{"field": ["title"], "message": "words", "code": "BLANK"}]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"a": {"product": None, "userErrors": BLANK}}, FINAL),
        ({"a": {"product": {"id": 1}, "userErrors": BLANK}}, "permanent maybe"),
        ({"a": {"product": None, "userErrors": BLANK}, "b": {"product": {"id": 1}, "userErrors": []}}, "partial some"),
        ({"a": {"product": {"id": 1}, "userErrors": []}}, None),
        ({"a": None}, None),
        ({}, None),
    ],
)
def test_a_mutation_that_refuses_field_by_field(data, words):
    fault = classify_response(200, {"content-type": "application/json"}, json.dumps({"data": data}), method="POST")
    assert (None if fault is None else said(fault)) == words


@pytest.mark.parametrize("status", [400, 404, 422, 477])
def test_a_refusal_that_names_a_pause_passes(status):
    assert read(status, headers={"Retry-After": "30"}) == PASSING
    assert read(status, headers={"Retry-After": "30"}, doubtful=True) == MAYBE


def test_a_conflict_that_names_a_pause_is_the_same_request_under_way():
    fault = classify_response(409, {"Retry-After": "2"}, None, method="POST")
    assert (said(fault), fault.in_progress, fault.retry_after) == (AT_WORK, True, 2.0)
    assert read(409) == "permanent maybe"
    assert read(412, headers={"Retry-After": "2"}) == "permanent maybe"


@pytest.mark.parametrize(
    "code",
    [
        *("UnrecognizedClientException", "InvalidSignatureException", "SignatureDoesNotMatch", "RequestTimeTooSkewed"),
        *("InvalidClientTokenId", "InvalidAccessKeyId", "MissingAuthenticationTokenException", "AuthFailure"),
        *("IncompleteSignatureException", "TokenRefreshRequired", "ExpiredTokenException"),
    ],
)
@pytest.mark.parametrize("status", [400, 403])
def test_aws_turns_away_who_asks_with_other_statuses_than_401(code, status):
    assert said(classify(client_error(code, status))) == WHO_ASKS
    assert read(status, {"__type": f"com.amazon.coral.service#{code}"}) == WHO_ASKS


def canceled(*codes):
    error = client_error("TransactionCanceledException", 400)
    error.response["CancellationReasons"] = [{"Code": code, "Message": "words"} for code in codes]
    return error


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        (("None", "TransactionConflict"), PASSING),
        (("ThrottlingError", "None"), PASSING),
        (("ConditionalCheckFailed", "None"), FINAL),
        (("TransactionConflict", "ConditionalCheckFailed"), FINAL),
        (("ValidationError",), "invalid none"),
        ((), FINAL),
    ],
)
def test_why_dynamodb_canceled_a_transaction(codes, words):
    error = canceled(*codes)
    assert said(classify(error)) == words
    body = {"__type": "x#TransactionCanceledException", "CancellationReasons": [{"Code": code} for code in codes]}
    assert read(400, body) == words


@pytest.mark.parametrize("code", ["TransactionConflictException", "ConcurrentModificationException"])
def test_another_one_was_at_work(code):
    assert said(classify(client_error(code, 400))) == PASSING
    assert said(classify(client_error(code, 400, retries=2))) == MAYBE


@pytest.mark.parametrize("reasons", [None, "words", [None], [{}], [{"Code": None}], {"Code": "x"}])
def test_reasons_of_any_shape(reasons):
    error = client_error("TransactionCanceledException", 400)
    error.response["CancellationReasons"] = reasons
    assert said(classify(error)) == FINAL
