"""Whatever is on record can be shown: as one JSON document, and to a person, whose terminal it cannot steer."""

import datetime as dt
import decimal
import json

import pytest

import settled

VALUES = {
    "a number longer than Python writes": 10**5000,
    "a negative one": -(10**5000),
    "deep in a list": [[{"a": 10**5000}]],
    "no number": float("nan"),
    "without end": [float("inf"), -float("inf")],
    "minus nothing": -0.0,
    "a lone surrogate": "\ud800x",
    "a NUL": "a\0b",
    "a terminal's title": "\x1b]0;title\x07\x1b[2J",
    "text from the right": "\u202eabc\u2066",
    "decimals": [decimal.Decimal("NaN"), decimal.Decimal("1e999999")],
    "the last moment": dt.datetime.max.replace(tzinfo=dt.UTC),
    "the longest time": dt.timedelta.max,
    "bytes that are no text": b"\xff\xfe\0",
    "a set of all sorts": {1, "a", (2, b"\xff")},
    "names that are no text": {1: 2, (1, 2): 3, None: 4},
    "long": "x" * 300_000,
    "nested": json.loads("[" * 80 + "]" * 80),
}


def strict(text):
    """Read JSON as others do, who know no NaN and no lone surrogate."""
    return json.loads(text.encode().decode("ascii"), parse_constant=pytest.fail)


@pytest.mark.parametrize("name", VALUES)
def test_a_value_on_record_is_shown(shop, name):
    value = VALUES[name]
    with settled.Guard(shop.url) as guard:

        @guard.tool(effect="write", attempts=1)
        def tell(name: str):
            return value

        operation_id = tell.call(name=name).operation_id
    shown = shop.cli("calls", "show", operation_id, "--json")
    assert shown.code == 0, shown.err
    assert strict(shown.out)["state"] == "succeeded"
    told = shop.cli("calls", "show", operation_id)
    assert told.code == 0, told.err
    assert all(each.isprintable() or each == "\n" for each in told.out + told.err)


@pytest.mark.parametrize("name", ["a number longer than Python writes", "a NUL", "text from the right", "long"])
def test_an_argument_on_record_is_shown(shop, name):
    with settled.Guard(shop.url) as guard:

        @guard.tool(effect="write", attempts=1)
        def tell(given: object):
            raise TimeoutError("no answer")

        operation_id = tell.call(given=VALUES[name]).operation_id
    shown = shop.cli("queue", "show", operation_id, "--json")
    assert shown.code == 0, shown.err
    assert strict(shown.out)["state"] == "unknown"
    assert shop.cli("queue", "show", operation_id).code == 0
