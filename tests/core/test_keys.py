"""Keys say which action this is, fingerprints whether it came with the same arguments."""

import json
import math
import re
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from itertools import combinations

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from settled.core.encoding.canonical import NotCanonical, Rules
from settled.core.encoding.keys import (
    KEY_FORMATS,
    LONGEST_KEY,
    business_key,
    content_digest,
    fingerprint,
    format_key,
    random_key,
    scoped_key,
    template_parts,
    template_roots,
    without_defaults,
)
from settled.core.encoding.strict_json import parse_object
from tests.core.raised import raised
from tests.shared import shared

VECTORS = {vector["id"]: vector for vector in json.loads(shared("vectors/canonical.json").read_text())["keys"]}
KEY = re.compile(r"[\x21-\x39\x3b-\x7e]{0,200}:[0-9a-f]{32}")


@dataclass
class Customer:
    id: int
    name: str = "x"


class Order(pydantic.BaseModel):
    id: str


class Month(Enum):
    MAY = "2026-05"


# --- fingerprints ---


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        pytest.param(texts, expected, id=name)
        for name, texts, expected in [
            (
                "order of names",
                ['{"to":"ann","cc":2}', '{"cc":2,"to":"ann"}'],
                "1:887ce61a7c8258122215af0ce9a56cf2084f1cb1d48b6a8a78b9cde61935e81d",
            ),
            (
                "order of inner names",
                ['{"o":{"k":[{"p":1,"q":2}],"j":3}}', '{"o":{"j":3,"k":[{"q":2,"p":1}]}}'],
                "1:b9a06e290a480a17d6467fc9f980a4ccb3ae7ab680cefe888f03246eb24e0355",
            ),
            (
                "white space",
                ['{"q": 7}', '{\t"q":7\n}'],
                "1:6ca0a973734cbf8bfec2e490dcae4fc6e263f449c9f0f0d79c2e4d92197bf5c1",
            ),
            (
                "int and float",
                ['{"q":7}', '{"q":7.00}'],
                "1:6ca0a973734cbf8bfec2e490dcae4fc6e263f449c9f0f0d79c2e4d92197bf5c1",
            ),
            (
                "int and exponent",
                ['{"q":70}', '{"q":7e1}'],
                "1:1f980ae9555e3099527b5286938398d8e807aafe88017e3a74d3195a29f00374",
            ),
            (
                "negative zero",
                ['{"q":-0.0}', '{"q":0}'],
                "1:21a89c8dfac5e40c2888b46790b85bdd53988cf65a0dfe9277222654ac2a159b",
            ),
            (
                "large exponent",
                ['{"q":3e16}', '{"q":30000000000000000}'],
                "1:ffcb9660f8d6f2c477eb7edb4add82226ddb543e59f335fe95907c66e82c5c98",
            ),
            (
                "trailing zeros",
                ['{"q":7.5}', '{"q":7.500}'],
                "1:63553c044f273e4ffa1f340f1bdaa54fa2a9dd552ba0c5ae494ca84cc40f8101",
            ),
            (
                "escapes",
                ['{"w":"\\u00fc"}', '{"w":"ü"}'],
                "1:742b0cd36e3e232604fd4e8d0bc2f366978308384c4190d5f1dcc47bc56c5c57",
            ),
            (
                "joined pairs",
                ['{"w":"\\ud83c\\udf63"}', '{"w":"🍣"}'],
                "1:57f849a5d7d497bdd3c0c18907e9dfbdd427ff22e8aab39d6732c01376374f6d",
            ),
            (
                "names beyond 16 bits",
                ['{"\\uf8ff":1,"🍣":2}', '{"🍣":2,"\\uf8ff":1}'],
                "1:61a2865ff3fab6125ec1db43a68b9457dcc7d8443b2ede318c449b04a817d555",
            ),
        ]
    ],
)
def test_golden_fingerprints(texts, expected):
    assert {fingerprint(parse_object(text)) for text in texts} == {expected}


def test_golden_fingerprint_with_a_default():
    counted = [without_defaults(arguments, {"copies": 5}) for arguments in ({"x": 1}, {"x": 1, "copies": 5.0})]
    assert {fingerprint(arguments) for arguments in counted} == {
        "1:40536b3be469f06e9f4488e3c960bceaa5bad5c140aea1fe8f0563268177d169"
    }


