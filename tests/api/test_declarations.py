"""Mistakes in a declaration are refused when it is made, with what to write instead."""

from __future__ import annotations

import pydoc
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest

import settled
from settled import host
from settled.api.opening import MemorySpill
from settled.api.tools.options import Options, ToolOptions
from settled.journals.memory import MemoryJournal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def guard() -> Iterator[settled.Guard]:
    with settled.Guard("memory://") as made:
        yield made


def act(order_id: str, amount: int = 1) -> str:
    """A function to be declared."""
    return f"{order_id} {amount}"


def probe(call: settled.Call) -> settled.NotHappened:
    return settled.NotHappened()


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "misspelt option": ({"efect": "write"}, "there is no option 'efect'.*effect"),
    "option of others": ({"retries": 2}, "there is no option 'retries': write attempts=3, the first one included"),
    "option of a run": ({"on_error": "compensate"}, "'on_error': it is an option of guard.run"),
    "misspelt effect": (
        {"effect": "writes"},
        "there is no effect='writes'; did you mean 'write'[?] There are: read, .*transactional, write[.]",
    ),
    "probe on a read": ({"effect": "read", "probe": probe, "max_request_lifetime": 1.0}, "a read changes nothing"),
    "probe without lifetime": ({"probe": probe}, "a probe needs max_request_lifetime"),
    "probe that takes nothing": ({"probe": lambda: None, "max_request_lifetime": 1}, "a probe is given one thing"),
    "probe that is none": ({"probe": "find", "max_request_lifetime": 1.0}, "probe must be a function"),
    "deduplicated for ever": ({"effect": "deduplicated"}, "needs remote_retention"),
    "negative lifetime": ({"max_request_lifetime": -1}, "max_request_lifetime must be a number of seconds"),
    "lifetime not finite": ({"max_request_lifetime": float("nan")}, "max_request_lifetime must be a number"),
    "time-out as text": ({"timeout": "10"}, "timeout must be a number of seconds"),
    "no time at all": ({"timeout": 0}, "leaves no time"),
    "no attempts": ({"attempts": 0}, "attempts must be a whole number of at least 1"),
    "half an attempt": ({"attempts": 1.5}, "attempts must be a whole number"),
    "attempts as a flag": ({"attempts": True}, "attempts must be a whole number"),
    "identity as text": ({"identity": "order_id"}, "identity must be a sequence of names"),
    "identity unknown": ({"identity": ("order",)}, "identity: there is no parameter 'order'"),
    "redact unknown": ({"redact": ("pasword",)}, "redact: there is no parameter 'pasword'"),
    "effect of nothing near": ({"effect": "hmm"}, "there is no effect='hmm'. There are: read, "),
    "key unknown": ({"key": "order:{order}"}, "key: there is no parameter 'order'"),
    "key of nothing": ({"key": "order"}, "every call would get the same key"),
    "key format": ({"key_format": "hex31"}, "key_format='hex31' is none of"),
    "canonical unknown": ({"canonical": {"order": "lower"}}, "canonical:"),
    "canonical rule": ({"canonical": {"order_id": "lowercase"}}, "canonical:"),
    "while_unknown": ({"while_unknown": "never"}, "while_unknown='never' is none of"),
    "untold": ({"untold": "ignore"}, "untold='ignore' is none of"),
    "key_scope": ({"key_scope": "world"}, "key_scope='world' is none of"),
    "remote_errors": ({"remote_errors": "kept"}, "remote_errors='kept' is none of"),
    "not_executed": ({"not_executed": ("CardDeclined",)}, "not_executed takes exception classes"),
    "result secret": ({"redact": ("result",)}, "a redacted result needs Guard"),
}


@pytest.mark.parametrize(("options", "said"), list(WRONG.values()), ids=list(WRONG))
def test_a_mistake_is_named_with_what_to_write(guard: settled.Guard, options: dict[str, Any], said: str) -> None:
    with pytest.raises(settled.DeclarationError, match=said):
        guard.tool(**options)(act)
    assert guard.tools == {}


def positional(a: int, /) -> int:
    return a


def many(*items: int) -> int:
    return len(items)


def open_ended(**items: int) -> int:
    return len(items)


def unresolved(item: NoSuchType) -> int:  # type: ignore[name-defined]  # noqa: F821 - what the test is about
    return 1


@pytest.mark.parametrize("function", [positional, many, open_ended, unresolved])
def test_a_signature_that_cannot_be_checked_is_refused(guard: settled.Guard, function: Any) -> None:
    with pytest.raises(settled.DeclarationError):
        guard.tool(effect="write")(function)


def test_only_functions_become_tools(guard: settled.Guard) -> None:
    with pytest.raises(settled.DeclarationError, match="a tool is made of a function"):
        guard.tool(effect="write")(42)  # type: ignore[call-overload]  # what the test is about
    tool = guard.tool(effect="write")(act)
    with pytest.raises(settled.DeclarationError, match="is a tool already"):
        guard.tool(effect="write")(tool)


