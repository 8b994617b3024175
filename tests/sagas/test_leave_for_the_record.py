"""What a person has given leave for is made as it is on record, whoever asks then in other words or another version."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, Field

import settled

if TYPE_CHECKING:
    from collections.abc import Callable

PAID: list[tuple[Any, ...]] = []
REVIEWED = {"to": "ann", "account": "A", "amount": 10}
CHANGED = {"to": "ann", "account": "B", "amount": 900}
SEVERAL_WORDS: dict[str, Any] = {"effect": "write", "key": "pay:{to}", "identity": ("to",), "approve": True}
"""Its other arguments are content: the same action in other words."""


@pytest.fixture(autouse=True)
def _books() -> None:
    PAID.clear()


def as_reviewed(guard: settled.Guard, **more: Any) -> Any:
    @guard.tool(**SEVERAL_WORDS, **more)
    def pay(to: str, account: str = "main", amount: int = 0) -> str:
        PAID.append((to, account, amount))
        return "paid"

    return pay


def with_another_bound(guard: settled.Guard) -> Any:
    @guard.tool(**SEVERAL_WORDS)
    def pay(to: str, account: str, amount: Annotated[int, Field(ge=100)]) -> str:
        PAID.append((to, account, amount))
        return "paid"

    return pay


def with_another_name(guard: settled.Guard) -> Any:
    @guard.tool(**SEVERAL_WORDS)
    def pay(to: str, iban: str, amount: int) -> str:
        PAID.append((to, iban, amount))
        return "paid"

    return pay


def with_a_validator(guard: settled.Guard) -> Any:
    @guard.tool(**SEVERAL_WORDS)
    def pay(to: str, account: Annotated[str, AfterValidator(lambda text: f"{text}!")], amount: int) -> str:
        PAID.append((to, account, amount))
        return "paid"

    return pay


def with_one_more(guard: settled.Guard) -> Any:
    @guard.tool(**SEVERAL_WORDS)
    def pay(to: str, account: str, amount: int, tip: int = 0) -> str:
        PAID.append((to, account, amount, tip))
        return "paid"

    return pay


def approved(guard: settled.Guard, pay: Any, arguments: dict[str, Any]) -> str:
    operation_id: str = pay.options(wait=0).call(**arguments).operation_id
    guard.approve(operation_id, by="eva")
    return operation_id


@pytest.fixture
def reopened(tmp_path: Path) -> Callable[..., Any]:
    """Has a payment approved, and gives the tool as another version declares it."""

    def make(declare: Callable[[settled.Guard], Any], **more: Any) -> Any:
        address = f"sqlite:///{tmp_path}/agent.db"
        with settled.Guard(address) as first:
            approved(first, as_reviewed(first, **more), REVIEWED)
        return declare(settled.Guard(address))

    return make


@pytest.mark.case("CASE-062-approved-args-changed")
def test_other_words_make_what_was_approved(reopened: Callable[..., Any]) -> None:
    pay = reopened(as_reviewed)
    assert pay.call(**CHANGED).ok
    assert PAID == [("ann", "A", 10)]


@pytest.mark.case("CASE-062-approved-args-changed")
@pytest.mark.parametrize("version", [with_another_bound, with_another_name, with_a_validator])
def test_what_cannot_be_made_of_the_record_is_not_made_of_other_words(
    reopened: Callable[..., Any], version: Callable[[settled.Guard], Any]
) -> None:
    pay = reopened(version)
    words = {"iban" if version is with_another_name and name == "account" else name: v for name, v in CHANGED.items()}
    refused = pay.options(wait=0).call(**words)
    assert (refused.status, PAID) == ("not_done", [])
    assert "leave was given for other arguments" in refused.message


def test_a_parameter_that_was_not_there_is_not_approved_either(reopened: Callable[..., Any]) -> None:
    pay = reopened(with_one_more)
    pay.call(**CHANGED, tip=50)
    assert PAID == [("ann", "A", 10, 0)]


@pytest.mark.case("CASE-062-approved-args-changed")
def test_what_is_hidden_on_record_is_not_taken_from_other_words(reopened: Callable[..., Any]) -> None:
    """The record does not hold it, and the leave was not for what this asker says, nor for the default."""
    pay = reopened(lambda guard: as_reviewed(guard, redact=("account",)), redact=("account",))
    for words in (CHANGED, {**REVIEWED, "amount": 11}, {"to": "ann", "amount": 900}):
        refused = pay.options(wait=0).call(**words)
        assert (refused.status, PAID) == ("not_done", [])
        guard = pay.guard
        operation_id = pay.options(wait=0).call(**REVIEWED).operation_id
        guard.approve(operation_id, by="eva")
    assert pay.call(**REVIEWED).ok
    assert PAID == [("ann", "A", 10)]


def test_with_encryption_the_record_holds_it(tmp_path: Path) -> None:
    fernet = pytest.importorskip("cryptography.fernet")
    with settled.Guard(f"sqlite:///{tmp_path}/agent.db", encryption_key=fernet.Fernet.generate_key()) as guard:
        pay = as_reviewed(guard, redact=("account",))
        approved(guard, pay, REVIEWED)
        pay.call(**CHANGED)
        assert PAID == [("ann", "A", 10)]


def test_a_default_that_was_changed_meanwhile_is_not_what_was_approved(tmp_path: Path) -> None:
    def declared(guard: settled.Guard, most: int) -> Any:
        @guard.tool(effect="write", key="pay:{to}", approve=True)
        def pay(to: str, amount: int = most) -> str:
            PAID.append((to, amount))
            return "paid"

        return pay

    address = f"sqlite:///{tmp_path}/agent.db"
    with settled.Guard(address) as first:
        approved(first, declared(first, 10), {"to": "ann"})
    with settled.Guard(address) as second:
        declared(second, 1000).call("ann")
        assert PAID == [("ann", 10)]


@pytest.mark.case("CASE-062-approved-args-changed")
@pytest.mark.parametrize("words", [CHANGED, REVIEWED], ids=["other words", "the same words"])
@pytest.mark.parametrize("hidden", [(), ("account",)], ids=["on record", "hidden"])
def test_what_is_done_in_its_place_is_done_with_what_was_approved(
    tmp_path: Path, words: dict[str, Any], hidden: tuple[str, ...]
) -> None:
    with settled.Guard(f"sqlite:///{tmp_path}/agent.db") as guard:

        @guard.tool(effect="write")
        def post(to: str, account: str = "main", amount: int = 0) -> str:
            PAID.append((to, account, amount))
            return "posted"

        @guard.tool(**SEVERAL_WORDS, redact=hidden, fallback=post)
        def pay(to: str, account: str = "main", amount: int = 0) -> str:
            raise settled.NotExecuted("closed")

        approved(guard, pay, REVIEWED)
        result = pay.options(wait=0).call(**words)
        possible = words is REVIEWED or not hidden
        assert (result.ok, PAID) == (possible, [("ann", "A", 10)] if possible else [])


@dataclass
class Order:
    number: int


class Animal(BaseModel):
    name: str


class Dog(Animal):
    tricks: int = 3


@pytest.mark.parametrize(
    "asked", [Order(1), Path("out.txt"), (1, 2), Dog(name="Rex"), [Order(2)]], ids=lambda asked: type(asked).__name__
)
@pytest.mark.parametrize("declared", [Any, object])
def test_values_of_which_the_record_tells_no_type_come_as_they_were_asked_with(asked: Any, declared: Any) -> None:
    guard, taken = settled.Guard("memory://"), []

    def take(name: str, thing: Any) -> str:
        taken.append(thing)
        return "taken"

    take.__annotations__["thing"] = declared
    tool = guard.tool(effect="write", key="take:{name}", approve=True)(take)
    waiting = tool.call("it", asked)
    guard.approve(waiting.operation_id, by="ann", reason="seen")

    assert tool.call("it", asked).ok
    assert taken == [asked]
    assert type(taken[0]) is type(asked)
