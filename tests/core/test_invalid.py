"""A model that goes on sending invalid arguments."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, ValidationError

from settled.core.attempts.invalid import InvalidStreak, signature
from tests.core.raised import raised


class Search(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    query: str
    limit: int = 10


def error_of(arguments):
    with pytest.raises(ValidationError) as caught:
        Search.model_validate(arguments)
    return caught.value


def pairs(error):
    return [(".".join(map(str, each["loc"])), each["type"]) for each in error.errors()]


# ---- signatures


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("order 17 not found", "order 4242 not found"),
        ("limit -3.5e10 is below 1", "limit -1 is below 1"),
        ("amount 1,000.50 too large", "amount 7 too large"),
        ("no user 'ann'", "no user 'bob o\u2019neil'"),
        ("no user 'John's'", "no user 'x'"),
        ('no title "a \\"b\\" c"', 'no title ""'),
        ("no title `a`", "no title `b c`"),
        ("no title \u201ca\u201d", "no title \u201cb\u201d"),
        ("call call_0 is bad", "call call_9f2 is bad"),
        ("id 550e8400-e29b-41d4-a716-446655440000 is bad", "id 6ba7b810-9dad-11d1-80b4-00c04fd430c8 is bad"),
        ("id deadbeef is bad", "id cafebabe is bad"),
        ("cannot read /etc/passwd", "cannot read /home/ann/notes.txt"),
        ("cannot read src/main.py", "cannot read ./a/b/"),
        ("cannot read C:\\temp\\x.txt", "cannot read D:\\y"),
        ("cannot get https://a.example/x?y=1", "cannot get http://b.example"),
        ("no mailbox ann@example.org", "no mailbox bob@example.com"),
        ("got {'a': 1} instead of a list", "got {'a': {'b': [2, 3]}, 'c': None} instead of a list"),
        ("got [1, 2, 3] here", "got ['x'] here"),
        ("Bad  Request\n", "bad request"),
        ("Expecting ',' delimiter: line 1 column 34 (char 33)", "Expecting ':' delimiter: line 2 column 5 (char 90)"),
    ],
)
def test_what_comes_from_the_arguments_is_left_out(one, other):
    assert signature("t", one) == signature("t", other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("title is required", "body is required"),
        ("title is required", "title is too long"),
        ("value can't be empty", "value won't be read, it can't be empty"),
        ("title facade is bad", "title decade is bad"),
    ],
)
def test_different_errors_stay_apart(one, other):
    assert signature("t", one) != signature("t", other)


def test_different_tools_stay_apart():
    assert signature("a", "title is required") != signature("b", "title is required")
    assert signature("a", [("title", "missing")]) != signature("b", [("title", "missing")])


def test_problems_are_named_by_field_and_kind():
    assert signature("search", [("query", "missing")]) == "search: query missing"
    assert signature("search", [("b", "missing"), ("a", "int_type"), ("b", "missing")]) == (
        "search: a int_type, b missing"
    )


def test_the_place_in_a_list_does_not_matter():
    one = signature("pay", [("items.0.price", "missing")])
    assert one == signature("pay", [("items.3.price", "missing"), ("items.17.price", "missing")])
    assert one == "pay: items.*.price missing"


def test_names_that_the_model_invented_count_only_alone():
    invented = [("q", "extra_forbidden")]
    assert signature("search", [("query", "missing"), *invented]) == "search: query missing"
    assert (
        signature("search", invented) == signature("search", [("text", "extra_forbidden")]) == ("search: unknown field")
    )


def test_pydantics_text_says_the_same_as_its_problems():
    for arguments in ({}, {"q": "[type=x"}, {"query": 3, "limit": "[type=y]"}, {"query": None}):
        error = error_of(arguments)
        assert signature("search", str(error)) == signature("search", pairs(error))


def test_a_signature_is_short_and_readable():
    text = 'Cannot  get https://a.example/x of "Ann", see /tmp/log [1, 2]: {"a": {"b": 3}} is NOT a list'
    assert signature("get", text) == "get: cannot get # of #, see # is not a list"


def test_a_dumped_payload_does_not_make_a_signature_long():
    assert len(signature("t", "bad " * 100_000)) < 300


@given(st.text(max_size=300))
def test_any_text_has_a_stable_signature(text):
    found = signature("t", text)
    assert found == signature("t", text)
    assert not any(c.isdigit() for c in found)


numbers = st.integers().map(str) | st.floats(allow_nan=False, allow_infinity=False).map(str)
quoted = st.text(st.characters(exclude_characters="\n", codec="utf-8"), max_size=30).map(json.dumps)


@example('"@0 "', "field {} is too short")
@example('"see http://x"', "field {} is too short")
@given(quoted | numbers | st.uuids().map(str), st.sampled_from(["field {} is too short", "expected a list, got {}"]))
def test_ids_numbers_and_quoted_text_never_show(value, template):
    assert signature("t", template.format(value)) == signature("t", template.format("7"))


# ---- the streak


def test_the_third_in_a_row_is_systemic_and_the_next_is_refused():
    streak = InvalidStreak()
    answers = [streak.failed("search", "s") for _ in range(5)]
    assert answers == ["fix_arguments", "fix_arguments", "repair_prompt", "give_up", "give_up"]


def test_one_success_starts_anew():
    streak = InvalidStreak()
    for _ in range(3):
        assert [streak.failed("search", "s") for _ in range(2)] == ["fix_arguments"] * 2
        streak.succeeded("search")
    assert [streak.failed("search", "s") for _ in range(3)][-1] == "repair_prompt"


def test_another_error_starts_anew():
    streak = InvalidStreak()
    answers = [streak.failed("search", s) for s in ("a", "a", "b", "a", "a", "a")]
    assert answers == ["fix_arguments"] * 5 + ["repair_prompt"]


def test_another_tools_calls_change_nothing():
    streak = InvalidStreak()
    streak.failed("search", "s")
    streak.failed("mail", "s")
    streak.failed("search", "s")
    streak.succeeded("mail")
    assert streak.failed("mail", "s") == "fix_arguments"
    assert streak.failed("search", "s") == "repair_prompt"


def test_calls_of_one_message_count_once():
    streak = InvalidStreak()
    answers = [streak.failed("search", "s", message=m) for m in ("m1", "m1", "m1", "m2", "m2", "m3", "m3", "m4")]
    assert answers == ["fix_arguments"] * 5 + ["repair_prompt"] * 2 + ["give_up"]


def test_two_errors_in_each_message_are_both_followed():
    streak = InvalidStreak()
    answers = [streak.failed("search", s, message=m) for m in ("m1", "m2", "m3") for s in ("a", "b")]
    assert answers == ["fix_arguments"] * 4 + ["repair_prompt"] * 2


def test_errors_that_take_turns_do_not_go_on_for_ever():
    streak = InvalidStreak()
    answers = [streak.failed("search", s) for s in "ab" * 6]
    assert answers == ["fix_arguments"] * 9 + ["repair_prompt"] + ["give_up"] * 2


def test_the_arguments_of_a_systemic_error_are_kept():
    streak = InvalidStreak()
    for _ in range(2):
        streak.failed("search", "s", arguments="f")
    assert streak.refused("search") is streak.refused("mail") is None
    streak.failed("search", "s", arguments="g")
    assert streak.refused("search") == "g"
    assert streak.refused("mail") is None


@pytest.mark.parametrize("freed", ["success", "success of another tool", "another error"])
def test_arguments_are_refused_no_longer_than_what_was_wrong_may_last(freed):
    streak = InvalidStreak(same=2)
    for _ in range(2):
        streak.failed("search", "s", arguments="f")
    assert streak.refused("search") == "f"
    if freed == "another error":
        streak.failed("search", "t", arguments="f")
    else:
        streak.succeeded("mail" if "another" in freed else "search")
    assert streak.refused("search") is None


def test_the_first_may_be_the_last():
    streak = InvalidStreak(same=1, any_error=1)
    assert [streak.failed("search", s) for s in "ab"] == ["repair_prompt", "give_up"]


@pytest.mark.parametrize(("same", "any_error"), [(0, 3), (4, 3)])
def test_limits_must_make_sense(same, any_error):
    with pytest.raises(ValueError, match="same"):
        InvalidStreak(same, any_error)


@given(st.lists(st.sampled_from(["a", "b", "ok", "other"]), max_size=60))
def test_no_row_without_success_is_longer_than_ten_before_the_end(outcomes):
    streak, row = InvalidStreak(), 0
    for outcome in outcomes:
        if outcome == "ok":
            streak.succeeded("search")
            row = 0
        elif outcome == "other":
            streak.failed("mail", "x")
        else:
            row += 1
            answer = streak.failed("search", outcome)
            assert answer == "give_up" or row <= 10
            assert answer == "fix_arguments" or row >= 3


# ---- the case

WORDS = ["q", "text", "search", "term", "keywords", "question", "input", "prompt", "needle", "what", "find", "look"]
SHAPES = [
    *({word: f"shoes {i}"} for i, word in enumerate(WORDS)),
    *({word: [i], "limit": i} for i, word in enumerate(WORDS[:10])),
    {},
    {"arguments": {"query": "shoes"}},
    {"limit": 3},
]


@pytest.mark.case("044")
@pytest.mark.parametrize("form", [str, pairs])
def test_case_044_25_shapes_of_one_error_are_one_streak(form):
    assert len(SHAPES) == len({json.dumps(shape) for shape in SHAPES}) == 25
    streak = InvalidStreak()
    answers = [streak.failed("search", signature("search", form(error_of(shape)))) for shape in SHAPES]
    assert answers == ["fix_arguments"] * 2 + ["repair_prompt"] + ["give_up"] * 22


@pytest.mark.case("044")
def test_case_044_shapes_that_are_wrong_in_several_ways_end_too():
    shapes = [{}, {"query": 1}, {"query": "x", "limit": "many"}, {"query": None}, {"query": "x", "max": 3}] * 5
    streak = InvalidStreak()
    answers = [streak.failed("search", signature("search", pairs(error_of(shape)))) for shape in shapes]
    assert answers.index("repair_prompt") < 10
    assert answers[10:] == ["give_up"] * 15


@pytest.mark.case("044")
def test_case_044_empty_arguments_a_hundred_times():
    streak = InvalidStreak()
    answers = [streak.failed("search", signature("search", str(error_of({})))) for _ in range(100)]
    assert answers == ["fix_arguments"] * 2 + ["repair_prompt"] + ["give_up"] * 97
    streak.succeeded("search")
    assert streak.failed("search", signature("search", str(error_of({})))) == "fix_arguments"


def test_the_least_numbers_that_are_taken():
    numbers = {(1, 1): None, (1, 2): None, (2, 2): None, (0, 1): "ValueError", (2, 1): "ValueError"}
    assert {pair: raised(InvalidStreak, *pair) for pair in numbers} == numbers
    assert raised(InvalidStreak().succeeded, "never called") is None
