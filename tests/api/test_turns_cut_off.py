"""A turn that ended without an answer: what it did is told to the model in the next one, before it is done again."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

import settled

if TYPE_CHECKING:
    from collections.abc import Iterator

ASKED = {"to": "ann", "amount": 100}


class CutOff(Exception):  # noqa: N818 - the name says what is wrong
    """The model's service fails, or the user presses stop."""


class Desk:
    """A guard with one tool, and what was paid by it."""

    def __init__(self, guard: settled.Guard) -> None:
        self.guard, self.paid = guard, list[str]()

        @guard.tool(effect="write")
        def pay(to: str, amount: int) -> str:
            self.paid.append(to)
            return f"paid {to} {amount}"

        self.pay = pay

    def turn(
        self, turn: str, *steps: str, cut: bool = False, answered: tuple[str, ...] = ()
    ) -> list[settled.Result[str]]:
        """Let a model ask for the payment, once for each step."""
        said = []
        with contextlib.suppress(CutOff), self.guard.run("thread", turn=turn, answered=answered):
            said = [self.guard.dispatch("pay", ASKED, step=step) for step in steps]
            if cut:
                raise CutOff
        return said


@pytest.fixture
def desk() -> Iterator[Desk]:
    with settled.Guard("memory://") as guard:
        yield Desk(guard)


def test_what_was_done_is_told_once_and_may_then_be_done_again(desk: Desk) -> None:
    desk.turn("1", "m1/0", cut=True)
    told, again = desk.turn("2", "m2/0", "m3/0")
    assert (told.status, told.reason) == ("rejected", "untold_before")
    assert [(each.status, each.arguments) for each in told.earlier] == [("succeeded", ASKED)]
    assert (again.status, again.replayed, desk.paid) == ("succeeded", False, ["ann", "ann"])


def test_a_turn_that_ended_is_over(desk: Desk) -> None:
    desk.turn("1", "m1/0")
    [said] = desk.turn("2", "m2/0")
    assert (said.status, said.replayed, desk.paid) == ("succeeded", False, ["ann", "ann"])


def test_what_the_history_shows_is_not_told_again(desk: Desk) -> None:
    desk.turn("1", "m1/0", cut=True)
    [said] = desk.turn("2", "m2/0", answered=("m1/0",))
    assert (said.status, said.replayed, desk.paid) == ("succeeded", False, ["ann", "ann"])


def test_it_is_told_in_each_entry_of_each_turn_until_one_comes_to_its_end(desk: Desk) -> None:
    desk.turn("1", "m1/0", cut=True)
    for turn, step in (("2", "m2/0"), ("2", "m3/0"), ("3", "m4/0")):
        [told] = desk.turn(turn, step, cut=True)
        assert told.status == "rejected"
    [last] = desk.turn("3", "m5/0")
    assert (last.status, desk.paid) == ("rejected", ["ann"])
    [said] = desk.turn("4", "m6/0")
    assert (said.status, desk.paid) == ("succeeded", ["ann", "ann"])


def test_it_answers_nothing_by_itself(desk: Desk) -> None:
    """A program that says that this is another turn means something new, and is not asked."""
    desk.turn("1", "m1/0", cut=True)
    with desk.guard.run("thread", turn="2"):
        said = desk.pay.call(**ASKED)
    assert (said.status, said.replayed, desk.paid) == ("succeeded", False, ["ann", "ann"])


@pytest.mark.parametrize("options", [{"untold": "block"}, {"irreversible": True, "waiver": "a mail is a mail"}])
def test_where_a_repeat_is_to_be_barred_it_is_until_somebody_says_that_it_is_another_one(options: dict) -> None:
    paid = []
    with settled.Guard("memory://") as guard:

        @guard.tool(effect="write", **options)
        def send(to: str) -> str:
            paid.append(to)
            return f"sent to {to}"

        with contextlib.suppress(CutOff), guard.run("thread", turn="1"):
            guard.dispatch("send", {"to": "ann"})
            raise CutOff
        with guard.run("thread", turn="2"):
            said = [guard.dispatch("send", {"to": "ann"}) for _ in range(2)]
            assert [(each.reason, each.next) for each in said] == [("untold_blocked", "ask_human")] * 2
            assert all("make your call again" not in each.message for each in said)
            done = send.options(despite=[said[0].earlier[0].operation_id]).call("ann")
    assert (done.status, paid) == ("succeeded", ["ann", "ann"])
