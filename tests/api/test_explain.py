"""What a record means in words: why it waits, what may be decided, when a probe is proof."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from settled.api.people import explain, facts
from settled.core.model import Effect, Standing
from settled.core.states import State
from tests.core.build import LOST, at, attempt, call

DOUBTFUL = attempt(1, Standing.MAYBE, fault=LOST)
PROBED = {"lifetime": 10.0, "probed": True}


def unknown(*attempts, **changes):
    return call(State.UNKNOWN, *(attempts or (DOUBTFUL,)), **changes)


# --- what waits ---


@pytest.mark.parametrize(
    ("record", "now", "kind"),
    [
        (unknown(), 2, "unknown"),
        (unknown(held=True), 2, "unknown"),
        (call(State.PROCESSING, attempt()), 29, None),
        (call(State.PROCESSING, attempt()), 30, "orphan"),
        (call(State.PROCESSING, attempt(1, Standing.NONE)), 30, None),
        (call(State.PROCESSING, attempt(), terms={"effect": Effect.READ}), 30, None),
        (call(State.SUCCEEDED, attempt(1, Standing.DONE)), 30, None),
        (call(State.FAILED, attempt(1, Standing.DONE), disputed=True), 30, "disputed"),
        (call(State.FAILED, attempt(1, Standing.DONE), disputed=True, held=True), 30, None),
        (call(State.NOT_DONE, attempt(1, Standing.NONE)), 30, None),
    ],
)
def test_what_waits_for_a_person(record, now, kind):
    assert explain.waiting(record, at(now)) == kind
    assert bool(explain.choices(record, at(now))) is (kind is not None)
    assert bool(explain.brief(record, at(now))) is (kind is not None)
    assert explain.why(record, at(now))


def test_why_names_each_attempt_in_doubt_and_leaves_the_others_out():
    refused, lost = attempt(1, Standing.NONE), attempt(3, Standing.OPEN)
    text = explain.why(unknown(refused, attempt(2, Standing.MAYBE, fault=LOST), lost), at(5))
    assert "attempt 1" not in text
    assert "attempt 2 ended with read_timeout: lost" in text
    assert "attempt 3 began, and its process was lost" in text


def test_why_tells_what_ended_the_attempts_and_who_holds_it():
    record = unknown(reason="deadline")
    assert "no time was left for another attempt" in explain.why(record, at(5))
    held = unknown(held=True, decided="person:Ada", reason="the bank is asked")
    assert explain.why(held, at(5)).endswith("Ada holds it as it is: the bank is asked")


def test_why_tells_what_speaks_against_a_record():
    both = (attempt(1, Standing.DONE), attempt(2, Standing.DONE))
    twice = call(State.SUCCEEDED, *both, disputed=True, decided="answer")
    assert "attempts 1 and 2 both had their effect" in explain.why(twice, at(5))
    failed = call(State.FAILED, attempt(1, Standing.DONE), disputed=True, decided="person:Ada")
    assert "recorded as failed (by Ada)" in explain.why(failed, at(5))
    assert "attempt 1 had its effect" in explain.why(failed, at(5))
    assert "see its attempts" in explain.why(call(State.FAILED, disputed=True), at(5))


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (call(State.PROCESSING, attempt()), "under way"),
        (call(State.PARKED, attempt(1, Standing.NONE)), "tried again later"),
        (call(State.SUCCEEDED, decided="probe"), "succeeded (by the tool's probe)"),
        (call(State.SUCCEEDED, decided="late"), "by an answer that came late"),
        (call(State.NOT_DONE, decided="owner_lost"), "before anything was sent"),
        (call(State.FAILED, decided="person:Ada", reason="seen"), "failed (by Ada): seen"),
        (call(State.EXPIRED), "recorded as expired"),
    ],
)
def test_how_a_call_stands_that_waits_for_nobody(record, words):
    assert words in explain.why(record, at(1))


# --- proof ---


@pytest.mark.parametrize(
    ("record", "now", "ready", "since", "words"),
    [
        (unknown(), at(99), False, None, "never"),
        (unknown(terms=PROBED), at(5), False, 1_000_011.0, "once"),
        (unknown(terms=PROBED), at(10.9), False, 1_000_011.0, "once"),
        (unknown(terms=PROBED), at(11), True, 1_000_011.0, "now"),
        (unknown(attempt(), terms=PROBED), at(99), False, None, "attempt 1 is not known to be over"),
        (unknown(terms=PROBED), at(5, boot="boot-2"), False, None, "started anew"),
        (unknown(attempt(), terms={**PROBED, "attempt_lifetime": 20.0}), at(30), True, 1_000_030.0, "now"),
    ],
)
def test_when_a_negative_probe_is_proof(record, now, ready, since, words):
    proof = explain.proof(record, now)
    assert (proof.ready, proof.since) == (ready, since)
    assert words in proof.why


@pytest.mark.parametrize(
    ("record", "now", "is_open", "asserted"),
    [
        (unknown(), 5, False, True),
        (unknown(terms=PROBED), 5, False, True),
        (unknown(terms=PROBED), 11, True, False),
    ],
)
def test_did_not_happen_is_open_when_it_could_be_proved(record, now, is_open, asserted):
    happened, absent, hold = explain.choices(record, at(now))
    assert (absent.verdict, absent.open, absent.asserted) == ("did_not_happen", is_open, asserted)
    assert (happened.verdict, happened.open, happened.asserted) == ("happened", True, True)
    assert (hold.verdict, hold.open, hold.asserted) == ("hold", True, False)


@pytest.mark.parametrize(
    ("one", "now", "alive", "words"),
    [
        (attempt(1, Standing.MAYBE, fault=LOST), 5, None, "what it sent before may still arrive"),
        (attempt(), 5, True, "its process lives"),
        (attempt(), 5, False, "its process is dead"),
        (attempt(), 5, None, "cannot be seen from here"),
        (attempt(), 20, True, "its declared lifetime has passed"),
    ],
)
def test_whether_anything_can_still_come_of_an_attempt(one, now, alive, words):
    record = unknown(one, terms={"attempt_lifetime": 20.0})
    assert words in explain.still_at_work(one, record, at(now), alive)


@pytest.mark.parametrize("standing", list(Standing))
def test_every_standing_has_words(standing):
    assert explain.evidence(attempt(1, standing), unknown(attempt(1, standing)))


def test_a_persons_word_is_not_called_proof():
    one = attempt(1, Standing.NONE, fault=LOST)
    asserted = unknown(one, asserted=True, decided="person:ann")
    assert explain.evidence(one, asserted) == "ann said: nothing was done"


def test_a_repeat_that_does_no_harm_is_said_to_settle_it():
    assert explain.repeatable(unknown(terms={"effect": Effect.IDEMPOTENT}), at(5))
    assert not explain.repeatable(unknown(), at(5))
    assert not explain.repeatable(call(State.SUCCEEDED, terms={"effect": Effect.IDEMPOTENT}), at(5))


# --- facts ---


def test_times_are_in_utc():
    row = facts.of_call(unknown(), at(5))
    assert datetime.fromisoformat(row["created"]) == datetime.fromtimestamp(1_000_000, UTC)
    assert facts.when(None) is None


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (datetime(2030, 1, 2, tzinfo=UTC), "2030-01-02T00:00:00Z"),
        (b"\xff", "_w=="),
        ({1}, [1]),
        ([float("inf"), {"x": float("nan")}], ["inf", {"x": "nan"}]),
        ({1: (2.5, None, True)}, {"1": [2.5, None, True]}),
        (Decimal("1.50"), "1.50"),
        ("\ud800", "\ud800"),
        (10**30, 10**30),
        (1 + 2j, "1+2j"),
    ],
)
def test_values_become_plain_json(value, shown):
    assert facts.plain(value) == shown
    assert json.loads(json.dumps(facts.plain(value), allow_nan=False)) == shown
