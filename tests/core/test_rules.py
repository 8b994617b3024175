"""The small rules, each by itself and at its edges."""

from __future__ import annotations

import pytest

from settled.core import rules
from settled.core.model import Effect, Evidence, Fault, FaultClass, Standing, Terms
from settled.core.states import State
from tests.core.build import BUSY, LOST, REFUSED, at, attempt, call

OPEN, NONE, MAYBE, DONE = Standing.OPEN, Standing.NONE, Standing.MAYBE, Standing.DONE


def test_an_owner_with_another_epoch_is_fenced() -> None:
    assert not rules.fenced(call(epoch=3), 3)
    assert rules.fenced(call(epoch=3), 2)
    assert rules.fenced(call(epoch=3), 4)


@pytest.mark.parametrize(("now", "over"), [(at(29.9), False), (at(30), True), (at(31), True)])
def test_a_lease_ends_by_the_clock_that_never_jumps(now: object, over: bool) -> None:
    assert rules.lease_over(call(), now) is over


def test_a_wall_clock_that_jumps_ends_no_lease() -> None:
    assert not rules.lease_over(call(), at(5, wall=9e12))
    assert rules.lease_over(call(), at(31, wall=0))


def test_another_boot_ends_every_lease() -> None:
    assert rules.lease_over(call(), at(5, boot="boot-2"))


@pytest.mark.parametrize(
    ("effect", "repeatable"),
    [(Effect.READ, True), (Effect.IDEMPOTENT, True), (Effect.WRITE, False), (Effect.TRANSACTIONAL, False)],
)
def test_what_may_be_repeated_in_doubt(effect: Effect, repeatable: bool) -> None:
    assert rules.repeatable(call(terms={"effect": effect}), at(1)) is repeatable


@pytest.mark.parametrize(("seconds", "repeatable"), [(0, True), (54, True), (55, False), (100, False)])
def test_a_deduplicated_tool_while_the_other_side_remembers(seconds: float, repeatable: bool) -> None:
    terms = {"effect": Effect.DEDUPLICATED, "remote_retention": 100.0, "timeout": 15.0, "lifetime": 30.0}
    assert rules.repeatable(call(State.UNKNOWN, attempt(), terms=terms), at(seconds)) is repeatable


def test_a_deduplicated_tool_across_boots_counts_by_the_wall_clock() -> None:
    terms = {"effect": Effect.DEDUPLICATED, "remote_retention": 100.0}
    made = call(State.UNKNOWN, attempt(), terms=terms)
    assert rules.repeatable(made, at(5, boot="boot-2", wall=made.first_intent.wall + 99))
    assert not rules.repeatable(made, at(5, boot="boot-2", wall=made.first_intent.wall + 100))


def test_within_one_boot_a_wall_clock_that_jumps_is_not_asked() -> None:
    made = call(State.UNKNOWN, attempt(), terms={"effect": Effect.DEDUPLICATED, "remote_retention": 100.0})
    assert rules.repeatable(made, at(99, wall=9e12))
    assert not rules.repeatable(made, at(100, wall=made.first_intent.wall))


def test_without_a_known_retention_nothing_is_remembered() -> None:
    assert not rules.repeatable(call(terms={"effect": Effect.DEDUPLICATED}), at(0))


def test_an_attempt_is_over_when_its_function_returned_or_its_lifetime_passed() -> None:
    limited = call(terms={"attempt_lifetime": 10.0})
    assert rules.is_over(attempt(standing=MAYBE), limited, at(1))
    assert not rules.is_over(attempt(), limited, at(9.9))
    assert rules.is_over(attempt(), limited, at(10))
    assert not rules.is_over(attempt(), limited, at(10, boot="boot-2"))
    assert not rules.is_over(attempt(), call(), at(1e9))


def test_all_are_over_when_none_can_do_anything_more() -> None:
    assert rules.all_over(call(State.UNKNOWN, attempt(1, NONE, over=None), attempt(2, MAYBE)), at(5))
    assert not rules.all_over(call(State.UNKNOWN, attempt(1, MAYBE), attempt(2, MAYBE, over=None)), at(5))


LIFE = {"lifetime": 30.0}


def test_proof_needs_the_lifetime_after_the_last_doubtful_attempt_was_over() -> None:
    made = call(State.UNKNOWN, attempt(1, MAYBE, over=at(5)), attempt(2, MAYBE, over=at(8)), terms=LIFE)
    since = rules.proof_time(made, at(10))
    assert since is not None
    assert since.mono == 38
    assert not rules.proves_absence(made, at(37.9), at(40))
    assert rules.proves_absence(made, at(38), at(40))


def test_a_probe_that_began_before_does_not_ripen() -> None:
    made = call(State.UNKNOWN, attempt(1, MAYBE, over=at(0)), terms=LIFE)
    assert not rules.proves_absence(made, at(29), at(1000))


