"""The canonical form: equal values, equal bytes; different values, different bytes."""

import json
import math
import pickle
import time as os_time
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from functools import partial
from types import MappingProxyType
from typing import ClassVar
from uuid import UUID
from zoneinfo import ZoneInfo

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from settled.core.encoding.canonical import MAX_DEPTH, NotCanonical, Rules, encode
from settled.core.encoding.keys import without_defaults
from settled.core.encoding.strict_json import parse_object
from tests.core.raised import raised
from tests.shared import shared

SECRET = "hunter2-swordfish"
VECTORS = json.loads(shared("vectors/canonical.json").read_text())
BERLIN = timezone(timedelta(hours=1))


class Colour(Enum):
    RED = "red"


class Mood(StrEnum):
    CALM = "calm"


class Level(IntEnum):
    HIGH = 3


@dataclass
class Address:
    street: str
    number: int = 1
    kind: ClassVar[str] = "postal"


class Customer(pydantic.BaseModel):
    name: str
    address: Address | None = None


class Open(pydantic.BaseModel, extra="allow"):
    name: str


Point = namedtuple("Point", "x y")  # noqa: PYI024 - the untyped kind is in use too


naive = datetime.fromisoformat


def named(vectors):
    return pytest.mark.parametrize("vector", [pytest.param(vector, id=vector["id"]) for vector in vectors])


def pair(vector):
    return [parse_object(text) for text in vector.get("json", ())] or [plain(text) for text in vector["python"]]


def plain(expression):
    return eval(expression, {"Decimal": Decimal, "datetime": datetime, "timezone": timezone})


def refusal(value, rules=None):
    with pytest.raises(NotCanonical) as caught:
        encode(value, rules=rules)
    return caught.value


# --- the shared vectors ---


@named(v for v in VECTORS["same"] if "tool" not in v)
def test_vector_same(vector):
    first, second = pair(vector)
    assert encode(first) == encode(second)


@named(v for v in VECTORS["same"] if "tool" in v)
def test_vector_same_for_a_tool(vector):
    assert vector["tool"] == "f(x: int, y: int = 5)"
    first, second = (encode(without_defaults(arguments, {"y": 5})) for arguments in pair(vector))
    assert first == second


@named(VECTORS["different"])
def test_vector_different(vector):
    first, second = pair(vector)
    assert encode(first) != encode(second)


@named(VECTORS["refuse"])
def test_vector_refused(vector):
    with pytest.raises(ValueError, match=r"not valid JSON|canonical form|not text"):
        encode(parse_object(vector["json"]) if "json" in vector else plain(vector["python"]))


@named(v for v in VECTORS["declared"] if "equal" in v)
def test_vector_equal_by_a_declared_rule_only(vector):
    first, second = (parse_object(text) for text in vector["equal"])
    rules = Rules.parse(vector["rule"])
    assert encode(first, rules=rules) == encode(second, rules=rules)
    assert encode(first) != encode(second)


@named(v for v in VECTORS["declared"] if "differ" in v)
def test_vector_different_in_spite_of_a_rule(vector):
    first, second = (encode(parse_object(text), rules=Rules.parse(vector["rule"])) for text in vector["differ"])
    assert first != second


@named(v for v in VECTORS["declared"] if "refuse" in v)
def test_vector_refused_by_a_declared_rule(vector):
    for text in vector["refuse"]:
        assert encode(parse_object(text))
        assert refusal(parse_object(text), Rules.parse(vector["rule"])).path in vector["rule"]


@named(v for v in VECTORS["declared"] if v.get("declaration_error"))
def test_vector_wrong_declaration(vector):
    assert vector["tool"] == "f(email: str)"
    with pytest.raises(ValueError, match="no argument 'nosuch'"):
        Rules.parse(vector["rule"]).check_roots(["email"])


def test_every_vector_is_looked_at():
    assert set(VECTORS) - {"about"} == {"same", "different", "refuse", "declared", "keys"}
    seen = {"id", "rule", "equal", "differ", "refuse", "declaration_error", "tool", "note"}
    assert all(set(vector) <= seen for vector in VECTORS["declared"])


