"""Bodies taken by themselves: how much of one is read, how deep codes are looked for, what is shown to people."""

import json

import pytest

from settled.core.faults import bodies

WITHIN = '{"error": {"error": {"code": "deep"}}}'


def coded(body):
    return bodies.codes(bodies.read(body if isinstance(body, str) else json.dumps(body)))


def test_how_much_of_a_body_is_read():
    full = " " * (bodies.LARGEST - 1) + "7"
    for body in (full, full.encode(), bytearray(full.encode())):
        read = bodies.read(body)
        assert (read.text, read.value, read.whole) == ("7", 7, True)
    for body in (full + " ", full.encode() + b" ", None):
        read = bodies.read(body)
        assert (read.text, read.value, read.whole) == ("", bodies.MISSING, False)
    read = bodies.read({"id": 1})
    assert (read.text, read.json, read.whole) == ("", {"id": 1}, True)


def test_only_marks_and_white_space_before_a_body_are_left_out():
    assert bodies.read("\ufeff\r\n\t Xylem").text == "Xylem"
    assert bodies.read(b"\xff{}").text == "\ufffd{}"


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        ({"error": "too_fast"}, ["too_fast"]),
        ({"error": "words with spaces"}, []),
        ({"code": "a", "error": {"code": "b", "error": {"code": "c", "error": {"code": "d"}}}}, ["a", "b", "c"]),
        ({"errors": [{"code": "a"}], "details": [{"reason": "b"}]}, ["a", "b"]),
        ({"errors": [json.loads(WITHIN)]}, []),
        ({"errors": [{"error": {"code": "a"}}]}, ["a"]),
        ({"errors": [{"extensions": {"code": "a"}}]}, ["a"]),
        ({"error": {"errors": [{"extensions": {"code": "a"}}]}}, ["a"]),
        ({"errors": [{"extensions": json.loads(WITHIN)}]}, []),
        ({"message": ' \n{"code": "a"}'}, ["a"]),
        ({"error": {"message": '{"code": "a"}'}}, ["a"]),
        ({"message": WITHIN}, []),
        ({"code": "a", "type": "a"}, ["a"]),
        ("<Error><Code>A</Code></Error>", ["A"]),
        ("words <Code>A</Code>", []),
        ([{"code": "a"}, {"code": "b"}], ["a"]),
        ({"errors": [{"code": f"a{place}"} for place in range(60)]}, [f"a{place}" for place in range(50)]),
    ],
    ids=str,
)
def test_where_codes_are_looked_for(body, codes):
    assert coded(body) == codes


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": {"message": "inner"}, "message": "outer"}, "inner"),
        ({"message": "outer", "error": "short"}, "outer"),
        ({"Message": "said AWS"}, "said AWS"),
        ({"error": "short", "detail": "long"}, "short"),
        ({"detail": "said FastAPI"}, "said FastAPI"),
        ({"message": "", "detail": "long"}, "long"),
        ({"detail": [1]}, '{"detail": [1]}'),
    ],
    ids=str,
)
def test_what_is_shown(body, words):
    assert bodies.message(bodies.read(json.dumps(body))) == words


@pytest.mark.parametrize(
    ("delay", "seconds"), [("34.07s", 34.07), ("3s", 3.0), ("3", None), ("-3s", None), ("٣s", None), (3, None)]
)
def test_googles_delay(delay, seconds):
    body = bodies.read({"error": {"details": [{"retryDelay": delay}]}})
    assert bodies.retry_delay(body) == seconds


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ({"ok": False, "error_code": 429, "parameters": {"retry_after": 35}}, 35.0),
        ({"message": "You are being rate limited.", "retry_after": 64.57, "global": False}, 64.57),
        ({"retry_after": 0}, 0.0),
        *(({"retry_after": odd}, None) for odd in ("35", True, -1, None, 1e9, [1])),
        ({"parameters": [35]}, None),
    ],
    ids=str,
)
def test_the_pause_that_telegram_and_discord_name(body, seconds):
    assert bodies.retry_delay(bodies.read(body)) == seconds