def test_no_proof_while_an_attempt_may_still_run() -> None:
    made = call(State.UNKNOWN, attempt(1, MAYBE, over=None), terms=LIFE)
    assert rules.proof_time(made, at(1000)) is None
    assert not rules.proves_absence(made, at(1000), at(1000))


def test_no_proof_without_a_lifetime() -> None:
    assert rules.proof_time(call(State.UNKNOWN, attempt(1, MAYBE)), at(1000)) is None


def test_no_proof_on_the_clock_of_another_boot() -> None:
    made = call(State.UNKNOWN, attempt(1, MAYBE, over=at(5)), terms=LIFE)
    assert rules.proof_time(made, at(1000, boot="boot-2")) is None
    assert not rules.proves_absence(made, at(1000, boot="boot-2"), at(1000, boot="boot-2"))


def test_proof_counts_from_the_end_of_a_declared_attempt_lifetime() -> None:
    made = call(State.UNKNOWN, attempt(1, MAYBE, over=None), terms={"lifetime": 30.0, "attempt_lifetime": 10.0})
    since = rules.proof_time(made, at(50))
    assert since is not None
    assert since.mono == 40


def test_where_nothing_is_in_doubt_any_probe_is_proof() -> None:
    assert rules.proves_absence(call(State.UNKNOWN, attempt(1, NONE), terms=LIFE), at(0), at(0))


def test_a_write_begins_again_only_when_nothing_is_in_doubt() -> None:
    assert rules.may_begin(call(State.NOT_DONE, attempt(1, NONE)), at(2))
    assert not rules.may_begin(call(State.UNKNOWN, attempt(1, MAYBE)), at(2))
    assert not rules.may_begin(call(State.NOT_DONE, attempt(1, MAYBE, over=None)), at(2))
    assert rules.may_begin(call(State.UNKNOWN, attempt(1, MAYBE), terms={"effect": Effect.IDEMPOTENT}), at(2))


@pytest.mark.parametrize(
    ("effect", "standings", "final", "state"),
    [
        (Effect.WRITE, (MAYBE,), False, State.UNKNOWN),
        (Effect.WRITE, (MAYBE, NONE), True, State.UNKNOWN),
        (Effect.WRITE, (NONE,), True, State.FAILED),
        (Effect.WRITE, (NONE,), False, State.NOT_DONE),
        (Effect.IDEMPOTENT, (MAYBE, NONE), True, State.UNKNOWN),
        (Effect.READ, (MAYBE,), False, State.NOT_DONE),
        (Effect.READ, (MAYBE,), True, State.FAILED),
    ],
)
def test_where_a_call_stands_when_its_owner_stops(
    effect: Effect, standings: tuple[Standing, ...], final: bool, state: State
) -> None:
    attempts = [attempt(no, standing) for no, standing in enumerate(standings, 1)]
    assert rules.closing_state(call(State.PROCESSING, *attempts, terms={"effect": effect}), final=final) is state


STORED = {"effect": Effect.DEDUPLICATED, "remote_errors": "stored"}


def test_only_an_answer_from_the_other_sides_key_store_clears_doubt() -> None:
    stored = call(terms=STORED)
    assert rules.clears(stored, REFUSED)
    assert not rules.clears(call(terms={"effect": Effect.DEDUPLICATED}), REFUSED)
    assert not rules.clears(call(terms={"remote_errors": "stored"}), REFUSED)
    for fault in (BUSY, LOST):
        assert not rules.clears(stored, fault)


@pytest.mark.parametrize("flag", ["refresh", "throttled", "local", "own_success", "in_progress"])
def test_a_refusal_at_the_door_clears_nothing(flag: str) -> None:
    fault = Fault(FaultClass.PERMANENT, Evidence.NONE, "x", **{flag: True})
    assert not rules.clears(call(terms=STORED), fault)
    assert not rules.clears(call(terms=STORED), Fault(FaultClass.PERMANENT, Evidence.MAYBE, "x"))


def test_a_bound_declared_since_then_fills_in_a_missing_one() -> None:
    made = call(State.UNKNOWN, attempt(1, MAYBE, over=at(5)))
    later = rules.under(made, Terms(lifetime=3.0, attempt_lifetime=9.0))
    assert (later.terms.lifetime, later.terms.attempt_lifetime) == (3.0, 9.0)
    assert rules.proves_absence(later, at(8), at(8))
    kept = call(State.UNKNOWN, attempt(1, MAYBE, over=at(5)), terms={"lifetime": 30.0, "attempt_lifetime": 7.0})
    assert rules.under(kept, Terms(lifetime=3.0, attempt_lifetime=9.0)) == kept
    assert rules.under(made, None) is made