def test_a_tool_declared_elsewhere_needs_a_guard(guard: settled.Guard) -> None:
    tool = settled.tool(effect="write")(act)
    with pytest.raises(settled.DeclarationError, match=r"guard\.add\(act\)"):
        tool("a")
    assert guard.add(tool) is tool
    assert tool("a") == "a 1"
    with settled.Guard("memory://") as other, pytest.raises(settled.DeclarationError, match="belongs to another guard"):
        other.add(tool)


def test_two_tools_of_one_name_are_refused(guard: settled.Guard) -> None:
    guard.tool(effect="write")(act)
    with pytest.raises(settled.DeclarationError, match="give one of them name="):
        guard.tool(effect="read")(act)
    guard.tool(effect="read", name="act_2")(act)
    assert set(guard.tools) == {"act", "act_2"}


def test_what_is_not_a_tool_cannot_be_added(guard: settled.Guard) -> None:
    with pytest.raises(settled.DeclarationError, match=r"declare it with @settled\.tool"):
        guard.add(act)  # type: ignore[type-var]  # what the test is about


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("", "no journal: give Guard"),
        ("agent.db", "is no journal's address"),
        ("mysql://host", "is no journal's address"),
    ],
)
def test_an_address_that_cannot_work(monkeypatch: pytest.MonkeyPatch, address: str, said: str) -> None:
    monkeypatch.delenv("SETTLED_JOURNAL", raising=False)
    with pytest.raises(settled.DeclarationError, match=said):
        settled.Guard(address)


def test_the_environment_names_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SETTLED_JOURNAL", "memory://")
    with settled.Guard() as guard:
        assert guard.journal.url == "memory://"


ADDRESSES = ["memory://", "sqlite:///agent.db", "postgresql:///agents", "redis://localhost:6379/0"]


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("option", ["leese", "synchronus", "path"])
def test_an_option_that_neither_guard_nor_journal_has_is_refused_before_it_is_opened(
    address: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(settled.DeclarationError, match=f"has an option '{option}'"):
        settled.Guard(address, **{option: 3})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "meant"), [("synchronus", "synchronous"), ("tenannt", "tenant"), ("must_exists", "must_exist")]
)
def test_a_misspelt_option_of_the_journal_or_the_guard_is_told_its_name(given: str, meant: str) -> None:
    with pytest.raises(settled.DeclarationError, match=f"did you mean '{meant}'"):
        settled.Guard("sqlite:///agent.db", **{given: "x"})


@pytest.mark.parametrize("lease", [0, -1.0, float("nan"), "30", None])
def test_a_lease_that_is_no_number_of_seconds_is_refused(lease: Any) -> None:
    with pytest.raises(settled.DeclarationError, match="lease must be seconds above 0"):
        settled.Guard("memory://", lease=lease)


@pytest.mark.parametrize("value", [None, 0, 5.0])
def test_an_option_that_is_given_reaches_its_journal_whatever_its_value(
    value: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: dict[str, Any] = {}

    def open_redis(_: str, **options: Any) -> tuple[Any, Any]:
        opened.update(options)
        return MemoryJournal(host.now), MemorySpill()

    monkeypatch.setattr("settled.journals.redis.open_redis", open_redis)
    settled.Guard("redis://localhost:6379/0", log_kept=value).close()
    assert opened == {"log_kept": value}


def test_a_key_for_encryption_is_checked() -> None:
    with pytest.raises(settled.DeclarationError, match="no Fernet key"):
        settled.Guard("memory://", encryption_key="short")


def test_the_typed_options_are_the_options() -> None:
    declared = {f.name: f.type for f in fields(Options)}
    typed = {name: hint.__forward_arg__ for name, hint in ToolOptions.__annotations__.items()}
    assert typed == declared


@pytest.mark.parametrize(
    ("option", "kind"),
    [({"retries": 3}, "RetryBudget"), ({"tokens": 3}, "TokenWindow"), ({"breaker": 3}, "BreakerPolicy")],
)
def test_an_option_of_a_run_that_is_of_the_wrong_kind_is_refused(option: dict[str, Any], kind: str) -> None:
    with (
        settled.Guard("memory://") as guard,
        pytest.raises(settled.DeclarationError, match=f"must be a settled.{kind}"),
    ):
        guard.run("r", **option)


@pytest.mark.parametrize("name", [name for name in settled.__all__ if name != "BoundCall"])
def test_what_is_public_can_be_looked_up(name: str) -> None:
    assert pydoc.render_doc(getattr(settled, name))


class Desk:
    def refund(self, order_id: str) -> str:
        """A method."""
        return f"{order_id} by {type(self).__name__}"

    @classmethod
    def close(cls, order_id: str) -> str:
        """A method of the class."""
        return f"{order_id} by {cls.__name__}"


def test_a_method_is_declared_once_it_is_bound(guard: settled.Guard) -> None:
    for method in (Desk.refund, Desk.__dict__["close"].__func__):
        with pytest.raises(settled.DeclarationError, match=r"guard.tool\(…\)\(that_object.(refund|close)\)"):
            guard.tool(effect="write")(method)
    assert guard.tool(effect="write")(Desk().refund)("7") == "7 by Desk"
    assert guard.tool(effect="write")(Desk.close)("8") == "8 by Desk"
