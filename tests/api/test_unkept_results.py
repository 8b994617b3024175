"""A result that the journal cannot keep is told of when that happens, with what to return instead."""

import logging

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

    monkeypatch.setattr("settled.api.binding.LOG.warning", broken)

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
