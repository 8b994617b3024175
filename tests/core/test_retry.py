"""Whether an attempt that failed is made again, after how long and at what cost."""

from __future__ import annotations

from typing import Any

import pytest

from settled.core.attempts.backoff import Backoff
from settled.core.attempts.retry import Again, Stop, Tries, plan, why
from settled.core.model import Effect, Evidence, Fault, FaultClass, Terms
from settled.core.policy import Limits, Policy
from settled.core.values import replace
from tests.core.build import BUSY, LOST, REFUSED

SAFE = [Effect.READ, Effect.IDEMPOTENT, Effect.DEDUPLICATED]
UNSAFE = [Effect.WRITE, Effect.TRANSACTIONAL]
THROTTLED = replace(BUSY, throttled=True)
STALE = Fault(FaultClass.PERMANENT, Evidence.NONE, "http_401", refresh=True)


def policy(effect: Effect = Effect.IDEMPOTENT, **changes: Any) -> Policy:
    return Policy(Terms(effect=effect), backoff=Backoff(base=1.0, throttled_base=2.0), **changes)


def planned(fault: Fault, declared: Policy | None = None, limits: Limits | None = None, **tries: Any) -> Again | Stop:
    made = {"made": 1, "at": 10.0, "draw": 0.5} | tries
    return plan(fault, declared or policy(), limits or Limits(), Tries(**made))


def test_a_repeat_waits_for_a_drawn_part_of_a_time_that_doubles() -> None:
    waits = [planned(LOST, policy(attempts=9), made=made) for made in (1, 2, 3)]
    assert waits == [Again(0.5, 1.0), Again(1.0, 1.0), Again(2.0, 1.0)]
    assert planned(LOST, draw=0.25) == Again(0.25, 1.0)


def test_what_the_other_side_asks_for_is_waited_for() -> None:
    assert planned(replace(BUSY, retry_after=40.0), draw=0.0) == Again(40.0, 0.0)
    assert planned(THROTTLED) == Again(1.0, 0.35)


def test_the_first_repeat_of_what_was_proved_not_done_is_free() -> None:
    assert planned(BUSY) == Again(0.5, 0.0)
    assert planned(BUSY, made=2) == Again(1.0, 1.0)
    assert planned(LOST) == Again(0.5, 1.0)
    assert planned(THROTTLED, made=2) == Again(2.0, 0.35)


@pytest.mark.parametrize("kind", [FaultClass.PERMANENT, FaultClass.INVALID, FaultClass.PARTIAL, FaultClass.CANCELLED])
def test_what_a_repeat_cannot_help_is_not_repeated(kind: FaultClass) -> None:
    assert planned(Fault(kind, Evidence.NONE, "x")) == Stop(kind.value)


def test_a_doubt_is_repeated_only_where_twice_does_no_harm() -> None:
    for effect in SAFE:
        assert planned(LOST, policy(effect)) == Again(0.5, 1.0)
        assert planned(BUSY, policy(effect), doubtful=True) == Again(0.5, 0.0)
    for effect in UNSAFE:
        assert planned(LOST, policy(effect)) == Stop("in_doubt")
        assert planned(BUSY, policy(effect), doubtful=True) == Stop("in_doubt")
        assert planned(BUSY, policy(effect)) == Again(0.5, 0.0)


def test_attempts_are_counted() -> None:
    assert planned(BUSY, policy(attempts=3), made=2) == Again(1.0, 1.0)
    for made in (3, 4):
        assert planned(BUSY, policy(attempts=3), made=made) == Stop("attempts")


def test_what_nobody_can_judge_is_tried_three_times_at_most() -> None:
    uncertain = replace(LOST, uncertain=True)
    assert planned(uncertain, policy(attempts=9), made=2) == Again(1.0, 1.0)
    assert planned(uncertain, policy(attempts=9), made=3) == Stop("uncertain")
    assert planned(LOST, policy(attempts=9), made=3) == Again(2.0, 1.0)


def test_credentials_are_refreshed_once_and_at_once() -> None:
    assert planned(STALE, policy(refresh=True)) == Again(0.0, 1.0, refresh=True)
    assert planned(STALE, policy(Effect.WRITE, refresh=True), doubtful=True) == Again(0.0, 1.0, refresh=True)
    assert planned(STALE, policy(refresh=True), refreshed=True) == Stop("permanent")
    assert planned(STALE, policy()) == Stop("permanent")
    assert planned(STALE, policy(refresh=True, attempts=1)) == Stop("attempts")
    assert planned(STALE, policy(refresh=True, attempts=2), made=2) == Stop("attempts")


@pytest.mark.parametrize(("deadline", "fits"), [(10.4, False), (10.5, False), (10.6, True)])
def test_a_wait_beyond_the_deadline_is_not_slept(deadline: float, fits: bool) -> None:
    assert planned(BUSY, limits=Limits(deadline)) == (Again(0.5, 0.0) if fits else Stop("deadline", park=0.5))


def test_without_a_deadline_no_hint_is_slept_for_hours_but_a_declared_wait_is() -> None:
    asked = replace(BUSY, retry_after=121.0)
    assert planned(replace(asked, retry_after=120.0), draw=0.0) == Again(120.0, 0.0)
    assert planned(asked, draw=0.0) == Stop("deadline", park=121.0)
    assert planned(asked, replace(policy(), backoff=Backoff(cap=200.0)), draw=0.0) == Again(121.0, 0.0)


def test_what_is_in_doubt_is_not_parked() -> None:
    assert planned(LOST, limits=Limits(10.0), doubtful=True) == Stop("deadline", park=None)


def test_a_repeat_that_overruns_the_token_window_is_not_made() -> None:
    assert planned(BUSY, limits=Limits(tokens=lambda: False)) == Stop("token_window")
    assert planned(BUSY, limits=Limits(tokens=lambda: True)) == Again(0.5, 0.0)


@pytest.mark.parametrize("reason", ["attempts", "in_doubt", "uncertain", "permanent", "invalid", "partial"])
def test_a_reason_that_lies_in_the_fault_is_told_by_its_code(reason: str) -> None:
    assert why(REFUSED, Stop(reason)) == "http_422"
    assert why(None, Stop(reason)) == ""


def test_a_stop_by_the_kind_of_the_fault_is_told_by_its_code() -> None:
    taken_over = Fault(FaultClass.CANCELLED, Evidence.NONE, "control_flow")
    assert why(taken_over, Stop("cancelled")) == "control_flow"
    assert why(BUSY, Stop("cancelled")) == "cancelled"  # its asker has gone


def test_any_other_reason_is_told_as_it_is() -> None:
    assert why(BUSY, Stop("deadline")) == "deadline"
    assert why(None, Stop("cancelled")) == "cancelled"
    assert why(BUSY, Again(1.0, 1.0)) == "http_503"
    assert why(None, Again(1.0, 1.0)) == ""