# --- the form itself, so that a change of it is seen ---


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (None, b"1;0"),
        (True, b"1;+"),
        (False, b"1;-"),
        ("", b"1;s0:"),
        ("é", b"1;s2:\xc3\xa9"),
        (b"\x00\xff", b"1;b2:\x00\xff"),
        (0, b"1;n3:0e0"),
        (1, b"1;n3:1e0"),
        (-120, b"1;n5:-12e1"),
        (0.1 + 0.2, b"1;n21:30000000000000004e-17"),
        (1e16, b"1;n4:1e16"),
        (Decimal("12.50"), b"1;n6:125e-1"),
        (Decimal("1E+999999999"), b"1;n11:1e999999999"),
        ([], b"1;l0:"),
        (["a", 1], b"1;l2:s1:an3:1e0"),
        ({}, b"1;o0:"),
        ({"b": 1, "a": None}, b"1;o2:s1:a0s1:bn3:1e0"),
        ({3, 1}, b"1;e2:n3:1e0n3:3e0"),
        (date(2026, 1, 2), b"1;d10:2026-01-02"),
        (time(9, 30), b"1;c8:09:30:00"),
        (naive("2026-01-02T09:00").replace(fold=1), b"1;t21:2026-01-02T09:00:00/2"),
        (naive("2026-01-02T09:00"), b"1;t19:2026-01-02T09:00:00"),
        (datetime(2026, 1, 2, 9, tzinfo=UTC), b"1;t25:2026-01-02T09:00:00+00:00"),
        (timedelta(seconds=1.5), b"1;p7:1500000"),
        (UUID(int=1), b"1;u32:00000000000000000000000000000001"),
    ],
)
def test_form_of_version_1(value, form):
    assert encode(value) == form


@pytest.mark.parametrize(
    "equal",
    [
        [1, 1.0, Decimal(1), Decimal("1.00"), Decimal("1E0"), Decimal("0.1e1")],
        [0, -0.0, Decimal("-0.00"), Decimal("0E+7"), Decimal("0E-999999999")],
        [10**16, 1e16, Decimal("1E16"), Decimal("10000000000000000.0")],
        [10**400, Decimal("1E400")],
        [7 * 10**5000, Decimal("7E5000"), Decimal("70E4999")],
        [0.1, Decimal("0.1"), Decimal("0.10")],
        [-1e-7, Decimal("-0.0000001"), Decimal("-1E-7")],
        [1e22, 10**22],
        [[1, 2], (1, 2), Point(1, 2)],
        ["red", Colour.RED],
        ["calm", Mood.CALM],
        [3, Level.HIGH, 3.0],
        [{"a": 1, "b": 2}, OrderedDict(b=2, a=1), MappingProxyType({"b": 2, "a": 1})],
        [{"street": "x", "number": 1}, Address("x"), Address(number=1, street="x")],
        [{"name": "x", "address": {"street": "y", "number": 1}}, Customer(name="x", address=Address("y"))],
        [{"name": "x", "nick": "y"}, Open(name="x", nick="y")],
        [b"10", bytearray(b"10")],
        [{1, 2}, frozenset({2, 1}), {2.0, 1.0}],
        [datetime(2026, 7, 1, 9, tzinfo=BERLIN), datetime(2026, 7, 1, 9, tzinfo=ZoneInfo("Africa/Lagos"))],
    ],
)
def test_the_same(equal):
    assert len({encode(value) for value in equal}) == 1


@pytest.mark.parametrize(
    "different",
    [
        [None, "", 0, False, [], {}, set(), b""],
        [True, 1, "1", "true", b"1", [1], {1}],
        [9007199254740992, 9007199254740993],
        [0.12345678, 0.12345684],
        [1e-7, 4e-7, 0],
        [["debit", "credit"], ["credit", "debit"]],
        [["a", "a"], ["a"]],
        [["ab", "c"], ["a", "bc"], ["abc"], [["ab"], "c"]],
        [{"a": {"b": 1}}, {"a": {}, "b": 1}, {"a": 1, "b": {}}],
        ["café", "cafe\u0301"],
        [b"10", "10", 10],
        [date(2026, 1, 1), "2026-01-01", naive("2026-01-01")],
        [naive("2026-01-01T09:00"), datetime(2026, 1, 1, 9, tzinfo=UTC), datetime(2026, 1, 1, 10, tzinfo=BERLIN)],
        [naive("2026-10-25T02:30"), naive("2026-10-25T02:30").replace(fold=1)],
        [datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=fold) for fold in (0, 1)],
        [time(9), time(9, tzinfo=UTC), timedelta(hours=9)],
        [UUID(int=1), str(UUID(int=1)), UUID(int=1).hex, 1],
        [timedelta(1), 86_400_000_000, timedelta(days=1, microseconds=1)],
        ["W\u0000s", "W\\u0000s", "Ws"],
    ],
)
def test_different(different):
    assert len({encode(value) for value in different}) == len(different)