def test_golden_digests_of_words_and_keys():
    assert content_digest({"to": "ann"}) == "1:e236e07b3055ec41a5b790be41e7476c982e3198eab6bb198b82874fdec5f059"
    assert business_key("acme", "pay", ("order:", "17")) == "pay:0bd1fdfee30c503ac2ce2f0baa2eb372"
    assert business_key("acme", "pay", ("order:", "17"), "run:5") == "pay:4f585b4daee4f7587c4a89cc47a9583f"
    assert (
        scoped_key("acme", "run:5", "", "pay", fingerprint({"to": "ann"}), 1) == "pay:2e80a31acbb4048d86c684ef25da4d47"
    )
    assert random_key(bytes(range(16)), tool="pay") == "pay:1a28ac79178008bbdd413a3101c3f5a5"


def test_a_declared_identity_covers_just_its_arguments():
    mail = {"to": "ann", "subject": "hello", "body": "Dear Ann"}
    reworded = mail | {"body": "Hi Ann"}
    identity = ("to", "subject")
    assert fingerprint(mail, identity=identity) == fingerprint(reworded, identity=identity)
    assert fingerprint(mail, identity=identity) == fingerprint(mail, identity=("subject", "to"))
    assert fingerprint(mail, identity=identity) != fingerprint(mail | {"to": "bob"}, identity=identity)
    assert fingerprint(mail) != fingerprint(reworded)
    assert content_digest(mail) != content_digest(reworded)
    assert fingerprint({}, identity=identity) == fingerprint({"body": "x"}, identity=identity)


def test_what_is_outside_of_the_identity_need_not_be_canonical():
    assert fingerprint({"to": "ann", "file": object()}, identity=["to"]) == fingerprint({"to": "ann"})
    with pytest.raises(NotCanonical, match="file: a object"):
        content_digest({"to": "ann", "file": object()})


def test_fingerprint_and_words_are_not_mixed_up():
    assert fingerprint({"a": 1}) != content_digest({"a": 1})


def test_rules_loosen_fingerprint_and_words():
    rules = Rules.parse({"to": "lower"})
    for digest in (lambda a: fingerprint(a, rules=rules), lambda a: content_digest(a, rules)):
        assert digest({"to": "ANN"}) == digest({"to": "ann"})
        assert digest({"to": "ANN"}) != digest({"to": "bob"})


def test_a_digest_names_the_version_of_the_form_that_it_was_made_in():
    for digest in (fingerprint, content_digest):
        assert digest({"a": 1}).startswith("1:")


@pytest.mark.case("021")
def test_case_021_another_payload_has_another_fingerprint_and_the_same_key():
    first, second = {"order_id": 7, "amount": 1212}, {"order_id": 7, "amount": 1212, "metadata": {"try": 2}}
    keys = {business_key("acme", "charge", template_parts("order:{order_id}", each)) for each in (first, second)}
    assert len(keys) == 1
    assert fingerprint(first) != fingerprint(second)
    assert fingerprint(first) == fingerprint(dict(reversed(first.items())))


@pytest.mark.case("065")
def test_case_065_a_changed_input_is_another_fingerprint():
    assert fingerprint({"text": "v1"}) != fingerprint({"text": "v2"})


def test_arguments_equal_to_their_default_are_left_out():
    defaults = {"copies": 1, "tags": [], "note": None, "when": object(), "nan": float("nan")}
    given_all = {"to": "ann", "copies": 1.0, "tags": (), "note": None, "when": defaults["when"], "nan": defaults["nan"]}
    assert without_defaults(given_all, defaults) == {"to": "ann"}
    kept = {"copies": True, "tags": None, "note": "", "when": 5, "nan": object()}
    assert without_defaults(kept, defaults) == kept
    assert without_defaults({"copies": "x"}, {"copies": "X"}, Rules.parse({"copies": "lower"})) == {}
    assert without_defaults({"copies": "X"}, {"copies": "x"}, Rules.parse({"copies": "lower"})) == {}


# --- keys ---


def test_keys_of_tenants_differ():
    a, b = (business_key(tenant, "pay", ("order:", "1")) for tenant in VECTORS["tenant"]["tenants"])
    assert a != b


