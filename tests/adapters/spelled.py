"""A model that writes the same arguments in another way: for the tool they are the same, and so is the action."""

from __future__ import annotations

from datetime import date  # noqa: TC003 - frameworks look the annotations up
from decimal import Decimal

import pytest
from pydantic import BaseModel

import settled
from tests.adapters.contract import fails
from tests.adapters.script import Call, ModelDown


class Money(BaseModel):
    """An amount, inside of another value."""

    amount: Decimal
    currency: str = "EUR"


SPELLINGS = [
    pytest.param({"order": 7}, {"order": "7"}, id="a number as text"),
    pytest.param({"order": "7"}, {"order": 7.0}, id="a whole number with a point"),
    pytest.param({"share": 0.5}, {"share": "0.50"}, id="a fraction as text"),
    pytest.param({"amount": "7.50"}, {"amount": 7.5}, id="an amount of money"),
    pytest.param({"amount": "7.5"}, {"amount": "7.50"}, id="an amount with another zero"),
    pytest.param({"day": "2026-01-02"}, {"day": "2026-01-02T00:00:00"}, id="a day with a time"),
    pytest.param({"full": True}, {"full": "true"}, id="a truth as text"),
    pytest.param({"tags": ["a", "b"]}, {"tags": ["b", "a", "a"]}, id="a set"),
    pytest.param({"lines": [1, 2]}, {"lines": ["1", 2.0]}, id="numbers in a list"),
    pytest.param({"money": {"amount": 1}}, {"money": {"amount": "1.00"}}, id="inside of an object"),
    pytest.param({"order": 7}, {"order": 7, "amount": "1.00"}, id="a default that is given"),
]


def refunds(outbox) -> list:
    def refund(  # noqa: PLR0917 - one of each kind
        order: int = 0,
        share: float = 0.0,
        amount: Decimal = Decimal(1),
        day: date | None = None,
        full: bool = False,
        tags: set[str] | None = None,
        lines: list[int] | None = None,
        money: Money | None = None,
    ) -> str:
        """Pay something back."""
        del order, share, amount, day, full, tags, lines, money
        return outbox._send("refund")

    return [refund]


class SpelledOtherwise:
    """For every framework: beside ``AdapterContract``."""

    @pytest.mark.parametrize(("first", "second"), SPELLINGS)
    async def test_what_is_in_doubt_is_not_done_again_in_another_spelling(self, chat, outbox, first, second):
        outbox.fails = [TimeoutError("read timed out")]
        effects = {"refund": settled.tool_options(identity=(*first, *(name for name in second if name not in first)))}
        replies = [[Call("refund", first, "a")], [Call("refund", second, "b")], "done"]
        one = chat(refunds(outbox), replies, effects=effects)
        await one.say("pay it back")
        assert outbox.sent == []
        assert '"unknown"' in one.script.answer("b")

    @pytest.mark.parametrize(("first", "second"), SPELLINGS)
    async def test_a_model_that_is_asked_anew_may_spell_it_otherwise(self, chat, outbox, first, second):
        one = chat(refunds(outbox), [[Call("refund", first, "a")], ModelDown], effects={"refund": "write"})
        await fails(one, one.say("pay it back"))
        two = chat(refunds(outbox), [[Call("refund", second, "b")], "done"], effects={"refund": "write"}, forget=True)
        await two.say("pay it back")
        assert outbox.sent == ["refund"]
        assert two.script.answer("b") == "sent to refund"

    async def test_another_agent_s_tool_of_that_name_takes_it_in_its_own_way(self, chat, outbox):
        def by_number(order: int) -> str:
            """Pay something back."""
            return outbox._send(f"number {order}")

        def by_text(order: str) -> str:
            """Pay something back."""
            return outbox._send(f"text {order}")

        by_number.__name__ = by_text.__name__ = "refund"
        given = {"order": "007"}
        replies = [[Call("refund", given, "c1")], "done"]
        one = chat([by_number], [*replies, [Call("refund", given, "c3")], "done"])
        two = chat([by_text], [[Call("refund", given, "c2")], "done"], guard=one.guard)
        for each, text in ((one, "first"), (two, "second"), (one, "third")):
            await each.say(text)
        assert outbox.sent == ["number 7", "text 007", "number 7"]
