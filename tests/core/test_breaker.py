"""When a failing tool is left alone for a while."""

import json
import math
import random
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from settled.core.attempts.breaker import Admission, Breaker, Rejection, State, admit, verdict_of
from settled.core.attempts.threshold import BreakerPolicy, longest_run, wilson_lower
from settled.core.model import Evidence, Fault, FaultClass
from tests.core.raised import raised

MIDDLE = 0.5  # the draw at which a cool-down has its plain length


def call(breaker, verdict, now, draw=MIDDLE):
    """One call from admission to its end; the new state if that changed it."""
    ticket = breaker.take(now)
    assert not isinstance(ticket, Rejection)
    return breaker.record(ticket, verdict, now, draw)


def tripped(now=0.0, policy=None, draw=MIDDLE):
    breaker = Breaker("tool:pay", policy or BreakerPolicy.static(failures=3))
    while call(breaker, "failure", now, draw) is None:
        pass
    return breaker


def half_open():
    """A breaker whose probe is out since second 5."""
    breaker = tripped()
    return breaker, breaker.take(5.0)


def shown(breaker, now):
    """All that is known of its counts and state, but for the generation and the end of a lease."""
    return {name: value for name, value in breaker.snapshot(now).items() if name not in ("generation", "wait")}


# ---- thresholds


@pytest.mark.parametrize(("failures", "calls"), [(3, 3), (3, 4), (5, 8), (8, 16), (10, 20), (38, 100)])
def test_shares_that_trip_at_30_percent(failures, calls):
    assert wilson_lower(failures, calls) >= 0.30
    assert BreakerPolicy(window=100).trips(failures, calls, run=0, usual=0.05)


@pytest.mark.parametrize(("failures", "calls"), [(3, 5), (4, 8), (9, 20), (37, 100), (2, 2), (0, 0)])
def test_shares_that_do_not_trip_at_30_percent(failures, calls):
    assert not BreakerPolicy(window=100).trips(failures, calls, run=0, usual=0.05)


def test_the_lower_bound_by_values_worked_out_elsewhere():
    assert wilson_lower(0, 0) == wilson_lower(0, 20) == 0
    assert wilson_lower(1, 1) == pytest.approx(1 / (1 + 1.64**2))
    assert wilson_lower(3, 3) == pytest.approx(0.5273, abs=1e-4)
    assert wilson_lower(12, 16) == pytest.approx(0.5459, abs=1e-4)


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_lower_bound_is_below_the_share_and_grows_with_certainty(numbers):
    failures, calls = numbers
    bound = wilson_lower(failures, calls)
    assert 0 <= bound <= failures / calls
    assert bound <= wilson_lower(2 * failures, 2 * calls) + 1e-12
    if failures < calls:
        assert bound < wilson_lower(failures + 1, calls)


@pytest.mark.parametrize(("usual", "threshold"), [(0, 0.30), (0.05, 0.30), (0.10, 0.35), (0.25, 0.50), (0.9, 0.50)])
def test_the_threshold_follows_the_usual_rate_within_30_to_50_percent(usual, threshold):
    assert BreakerPolicy().threshold(usual) == pytest.approx(threshold)


@pytest.mark.parametrize(("usual", "run"), [(0, 3), (0.01, 3), (0.05, 4), (0.2, 7), (0.5, 18)])
def test_a_run_of_failures_is_judged_by_the_usual_rate(usual, run):
    assert longest_run(usual) == run
    policy = BreakerPolicy()
    assert not policy.trips(0, 0, run=run - 1, usual=usual)
    assert policy.trips(0, 0, run=run, usual=usual)


@given(st.floats(0, 1))
def test_a_run_has_a_finite_bound_for_any_rate(usual):
    assert 3 <= longest_run(usual) < 10_000


def test_fixed_thresholds_by_run():
    breaker = Breaker(policy=BreakerPolicy.static(failures=5))
    ends = [call(breaker, "failure", 0.0) for _ in range(4)]
    assert ends == [None] * 4
    call(breaker, "success", 0.0)
    ends = [call(breaker, "failure", 0.0) for _ in range(5)]
    assert ends == [None] * 4 + [State.OPEN]


def test_fixed_thresholds_by_rate_open_at_80_percent_failing():
    """Four bad, one good: counting failures in a row never opens it."""
    breaker = Breaker(policy=BreakerPolicy.static(failures=5, rate=0.55, window=20, least=10))
    verdicts = ["failure"] * 4 + ["success"]
    ends = [call(breaker, verdicts[i % 5], 0.0) for i in range(11)]
    assert ends == [None] * 10 + [State.OPEN]


def test_a_fixed_rate_is_met_exactly():
    policy = BreakerPolicy.static(failures=None, rate=0.55)
    assert policy.trips(11, 20, run=11, usual=0.05)
    assert not policy.trips(10, 20, run=10, usual=0.05)
    assert not policy.trips(9, 9, run=9, usual=0.05)


def test_fixed_thresholds_take_every_number_given():
    given = {
        "failures": 7,
        "rate": 0.5,
        "window": 30,
        "seconds": 5.0,
        "least": 9,
        "cooldown": 2.0,
        "longest_cooldown": 8.0,
        "lease": 4.0,
    }
    policy = BreakerPolicy.static(**given)
    assert {name: getattr(policy, name) for name in given} == given
    assert policy.adaptive is False