def test_keys_of_split_parts_differ():
    first, second = VECTORS["key-parts"]["key_parts"]
    assert business_key("t", "pay", first) != business_key("t", "pay", second)
    template = "{a}{b}"
    keys = {business_key("t", "pay", template_parts(template, {"a": a, "b": b})) for a, b in (("ab", "c"), ("a", "bc"))}
    assert len(keys) == 2


def test_keys_of_two_tools_differ():
    assert "two-tools" in VECTORS
    parts = template_parts("order:{id}", {"id": 1})
    assert business_key("t", "pay", parts) != business_key("t", "refund", parts)


def test_every_key_vector_is_looked_at():
    assert set(VECTORS) == {"tenant", "key-parts", "two-tools"}


def test_each_part_of_a_key_counts():
    scoped = ["t", "run:1", "lane", "tool", "identity", 1]
    changed = [[*scoped[:i], other, *scoped[i + 1 :]] for i, other in enumerate(["u", "run:2", "l", "fool", "i", 2])]
    keys = [scoped_key(*parts) for parts in [scoped, *changed]]
    keys += [
        business_key("t", "tool", parts, scope)
        for parts in ((), ("",), ("x",), ("x", ""), ("run:1", "x"), ("xrun:1",))
        for scope in (None, "", "run:1")
    ]
    assert len({key.partition(":")[2] for key in keys}) == len(keys)


names = st.text(max_size=6)


@given(st.lists(names, max_size=4), st.lists(names, max_size=4), st.none() | names, st.none() | names)
def test_different_parts_never_run_into_each_other(first, second, scope, other_scope):
    same = business_key("t", "tool", first, scope) == business_key("t", "tool", second, other_scope)
    assert same == ((first, scope) == (second, other_scope))


@pytest.mark.case("032")
@given(st.text(st.characters(), max_size=300), names, names)
def test_case_032_a_key_is_short_printable_and_never_fails(tool, tenant, part):
    for key in (
        business_key(tenant, tool, [part, "\ud83d"]),
        scoped_key(tenant, part, part, tool, part, 1),
        random_key(b"x" * 16, tool=tool),
    ):
        assert KEY.fullmatch(key)
        assert format_key(key, "text") == key


def test_a_random_key_is_as_random_as_its_draw():
    assert random_key(b"a" * 16) != random_key(b"b" * 16)
    assert random_key(b"a" * 16) != random_key(b"a" * 17)
    assert random_key(b"a" * 16).startswith("call:")
    first, second = (random_key(draw * 16, at=1_796_027_305.7) for draw in (b"a", b"b"))
    assert first[:13] == second[:13] == "call:6b0d33a9"
    assert first != second
    assert random_key(b"c" * 16, at=1_796_027_306.0) > max(first, second)
    assert len(first) == len(random_key(b"a" * 16))
    for draw in (b"", b"a" * 15):
        with pytest.raises(ValueError, match="16 bytes"):
            random_key(draw)


# --- the forms that other sides take ---

FORMS = {
    "text": r"create_ticket:[0-9a-f]{32}",
    "text36": r"cre-[0-9a-f]{32}",
    "text64": r"create_ticket-[0-9a-f]{32}",
    "hex32": r"[0-9a-f]{32}",
    "hex64": r"[0-9a-f]{64}",
    "uuid": r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
}


@pytest.mark.parametrize("key_format", KEY_FORMATS)
def test_key_formats(key_format):
    key, other = (business_key("t", "create_ticket", [part]) for part in "ab")
    assert re.fullmatch(FORMS[key_format], format_key(key, key_format))
    assert format_key(key, key_format) == format_key(key, key_format)
    assert format_key(key, key_format) != format_key(other, key_format)


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=255))
def test_key_formats_keep_their_length_for_any_key(key):
    longest = {"text": 255, "text36": 36, "text64": 64, "hex32": 32, "hex64": 64, "uuid": 36}
    for key_format, length in longest.items():
        assert len(format_key(key, key_format)) <= length
    made = uuid.UUID(format_key(key, "uuid"))
    assert (made.version, made.variant) == (4, uuid.RFC_4122)


