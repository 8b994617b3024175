"""CASE-068: planted secrets appear nowhere."""

from __future__ import annotations

import base64
import json
import logging
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

import httpx
import pytest
from cryptography.fernet import Fernet

import settled
from settled.api.people.queue import waiting

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PLANTED = ("p4ss-SECRET", "SECRET-abc", "SECRET-bearer-0123456789", "SECRET-in-url", "dXNlcjpTRUNSRVQtYmFzaWM=")


def everything(folder: Path) -> bytes:
    """All bytes that the journal and its neighbours keep."""
    return b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())


def errors() -> list[Exception]:
    """Errors that carry secrets in each of the usual ways."""
    request = httpx.Request(
        "POST", "http://user:SECRET-in-url@tool.test/", headers={"Authorization": "Bearer SECRET-bearer-0123456789"}
    )
    response = httpx.Response(500, request=request, text="MCP_API_KEY=SECRET-abc")
    return [
        settled.NotExecuted("password p4ss-SECRET is wrong"),
        settled.NotExecuted("Authorization: Bearer SECRET-bearer-0123456789"),
        settled.NotExecuted("cannot reach http://user:SECRET-in-url@tool.test/"),
        settled.NotExecuted("MCP_API_KEY=SECRET-abc is not set"),
        settled.NotExecuted("Authorization: Basic dXNlcjpTRUNSRVQtYmFzaWM="),
        httpx.HTTPStatusError("500 for http://user:SECRET-in-url@tool.test/", request=request, response=response),
        ValueError('{"api_key": "SECRET-abc"}'),
        KeyError("p4ss-SECRET"),
    ]


@pytest.mark.parametrize("error", errors(), ids=range(len(errors())))
def test_case_068_no_path_of_failure_keeps_a_secret(
    tmp_path: Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[Any] = []
    caplog.set_level(logging.DEBUG)
    with settled.Guard(
        f"sqlite:///{tmp_path}/j.db", alerts=lambda event, facts: events.append((event, facts))
    ) as guard:

        @guard.tool(effect="write", redact=("password",), breaker=None)
        def login(user: str, password: str) -> str:
            raise error

        result = login.call(user="ann", password="p4ss-SECRET")
        with pytest.raises(settled.CallError) as raised:
            result.unwrap()
        shown = [str(raised.value), repr(result), result.for_model(), str(guard.look(result.operation_id)), str(events)]
        invalid = guard.dispatch("login", {"user": 1, "password": ["p4ss-SECRET"]})
        shown += [invalid.for_model(), repr(invalid), caplog.text]
    assert result.status in ("failed", "unknown")
    kept = everything(tmp_path)
    for secret in PLANTED:
        assert secret.encode() not in kept
        assert not [text for text in shown if secret in text]


def test_case_068_a_redacted_result_needs_encryption(tmp_path: Path) -> None:
    with (
        settled.Guard(f"sqlite:///{tmp_path}/j.db") as guard,
        pytest.raises(settled.DeclarationError, match="encryption_key"),
    ):

        @guard.tool(effect="write", redact=("result.token",))
        def token() -> dict[str, str]:
            return {"token": "SECRET-abc"}


def test_case_068_with_a_key_everything_is_kept_and_nothing_is_readable(tmp_path: Path) -> None:
    key = Fernet.generate_key()
    address = f"sqlite:///{tmp_path}/j.db"
    with settled.Guard(address, encryption_key=key) as guard:

        @guard.tool(effect="write", redact=("password", "result.token"), key="t:{user}")
        def token(user: str, password: str) -> dict[str, str]:
            return {"token": "SECRET-abc"}

        assert token("ann", "p4ss-SECRET") == {"token": "SECRET-abc"}
        assert token("ann", "p4ss-SECRET") == {"token": "SECRET-abc"}
    kept = everything(tmp_path)
    assert not [secret for secret in PLANTED if secret.encode() in kept]
    with settled.Guard(address, encryption_key=Fernet.generate_key()) as guard:
        again = guard.tool(effect="write", key="t:{user}", redact=("password",))(token.function)
        with pytest.raises(settled.ResultUnavailable, match="another key"):
            again("ann", "p4ss-SECRET")


KEY = "-----BEGIN KEY-----\nMIIEvQp4ss-SECRET\nend+p4ss-SECRET/é\n-----END KEY-----\n"
SPELT: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "stripped": str.strip,
    "repr": repr,
    "json": json.dumps,
    "json in unicode": lambda secret: json.dumps(secret, ensure_ascii=False),
    "in an address": quote,
    "in an address, all of it": lambda secret: quote(secret, safe=""),
    "in a form": quote_plus,
    "its second line": lambda secret: secret.strip().splitlines()[-1 if secret.count("\n") < 2 else 1],
}


@pytest.mark.parametrize("secret", [KEY, "p4ss-SECRET\n", "\"'p4ss-SECRET", "é p4ss-SECRET", " p4ss-SECRET\\x "])
@pytest.mark.parametrize("spelt", SPELT)
def test_case_068_a_secret_is_known_in_each_spelling(tmp_path: Path, secret: str, spelt: str) -> None:
    with settled.Guard(f"sqlite:///{tmp_path}/j.db") as guard:

        @guard.tool(effect="write", redact=("password", "more"), attempts=1, breaker=None)
        def login(password: str, more: dict[str, int]) -> str:
            raise RuntimeError(f"bad <{SPELT[spelt](password)}> {list(more)}")

        result = login.call(secret, {secret: 1})
    shown = f"{result} {result.for_model()}".encode()
    kept = everything(tmp_path)
    assert b"bad <" in kept
    assert b"p4ss-SECRET" not in kept + shown