def test_fixed_thresholds_by_default():
    policy = BreakerPolicy.static()
    assert (policy.failures, policy.rate, policy.window, policy.seconds, policy.least) == (5, None, 20, 60.0, 10)
    assert (policy.cooldown, policy.longest_cooldown, policy.lease) == (5.0, 60.0, 30.0)


def test_the_least_and_the_largest_numbers_are_accepted():
    small = BreakerPolicy.static(failures=1, rate=1.0, window=1, least=1, seconds=0.5, cooldown=0.1, lease=0.1)
    assert call(Breaker(policy=small), "failure", 0.0) is State.OPEN


def test_a_breaker_that_never_trips_is_refused():
    with pytest.raises(ValueError, match=r"^a breaker needs failures= or rate="):
        BreakerPolicy.static(failures=None)


@pytest.mark.parametrize(
    "wrong",
    [
        *({name: value} for name in ("seconds", "cooldown", "longest_cooldown", "lease") for value in (0, math.inf)),
        {"window": 0},
        {"least": 0},
        {"least": 21},
        {"failures": 0},
        {"rate": 0.0},
        {"rate": 1.1},
    ],
)
def test_numbers_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        BreakerPolicy(**wrong)


# ---- closed


def test_a_dead_tool_that_is_not_known_yet_trips_at_the_third_call():
    breaker = Breaker()
    assert [call(breaker, "failure", t) for t in (0.0, 1.0, 2.0)] == [None, None, State.OPEN]
    assert breaker.state(2.0) is State.OPEN


def test_closed_admits_everybody():
    breaker = Breaker()
    assert breaker.look(0.0) == Admission(probe=False)
    assert len({breaker.take(0.0) for _ in range(50)}) == 1


def test_outcomes_older_than_the_window_do_not_count():
    breaker = Breaker(policy=BreakerPolicy.static(failures=None, rate=0.5, least=3))
    call(breaker, "failure", 0.0)
    call(breaker, "failure", 1.0)
    call(breaker, "success", 2.0)
    assert call(breaker, "failure", 61.5) is None  # in the window: the success, this failure
    assert breaker.describe(61.5).startswith("1 of 2 failed")
    assert call(breaker, "failure", 61.6) is State.OPEN


def test_only_the_last_calls_of_the_window_count():
    breaker = Breaker(policy=BreakerPolicy.static(failures=99, window=20))
    for verdict in ["failure"] * 15 + ["success"] * 10 + ["failure"] * 3 + ["success"] * 4:
        call(breaker, verdict, 0.0)
    assert breaker.describe(0.0).startswith("6 of 20 failed: ")


@pytest.mark.parametrize("which", range(45))
def test_each_outcome_counts_for_a_whole_window_and_no_longer(which):
    breaker = Breaker(policy=BreakerPolicy.static(failures=99, window=20))
    for i in range(45):
        call(breaker, "failure" if i == which else "success", 0.0)
        seen = min(i + 1, 20)
        assert breaker.describe(0.0).startswith(f"{int(0 <= i - which < 20)} of {seen} failed: ")


def test_a_window_does_not_grow_with_the_calls():
    breaker = Breaker(policy=BreakerPolicy.static(failures=10**6))
    for i in range(5000):
        call(breaker, "failure", i * 0.001)
    assert breaker._bits.bit_length() <= 40


def test_a_run_of_failures_counts_however_rare_the_calls_are():
    breaker = Breaker()
    ends = [call(breaker, "failure", 3600.0 * hour) for hour in range(4)]
    assert ends == [None] * 3 + [State.OPEN]


def test_the_usual_rate_is_learned_in_calm_times():
    breaker, dice = Breaker(), random.Random(1)
    for i in range(4000):
        call(breaker, "failure" if i % 8 == 0 else "success", i * 0.1, dice.random())
    assert breaker.snapshot(400.0)["usual"] == pytest.approx(1 / 8, abs=0.02)


def test_an_outage_does_not_become_usual():
    breaker = Breaker(policy=BreakerPolicy.static(failures=10**6))  # so that nothing stops the calls
    for i in range(1000):
        call(breaker, "failure", i * 0.1)
    assert breaker.snapshot(100.0)["usual"] < 0.06


def test_a_success_in_an_outage_does_not_count_as_calm():
    breaker = Breaker(policy=BreakerPolicy.static(failures=10**6))
    for i in range(200):
        call(breaker, "failure" if i % 2 else "success", i * 0.1)
    learned = breaker.snapshot(20.0)["usual"]
    for i in range(200):
        call(breaker, "failure" if i % 2 else "success", 20 + i * 0.1)
    assert breaker.snapshot(40.0)["usual"] == learned


def test_learning_goes_on_once_it_is_calm_again():
    breaker = Breaker(policy=BreakerPolicy.static(failures=99))
    for _ in range(5):
        call(breaker, "failure", 0.0)
    learned = breaker.snapshot(0.0)["usual"]
    for _ in range(5):
        call(breaker, "success", 0.0)
    assert breaker.snapshot(0.0)["usual"] == learned  # five of ten: no calm yet
    for _ in range(30):
        call(breaker, "success", 0.0)
    assert breaker.snapshot(0.0)["usual"] < learned