def test_golden_key_formats():
    made = {key_format: format_key("pay:0123456789abcdef", key_format) for key_format in KEY_FORMATS}
    assert made == {
        "text": "pay:0123456789abcdef",
        "text36": "pay-c83aa4aa3bd5379acdc141b373cc071f",
        "text64": "pay-c83aa4aa3bd5379acdc141b373cc071f",
        "hex32": "c83aa4aa3bd5379acdc141b373cc071f",
        "hex64": "c83aa4aa3bd5379acdc141b373cc071f6cabf6c64e9a8508c1cb20abc1de7c7c",
        "uuid": "c83aa4aa-3bd5-479a-8dc1-41b373cc071f",
    }


def test_names_in_keys_are_plain():
    assert random_key(b"x" * 16, tool="a b:é/c").startswith("a_b__/c:")
    assert format_key("a.b/é:c:d".encode("ascii", "replace").decode(), "text64").startswith("a_b__-")
    assert format_key("x" * 255, "text") == "x" * 255


def test_uuids_of_many_keys_are_in_lower_case_and_of_every_variant():
    made = {format_key(f"pay:{number}", "uuid") for number in range(100)}
    assert all(re.fullmatch(FORMS["uuid"], each) for each in made)
    assert {each[19] for each in made} == set("89ab")


def test_wrong_formats_and_keys_are_refused():
    with pytest.raises(ValueError, match=r"no key_format 'hex23'; did you mean 'hex32'\? There are: text, text36"):
        format_key("k", "hex23")
    for key in ("", "x" * 256, "schlüssel", "a\nb", "a\x00"):
        with pytest.raises(ValueError, match="printable ASCII"):
            format_key(key, "text")


# --- templates ---


@pytest.mark.parametrize(
    ("template", "arguments", "key"),
    [
        ("order:{order_id}", {"order_id": "A-17"}, "order:A-17"),
        ("order:{order_id}", {"order_id": 0}, "order:0"),
        ("{a}/{b}", {"a": 1, "b": -20, "c": None}, "1/-20"),
        ("{c.id}", {"c": {"id": 5}}, "5"),
        ("{c.id}", {"c": Customer(5)}, "5"),
        ("{o.id}", {"o": Order(id="x")}, "x"),
        ("{a.b.c}", {"a": {"b": {"c": True}}}, "true"),
        ("{a}", {"a": False}, "false"),
        ("{{{a}}}", {"a": 1}, "{1}"),
        ("{a}{a}", {"a": 1}, "11"),
        ("{m}", {"m": Month.MAY}, "2026-05"),
        ("{d}", {"d": date(2026, 5, 1)}, "2026-05-01"),
        ("{d}", {"d": datetime(2026, 5, 1, 9, tzinfo=UTC)}, "2026-05-01T09:00:00+00:00"),
        ("{u}", {"u": uuid.UUID(int=1)}, "00000000-0000-0000-0000-000000000001"),
        ("{n}", {"n": " padded "}, " padded "),
        ("{n}", {"n": "{x}"}, "{x}"),
        ("{n}", {"n": Decimal("1E+999999999")}, "1e999999999"),
        ("{n}", {"n": 12.50}, "12.5"),
        ("{n}", {"n": -0.05}, "-0.05"),
        ("{n}", {"n": 10**20}, "1" + "0" * 20),
        ("{n}", {"n": 10**21}, "1e21"),
        ("{n}", {"n": 10**400}, "1e400"),
        ("{n}", {"n": 1e-20}, "0." + "0" * 19 + "1"),
        ("{n}", {"n": 1e-21}, "1e-21"),
    ],
)
def test_templates(template, arguments, key):
    assert "".join(template_parts(template, arguments)) == key


def test_equal_numbers_give_one_key():
    for numbers in ([1, 1.0, Decimal("1.00"), Decimal("1e0")], [0, -0.0], [10**16, 1e16], [0.5, Decimal("0.50")]):
        assert len({template_parts("{n}", {"n": number}) for number in numbers}) == 1


