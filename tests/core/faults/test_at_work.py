"""The other side is not done: with our own request, with somebody else's, or with what it waits for itself."""

import json

import pytest

from settled.core.faults import classify_response


def read(status, body, **more):
    fault = classify_response(status, {}, json.dumps(body), method="POST", **more)
    words = f"{fault.kind} {fault.evidence}"
    return f"{words} in_progress" if fault.in_progress else words


OURS = [
    *("idempotency_key_in_use", "idempotency_request_in_progress", "PREVIOUS_REQUEST_IN_PROGRESS"),
    *("RequestInProgressException", "TransactionInProgressException", "request_already_in_progress"),
]
ANOTHERS = [
    *("AnotherOperationInProgress", "OPERATION_ALREADY_IN_PROGRESS"),
    *("OperationInProgressException", "rebalanceInProgress"),
]


@pytest.mark.parametrize("status", [400, 409, 422, 425, 429])
@pytest.mark.parametrize("code", OURS)
def test_it_may_be_our_own_request_that_is_in_progress(code, status):
    for body in ({"error": {"code": code, "message": "words"}}, {"error_code": code}):
        assert read(status, body) == "retryable maybe in_progress"


@pytest.mark.parametrize("status", [400, 409, 422])
@pytest.mark.parametrize("code", ANOTHERS)
def test_what_meets_another_operation_in_progress_was_not_done_and_may_be_later(code, status):
    assert read(status, {"error": {"code": code, "message": "words"}}) == "retryable none"
    assert read(status, {"code": code}, doubtful=True) == "retryable maybe in_progress"  # it may be our own


@pytest.mark.parametrize("status", [408, 424, 499, 500, 502, 504])
def test_what_is_in_progress_as_the_other_side_gave_up_waiting_may_be_what_was_asked_for(status):
    for code in (*OURS, *ANOTHERS, "in_progress"):
        assert "maybe" in read(status, {"status": code})


def test_what_is_not_in_progress():
    for code in ("NOT_IN_PROGRESS", "MatchNotInProgress", "progress"):
        assert read(400, {"code": code}) == "permanent none"
        assert read(409, {"code": code}) == "permanent maybe"


@pytest.mark.parametrize("code", ["UPSTREAM_TIMEOUT", "gateway_timeout", "ProviderTimedOut", "deadline_exceeded"])
def test_a_time_that_was_over_proves_nothing_whatever_the_status(code):
    for status in (400, 404, 409, 422, 500, 504):
        assert read(status, {"error": {"code": code, "message": "words"}}).endswith("maybe")


@pytest.mark.parametrize(
    ("status", "said"),
    [
        *((status, "permanent none") for status in (401, 403, 407, 428)),
        (429, "retryable none"),
        (402, "unknown maybe"),  # a service's own status, as often as a gate's
    ],
)
def test_but_of_a_session_whose_time_is_over_or_of_a_pace(status, said):
    assert read(status, {"code": "session_timeout"}) == said


def test_a_network_that_wants_a_login_has_let_nothing_through():
    fault = classify_response(511, {}, "<html>")
    assert (fault.kind, fault.evidence, fault.local) == ("permanent", "none", True)


@pytest.mark.parametrize(
    ("pause", "named"),
    [
        *((pause, True) for pause in ("0", "30", "1.5", "99999999999999", "Wed, 21 Oct 2015 07:28:00 GMT")),
        *((pause, False) for pause in ("", " ", "-1", "never", "soon", "1e3", "NaN", "30 s")),
    ],
)
def test_a_pause_that_is_none_makes_no_busy_server_of_a_failed_one(pause, named):
    headers = {"Retry-After": pause}
    assert classify_response(503, headers, b"").evidence == ("none" if named else "maybe")
    assert classify_response(409, headers, b"").in_progress is named
    assert classify_response(429, headers, b"").evidence == "none"
