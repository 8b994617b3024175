"""How long to wait: every form in which another side says it."""

import math
import time

import pytest

from settled.core.faults import classify_response, retry_after
from settled.core.faults.retry_after import http_date

NOW = 1_792_567_680.0  # Wed, 21 Oct 2026 07:28:00 GMT


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "120"}, 120.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"RETRY-AFTER": "0"}, 0.0),
        ({"retry-after": ".5"}, 0.5),
        ({"retry-after": "3."}, 3.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT"}, 30.0),
        ({"Retry-After": "Wednesday, 21-Oct-26 07:28:30 GMT"}, 30.0),
        ({"Retry-After": "Wed Oct 21 07:28:30 2026"}, 30.0),
        ({"Retry-After": "Mon Nov  2 07:28:00 2026"}, 12 * 86400.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:27:00 GMT"}, 0.0),
        ({"Retry-After": "Sunday, 06-Nov-94 08:49:37 GMT"}, 0.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:60 GMT"}, 59.0),
        ({"x-ratelimit-reset": str(int(NOW) + 60)}, 60.0),
        ({"x-ratelimit-reset": "1000000000"}, 0.0),
        ({"x-ratelimit-reset": str(int(NOW) + 60), "x-ratelimit-remaining": "0"}, 60.0),
        ({"x-ratelimit-reset": str(int(NOW) - 60)}, 0.0),
        ({"x-ratelimit-reset": str(int(NOW) + 60) + "500"}, 60.5),
        ({"x-ratelimit-reset": str(int(NOW) + 60) + "500000"}, 60.5),
        ({"x-rate-limit-reset": str(int(NOW) + 60)}, 60.0),
        ({"ratelimit-reset": str(int(NOW) + 60)}, 60.0),
        ({"ratelimit-reset": "50", "ratelimit-remaining": "0"}, 50.0),
        ({"x-ratelimit-reset-after": "64.57", "x-ratelimit-reset": "30"}, 64.57),
        ({"x-ms-retry-after-ms": "250"}, 0.25),
        ({"grpc-retry-pushback-ms": "250"}, 0.25),
    ],
)
def test_every_form(headers, seconds):
    assert retry_after(headers, now=NOW) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"retry-after": ""},
        {"retry-after": "soon"},
        {"retry-after": "-5"},
        {"retry-after": "+5"},
        {"retry-after": "1e3"},
        {"retry-after": "inf"},
        {"retry-after": "nan"},
        {"retry-after": "٣"},
        {"retry-after": "120, 60"},
        {"retry-after": "2026-10-21T07:28:30Z"},
        {"retry-after": "Wed, 21 Oct 2026 07:28:30 +0200"},
        {"retry-after": "Wed, 32 Oct 2026 07:28:30 GMT"},
        {"retry-after": "Wed, 21 Oct 0000 07:28:30 GMT"},
        {"retry-after": "Wed, 21 Oct 2026 25:28:30 GMT"},
        {"x-ratelimit-reset": "30"},
        {"x-ratelimit-reset": str(int(NOW) + 60), "x-ratelimit-remaining": "59"},
        {"ratelimit-reset": "50", "ratelimit-remaining": "3"},
        {"x-rate-limit-reset": "30"},
        {"x-ratelimit-reset": "9" * 25},
        {"grpc-retry-pushback-ms": "-1"},
        {"retry-after": None},
        {None: None},
    ],
)
def test_what_cannot_be_read_is_nothing(headers):
    assert retry_after(headers, now=NOW) is None


def test_the_servers_own_clock_removes_the_skew():
    headers = {"Retry-After": "Wed, 21 Oct 2026 07:33:30 GMT", "Date": "Wed, 21 Oct 2026 07:33:00 GMT"}
    assert retry_after(headers, now=NOW) == 30.0
    assert retry_after(headers, now=None) == 30.0
    assert retry_after(headers, now=0.0) == 30.0
    reset = {"x-ratelimit-reset": str(int(NOW) + 330), "Date": "Wed, 21 Oct 2026 07:33:00 GMT"}
    assert retry_after(reset, now=NOW) == 30.0