@pytest.mark.parametrize("calls", [3, 20])
def test_an_outcome_of_exactly_the_windows_age_is_too_old(calls):
    breaker = Breaker(policy=BreakerPolicy.static(failures=99))
    for _ in range(calls):
        call(breaker, "failure", 0.0)
    assert breaker.describe(59.9).startswith(f"{calls} of {calls} failed")
    assert breaker.describe(60.0).startswith("no calls")


# ---- open and half-open


def test_open_rejects_until_the_cooldown_is_over():
    breaker = tripped(now=100.0)
    assert breaker.look(100.0) == breaker.take(100.0) == Rejection(5.0, "tool:pay")
    assert breaker.take(104.5) == Rejection(0.5, "tool:pay")
    assert breaker.state(104.9) is State.OPEN
    assert breaker.state(105.0) is State.HALF_OPEN
    assert breaker.look(105.0) == Admission(probe=True)


@pytest.mark.parametrize(("draw", "seconds"), [(0.0, 4.0), (0.25, 4.5), (0.5, 5.0), (1 - 2**-53, 6.0)])
def test_the_cooldown_varies_by_a_fifth(draw, seconds):
    assert tripped(draw=draw).look(0.0).retry_after == pytest.approx(seconds)


def test_each_trip_soon_after_the_last_doubles_the_cooldown_up_to_a_minute():
    breaker, now, pauses = tripped(), 0.0, []
    for _ in range(7):
        pauses.append(breaker.look(now).retry_after)
        now += pauses[-1]
        assert call(breaker, "failure", now) is State.OPEN
    assert pauses == pytest.approx([5, 10, 20, 40, 60, 60, 60])


def test_a_cooldown_never_overflows():
    policy = BreakerPolicy(cooldown=1e308, longest_cooldown=60.0)
    assert policy.pause(10**9, 0.5) == pytest.approx(60.0)


def test_a_trip_in_the_first_window_after_closing_goes_on_where_the_last_ended():
    breaker = tripped()
    assert call(breaker, "success", 5.0) is State.CLOSED
    for _ in range(3):
        call(breaker, "failure", 30.0)
    assert breaker.look(30.0).retry_after == pytest.approx(10.0)


@pytest.mark.parametrize(("successes", "at"), [(20, 6.0), (1, 70.0)])
def test_after_a_quiet_window_the_cooldown_begins_anew(successes, at):
    breaker = tripped()
    call(breaker, "success", 5.0)
    for _ in range(successes):
        call(breaker, "success", 6.0)
    for _ in range(3):
        call(breaker, "failure", at)
    assert breaker.look(at).retry_after == pytest.approx(5.0)


def test_the_probes_success_closes_and_starts_counting_anew():
    breaker, probe = half_open()
    assert breaker.record(probe, "success", 6.0, MIDDLE) is State.CLOSED
    assert breaker.look(6.0) == Admission(probe=False)
    assert breaker.describe(6.0).startswith("no calls")
    assert [call(breaker, "failure", 6.0) for _ in range(2)] == [None, None]


def test_the_probes_failure_opens_again():
    breaker, probe = half_open()
    assert breaker.record(probe, "failure", 6.0, MIDDLE) is State.OPEN
    assert breaker.look(6.0) == Rejection(10.0, "tool:pay")


@pytest.mark.parametrize("verdict", ["success", "failure"])
def test_results_from_before_the_trip_change_nothing(verdict):
    breaker = Breaker(policy=BreakerPolicy.static(failures=3))
    early = breaker.take(0.0)
    for _ in range(3):
        call(breaker, "failure", 0.0)
    for now in (1.0, 5.0):  # while open, and once the cool-down is over
        before = breaker.snapshot(now)
        assert breaker.record(early, verdict, now, MIDDLE) is None
        assert breaker.snapshot(now) == before
    probe = breaker.take(5.0)
    assert breaker.record(early, verdict, 5.0, MIDDLE) is None
    assert breaker.record(probe, "success", 6.0, MIDDLE) is State.CLOSED
    assert breaker.record(early, verdict, 6.0, MIDDLE) is None
    assert breaker.describe(6.0).startswith("no calls")


def test_a_hung_probe_is_given_up_and_its_late_result_changes_nothing():
    breaker, hung = half_open()
    assert breaker.take(34.9) == Rejection(pytest.approx(0.1), "tool:pay")
    second = breaker.take(35.0)
    assert not isinstance(second, Rejection)
    assert isinstance(breaker.take(35.0), Rejection)
    for verdict in ("success", "failure", "neutral"):
        assert breaker.record(hung, verdict, 36.0, MIDDLE) is None
        assert isinstance(breaker.take(36.0), Rejection)
    assert breaker.record(second, "success", 37.0, MIDDLE) is State.CLOSED


def test_a_probe_past_its_lease_still_counts_while_nobody_took_over():
    breaker, slow = half_open()
    assert breaker.record(slow, "success", 50.0, MIDDLE) is State.CLOSED


def test_releasing_something_that_is_no_probe_does_nothing():
    breaker = tripped()
    before = breaker.snapshot(1.0)
    breaker.release(0)
    assert breaker.snapshot(1.0) == before
    closed = Breaker()
    closed.release(closed.take(0.0))
    assert closed.look(0.0) == Admission(probe=False)


