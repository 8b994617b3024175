"""A result that the journal cannot keep is told of when that happens, with what to return instead."""

import asyncio
import enum
import logging
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

import pydantic
import pytest

import settled


@pytest.fixture
def guard(tmp_path):
    with settled.Guard(f"sqlite:///{tmp_path}/agent.db", largest_result=1000) as made:
        yield made


class Connection:
    pass


UNKEPT = {
    "a type that is not written": (Connection, r"Connection is not written; return plain data, or annotate its type"),
    "one inside of plain data": (lambda: {"made": [Connection()]}, r"made\[0\]: .*Connection is not written"),
    "too many bytes": (lambda: [*range(1000)], r"\d+ bytes"),
}


@pytest.mark.parametrize(("value", "why"), UNKEPT.values(), ids=UNKEPT)
def test_it_is_told_once_and_the_next_entry_says_why(guard, caplog, value, why):
    caplog.set_level(logging.WARNING, "settled")

    @guard.tool(effect="write")
    def connect(to: str):
        return value()

    with guard.run("r"):
        assert connect("ann") is not None
        connect("bob")
    (told,) = caplog.messages
    assert told.startswith("connect: the result was not kept: ")
    with guard.run("r"), pytest.raises(settled.ResultUnavailable, match=why):
        connect("ann")


def test_a_log_that_fails_does_no_call_any_harm(guard, monkeypatch):
    def broken(*_):
        raise OSError("the log is gone")

    monkeypatch.setattr("settled.api.calls.binding.LOG.warning", broken)

    @guard.tool(effect="write")
    def connect(to: str):
        return Connection()

    assert connect.call("ann").ok


def test_no_text_of_the_value_is_told(guard, caplog):
    @guard.tool(effect="write")
    def connect(to: str) -> int:
        return {"password": "hunter2", "made": Connection()}

    connect("ann")
    assert caplog.messages
    assert "hunter2" not in caplog.text


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int


class Order(pydantic.BaseModel):
    number: int


KEPT = [b"x", {1}, Decimal("1.10"), uuid.UUID(int=1), datetime(2031, 2, 3, tzinfo=UTC), {"a": [None]}]


@pytest.mark.parametrize("value", [*KEPT, Colour.RED, Point(1), Order(number=1)], ids=repr)
def test_plain_data_and_values_of_the_annotated_type_are_given_again(guard, caplog, value):
    def make(to: str):
        return value

    make.__annotations__["return"] = type(value) if value not in KEPT else object
    tool = guard.tool(effect="write")(make)
    for _ in range(2):
        with guard.run("r"):
            again = tool("ann")
    assert (again, type(again), caplog.messages) == (value, type(value), [])


def resolved(guard, tool):
    """Let a call end unknown, and a person say that it happened, without a word on what it returned."""
    op = tool.call("ann").operation_id
    guard.resolve(op, "happened", by="eva", reason="seen")


def test_what_returns_nothing_needs_nobody_to_say_what_it_returned(guard):
    """Else its run, entered again, would stop at it; and be undone, where it is so declared."""

    @guard.tool(effect="write", waiver="a mail stays")
    def mail(to: str) -> None:
        raise TimeoutError

    with guard.run("r"):
        resolved(guard, mail)
    with guard.run("r", on_error="compensate") as run:
        assert mail("ann") is None
        assert mail.call("ann").status == "unknown", "a second one is another"
    assert run.status == "completed"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_value_that_nobody_has_given_is_said_to_be_so(guard, asynchronous):
    @guard.tool(effect="write", key="mail:{to}")
    def mail(to: str) -> str:
        raise TimeoutError

    resolved(guard, mail)
    with pytest.raises(settled.ResultUnavailable, match="did not say what it returned"):
        asyncio.run(mail.acall("ann")).unwrap() if asynchronous else mail("ann")
