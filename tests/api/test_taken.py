"""Arguments as a framework's tool takes them: by its model, or by its JSON schema alone."""

from decimal import Decimal
from enum import StrEnum
from typing import Any

import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, SecretStr, field_validator

from settled.api.tools.schema import BadArguments
from settled.api.tools.taken import BySchema, as_data, reader


class Size(StrEnum):
    SMALL = "s"


class Inner(BaseModel):
    amount: Decimal
    unit: str = "EUR"


class Order(BaseModel):
    number: int = 0
    amount: Decimal = Decimal("1.00")
    size: Size = Size.SMALL
    tags: set[str] = Field(default_factory=set)
    inner: Inner | None = None
    either: int | str = 0
    anything: Any = None
    named: int = Field(0, alias="byName")
    raw: bytes = b""
    secret: SecretStr = SecretStr("")
    by_number: dict[int, Inner] = Field(default_factory=dict)


READ = reader(Order)


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"number": "7"}, {"number": 7}),
        ({"amount": "7.50"}, {"amount": Decimal("7.50")}),
        ({"size": "s"}, {"size": "s"}),
        ({"tags": ["b", "a", "b"]}, {"tags": ["a", "b"]}),
        ({"inner": {"amount": "2"}}, {"inner": {"amount": Decimal(2)}}),
        ({"byName": "7"}, {"byName": 7}),
        ({"by_number": {"1": {"amount": 2}}}, {"by_number": {"1": {"amount": Decimal(2), "unit": "EUR"}}}),
        ({"number": True}, {"number": 1}),
    ],
)
def test_what_the_tool_cannot_tell_apart_is_one(given, taken):
    assert READ(given) == taken


@pytest.mark.parametrize(
    "given",
    [
        {"either": "7"},
        {"anything": "7"},
        {"anything": {"of": ["7", None]}},
        {"raw": "text"},
        {"secret": "p4ss"},
        {"unknown": "7"},
        {"named": "7"},
        {},
        {"number": 7},
    ],
)
def test_what_it_can_tell_apart_or_does_not_know_stays_as_it_came(given):
    assert READ(given) is given


def test_what_was_left_out_is_not_filled_in():
    """A tool may look at what was given, and at that alone: a change of some fields, say."""
    assert READ({"inner": {"amount": "2"}})["inner"].keys() == {"amount"}


def test_a_validator_that_changes_values_is_not_applied_twice():
    class Twice(BaseModel):
        number: int

        @field_validator("number")
        @classmethod
        def doubled(cls, value: int) -> int:
            return value * 2

    given = {"number": "7"}
    assert reader(Twice)(given) is given


def test_what_does_not_fit_is_refused_where_nobody_else_does_so():
    with pytest.raises(BadArguments, match="number"):
        READ({"number": "seven"})
    lenient = reader(Order, checks=False)
    assert lenient({"number": "seven"}) == {"number": "seven"}


def test_several_names_of_one_field_are_left_as_they_are():
    class Named(BaseModel):
        model_config = ConfigDict(populate_by_name=True)
        number: int = Field(0, validation_alias=AliasChoices("no", "nr"))

    given = {"no": "7"}
    assert reader(Named)(given) is given


def test_defaults_are_in_the_form_of_what_is_given():
    assert READ.defaults["amount"] == Decimal(1)
    assert READ.defaults["size"] == "s"
    assert "tags" not in READ.defaults
    assert READ.defaults["byName"] == 0


def test_equal_sets_have_one_form():
    assert as_data({"b", "a", "c"}) == as_data({"c", "b", "a"}) == ["a", "b", "c"]


SCHEMA = {
    "type": "object",
    "properties": {
        "whole": {"type": "integer"},
        "part": {"type": "number"},
        "truth": {"type": "boolean"},
        "text": {"type": "string"},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "also": {"type": ["integer", "null"]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "list": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
        "open": {"type": "object"},
        "loop": {"$ref": "#/$defs/Loop"},
    },
    "$defs": {
        "Line": {"type": "object", "properties": {"no": {"type": "integer"}}},
        "Loop": {"$ref": "#/$defs/Loop"},
    },
}


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"whole": "7"}, {"whole": 7}),
        ({"whole": " -7 "}, {"whole": -7}),
        ({"part": "7.50"}, {"part": 7.5}),
        ({"part": "1e2"}, {"part": 100}),
        ({"truth": "True"}, {"truth": True}),
        ({"maybe": "7"}, {"maybe": 7}),
        ({"also": "7"}, {"also": 7}),
        ({"list": [{"no": "1"}, {"no": 2}]}, {"list": [{"no": 1}, {"no": 2}]}),
    ],
)
def test_a_schema_tells_which_texts_are_numbers(given, taken):
    assert BySchema(SCHEMA)(given) == taken


@pytest.mark.parametrize(
    "given",
    [
        {"whole": "7.5"},
        {"whole": "seven"},
        {"whole": "\u0667"},
        {"part": "NaN"},
        {"part": "1_000"},
        {"truth": "1"},
        {"text": "7"},
        {"either": "7"},
        {"open": {"whole": "7"}},
        {"loop": "7"},
        {"unknown": "7"},
        {"whole": None},
        {"list": "7"},
    ],
)
def test_a_schema_tells_nothing_of_the_rest(given):
    assert BySchema(SCHEMA)(given) is given