def test_an_operator_may_close_it():
    breaker = tripped()
    breaker.take(5.0)
    breaker.reset()
    assert breaker.state(5.0) is State.CLOSED
    for _ in range(3):
        call(breaker, "failure", 6.0)
    assert breaker.look(6.0).retry_after == pytest.approx(5.0)


def test_a_reset_makes_earlier_results_stale():
    breaker = Breaker()
    early = breaker.take(0.0)
    breaker.reset()
    for _ in range(5):
        breaker.record(early, "failure", 0.0, MIDDLE)
    assert breaker.state(0.0) is State.CLOSED


# ---- in an operator's words


def test_the_reason_in_an_operators_words():
    breaker = Breaker(policy=BreakerPolicy.static(failures=99))
    for verdict in ["failure"] * 12 + ["success"] * 4:
        call(breaker, verdict, 0.0)
    assert breaker.describe(0.0) == "12 of 16 failed: at least 55 % with 95 % confidence; usual is 5 %"


def test_the_reason_stays_readable_while_open():
    breaker = Breaker()
    for verdict in ["success"] * 14 + ["failure"] * 4:
        call(breaker, verdict, 0.0)
    expected = "4 of 18 failed, the last 4 in a row: at least 10 % with 95 % confidence; usual is 5 %"
    assert breaker.state(3.0) is State.OPEN
    assert breaker.describe(3.0) == expected
    assert breaker.describe(900.0) == expected


def test_the_reason_names_a_run_that_is_not_all():
    breaker = Breaker(policy=BreakerPolicy.static(failures=99))
    for verdict, run in [("success", ""), ("failure", ""), ("failure", ", the last 2 in a row")]:
        call(breaker, verdict, 0.0)
        assert f"failed{run}:" in breaker.describe(0.0)
    only_failures = Breaker(policy=BreakerPolicy.static(failures=99))
    call(only_failures, "failure", 0.0)
    call(only_failures, "failure", 0.0)
    assert only_failures.describe(0.0).startswith("2 of 2 failed: ")


def test_while_closed_the_reason_ages():
    breaker = Breaker()
    call(breaker, "failure", 0.0)
    assert breaker.describe(60.1).startswith("no calls in the last 60 s")


def test_while_open_the_reason_is_as_of_the_last_outcome():
    breaker = Breaker(policy=BreakerPolicy.static(failures=3))
    for now, verdict in [(0.0, "success"), (20.0, "failure"), (50.0, "failure"), (70.0, "failure")]:
        call(breaker, verdict, now)
    assert breaker.describe(70.0).startswith("3 of 3 failed: ")


def test_the_reason_without_calls():
    assert Breaker().describe(0.0) == "no calls in the last 60 s; usual is 5 %"


# ---- on record


def test_a_snapshot_is_plain_data_and_moves_to_another_clock():
    breaker = tripped(now=100.0)
    data = json.loads(json.dumps(breaker.snapshot(102.0)))
    other = Breaker("tool:pay", breaker.policy)
    other.restore(data, 7000.0)
    assert other.look(7000.0) == Rejection(3.0, "tool:pay")
    assert other.describe(7000.0) == breaker.describe(102.0)
    assert json.loads(json.dumps(other.snapshot(7000.0))) == data


def test_a_closed_breaker_goes_on_counting_after_a_restart():
    before, after = Breaker(), Breaker()
    for verdict in ["success"] * 5 + ["failure"] * 3:
        call(before, verdict, 10.0)
    after.restore(json.loads(json.dumps(before.snapshot(12.0))), 0.0)
    assert call(after, "failure", 1.0) is State.OPEN


def test_a_restored_window_keeps_its_order_and_ages():
    before, after = Breaker(policy=BreakerPolicy.static(failures=99)), Breaker(policy=BreakerPolicy.static(failures=99))
    for i in range(33):
        call(before, "failure" if i % 3 == 0 else "success", i * 2.0)
    after.restore(before.snapshot(64.0), 164.0)
    for _ in range(25):
        assert after.describe(164.0) == before.describe(64.0)
        call(before, "success", 64.0)
        call(after, "success", 164.0)
    assert after.describe(200.0) == before.describe(100.0)


@pytest.mark.parametrize("usual", [0.0, 1.0])
def test_any_rate_may_be_usual(usual):
    breaker = Breaker()
    breaker.restore({**breaker.snapshot(0.0), "usual": usual}, 0.0)
    assert breaker.snapshot(0.0)["usual"] == usual
    assert call(breaker, "failure", 0.0) is None


def test_each_change_and_each_probe_is_the_next_generation():
    breaker = tripped()
    assert breaker.generation == 1
    assert breaker.take(5.0) == 2
    assert breaker.take(35.0) == 3
    breaker.record(3, "success", 36.0, MIDDLE)
    assert breaker.generation == 4


@pytest.mark.parametrize(
    "broken",
    [{"state": "ajar"}, {"usual": 1.5}, {"usual": math.nan}, {"outcomes": [(1.0, True), (1.0,)]}, {"missing": "run"}],
)
def test_a_broken_record_is_refused_and_changes_nothing(broken):
    breaker = tripped()
    before = breaker.snapshot(1.0)
    data = {**Breaker().snapshot(0.0), **broken}
    data.pop(broken.get("missing"), None)
    with pytest.raises((ValueError, KeyError), match=r"state|State|usual|unpack|run"):
        breaker.restore(data, 1.0)
    assert breaker.snapshot(1.0) == before