@pytest.mark.case("019")
def test_case_019_the_form_does_not_depend_on_how_json_was_written():
    one = parse_object('{"a":1,"b":{"d":[1,2],"c":"\\u00e9"}}')
    other = parse_object('{ "b": {"c": "é", "d": [1.0, 2e0]},\n"a": 1 }')
    assert encode(one) == encode(other)
    assert encode(parse_object('{"n":1}')) != encode(parse_object('{"n":"1"}'))
    assert encode(parse_object('{"n":"é"}')) != encode(parse_object('{"n":"e\u0301"}'))


@pytest.mark.case("032")
def test_case_032_joined_pairs_are_the_same_text_and_lone_halves_are_refused():
    assert encode(parse_object('{"s":"\\ud83c\\udf78"}')) == encode({"s": "🍸"})
    assert refusal({"s": ["ok \ud83d"]}).path == "s[0]"


@pytest.mark.case("069")
def test_case_069_white_space_counts_inside_of_texts_only():
    first, second, third = (
        parse_object(text)
        for text in ('{"body": {"text": "a b"}}', '{"body":\n{"text":"a b"}}', '{"body":{"text":"a\\nb"}}')
    )
    assert encode(first) == encode(second) != encode(third)


# --- refused ---


class Hostile:
    def __repr__(self):
        raise AssertionError("nobody asks an unknown object for anything")


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        (math.nan, "", "NaN"),
        ({"a": [0, math.inf]}, "a[1]", "Infinity"),
        ({"a": Decimal("NaN")}, "a", "NaN"),
        ({"a": Decimal("sNaN")}, "a", "NaN"),
        ({"a": Decimal("-Infinity")}, "a", "Infinity"),
        ({"a": "\ud800"}, "a", "surrogate"),
        ({"\ud800": 1}, r"['\ud800']", "surrogate"),
        ({"m": {1: "x"}}, "m", "int and not text"),
        ({"m": {None: "x", "a": 1}}, "m", "NoneType and not text"),
        ({"m": {("a",): 1}}, "m", "tuple and not text"),
        ({"o": {"x": Hostile()}}, "o.x", "Hostile has no canonical form"),
        ({"o": Hostile}, "o", "type has no"),
        ({"o": Address}, "o", "type has no"),
        ({"o": lambda: 0}, "o", "function has no"),
        ({"o": 1j}, "o", "complex has no"),
        ({"o": range(3)}, "o", "range has no"),
        ({"o": Address("x", Hostile())}, "o.number", "Hostile"),
        ({"two words": [1, {"x" * 100: object()}]}, f"['two words'][1]['{'x' * 60}...']", "object has no"),
        ({"t": time(9, tzinfo=ZoneInfo("Europe/Berlin"))}, "t", "does not tell its offset"),
        ({"x" * 60: math.nan}, "x" * 60, "NaN"),
    ],
)
def test_refused(value, path, reason):
    refused = refusal(value)
    assert (refused.path, reason in refused.reason) == (path, True), refused
    assert str(refused) == f"{path or 'the value'}: {refused.reason}"
    assert refused.args == (refused.reason, refused.steps)
    again = pickle.loads(pickle.dumps(refused))
    assert (again.path, again.reason) == (refused.path, refused.reason)


