"""JSON from a model or a caller, read strictly."""

import contextlib
import json
import pickle
import sys
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settled.core.encoding.strict_json import MAX_DEPTH, MAX_DIGITS, MAX_EXPONENT, InvalidJson, parse, parse_object
from tests.core.raised import raised

SECRET = "hunter2-swordfish"

texts = st.text(st.characters(exclude_categories=["Cs"]))
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def refusal(text):
    with pytest.raises(InvalidJson) as caught:
        parse(text)
    return caught.value


@given(documents, st.booleans())
def test_reads_what_any_json_writer_writes(value, ascii_only):
    assert parse(json.dumps(value, ensure_ascii=ascii_only)) == value


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30))
def test_numbers_keep_every_digit(number):
    text = str(number)
    read = parse(text)
    assert str(read) == text.lstrip("+")
    assert type(read) is (Decimal if set(text) & set(".eE") else int)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9007199254740993", 9007199254740993),
        ("0.1234567890123456789", Decimal("0.1234567890123456789")),
        ("90071992547409.930", Decimal("90071992547409.930")),
        ("-0", 0),
        ("1E400", Decimal("1E400")),
        ("-1e-400", Decimal("-1e-400")),
        ("1e10000", Decimal("1e10000")),
        ("-1e-10000", Decimal("-1e-10000")),
    ],
)
def test_numbers_are_exact(text, value):
    assert parse(text) == value


@pytest.mark.parametrize("digits", [640, 641, 4300, 4301, MAX_DIGITS])
def test_long_integers_are_read_whatever_python_limits(digits):
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert parse("1" + "0" * (digits - 1)) == 10 ** (digits - 1)
    finally:
        sys.set_int_max_str_digits(before)


@pytest.mark.parametrize(
    "text", ["1e999999999", "-1e-999999999", "1e99999999999999999999999", "0e99999999999999999999", "1.0e10001"]
)
def test_huge_exponents_are_refused_before_anyone_writes_them_out(text):
    assert "beyond ten to the power" in refusal(f'{{"n": {text}}}').reason


@pytest.mark.parametrize("text", ["9" * (MAX_DIGITS + 1), "0." + "9" * MAX_DIGITS])
def test_endless_numbers_are_refused(text):
    assert f"more than {MAX_DIGITS}" in refusal(text).reason


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ('{"amount":1,"amount":1000}', 12, "the same name twice"),
        ('{"a":{"x":1,"\\u0078":2},"b":1}', 12, "the same name twice"),
        ('[{"a":1},{"a":1,"b":{"a":1},"a":2}]', 28, "the same name twice"),
        ('{"b":{"a":1},"a":2,"b":3}', 19, "the same name twice in one object"),
        ('{"n":NaN}', 5, "NaN and Infinity are not numbers"),
        ('["NaN",-Infinity]', 7, "NaN and Infinity"),
        ('{"n":Infinity}', 5, "NaN and Infinity"),
        ('["\\\\ud800", "\\ud800"]', 13, "lone surrogate"),
        ('"\\udc00\\ud800"', 1, "lone surrogate"),
        ('"\\ud800\\u0041"', 1, "lone surrogate"),
        ('{"\\uDFFF": 1}', 2, "lone surrogate"),
        ('"\ud800"', 1, "lone surrogate"),
        ('"\ud83c\udf78"', 1, "lone surrogate"),
        (b'"\xed\xa0\x80"', 1, "not UTF-8"),
        ('{"path":"notes.txt","content":"line one', 30, "cut off"),
        ('{"a":1', 6, "a comma or a closing bracket"),
        ('{"a":', 5, "a value is missing"),
        ('{"a":1} and then', 8, "text after the end"),
        ('{"a":1}{"a":1}', 7, "text after the end"),
        ("", 0, "a value is missing"),
        ('\ufeff{"a":1}', 0, "a value is missing"),
        ('"a\nb"', 2, "control character"),
        ('"\\x41"', 1, "broken escape"),
        ("{a:1}", 1, "a name in double quotes"),
        ('{"a" 1}', 5, "a colon"),
        ("[1 2]", 3, "a comma"),
        ("[01]", 2, "a comma"),
        ("[1, 1e999999999]", 4, "beyond ten to the power"),
    ],
)
def test_refusals_say_where_and_why(text, position, reason):
    refused = refusal(text)
    assert (refused.position, reason in refused.reason) == (position, True), refused
    assert refused.args == (refused.reason, refused.position)
    assert str(refused) == f"not valid JSON at position {position}: {refused.reason}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('"\ud800"', "not UTF-8, or a lone surrogate"),
        ('"\\ud800"', "a lone surrogate"),
        ('{"a":1,"a":1}', "the same name twice in one object"),
        ("NaN", "NaN and Infinity are not numbers"),
        ("1e10001", "a number beyond ten to the power of 10000"),
        ("1" * 10001, "a number of more than 10000 digits"),
        ("[" * 101, "nested deeper than 100 levels"),
        ("", "a value is missing"),
        ('"', "a text is cut off"),
        ("1 1", "text after the end of the value"),
    ],
)
def test_what_a_refusal_says(text, reason):
    assert refusal(text).reason == reason