def test_a_breaker_takes_less_than_700_bytes_with_its_window():
    dice, number = random.Random(1), 100
    policy, name = BreakerPolicy(least=20), "tool:pay"
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        breakers = [Breaker(name, policy) for _ in range(number)]
        for i, breaker in enumerate(breakers):
            for k in range(60):  # until nothing in it is a shared constant any more
                breaker.record(breaker.take(1e6 + k), "failure" if k % 7 == 0 else "success", 1e6 + k, dice.random())
            if i % 2:
                for _ in range(20):
                    breaker.record(breaker.take(2e6), "failure", 2e6, dice.random())
                    breaker.take(2e6 + 100)
        used = (tracemalloc.get_traced_memory()[0] - before) / number
    finally:
        tracemalloc.stop()
    assert 200 < used <= 700


# ---- several at once


def three():
    return [Breaker(name, BreakerPolicy.static(failures=3)) for name in ("tool:pay", "agent:a", "run:r")]


def trip(breaker, now, times=3):
    for _ in range(times):
        call(breaker, "failure", now)


def test_closed_breakers_admit_together():
    breakers = three()
    assert admit(breakers, 0.0) == tuple(breaker.take(0.0) for breaker in breakers)
    assert admit([], 0.0) == ()


def test_a_rejected_call_holds_no_probes_slot():
    """Sentinel#1638: the first breaker went half-open, the second rejected, the first stayed half-open for ever."""
    breakers = three()
    trip(breakers[0], 0.0)
    trip(breakers[1], 3.0)
    for now in (5.0, 6.0, 7.9):
        assert admit(breakers, now) == Rejection(pytest.approx(8.0 - now), "agent:a")
        assert breakers[0].look(now) == Admission(probe=True)
    tickets = admit(breakers, 8.0)
    for breaker, ticket in zip(breakers, tickets, strict=True):
        breaker.record(ticket, "success", 9.0, MIDDLE)
    assert [breaker.state(9.0) for breaker in breakers] == [State.CLOSED] * 3


def test_the_longest_wait_is_named():
    breakers = three()
    trip(breakers[2], 0.0)
    trip(breakers[1], 2.0)
    assert admit(breakers, 3.0) == Rejection(4.0, "agent:a")


def test_if_all_reject_nothing_is_admitted():
    breakers = three()
    for breaker in breakers:
        trip(breaker, 0.0)
    assert isinstance(admit(breakers, 1.0), Rejection)


def test_one_breaker_in_two_places_is_taken_once():
    breaker = tripped()
    tickets = admit([breaker, Breaker(), breaker], 5.0)
    assert tickets[0] == tickets[2]
    assert breaker.record(tickets[0], "success", 6.0, MIDDLE) is State.CLOSED


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_admission_is_all_or_nothing(data):
    breakers, now = three(), 0.0
    for _ in range(data.draw(st.integers(1, 30))):
        now += data.draw(st.floats(0, 8))
        before = [breaker.snapshot(now) for breaker in breakers]
        admitted = admit(breakers, now)
        if isinstance(admitted, Rejection):
            assert [breaker.snapshot(now) for breaker in breakers] == before
            assert admitted.retry_after > 0
            continue
        for breaker, ticket in zip(breakers, admitted, strict=True):
            breaker.record(ticket, data.draw(st.sampled_from(["success", "failure", "neutral"])), now, MIDDLE)


# ---- what a result says


@pytest.mark.parametrize(
    ("kind", "marks", "verdict"),
    [
        (FaultClass.RETRYABLE, {}, "failure"),
        (FaultClass.UNKNOWN, {}, "failure"),
        (FaultClass.UNKNOWN, {"uncertain": True}, "failure"),
        (FaultClass.PERMANENT, {}, "neutral"),
        (FaultClass.PERMANENT, {"refresh": True}, "neutral"),
        (FaultClass.PERMANENT, {"own_success": True}, "neutral"),
        (FaultClass.INVALID, {}, "neutral"),
        (FaultClass.CANCELLED, {}, "neutral"),
        (FaultClass.PARTIAL, {}, "neutral"),
        (FaultClass.RETRYABLE, {"local": True}, "neutral"),
        (FaultClass.RETRYABLE, {"throttled": True, "retry_after": 3.0}, "neutral"),
        (FaultClass.RETRYABLE, {"in_progress": True}, "neutral"),
    ],
)
def test_verdicts(kind, marks, verdict):
    assert verdict_of(Fault(kind, Evidence.MAYBE, "x", **marks)) == verdict


def test_no_fault_is_a_success():
    assert verdict_of(None) == "success"


# ---- cases


@pytest.mark.case("037")
def test_case_037_a_spent_quota_does_not_open_the_shared_breaker():
    quota = Fault(FaultClass.PERMANENT, Evidence.NONE, "insufficient_quota")
    breaker = Breaker()
    for i in range(100):
        assert call(breaker, verdict_of(quota), i * 0.1) is None
    assert breaker.describe(10.0).startswith("no calls")