@pytest.mark.parametrize(
    ("value", "rule", "message"),
    [
        (math.nan, "", "a: NaN and Infinity have no canonical form"),
        (Decimal("NaN"), "", "a: NaN and Infinity have no canonical form"),
        ("\ud800", "", "a: text with a lone surrogate"),
        ({1: 2}, "", "a: a name that is int and not text"),
        (1j, "", "a: a complex has no canonical form; give text, numbers, lists or dicts"),
        (time(9, tzinfo=ZoneInfo("Europe/Berlin")), "", "a: a time whose zone does not tell its offset from UTC"),
        (1, "unique", "a: its rule is for a list, not for int"),
        (1, "strip", "a: its rule is for text, not for int"),
        (1, "instant", "a: an instant is wanted: a date and time with its UTC offset, to the microsecond at most"),
        ("x", "rounded(1)", "a: a number, or text that holds nothing but a number, is wanted"),
        (1.25, "decimals(1)", "a: a number with at most 1 decimals is wanted"),
        ("{", "json", "a: its text is not valid JSON at position 1: a name in double quotes is missing"),
    ],
)
def test_what_a_refusal_says(value, rule, message):
    assert str(refusal({"a": value}, Rules.parse({"a": rule} if rule else {}))) == message


@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: (v,), lambda v: {"a": v}, Address, lambda v: frozenset([v])])
def test_nesting_is_bounded(wrap):
    value = 1
    for _ in range(MAX_DEPTH):
        value = wrap(value) if wrap is not Address else {"street": value}
    assert encode(value)
    assert "nested deeper" in refusal(wrap(value)).reason


def test_a_stack_that_is_nearly_full_gives_no_other_error():
    value = 1
    for _ in range(MAX_DEPTH):
        value = [value]

    def descend():
        try:
            descend()
        except RecursionError:
            encode(value)

    with pytest.raises(NotCanonical, match="left of the stack"):
        descend()


def test_cycles_are_refused():
    ring = []
    ring.append(ring)
    loop = {}
    loop["self"] = loop
    for value in (ring, loop):
        assert "inside itself" in refusal(value).reason


@pytest.mark.parametrize("value", [SECRET + "\ud800", [SECRET + "\udfff"], {SECRET}.__iter__()])
def test_no_refusal_carries_the_value(value):
    refused = refusal({"password": value})
    assert SECRET not in f"{refused} {refused!r}"
    assert refused.__context__ is None


# --- properties ---

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.decimals(allow_nan=False, allow_infinity=False)
    | texts
    | st.binary(max_size=8)
    | st.dates()
    | st.uuids()
    | st.timedeltas()
    | st.datetimes()
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)


def model(value):
    """What counts of a value, said another way than by the code under test."""
    if value is None or isinstance(value, bool):
        return ("singleton", value)
    if isinstance(value, int | float | Decimal):
        return ("number", Decimal(repr(value)) if isinstance(value, float) else Decimal(value))
    if isinstance(value, list):
        return ("list", tuple(map(model, value)))
    if isinstance(value, dict):
        return ("dict", frozenset((name, model(member)) for name, member in value.items()))
    return (type(value).__name__, value, getattr(value, "fold", 0))


@given(values, values)
def test_bytes_are_equal_exactly_if_the_values_are(first, second):
    assert (encode(first) == encode(second)) == (model(first) == model(second))


@given(st.lists(values, max_size=3), st.lists(values, max_size=3))
def test_no_two_lists_run_into_each_other(first, second):
    assert (encode([first, second]) == encode([first + second, []])) == (second == [])


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_is_the_decimal_that_it_is_written_as(number):
    assert encode(number) == encode(Decimal(repr(number)))


@given(st.integers(-(10**30), 10**30), st.integers(0, 40))
def test_trailing_zeros_do_not_count(digits, zeros):
    assert encode(Decimal(f"{digits}e-{zeros}")) == encode(Decimal(f"{digits}0e-{zeros + 1}"))
    assert encode(digits * 10**zeros) == encode(Decimal(f"{digits}e{zeros}"))


@given(values)
def test_rules_for_other_places_change_nothing(value):
    rules = Rules.parse({"other.place[]": "lower", "other": "unordered"})
    assert encode({"here": value}, rules=rules) == encode({"here": value})


# --- declared rules ---


def same(rules, *values):
    parsed = Rules.parse(rules)
    assert len({encode(value, rules=parsed) for value in values}) == 1
    return True


def differ(rules, *values):
    parsed = Rules.parse(rules)
    assert len({encode(value, rules=parsed) for value in values}) == len(values)
    return True