def test_a_trailing_comma_is_refused():
    assert refusal('{"a":1,}').position in {6, 7}  # Python 3.13 points at the comma


def test_an_escaped_backslash_is_no_escape():
    assert parse('{"s":"\\\\ud800"}') == {"s": "\\ud800"}


@pytest.mark.case("032")
@pytest.mark.parametrize("text", ['"\\ud83c\\udf78"', '"🍸"', '"🍸"'.encode()])
def test_case_032_surrogate_pairs_are_joined(text):
    assert parse(text) == "🍸"


@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"a":', "}")])
def test_nesting_is_bounded(opened, closed):
    deep = MAX_DEPTH - (opened != "[")
    assert parse(opened * deep + "[]" + closed * deep if opened != "[" else opened * deep + closed * deep)
    assert "nested deeper" in refusal(opened * 101 + "1" + closed * 101).reason
    assert refusal(opened * 100_000).position == len(opened) * MAX_DEPTH


def test_many_brackets_side_by_side_do_not_nest():
    assert parse(json.dumps([[], {}] * 200)) == [[], {}] * 200


def test_brackets_inside_of_texts_do_not_nest():
    assert parse(json.dumps("[" * 1000)) == "[" * 1000


def test_arguments_are_an_object():
    assert parse_object('{"a": 1}') == {"a": 1}
    for text in ("[1,2]", "null", '"{}"', "1"):
        with pytest.raises(InvalidJson, match=r"^not valid JSON at position 0: an object is wanted, \{...\}$"):
            parse_object(text)


@pytest.mark.parametrize(
    "text",
    [
        f'{{"password":"{SECRET}"',
        f'{{"password":"{SECRET}" oops}}',
        f'{{"{SECRET}":1,"{SECRET}":2}}',
        f'{{"password":"{SECRET}\\q"}}',
        f'{{"password":"{SECRET}\\ud800"}}',
        f'{{"password":"{SECRET}","n":NaN}}',
        f'{{"password":"{SECRET}","n":1e999999}}',
        f'{{"password":"{SECRET}"}}\ud800',
        f'"{SECRET}" {SECRET}',
    ],
)
def test_no_refusal_carries_the_text(text):
    refused = refusal(text)
    assert SECRET not in f"{refused} {refused!r} {vars(refused)}"
    assert refused.__cause__ is None
    assert refused.__context__ is None


@given(st.text(st.sampled_from('{}[]",:\\u d8NaIntrue01-eE.+')) | st.text() | st.binary())
def test_garbage_raises_nothing_else(text):
    with contextlib.suppress(InvalidJson):
        parse(text)


@given(st.text(st.sampled_from('{}[]",:\\u d8NaIntrue01-eE.+')))
def test_a_refusal_points_into_the_text(text):
    try:
        parse(text)
    except InvalidJson as refused:
        position = refused.position
    else:
        position = 0
    assert 0 <= position <= len(text)


def test_a_refusal_can_be_pickled():
    refused = refusal("[1,")
    again = pickle.loads(pickle.dumps(refused))
    assert (again.reason, again.position) == (refused.reason, refused.position)


def test_what_stands_just_within_the_bounds_is_taken():
    documents = [
        *("1" * MAX_DIGITS, "1." + "1" * (MAX_DIGITS - 2), f"1e{MAX_EXPONENT}", f"1e-{MAX_EXPONENT}", "1" * 640),
        *("[" * MAX_DEPTH + "]" * MAX_DEPTH, '{"a":' * MAX_DEPTH + "1" + "}" * MAX_DEPTH),
        "[" + ",".join(["[]"] * 2 * MAX_DEPTH) + "]",
        "[" + ",".join(["{}"] * 2 * MAX_DEPTH) + "]",
        *(r'"\ud83c\udf78"', r'"\\ud800"', r'"\n"', "1.5", "{}", '{"a": {"a": 1}, "b": [{"a": 2}]}'),
    ]
    assert [document for document in documents if raised(parse, document)] == []
    assert raised(parse_object, '{"a": 1}') is None


def test_any_cut_of_a_document_is_refused_as_no_json():
    document = r'{"a": [1.5, -2e3, true, null, NaN], "b": "\ud83c\udf78 \ud800", "a": {"c": {}, "c": []}}'
    cuts = [document[:end] for end in range(len(document))]
    assert {raised(parse, cut) for cut in cuts} == {"InvalidJson"}
    assert {raised(parse, document[place:]) for place in range(1, len(document))} <= {"InvalidJson", None}


@pytest.mark.parametrize(
    ("document", "position"),
    [
        ('{"a": 1, "a": 2}', 9),
        ('[{}, {"a": 1}, {"b": {"c": 1}, "c": 2, "b": 3}]', 39),
        ('{"a": {"b": 1, "b": 2}, "a": 3}', 15),
        (r'{"a": "x\": ", "\u0061": 2}', 15),
        ("[1, NaN]", 4),
        ("[1, -Infinity]", 4),
        ('["NaN", 1e99999]', 8),
    ],
)
def test_where_it_is_refused(document, position):
    with pytest.raises(InvalidJson) as caught:
        parse(document)
    assert caught.value.position == position