@pytest.mark.case("046")
def test_case_046_of_200_callers_after_the_cooldown_one_probes():
    breaker = tripped()
    answers = [breaker.take(5.0) for _ in range(200)]
    assert [isinstance(answer, Rejection) for answer in answers] == [False] + [True] * 199
    assert all(isinstance(breaker.take(5.99), Rejection) for _ in range(200))
    assert breaker.record(answers[0], "success", 6.0, MIDDLE) is State.CLOSED
    assert not any(isinstance(breaker.take(6.0), Rejection) for _ in range(200))


@pytest.mark.case("046")
def test_case_046_four_processes_that_share_the_state_send_one_probe():
    """Each has an object of its own, and takes the shared record over and gives it back in one atomic step."""
    policy = BreakerPolicy.static(failures=3)
    record = json.dumps(tripped(policy=policy).snapshot(5.0))
    workers = [Breaker("tool:pay", policy) for _ in range(4)]

    def step(worker, now, do):
        nonlocal record
        worker.restore(json.loads(record), now)
        done = do(worker)
        record = json.dumps(worker.snapshot(now))
        return done

    answers = [(worker, step(worker, 5.0, lambda each: each.take(5.0))) for _ in range(50) for worker in workers]
    probes = [(worker, answer) for worker, answer in answers if not isinstance(answer, Rejection)]
    assert len(probes) == 1
    owner, ticket = probes[0]
    assert step(owner, 6.0, lambda each: each.record(ticket, "success", 6.0, MIDDLE)) is State.CLOSED
    assert all(not isinstance(step(worker, 6.0, lambda each: each.take(6.0)), Rejection) for worker in workers)


@pytest.mark.case("048")
def test_case_048_cancelled_calls_are_neutral():
    cancelled = Fault(FaultClass.CANCELLED, Evidence.MAYBE, "cancelled")
    breaker = Breaker("tool:pay", BreakerPolicy.static(failures=3))
    trip(breaker, 0.0, times=2)
    before = breaker.snapshot(1.0)
    for i in range(50):
        assert call(breaker, verdict_of(cancelled), i * 0.02) is None
    assert breaker.snapshot(1.0) == before
    assert call(breaker, "failure", 1.0) is State.OPEN  # the third in a row all the same


@pytest.mark.case("048")
@pytest.mark.parametrize("how", ["release", "neutral"])
def test_case_048_a_cancelled_probe_frees_its_slot(how):
    breaker, probe = half_open()
    if how == "release":
        breaker.release(probe)
    else:
        assert breaker.record(probe, "neutral", 5.5, MIDDLE) is None
    assert breaker.state(5.5) is State.HALF_OPEN
    assert breaker.look(5.5) == Admission(probe=True)
    following = breaker.take(5.5)
    assert not isinstance(following, Rejection)
    assert isinstance(breaker.take(5.5), Rejection)
    breaker.release(probe)  # cancelled twice: the slot is another's by now
    assert isinstance(breaker.take(5.5), Rejection)
    assert breaker.record(following, "success", 6.0, MIDDLE) is State.CLOSED


@pytest.mark.case("049")
def test_case_049_refused_requests_neither_open_nor_close():
    refused = verdict_of(Fault(FaultClass.PERMANENT, Evidence.NONE, "http_400"))
    broken = verdict_of(Fault(FaultClass.UNKNOWN, Evidence.MAYBE, "http_503"))
    breaker = Breaker("tool:pay", BreakerPolicy.static(failures=3))
    assert [call(breaker, refused, 0.0) for _ in range(10)] == [None] * 10
    ends = [call(breaker, verdict, 1.0) for verdict in (broken, refused, broken, refused, refused, broken)]
    assert ends == [None] * 5 + [State.OPEN]
    probe = breaker.take(6.0)
    assert breaker.record(probe, refused, 6.0, MIDDLE) is None
    assert breaker.state(6.0) is State.HALF_OPEN
    assert call(breaker, broken, 6.0) is State.OPEN


# ---- simulated, as the adaptive thresholds were chosen


def play(breaker, rate, dice, now, calls):
    """Calls 0.1 s apart, closed again after each trip; how many trips, and the time at the end."""
    trips = 0
    for _ in range(calls):
        now += 0.1
        if call(breaker, "failure" if dice.random() < rate else "success", now):
            trips += 1
            breaker.reset()
    return trips, now


def calls_to_trip(breaker, rate, dice, now):
    for number in range(1, 5000):
        if call(breaker, "failure" if dice.random() < rate else "success", now + number * 0.1):
            return number
    raise AssertionError("never tripped")


@pytest.mark.parametrize(("base", "per_1000"), [(0.05, 0.06), (0.10, 0.06), (0.20, 0.12), (0.30, 0.6), (0.40, 5.0)])
def test_simulated_false_trips_are_rare(base, per_1000):
    breaker, dice = Breaker(), random.Random(7)
    _, now = play(breaker, base, dice, 0.0, calls=2000)
    trips, _ = play(breaker, base, dice, now, calls=30_000)
    assert trips / 30 <= per_1000


@pytest.mark.parametrize(
    ("base", "sick", "low", "high"),
    [(0.05, 0.7, 7, 11), (0.10, 0.7, 9, 15), (0.20, 0.7, 13, 21), (0.40, 0.9, 7, 13), (0.05, 1.0, 3.5, 4.5)],
)
def test_simulated_calls_until_a_sick_tool_trips(base, sick, low, high):
    numbers = []
    for seed in range(20):  # histories, since what one has taught decides much
        learned, dice = Breaker(), random.Random(seed)
        _, now = play(learned, base, dice, 0.0, calls=2000)
        for _ in range(10):
            breaker = Breaker()
            breaker.restore(learned.snapshot(now), now)
            _, later = play(breaker, base, dice, now, calls=25)
            numbers.append(calls_to_trip(breaker, sick, dice, later))
    assert low <= sum(numbers) / len(numbers) <= high