@pytest.mark.parametrize(
    ("rules", "value", "form"),
    [
        ({"a": "unordered"}, ["b", "a", "b"], b"m3:s1:as1:bs1:b"),
        ({"a": "unordered"}, {"b", "a"}, b"m2:s1:as1:b"),
        ({"a": "unique"}, ["b", "a", "b"], b"e2:s1:as1:b"),
        ({"a[]": "lower"}, ["B", "A"], b"l2:s1:bs1:a"),
        ({"a[]": "lower"}, {"B", "A"}, b"e2:s1:as1:b"),
        ({"a.b": "lower"}, {"b": "B", "a": 1}, b"o2:s1:an3:1e0s1:bs1:b"),
        ({"a": "decimals(2)"}, "12.50", b"n6:125e-1"),
        ({"a": "instant"}, "2026-01-01T10:00:00+01:00", b"t25:2026-01-01T09:00:00+00:00"),
        ({"a": "json"}, "[1]", b"l1:n3:1e0"),
        ({"a": "ignore"}, 1, None),
    ],
)
def test_form_under_rules(rules, value, form):
    expected = b"1;o0:" if form is None else b"1;o1:s1:a" + form
    assert encode({"a": value}, rules=Rules.parse(rules)) == expected


@pytest.mark.parametrize(
    ("rules", "wrap"),
    [
        ({"a[]": "unordered"}, lambda value: [value]),
        ({"a": "unique"}, lambda value: [value]),
        ({"a[].x": "null_is_absent"}, lambda value: [{"x": value}]),
        ({"a.x": "null_is_absent"}, lambda value: {"x": value}),
    ],
)
def test_rules_do_not_change_how_deep_a_value_may_nest(rules, wrap):
    rules = Rules.parse(rules)
    around = str(wrap(1)).count("[") + str(wrap(1)).count("{") + 1
    deep = 1
    for _ in range(MAX_DEPTH - around):
        deep = [deep]
    assert encode({"a": wrap(deep)}, rules=rules)
    assert "nested deeper" in refusal({"a": wrap([deep])}, rules).reason


def test_ignore_and_null_is_absent():
    assert same({"a": "ignore"}, {"a": object(), "b": 1}, {"a": 2, "b": 1}, {"b": 1})
    assert same({"x.a": "ignore"}, {"x": {"a": 1}}, {"x": {}})
    assert differ({"x.a": "ignore"}, {"x": {"a": 1}}, {})
    assert same({"a": "null_is_absent"}, {"a": None}, {})
    assert differ({"a": "null_is_absent"}, {"a": 0}, {"a": ""}, {"a": []}, {})
    assert same({"x[].a": "null_is_absent"}, {"x": [{"a": None}, {"a": 1}]}, {"x": [{}, {"a": 1}]})


def test_unordered_is_a_multiset_and_unique_a_set():
    assert same({"a": "unordered"}, {"a": [1, "x", 1]}, {"a": ("x", 1, 1.0)})
    assert differ({"a": "unordered"}, {"a": [1, 1]}, {"a": [1]}, {"a": None})
    assert same({"a": "unique"}, {"a": [1, "x", 1]}, {"a": ["x", 1]}, {"a": {"x", 1}})
    assert differ({"a": "unique"}, {"a": [1]}, {"a": [[1]]}, {"a": []})
    assert same({"a[]": "unordered"}, {"a": [[1, 2], [3]]}, {"a": [[2, 1], [3]]})
    assert differ({"a[]": "unordered"}, {"a": [[1], [2]]}, {"a": [[2], [1]]})
    assert same({"a": "unordered", "a[].n": "lower"}, {"a": [{"n": "X"}, {"n": "a"}]}, {"a": [{"n": "A"}, {"n": "x"}]})
    assert same({"a[]": "lower"}, {"a": frozenset({"X", "y"})}, {"a": {"x", "Y"}})


def test_decimals_refuses_what_it_would_have_to_drop():
    assert same({"a": "decimals(2)"}, {"a": 12.5}, {"a": "12.50"}, {"a": Decimal("12.500")}, {"a": "1.25e1"})
    assert same({"a": "decimals(0)"}, {"a": 10**30}, {"a": "1e30"}, {"a": f"1{'0' * 30}.0"})
    assert differ({"a": "decimals(2)"}, {"a": 12.5}, {"a": 12.51}, {"a": None}, {"a": "-12.5"})
    rules = Rules.parse({"a": "decimals(2)"})
    for value in (12.505, "12.505", 0.1 + 0.2, "1e-999999999"):
        assert "at most 2 decimals" in refusal({"a": value}, rules).reason
    for value in (
        "",
        " 1",
        "1 ",
        "1,5",
        "0x1",
        "1_000",
        "٣",
        "NaN",
        True,
        [1],
        math.nan,
        Decimal("Infinity"),
        "1e99999999999999999999",
    ):
        assert "nothing but a number" in refusal({"a": value}, rules).reason


