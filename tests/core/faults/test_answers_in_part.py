"""Answers that tell of several things at once: what is said of one of them proves nothing about the others."""

import json

import botocore.exceptions
import pytest

from settled.core.faults import classify, classify_response

JSON = {"content-type": "application/json"}
LINES = {"content-type": "application/x-ndjson"}
EVENTS = {"content-type": "text/event-stream"}


def read(status, body, headers=JSON):
    fault = classify_response(status, headers, body if isinstance(body, str) else json.dumps(body), method="POST")
    return None if fault is None else f"{fault.kind} {fault.evidence}"


REFUSALS = [
    ({"ok": False, "error": "ratelimited"}, "retryable none"),
    ({"error": {"type": "rate_limit_error", "message": "words"}}, "retryable none"),
    ({"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "words"}}, "invalid none"),
    ({"errors": True, "items": [{"index": {"status": 400}}]}, "partial none"),
]


@pytest.mark.parametrize("headers", [JSON, LINES])
@pytest.mark.parametrize(("refusal", "alone"), REFUSALS)
def test_a_refusal_of_which_more_values_follow_is_of_one_of_several(refusal, alone, headers):
    assert read(200, json.dumps(refusal) + "\n", headers) == alone
    more = read(200, json.dumps(refusal) + "\n" + '{"ok": true, "id": 7}\n', headers)
    assert more in {"unknown maybe", "partial maybe"}


# --- under a status of failure ---

FIELD = {"message": "words", "path": ["mail"], "locations": [{"line": 1, "column": 2}]}
DONE = {"pay": {"id": 1}, "mail": None}
BATCHES = [
    {"errors": True, "items": [{"index": {"status": 201}}, {"index": {"status": 400}}]},
    {"Failed": [{"Id": "1", "Code": "x"}], "Successful": [{"Id": "2"}]},
    {"responses": [{"id": "1", "status": 201}, {"id": "2", "status": 400}]},
    {"FailedRecordCount": 1, "Records": [{}, {}]},
]


@pytest.mark.parametrize("status", [400, 401, 404, 409, 422, 429, 500, 503])
@pytest.mark.parametrize("body", [{"data": DONE, "errors": [FIELD]}, *BATCHES])
def test_the_status_of_one_part_over_all_does_not_undo_the_others(status, body):
    assert read(status, body) == "partial some"


def test_so_it_is_with_a_list_of_answers():
    begun, refused = {"data": DONE, "errors": [FIELD]}, {"errors": [FIELD]}
    assert read(400, [begun]) == "partial some"
    assert read(400, [refused, begun]) == "permanent maybe"
    assert read(400, [refused, refused, 7]) == "permanent none"


@pytest.mark.parametrize("status", [400, 401, 404, 422, 429])
@pytest.mark.parametrize("data", [None, {"mail": None}])
def test_an_error_of_a_field_whose_data_is_gone_says_nothing_of_the_other_fields(status, data):
    coded = {"message": "words", "path": ["mail"], "extensions": {"code": "NOT_FOUND"}}
    for error in (FIELD, coded):
        assert read(status, {"data": data, "errors": [error]}).endswith("maybe")


@pytest.mark.parametrize(
    "body",
    [
        {"errors": [FIELD]},  # it was not executed: there is no data
        {"data": None, "errors": [{"message": "words", "locations": [{"line": 1, "column": 2}]}]},
        {"data": {"name": "x"}, "errors": [{"message": "too short", "path": ["name"]}]},  # a form
        {"data": {"name": "x"}, "errors": [{**FIELD, "path": ["other"]}]},
        {"data": {"name": "x"}, "errors": [{**FIELD, "path": [["name"], {}]}]},
        {"data": {"name": "x"}, "errors": [{**FIELD, "path": "name"}, None, 7]},
        {"data": "x", "errors": [FIELD]},
        {"errors": True, "items": [{"index": {"status": 400}}]},
    ],
)
def test_a_refusal_of_all_of_it_stays_one(body):
    assert read(400, body) in {"permanent none", "invalid none"}


@pytest.mark.parametrize("error", [{"code": "rate_limit_exceeded"}, {"type": "overloaded_error"}])
def test_the_throttling_of_what_a_request_depended_on_says_nothing_of_what_was_done_before(error):
    assert read(429, {"error": {"message": "words", **error}}) == "retryable none"
    for status in (408, 424, 444, 460, 499):
        assert read(status, {"error": {"message": "words", **error}}) == "unknown maybe"


@pytest.mark.parametrize(
    "code", ["already_exists", "DuplicateName", "OperationAborted", "insufficient_quota", "AccessDenied"]
)
@pytest.mark.parametrize("status", [408, 424, 444, 460, 499])
def test_no_code_says_that_nothing_was_done_where_the_other_side_gave_up_waiting(code, status):
    assert read(status, {"error": {"message": "words", "code": code}}) == "unknown maybe"


# --- streams ---

WRONG = 'event: message\ndata: {"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "words"}}\n\n'


@pytest.mark.parametrize("before", ["", ": open\n\n", "id: 1\ndata:\n\n", "retry: 100\n\n: still there\n\n"])
def test_what_has_no_data_is_no_event_before_the_error(before):
    assert read(200, before + WRONG, EVENTS) == "invalid none"


@pytest.mark.parametrize("before", ["data: {}\n\n", "event: ping\n\n", "data: words\n\n"])
def test_an_error_after_another_event_proves_nothing(before):
    assert read(200, before + WRONG, EVENTS) == "unknown maybe"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("throttlingException", "unknown maybe"),
        ("ThrottlingException", "unknown maybe"),
        ("validationException", "unknown maybe"),
        ("accessDeniedException", "permanent maybe"),
        ("modelStreamErrorException", "unknown maybe"),
        ("internalServerException", "unknown maybe"),
        ("", "unknown maybe"),
        (None, "unknown maybe"),
    ],
)
def test_an_error_amid_the_events_of_aws_came_after_an_answer_that_began_well(code, words):
    fault = classify(botocore.exceptions.EventStreamError({"Error": {"Code": code, "Message": "words"}}, "InvokeAgent"))
    assert f"{fault.kind} {fault.evidence}" == words
    assert fault.throttled == (str(code).lower() == "throttlingexception")


@pytest.mark.parametrize("response", [None, 7, {}, {"Error": None}, {"Error": "words"}])
def test_such_an_error_of_any_shape(response):
    error = botocore.exceptions.EventStreamError({}, "InvokeAgent")
    error.response = response
    assert classify(error).code == "stream_error"