@pytest.mark.parametrize(("rate", "low", "high"), [(0.5, 10, 17), (0.7, 4.5, 6.5), (1.0, 3, 3)])
def test_simulated_calls_until_an_unknown_tool_trips(rate, low, high):
    dice = random.Random(7)
    numbers = [calls_to_trip(Breaker(), rate, dice, 0.0) for _ in range(200)]
    assert low <= sum(numbers) / len(numbers) <= high


@pytest.mark.parametrize("over", [200, 2000, 10_000])
def test_simulated_slow_poisoning_is_noticed_before_half_the_calls_fail(over):
    dice, rates = random.Random(7), []
    for _ in range(10):
        breaker, i = Breaker(), 0
        _, now = play(breaker, 0.05, dice, 0.0, calls=500)
        while True:
            rate = 0.05 + 0.55 * min(1, i / over)
            i, now = i + 1, now + 0.1
            if call(breaker, "failure" if dice.random() < rate else "success", now):
                break
        rates.append(rate)
    assert sum(rates) / len(rates) <= 0.45


def test_simulated_jitter_of_the_cooldown_breaks_up_the_herd():
    """200 clients with breakers of their own; how many ask within one second once the outage has gone on."""
    peaks = {}
    for name, draws in (("jitter", random.Random(7).random), ("none", lambda: MIDDLE)):
        asked = {}
        for _ in range(200):
            breaker = tripped(draw=draws())
            now = breaker.look(0.0).retry_after
            while now < 120:
                asked[int(now)] = asked.get(int(now), 0) + 1
                call(breaker, "failure", now, draws())
                now += breaker.look(now).retry_after
        peaks[name] = max(number for second, number in asked.items() if second >= 20)
    assert peaks["none"] == 200
    assert peaks["jitter"] <= 200 / 3


# ---- against a model that remembers everything


class Twin(RuleBasedStateMachine):
    """Drives a breaker at random beside a plain description of what it should do."""

    def __init__(self):
        super().__init__()
        self.policy = BreakerPolicy(window=6, seconds=40.0, lease=10.0)
        self.breaker = Breaker("b", self.policy)
        self.now = 1000.0
        self.shift = 0.0  # between the model's clock and the breaker's
        self.state, self.until, self.era = State.CLOSED, -math.inf, 0
        self.seen, self.run, self.trips = [], 0, 0
        self.tickets = []  # (ticket, era)
        self.leases = []  # (from, to) of each probe that was not freed
        self.usual = 0.05

    @property
    def at(self):
        return self.now + self.shift

    @rule(seconds=st.floats(0, 25).map(lambda s: round(s, 2)))
    def wait(self, seconds):
        self.now += seconds

    @rule()
    def take(self):
        looked, taken = self.breaker.look(self.at), self.breaker.take(self.at)
        if self.state is not State.CLOSED and self.now < self.until - 1e-6:
            assert looked == taken
            assert taken.retry_after == pytest.approx(self.until - self.now)
            return
        if self.state is not State.CLOSED and self.now < self.until + 1e-6 and isinstance(taken, Rejection):
            return  # within rounding of the end
        assert looked == Admission(probe=self.state is not State.CLOSED)
        if self.state is not State.CLOSED:
            assert all(end <= self.now + 1e-6 for _, end in self.leases), "two probes at once"
            self.era += 1
            self.state, self.until = State.HALF_OPEN, self.now + self.policy.lease
            self.leases.append((self.now, self.until))
        self.tickets.append((taken, self.era))

    @precondition(lambda self: self.tickets)
    @rule(
        which=st.integers(0, 10**6),
        verdict=st.sampled_from(["success", "failure", "failure", "neutral"]),
        draw=st.floats(0, 1, exclude_max=True),
    )
    def record(self, which, verdict, draw):
        ticket, era = self.tickets[which % len(self.tickets)]
        before = shown(self.breaker, self.at)
        changed = self.breaker.record(ticket, verdict, self.at, draw)
        if era != self.era or verdict == "neutral":
            assert changed is None
            assert shown(self.breaker, self.at) == before
            if era == self.era and self.state is State.HALF_OPEN:
                self.free()
        elif self.state is State.HALF_OPEN:
            self.leases.clear()
            assert changed is (self.close() if verdict == "success" else self.trip(draw))
        else:
            assert changed is self.count(verdict == "failure", draw)

    @rule(verdicts=st.lists(st.sampled_from(["success", "success", "success", "failure"]), min_size=4, max_size=9))
    def be_busy(self, verdicts):
        for verdict in verdicts:
            self.take()
            if self.tickets and self.tickets[-1][1] == self.era:
                self.record(len(self.tickets) - 1, verdict, MIDDLE)

    @precondition(lambda self: self.tickets)
    @rule(which=st.integers(0, 10**6))
    def release(self, which):
        ticket, era = self.tickets[which % len(self.tickets)]
        self.breaker.release(ticket)
        if era == self.era and self.state is State.HALF_OPEN:
            self.free()

    @rule()
    def reset(self):
        self.breaker.reset()
        self.close()
        self.trips = 0
        self.leases.clear()

    @rule(shift=st.sampled_from([0.0, -900.0, 5000.0]))
    def move_to_another_process(self, shift):
        data = json.loads(json.dumps(self.breaker.snapshot(self.at)))
        self.shift = shift
        self.breaker = Breaker("b", self.policy)
        self.breaker.restore(data, self.at)

    @invariant()
    def agrees(self):
        data = self.breaker.snapshot(self.at)
        assert data["state"] == self.state
        assert [failed for _, failed in data["outcomes"]] == [failed for _, failed in self.seen[-6:]]
        assert (data["run"], data["trips"]) == (self.run, self.trips)
        assert data["usual"] == pytest.approx(self.usual)

    def free(self):
        self.until = -math.inf
        self.leases.clear()

    def close(self):
        self.state, self.era = State.CLOSED, self.era + 1
        self.seen, self.run = [], 0
        return State.CLOSED

    def trip(self, draw):
        early = self.state is State.HALF_OPEN or (len(self.seen) < 6 and self.now - self.seen[0][0] <= 40)
        self.trips = self.trips + 1 if early else 1
        self.state, self.era = State.OPEN, self.era + 1
        self.until = self.now + min(60, 5 * 2 ** (self.trips - 1)) * (0.8 + 0.4 * draw)
        return State.OPEN

    def count(self, failed, draw):
        self.seen.append((self.now, failed))
        self.run = self.run + 1 if failed else 0
        recent = [bad for at, bad in self.seen[-6:] if at > self.now - 40]
        bound = wilson_lower(sum(recent), len(recent))
        if failed and (self.run >= longest_run(self.usual) or (len(recent) >= 3 and bound >= 0.30)):
            return self.trip(draw)
        self.learn(failed, bound)
        return None

    def learn(self, failed, bound):
        # a success is taken as calm where the last judgement was, so the twin asks what the breaker has judged
        calm = bound < 0.15 if failed else self.breaker.snapshot(self.at)["calm"]
        if calm:
            self.usual += (failed - self.usual) * (1 - 0.5 ** (1 / 500))