def test_rounded_rounds_half_to_even():
    assert same({"a": "rounded(2)"}, {"a": 0.1 + 0.2}, {"a": "0.3"}, {"a": 0.304}, {"a": Decimal("0.295001")})
    assert same({"a": "rounded(1)"}, {"a": "0.25"}, {"a": "0.2"})
    assert same({"a": "rounded(1)"}, {"a": "0.35"}, {"a": "0.4"})
    assert same({"a": "rounded(0)"}, {"a": "1e-999999999"}, {"a": 0}, {"a": -0.4})
    assert same({"a": "rounded(0)"}, {"a": "1e999999999"}, {"a": Decimal("1E999999999")})
    assert same({"a": "rounded(3)"}, {"a": "9" * 40 + ".9999"}, {"a": 10**40})
    assert "nothing but a number" in refusal({"a": "x"}, Rules.parse({"a": "rounded(2)"})).reason


def test_rules_for_text():
    assert same({"a": "nfc"}, {"a": "café"}, {"a": "cafe\u0301"})
    assert differ({"a": "nfc"}, {"a": "x2"}, {"a": "x\u00b2"})
    assert same({"a": "strip"}, {"a": " a b\n"}, {"a": "a b"})
    assert same({"a": "lower"}, {"a": "Ann@Example.ORG"}, {"a": "ann@example.org"})
    assert same({"a": "lower"}, {"a": Colour.RED}, {"a": "RED"})
    assert same({"a": ("strip", "lower")}, {"a": " A "}, {"a": "a"})
    assert same({"a": "lower"}, {"a": None})
    for value in (1, b"a", ["a"], True):
        assert "is for text" in refusal({"a": value}, Rules.parse({"a": "lower"})).reason


def test_instant():
    moment = datetime(2026, 1, 1, 9, tzinfo=UTC)
    berlin = datetime(2026, 1, 1, 10, tzinfo=ZoneInfo("Europe/Berlin"))
    texts = ("2026-01-01T09:00:00Z", "2026-01-01T09:00:00.000+00:00", "2026-01-01T10:00:00+01:00")
    assert same({"a": "instant"}, {"a": moment}, {"a": berlin}, *({"a": text} for text in texts))
    assert differ({"a": "instant"}, {"a": moment}, {"a": moment + timedelta(microseconds=1)}, {"a": None})
    rules = Rules.parse({"a": "instant"})
    for value in (
        "2026-01-01T09:00:00",
        "2026-01-01",
        "tomorrow",
        "",
        0,
        date(2026, 1, 1),
        naive("2026-01-01"),
        "2026-01-01T09:00:00.1234567Z",
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
    ):
        assert "an instant is wanted" in refusal({"a": value}, rules).reason


def test_json_in_text():
    assert same({"a": "json"}, {"a": '{"x":1,"y":[2]}'}, {"a": '{ "y": [2.0], "x": 1 }'})
    assert differ({"a": "json"}, {"a": "[1,2]"}, {"a": "[2,1]"}, {"a": "null"})
    assert same({"a": "json", "a.id": "ignore"}, {"a": '{"x":1,"id":7}'}, {"a": '{"x":1}'})
    for value in ('{"x":1,"x":2}', "{", "NaN", f'"{SECRET}'):
        refused = refusal({"a": value}, Rules.parse({"a": "json"}))
        assert "not valid JSON" in refused.reason
        assert SECRET not in str(refused)


def test_rules_reach_into_objects_and_lists():
    rules = {"items[].sku": "lower", "to.mail": "strip", "grid[][]": "rounded(0)"}
    assert same(rules, {"items": [{"sku": "AB"}]}, {"items": [{"sku": "ab"}]})
    assert same(rules, {"to": {"mail": " x"}}, {"to": {"mail": "x"}})
    assert same(rules, {"grid": [[1.2, 2.4], []]}, {"grid": [[1, 2], []]})
    assert same({"to.street": "lower"}, {"to": Address("X")}, {"to": {"street": "x", "number": 1}})
    assert differ(rules, {"items": {"sku": "AB"}}, {"items": {"sku": "ab"}})
    refused = refusal({"items": [{"sku": "a"}, {"sku": 1}]}, Rules.parse(rules))
    assert refused.path == "items[1].sku"


