"""True is no number: a model that sends it for an amount is told so, and nothing is paid."""

import datetime as dt
from decimal import Decimal

import pytest
from pydantic import BaseModel

import settled


class Line(BaseModel):
    price: float
    gift: bool = False


@pytest.fixture
def paid():
    return []


@pytest.fixture
def guard(paid):
    with settled.Guard("memory://") as guard:

        @guard.tool(effect="write")
        def pay(
            *,
            amount: float = 0.0,
            count: int = 0,
            exact: Decimal = Decimal(0),
            lines: tuple[Line, ...] = (),
            prices: dict[str, float] | None = None,
            really: bool = True,
            either: bool | int = 0,
            ids: frozenset[int] = frozenset(),
            within: dt.timedelta = dt.timedelta(),
        ) -> None:
            paid.append((amount, count, exact, lines, prices, really, either))

        yield guard


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ({"amount": True}, "amount"),
        ({"count": False}, "count"),
        ('{"amount": true}', "amount"),
        ({"lines": [{"price": 2.0}, {"price": True}]}, "lines.1.price"),
        ({"prices": {"a": True, "b": 1.0}}, "prices.a"),
        ({"ids": [7, True]}, "ids.1"),
        ({"within": True}, "within"),
    ],
)
def test_true_is_no_number(guard, paid, arguments, place):
    result = guard.dispatch("pay", arguments)
    assert (result.status, result.next, paid) == ("invalid", "fix_arguments", [])
    assert result.fields == {place: "a number is wanted, not true or false"}


@pytest.mark.parametrize(
    "arguments",
    [{"really": False}, {"lines": [{"price": 2.0, "gift": True}]}, {"either": True}, {"amount": 1, "really": True}],
)
def test_true_where_it_may_stand_is_taken(guard, paid, arguments):
    assert guard.dispatch("pay", arguments).status == "succeeded"
    assert len(paid) == 1


def test_what_else_is_wrong_is_said_as_ever(guard, paid):
    result = guard.dispatch("pay", {"amount": True, "count": "many"})
    assert "count" in result.fields
    assert paid == []


def test_code_may_say_true_for_one(guard, paid):
    assert guard.tools["pay"].call(count=True).status == "succeeded"
    assert len(paid) == 1


def test_what_has_no_end_is_refused_as_ever(guard, paid):
    endless = {"price": 1.0}
    endless["more"] = endless
    assert guard.dispatch("pay", {"prices": endless}).status == "invalid"
    assert paid == []