def test_a_date_without_any_clock_is_nothing():
    assert retry_after({"Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT"}, now=None) is None


@pytest.mark.parametrize("digits", ["9999999999", "9" * 400, "9" * 10_000])
def test_huge_values_stay_finite(digits):
    for name in ("retry-after", "retry-after-ms", "x-ratelimit-reset", "grpc-retry-pushback-ms"):
        wait = retry_after({name: digits}, now=NOW)
        assert wait is None or (math.isfinite(wait) and wait > 1e6)
    assert retry_after({"retry-after": "9999999999"}, now=NOW) == 9999999999.0


@pytest.mark.parametrize("now", [math.inf, -math.inf, math.nan, 1e300, -1e300])
def test_a_broken_clock_does_no_harm(now):
    for value in ("Wed, 21 Oct 2026 07:28:30 GMT", "Wednesday, 21-Oct-26 07:28:30 GMT"):
        wait = retry_after({"retry-after": value}, now=now)
        assert wait is None or math.isfinite(wait)


def test_two_digits_of_a_year_are_at_most_fifty_years_ahead():
    assert http_date("Sunday, 06-Nov-94 08:49:37 GMT", near=NOW) == 784111777.0
    assert http_date("Sunday, 06-Nov-76 08:49:37 GMT", near=NOW) == 3371878177.0
    assert http_date("Sunday, 06-Nov-77 08:49:37 GMT", near=NOW) == 247654177.0
    assert http_date("Sun Nov  6 08:49:37 1994") == http_date("Sun, 06 Nov 1994 08:49:37 GMT") == 784111777.0


def test_the_century_is_that_of_the_clock_or_of_the_answers_own_date():
    in_2076 = http_date("Fri, 06 Nov 2076 08:49:37 GMT")
    assert in_2076 == 3371878177.0
    half_a_minute_later = ("Fri, 06 Nov 2076 08:50:07 GMT", "Friday, 06-Nov-76 08:50:07 GMT")
    for date in ("Fri, 06 Nov 2076 08:49:37 GMT", "Friday, 06-Nov-76 08:49:37 GMT"):
        for after in half_a_minute_later:
            assert retry_after({"date": date, "retry-after": after}, now=in_2076) == 30.0
    assert retry_after({"date": "Fri, 06 Nov 2076 08:49:37 GMT", "retry-after": half_a_minute_later[1]}, now=NOW) == 30
    without_a_clock = http_date("Saturday, 06-Nov-52 08:49:37 GMT", near=math.inf)
    assert without_a_clock == http_date("Thu, 06 Nov 1952 08:49:37 GMT")
    assert http_date("Monday, 06-Nov-51 08:49:37 GMT", near=math.inf) == http_date("Mon, 06 Nov 2051 08:49:37 GMT")


@pytest.fixture
def in_tokyo(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_tokyo")
def test_a_date_is_the_same_in_every_time_zone():
    assert http_date("Wed, 21 Oct 2026 07:28:00 GMT") == NOW
    new_year = http_date("Thu, 31 Dec 2026 23:30:00 GMT")
    assert http_date("Sunday, 06-Nov-77 08:49:37 GMT", near=new_year) == 247654177.0


def test_a_reset_counts_only_where_the_pace_was_the_matter():
    headers = {"x-ratelimit-reset": str(int(NOW) + 60), "x-ratelimit-remaining": "0"}
    assert classify_response(403, headers, None, now=NOW).retry_after == 60.0
    assert classify_response(422, headers, None, now=NOW).retry_after is None


def test_who_says_not_to_retry():
    def kind(status, **headers):
        return classify_response(status, {name.replace("_", "-"): value for name, value in headers.items()}, None).kind

    assert kind(429, x_should_retry="false") == "permanent"
    assert kind(500, x_should_retry="false") == "permanent"
    assert kind(500, x_should_retry="true") == "unknown"
    assert kind(409, x_should_retry="true") == "retryable"
    assert kind(400, x_should_retry="true") == "permanent"
    assert kind(503, grpc_retry_pushback_ms="-1") == "permanent"
    assert classify_response(500, {"x-should-retry": "false"}, None).evidence == "maybe"