@pytest.mark.parametrize(
    ("arguments", "lack"),
    [
        ({}, "missing"),
        ({"a": None}, "missing"),
        ({"a": {}}, "missing"),
        ({"a": {"b": None}}, "None"),
        ({"a": {"b": ""}}, "empty"),
        ({"a": {"b": " \t\n"}}, "empty"),
        ({"a": {"b": []}}, "a list"),
        ({"a": {"b": {"c": 1}}}, "a dict"),
        ({"a": {"b": b"x"}}, "a bytes"),
        ({"a": {"b": float("nan")}}, "a float"),
        ({"a": {"b": Decimal("Infinity")}}, "a Decimal"),
        ({"a": [1]}, "missing"),
        ({"a": "text"}, "missing"),
        ({"a": uuid.UUID(int=1)}, "missing"),
        ({"a": Customer(1)}, "missing"),
        ({"a": Customer}, "missing"),
    ],
)
def test_a_key_is_never_made_of_nothing(arguments, lack):
    with pytest.raises(ValueError, match=f"a.b is {lack}"):
        template_parts("x:{a.b}", arguments)


@pytest.mark.parametrize(
    "template",
    [
        "order",
        "",
        "{}",
        "{0}",
        "{a",
        "a}",
        "{{a}}",
        "{a!r}",
        "{a:>10}",
        "{a:{b}}",
        "{a[0]}",
        "{a.__class__}",
        "{a._private}",
        "{_a}",
        "{a..b}",
        "{a.}",
        "{ a }",
        "{a-b}",
    ],
)
def test_a_template_cannot_reach_into_code(template):
    for use in (template_roots, lambda text: template_parts(text, {"a": Customer(1), "b": 1, "_a": 1})):
        with pytest.raises(ValueError, match="key template"):
            use(template)


def test_a_template_names_its_arguments():
    assert template_roots("x:{b}/{a.id}/{a.name}/{b}") == ("b", "a")


def test_combinations_of_values_are_told_apart_by_their_parts():
    pairs = [("x:y", "z"), ("x", "y:z"), ("x:y:", "z"), ("x", ":y:z")]
    parts = [template_parts("{a}:{b}", {"a": a, "b": b}) for a, b in pairs]
    assert all(first != second for first, second in combinations(parts, 2))


# --- nothing is left out by its name ---


def test_volatile_looking_names_count():
    assert fingerprint({"timestamp": 1}) != fingerprint({"timestamp": 2})


# --- what is taken ---


def test_every_key_and_format_within_the_bounds_is_taken():
    keys = {"k": None, "k" * LONGEST_KEY: None, "": "ValueError", "k" * (LONGEST_KEY + 1): "ValueError"}
    for key_format in KEY_FORMATS:
        assert {key: raised(format_key, key, key_format) for key in keys} == keys
    assert raised(format_key, "k", "uuid5") == "ValueError"
    draws = {bytes(15): "ValueError", bytes(16): None, bytes(17): None}
    assert {draw: raised(random_key, draw) for draw in draws} == draws


def test_every_plain_value_can_be_part_of_a_key():
    plain = [
        *("text", True, 0, -1.5, Decimal("1.50"), uuid.UUID(int=1), date(2026, 1, 2), Month.MAY),
        *(datetime(2026, 1, 2, 9, tzinfo=UTC), time(9), 10**300),
    ]
    assert [value for value in plain if raised(template_parts, "k:{value}", {"value": value})] == []
    refused = [None, "", " ", math.nan, math.inf, Decimal("NaN"), b"x", [1], {}, object()]
    assert [value for value in refused if raised(template_parts, "{value}", {"value": value}) != "ValueError"] == []


def test_any_text_from_outside_has_a_digest():
    for text in ("", "\ud800", "é", "a\x00"):
        assert raised(business_key, text, text, (text,), text) is None


@dataclass
class Booked:
    id: int


class Paid(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    id: int


def test_a_member_is_found_in_whatever_declares_its_fields():
    holders = [{"id": 7}, Booked(7), Paid(id=7), Paid(id=7, more=1)]
    assert [one for one in holders if raised(template_parts, "{a.id}", {"a": one})] == []
    assert raised(template_parts, "{a.more}", {"a": Paid(id=7, more=1)}) is None
    without = [7, "text", None, object(), Booked, Paid, {}, [7], Paid(id=7)]
    assert {raised(template_parts, "{a.no}", {"a": one}) for one in without} == {"ValueError"}