def test_a_list_rule_on_something_else_is_refused():
    for value in ({"x": 1}, "ab", 1, Address("x")):
        assert "is for a list" in refusal({"a": value}, Rules.parse({"a": "unordered"})).reason


def test_a_function_is_a_rule():
    def digits(value):
        return "".join(letter for letter in value if letter.isdigit())

    assert same({"a": digits}, {"a": "+49 30/12"}, {"a": "493012"})
    assert same({"a": ("strip", digits, lambda value: value[:2])}, {"a": " 49x"}, {"a": "49"})
    refused = refusal({"a": 5}, Rules.parse({"a": digits}))
    assert refused.reason == "rule digits failed with TypeError"
    assert refused.__context__ is None
    assert (
        refusal({"a": 5}, Rules.parse({"a": partial(digits)})).reason
        == "rule given as a function failed with TypeError"
    )


def test_a_rule_lets_nothing_through_that_has_no_form():
    for rule in ("unordered", "unique"):
        assert refusal({"a": [1, math.nan]}, Rules.parse({"a": rule})).path == "a[1]"
    assert refusal({"a": {1: 2}}, Rules.parse({"a.b": "lower"})).path == "a"
    deep = 1
    for _ in range(MAX_DEPTH):
        deep = [deep]
    assert "nested deeper" in refusal({"a": deep}, Rules.parse({"a[]": "unordered"})).reason


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"a": "lowr"}, "no rule 'lowr'; did you mean 'lower'. There are: ignore, null_is_absent, unordered"),
        ({"a": "decimals"}, "did you mean 'decimals.n.'"),
        ({"a": "decimals(x)"}, "did you mean 'decimals.n.'"),
        ({"a": "decimals(-1)"}, "no rule"),
        ({"a": "nfc(2)"}, "did you mean 'nfc'"),
        ({"a": "decimls(2)"}, "did you mean 'decimals.n.'"),
        ({"a": "zzz"}, r"no rule 'zzz'\. There are: ignore, .*, json, decimals\(n\), rounded\(n\)\.$"),
        ({"a": "sort"}, "no rule 'sort'"),
        ({"a": ("strip", "")}, "no rule ''"),
        ({"": "lower"}, "'' is not a path"),
        ({"a..b": "lower"}, "is not a path"),
        ({"[]": "lower"}, "is not a path"),
        ({"a[0]": "lower"}, "is not a path"),
        ({"a.": "lower"}, "is not a path"),
        ({" a": "lower"}, "is not a path"),
        ({"a[]": "ignore"}, "for a member, not for each element"),
        ({"a.b[]": "null_is_absent"}, "for a member, not for each element"),
    ],
)
def test_wrong_rules_are_refused_at_declaration(rules, message):
    with pytest.raises(ValueError, match=message):
        Rules.parse(rules)


def test_rules_name_the_arguments_they_speak_of():
    rules = Rules.parse({"items[].sku": "lower", "to": "strip", "items[].n": "decimals( 2 )"})
    assert rules.roots == ("items", "to")
    rules.check_roots({"to": 1, "items": 2, "more": 3})
    with pytest.raises(ValueError, match=r"no argument 'items'; did you mean 'item'\? There are: item, to"):
        rules.check_roots(["item", "to"])
    with pytest.raises(ValueError, match=r"no argument 'items'\. There are: none\."):
        rules.check_roots([])


# --- what is taken ---


def test_every_rule_is_taken_where_it_belongs():
    rules = [
        *("ignore", "null_is_absent", "unordered", "unique", "instant", "nfc", "strip", "lower", "json", str.upper),
        *("decimals(2)", "rounded(0)", " rounded ( 12 ) ", ("strip", "lower"), [str.strip, "json"]),
    ]
    for path in ("a", "a.b", "a[].b"):
        assert [rule for rule in rules if raised(Rules.parse, {path: rule})] == []
    of_elements = [rule for rule in rules if rule not in ("ignore", "null_is_absent")]
    assert [rule for rule in of_elements if raised(Rules.parse, {"a[]": rule})] == []
    wrong = ["", "lowr", "decimals", "nfc(2)", "decimals(x)", "decimals(123)", "unordered(1)", "zzz", "rounded()"]
    assert {raised(Rules.parse, {"a": rule}) for rule in wrong} == {"ValueError"}


