"""How the end of an attempt is read: what was returned, what was raised, and what the tool says of it."""

from __future__ import annotations

import socket
from typing import Any

import httpx
import pytest

from settled.core.attempts.outcome import AttemptTimeout, of_signal, read
from settled.core.commands import Ended, Raised, Returned
from settled.core.model import Effect, Evidence, Fault, FaultClass, Terms
from settled.core.policy import Policy
from settled.errors import NotExecuted, PartlyDone
from tests.core.build import BUSY, REFUSED

RETRYABLE, PERMANENT, UNKNOWN = FaultClass.RETRYABLE, FaultClass.PERMANENT, FaultClass.UNKNOWN
NONE, MAYBE = Evidence.NONE, Evidence.MAYBE


class DeclinedError(Exception):
    """A tool's own refusal."""


class UnspeakableError(DeclinedError):
    """An exception that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError


def policy(effect: Effect = Effect.WRITE, *, remote_errors: str = "", **changes: Any) -> Policy:
    return Policy(Terms(effect=effect, remote_errors=remote_errors), **changes)


def said(outcome: object, declared: Policy | None = None, **how: Any) -> Fault | None:
    """What the end of an attempt is read as; an exception counts as raised."""
    wall, not_sent = how.pop("wall", None), how.pop("not_sent", False)
    made = Raised(outcome, not_sent) if isinstance(outcome, BaseException) else Returned(outcome, b"")
    ended = Ended(made, over=True, draw=0.5, at=0.0, wall=wall)
    return read(ended, declared or policy(), how.pop("clean", str), **({"attempt": 1, "doubtful": False} | how))


def told(fault: Fault | None) -> tuple[FaultClass, Evidence, str]:
    assert fault is not None
    return fault.kind, fault.evidence, fault.code


def refusal(status: int, method: str = "POST", **headers: str) -> httpx.HTTPStatusError:
    request = httpx.Request(method, "http://side.test/")
    return httpx.HTTPStatusError(
        "no", request=request, response=httpx.Response(status, request=request, headers=headers)
    )


def raising(_: object) -> Any:
    raise KeyError("total")


# --- values -------------------------------------------------------------------------------


def test_a_value_is_a_success() -> None:
    assert said("value") is None
    assert said("value", policy(verify=bool, classify=lambda _: None)) is None


def test_a_tool_may_see_a_fault_in_its_value() -> None:
    assert said("x", policy(classify=lambda value: REFUSED if value == "x" else None)) == REFUSED
    assert said("x", policy(classify=lambda _: REFUSED, verify=raising)) == REFUSED


def test_a_value_that_is_not_good_leaves_the_effect_in_doubt() -> None:
    assert said("", policy(verify=bool)) == Fault(UNKNOWN, MAYBE, "verify_failed", uncertain=True)
    assert said("", policy(verify=bool, classify=lambda _: None)) == Fault(
        UNKNOWN, MAYBE, "verify_failed", uncertain=True
    )


@pytest.mark.parametrize("looks", [{"verify": raising}, {"classify": raising}], ids=["verify", "classify"])
def test_a_look_that_fails_after_the_effect_leaves_it_in_doubt(looks: dict[str, Any]) -> None:
    message = "classify or verify raised KeyError"
    assert said("x", policy(**looks)) == Fault(UNKNOWN, MAYBE, "look_failed", message, uncertain=True)


def test_a_look_that_answers_with_anything_but_a_fault_has_failed() -> None:
    declared = policy(classify=lambda _: "no fault")  # type: ignore[arg-type,return-value]
    for outcome, message in (
        ("x", "classify or verify raised TypeError"),
        (DeclinedError(), "classify raised TypeError"),
    ):
        assert said(outcome, declared) == Fault(UNKNOWN, MAYBE, "look_failed", message, uncertain=True)


# --- exceptions ---------------------------------------------------------------------------


def test_a_tool_says_itself_that_nothing_happened() -> None:
    assert of_signal(NotExecuted("full")) == Fault(PERMANENT, NONE, "not_executed", "full")
    later = NotExecuted("full", retryable=True, retry_after=7.0)
    assert of_signal(later) == Fault(RETRYABLE, NONE, "not_executed", "full", retry_after=7.0)
    assert said(later, policy(classify=lambda _: REFUSED)) == of_signal(later)  # before any look at it


def test_a_tool_says_itself_that_a_part_was_done() -> None:
    partly = Fault(FaultClass.PARTIAL, Evidence.SOME, "partly_done", "2 done, 1 failed")
    assert said(PartlyDone([1, 2], [3])) == partly
    assert of_signal(ValueError()) is None


def test_a_tool_may_judge_its_exceptions() -> None:
    assert (
        said(DeclinedError(), policy(classify=lambda error: BUSY if isinstance(error, DeclinedError) else None)) == BUSY
    )
    assert told(said(ConnectionResetError(), policy(classify=lambda _: None)))[1:] == (MAYBE, "connection_reset")
    failed = Fault(UNKNOWN, MAYBE, "look_failed", "classify raised KeyError", uncertain=True)
    assert said(DeclinedError(), policy(classify=raising)) == failed


def test_exceptions_declared_as_not_executed_are_permanent_refusals() -> None:
    declared = policy(not_executed=(DeclinedError,))
    assert said(DeclinedError("card"), declared) == Fault(PERMANENT, NONE, "DeclinedError", "card")
    assert said(UnspeakableError(), declared) == Fault(PERMANENT, NONE, "UnspeakableError", "UnspeakableError")
    assert told(said(ConnectionResetError(), declared))[:2] == (UNKNOWN, MAYBE)
    assert told(said(DeclinedError("card")))[1] is MAYBE


def test_our_own_time_out_leaves_it_in_doubt() -> None:
    for declared in (policy(), policy(classify=lambda _: REFUSED, not_executed=(TimeoutError,))):
        assert said(AttemptTimeout("10 s"), declared) == Fault(UNKNOWN, MAYBE, "attempt_timeout", "10 s")


def test_all_else_is_read_by_the_table_of_faults() -> None:
    assert told(said(ConnectionRefusedError())) == (RETRYABLE, NONE, "connect_refused")
    assert told(said(refusal(422))) == (PERMANENT, NONE, "http_422")
    assert told(said(refusal(422), attempt=2, doubtful=True)) == (PERMANENT, MAYBE, "http_422")
    no_name = socket.gaierror(socket.EAI_NONAME, "no such name")
    assert told(said(no_name, attempt=1)) != told(said(no_name, attempt=2))
    dated = refusal(503, **{"Retry-After": "Sun, 06 Nov 1994 08:49:37 GMT"})
    fault = said(dated, wall=784111777 - 30.0)
    assert fault is not None
    assert fault.retry_after == 30.0


def test_who_keeps_refusals_under_our_key_speaks_of_the_first_try_too() -> None:
    stored = policy(Effect.DEDUPLICATED, remote_errors="stored")
    assert told(said(refusal(422), stored, attempt=2, doubtful=True)) == (PERMANENT, NONE, "http_422")


# --- what one request proves --------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "get"])
def test_a_refused_look_proves_nothing_about_what_else_was_sent(method: str) -> None:
    assert told(said(refusal(404, method))) == (PERMANENT, MAYBE, "http_404")
    assert told(said(refusal(404, method), policy(Effect.READ))) == (PERMANENT, NONE, "http_404")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_a_refused_change_proves_that_it_was_not_made(method: str) -> None:
    assert told(said(refusal(404, method))) == (PERMANENT, NONE, "http_404")


def test_one_of_several_requests_proves_nothing_about_the_others() -> None:
    assert told(said(ConnectionRefusedError(), policy(several=True))) == (UNKNOWN, MAYBE, "connect_refused")
    assert told(said(refusal(422), policy(several=True))) == (PERMANENT, MAYBE, "http_422")
    assert told(said(ConnectionRefusedError(), policy(Effect.READ, several=True))) == (
        RETRYABLE,
        NONE,
        "connect_refused",
    )
    group = ExceptionGroup("two", [ConnectionRefusedError()])
    assert told(said(group))[:2] == (UNKNOWN, MAYBE)
    assert told(said(group, policy(Effect.READ)))[:2] == (RETRYABLE, NONE)
    assert told(said(ConnectionResetError(), policy(several=True))) == told(said(ConnectionResetError()))


def test_an_exception_without_its_request_is_read_all_the_same() -> None:
    assert told(said(httpx.ConnectError("x"))) == (RETRYABLE, NONE, "connect_failed")
    bare = DeclinedError()
    bare.request = None  # type: ignore[attr-defined]
    assert told(said(bare))[1] is MAYBE


# --- never sent, and secrets --------------------------------------------------------------


def test_what_was_never_sent_was_not_done() -> None:
    assert told(said(ConnectionResetError(), not_sent=True)) == (RETRYABLE, NONE, "connection_reset")
    assert told(said(refusal(409), not_sent=True)) == (PERMANENT, NONE, "http_409")
    assert told(said(refusal(422), not_sent=True)) == (PERMANENT, NONE, "http_422")
    partly = said(PartlyDone([1], [2]), not_sent=True)
    assert told(partly)[1] is Evidence.SOME


def test_messages_are_cleaned_of_secrets() -> None:
    def clean(text: str) -> str:
        return text.replace("tok_1", "[secret]")

    for error in (NotExecuted("bad tok_1"), AttemptTimeout("bad tok_1")):
        fault = said(error, clean=clean)
        assert fault is not None
        assert fault.message == "bad [secret]"
    assert said("", policy(verify=bool), clean=raising) is not None  # an empty message holds none