@pytest.mark.parametrize("coded", [base64.b64encode, base64.urlsafe_b64encode, lambda secret: secret.hex().encode()])
@pytest.mark.parametrize("secret", ["p4ssSECRET", "p4ss-SECRET?>é"])
def test_case_068_a_secret_is_known_encoded(tmp_path: Path, secret: str, coded: Callable[[bytes], bytes]) -> None:
    text = coded(secret.encode()).decode()
    with settled.Guard(f"sqlite:///{tmp_path}/j.db") as guard:

        @guard.tool(effect="write", redact=("password",), attempts=1, breaker=None)
        def login(password: str) -> str:
            raise RuntimeError(f"bad <{text}>")

        login.call(secret)
    kept = everything(tmp_path)
    assert b"bad <" in kept
    assert text.rstrip("=").encode() not in kept


def test_case_068_a_key_that_cannot_be_made_shows_no_secret(guard: settled.Guard) -> None:
    def key(password: str) -> str:
        raise ValueError(f"no key of {password}")

    @guard.tool(effect="write", redact=("password",), key=key)
    def login(password: str) -> str:
        return "in"

    shown = login.call("p4ss-SECRET").for_model()
    assert "no key of [redacted]" in shown


def test_case_068_what_a_rule_says_of_a_call_shows_no_secret(tmp_path: Path) -> None:
    with settled.Guard(f"sqlite:///{tmp_path}/j.db") as guard:

        @guard.tool(effect="write", redact=("password",), approve=lambda password: f"check {password!r}")
        def login(password: str) -> str:
            return "in"

        result = login.options(wait=0).call("p4ss-SECRET\n")
        listed = [call.reason for call in waiting(guard.journal)]
    assert (result.status, result.reason) == ("awaiting_approval", "check '[redacted]'")
    assert listed == [result.reason]
    assert b"p4ss-SECRET" not in everything(tmp_path)


@pytest.mark.parametrize("on_error", ["keep", "compensate"])
@pytest.mark.parametrize("inner", [False, True])
def test_case_068_the_reason_that_a_run_ends_with_shows_no_secret(tmp_path: Path, on_error: Any, inner: bool) -> None:
    with settled.Guard(f"sqlite:///{tmp_path}/j.db") as guard:

        @guard.tool(effect="write", redact=("password",), waiver="logging in does no harm")
        def login(password: str) -> str:
            return "in"

        def work() -> None:
            with guard.run("r", on_error=on_error), guard.run("inner") if inner else nullcontext():
                login("p4ss-SECRET\n")
                raise RuntimeError("no mail for p4ss-SECRET")

        with pytest.raises(RuntimeError, match="p4ss-SECRET"):
            work()
        record = guard.journal.run("", "r")
        assert record is not None
        assert record.reason == "RuntimeError: no mail for [redacted]"
        if on_error == "compensate":
            with pytest.raises(settled.RunUndone, match=r"no mail for \[redacted\]"), guard.run("r"):
                pass
    assert b"p4ss-SECRET" not in everything(tmp_path)


def test_case_068_a_run_undone_by_hand_shows_no_secret(guard: settled.Guard) -> None:
    @guard.tool(effect="write", redact=("password",), waiver="logging in does no harm")
    def login(password: str) -> str:
        return "in"

    with guard.run("r") as run:
        guard.dispatch("login", {"password": ["p4ss-SECRET"]})
        run.compensate("it said 'p4ss-SECRET'")
    record = guard.journal.run("", "r")
    assert record is not None
    assert record.reason == "it said '[redacted]'"


def test_case_068_neither_queue_nor_alerts_nor_findings_keep_a_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What persons write, what a receiver is told, what a ledger lists, and what its failure says."""
    from settled.api.people import findings, queue  # noqa: PLC0415 - only here
    from settled.cli import main  # noqa: PLC0415 - only here

    monkeypatch.setenv("SETTLED_JOURNAL", f"sqlite:///{tmp_path}/j.db")
    told: list[Any] = []

    class Receiver:
        name = "receiver"

        def deliver(self, notice: Any) -> None:
            told.append(notice)
            raise RuntimeError("http://user:SECRET-in-url@tool.test/")

    said = "password=p4ss-SECRET, MCP_API_KEY=SECRET-abc, Authorization: Bearer SECRET-bearer-0123456789"

    def ledger(since: object) -> Any:
        return [settled.Effect(at=4e9, key="k", ref="http://user:SECRET-in-url@tool.test/")]

    with settled.Guard(f"sqlite:///{tmp_path}/j.db", alerts=Receiver()) as guard:

        @guard.tool(effect="write", redact=("password",), breaker=None, ledger=ledger, max_request_lifetime=1.0)
        def login(user: str, password: str) -> str:
            raise TimeoutError(f"{user} {password} {said}")

        op = login.call(user="ann", password="p4ss-SECRET").operation_id
        guard.pause("login", by="ann", reason=said)
        queue.look_at(guard, op, by="ann", seconds=60.0)
        guard.postman.round()
        compared = guard.reconcile(ledger=True, since=3600.0).ledgers
        finding = findings.open_findings(guard.journal)[0]
        findings.see(guard, finding.finding_id, by="ann", reason=said)
        guard.resolve(op, "hold", by="ann", reason=said)
    for words in ("status", "queue list", f"queue show {op}", "tools list", "alerts list", "calls list"):
        assert main(words.split()) == 0
    shown = capsys.readouterr()
    kept = everything(tmp_path)
    assert told, "the receiver was told"
    for secret in PLANTED:
        assert secret.encode() not in kept
        assert secret not in str(told) + str(compared) + shown.out + shown.err