def test_every_rule_takes_the_values_that_it_is_for():
    moments = ["2026-01-02T09:00:00Z", "2026-01-02T09:00:00.123456+01:00", datetime(2026, 1, 2, tzinfo=UTC), None]
    taken = {
        "instant": moments,
        "decimals(2)": [1, 1.5, "1.50", "1.500", Decimal("0.25"), "1e3", -7, None],
        "decimals(0)": [100, "2.0", "1e2"],
        "rounded(2)": [1, 1.239, "0.5", Decimal("1E+30"), "9" * 40 + ".999", None],
        "lower": ["A", None],
        "json": ["[1]", '{"a": 1.50}', None],
        "unordered": [[2, 1], [], None],
        "unique": [[2, 1, 2], (1, 1)],
    }
    for rule, values in taken.items():
        by_rule = Rules.parse({"a": rule})
        assert [value for value in values if raised(encode, {"a": value}, rules=by_rule)] == []
    refused = {
        "instant": ["2026-01-02T09:00:00", "2026-01-02T09:00:00.1234567Z", "soon", 7, datetime(2026, 1, 2)],  # noqa: DTZ001
        "decimals(2)": ["1.005", 0.125, "x", True, math.nan],
        "rounded(2)": ["x", "", True, math.inf],
        "lower": [7],
        "json": ["[1", "NaN"],
        "unordered": ["ab", 7],
    }
    for rule, values in refused.items():
        by_rule = Rules.parse({"a": rule})
        assert {raised(encode, {"a": value}, rules=by_rule) for value in values} == {"NotCanonical"}


def test_whatever_a_rule_of_the_users_raises_the_value_is_refused():
    def fails(_):
        raise KeyError("x")

    for rule in (fails, partial(fails)):
        assert raised(encode, {"a": 1}, rules=Rules.parse({"a": rule})) == "NotCanonical"


def test_as_deep_as_may_be_nested_is_taken():
    rules = Rules.parse({"x": "ignore", "a[]": "strip"})
    for wrap in (lambda value: [value], lambda value: {"a": value}):
        value = "1"
        for _ in range(MAX_DEPTH):
            value = wrap(value)
        assert (raised(encode, value), raised(encode, wrap(value))) == (None, "NotCanonical")
        assert (raised(encode, value, rules=rules), raised(encode, wrap(value), rules=rules)) == (None, "NotCanonical")
    deep = 1
    for _ in range(MAX_DEPTH - 2):
        deep = [deep]
    for path in ("a.b", "a[]", "a"):
        at = {"a": {"b": deep}} if path == "a.b" else {"a": [deep]}
        assert raised(encode, at, rules=Rules.parse({path: lambda value: value})) is None


def test_every_plain_value_has_a_form():
    values = [
        *(None, True, 0, 7, 10**500, 0.5, Decimal("1.50"), "text", b"x", date(2026, 1, 2), time(9), timedelta(1)),
        *(datetime(2026, 1, 2, tzinfo=UTC), UUID(int=1), Colour.RED, Mood.CALM, [1], (1,), {"a": 1}, {1, 2}),
    ]
    for rules in (None, Rules.parse({"x": "ignore"})):
        assert [value for value in values if raised(encode, value, rules=rules)] == []
        assert [value for value in values if raised(encode, {"a": [value]}, rules=rules)] == []


@pytest.fixture
def in_tokyo(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    os_time.tzset()
    yield
    monkeypatch.undo()
    os_time.tzset()


@pytest.mark.usefixtures("in_tokyo")
def test_an_instant_is_the_same_on_every_machine():
    rules = Rules.parse({"a": "instant"})
    for moment in ("2026-01-01T00:00:00Z", "2026-01-01T09:00:00+09:00", datetime(2026, 1, 1, tzinfo=UTC)):
        assert encode({"a": moment}, rules=rules) == encode({"a": datetime(2026, 1, 1, tzinfo=UTC)})