TestTwin = Twin.TestCase
TestTwin.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_every_policy_within_the_bounds_is_taken():
    taken = [
        *({name: 0.5} for name in ("seconds", "cooldown", "longest_cooldown", "lease")),
        *({"window": 1, "least": 1}, {"window": 4, "least": 4}, {"least": 1}, {"failures": 1}),
        *({"rate": 5e-324}, {"rate": 0.5}, {"rate": 1}),
    ]
    assert [numbers for numbers in taken if raised(BreakerPolicy, **numbers)] == []
    static = [{}, {"failures": 1}, {"failures": None, "rate": 0.5}, {"rate": 0.5}, {"failures": 2, "rate": None}]
    assert [numbers for numbers in static if raised(BreakerPolicy.static, **numbers)] == []
    assert raised(BreakerPolicy.static, failures=None) == "ValueError"


def test_fixed_thresholds_trip_at_their_number_and_not_before():
    in_a_row = BreakerPolicy.static(failures=3)
    assert [in_a_row.trips(run, run, run, 0.0) for run in range(5)] == [False, False, False, True, True]
    by_rate = BreakerPolicy.static(failures=None, rate=0.5, least=4)
    assert [by_rate.trips(failures, 4, failures, 0.0) for failures in range(5)] == [False, False, True, True, True]
    assert not by_rate.trips(3, 3, 3, 0.0)


def test_any_count_has_a_bound_and_any_rate_a_run():
    assert [(f, calls) for calls in range(1, 21) for f in range(calls + 1) if raised(wilson_lower, f, calls)] == []
    assert [rate for rate in range(101) if raised(longest_run, rate / 100)] == []


def test_a_snapshot_with_any_rate_is_taken():
    for usual, expected in ((0, None), (0.0, None), (0.5, None), (1, None), (-0.1, "ValueError"), (1.1, "ValueError")):
        breaker = Breaker(BreakerPolicy())
        assert raised(breaker.restore, {**breaker.snapshot(0.0), "usual": usual}, 0.0) == expected


def test_a_fresh_breaker_knows_nothing():
    assert (Breaker().name, Breaker().policy) == ("", BreakerPolicy())
    fresh = {"state": "closed", "generation": 0, "wait": 0.0, "outcomes": [], "run": 0, "trips": 0}
    assert Breaker().snapshot(5.0) == {**fresh, "usual": 0.05, "calm": True}


def test_nothing_raises_however_full_the_window_is():
    breaker = Breaker()
    for now in range(3 * breaker.policy.window):
        verdict = "failure" if now % 7 == 3 else "success"
        assert raised(breaker.record, breaker.generation, verdict, float(now), 0.5) is None
        assert raised(breaker.snapshot, float(now)) is None
        assert raised(breaker.describe, float(now)) is None


def test_one_breaker_may_stand_twice_beside_others():
    one, other = Breaker("one"), Breaker("other")
    one.restore({**one.snapshot(0.0), "state": "open", "wait": 1.0}, 0.0)
    assert raised(admit, [other, one, one, other], 2.0) is None
