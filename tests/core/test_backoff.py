"""Waits between repeats."""

import math
import random
import sys
from typing import get_args

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from settled.core.attempts.backoff import LONGEST_WAIT, Backoff, Jitter, fits
from tests.core.raised import raised

JITTERS = get_args(Jitter)
ALMOST_ONE = 1 - 2**-53

draws = st.floats(0, 1, exclude_max=True)
positive = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
backoffs = st.builds(
    Backoff,
    base=positive,
    throttled_base=positive,
    cap=positive,
    jitter=st.sampled_from(JITTERS),
    spread=st.floats(0.05, 1),
)
repeats = st.integers(0, 10**9)


@pytest.mark.parametrize("name", ["base", "throttled_base", "cap", "spread"])
@pytest.mark.parametrize("value", [0, -1.0, math.inf, math.nan])
def test_numbers_must_be_finite_and_positive(name, value):
    with pytest.raises(ValueError, match=name):
        Backoff(**{name: value})


def test_waits_without_jitter_are_not_offered():
    with pytest.raises(ValueError, match="one of full, equal, decorrelated, proportional"):
        Backoff(jitter="none")
    with pytest.raises(ValueError, match="spread"):
        Backoff(jitter="proportional", spread=0.01)
    with pytest.raises(ValueError, match="spread"):
        Backoff(jitter="proportional", spread=1.01)


@pytest.mark.parametrize("draw", [-0.1, 1.0, math.nan])
def test_a_draw_outside_its_range_is_refused(draw):
    with pytest.raises(ValueError, match="draw"):
        Backoff().delay(0, draw=draw)


def test_repeats_are_counted_from_zero():
    with pytest.raises(ValueError, match="from 0"):
        Backoff().delay(-1, draw=0.5)


def test_full_jitter_by_the_formula():
    backoff = Backoff()
    assert [backoff.delay(k, draw=0.5) for k in range(4)] == [0.05, 0.1, 0.2, 0.4]
    assert backoff.delay(7, draw=0.5) == 0.5 * 12.8
    assert backoff.delay(8, draw=0.5) == 10.0
    assert backoff.delay(0, draw=0.5, throttled=True) == 0.5
    assert backoff.delay(4, draw=0.5, throttled=True) == 8.0
    assert backoff.delay(5, draw=0.5, throttled=True) == 10.0


def test_equal_jitter_by_the_formula():
    backoff = Backoff(jitter="equal")
    assert backoff.delay(2, draw=0) == 0.2
    assert backoff.delay(2, draw=0.5) == pytest.approx(0.3)


def test_decorrelated_jitter_grows_from_the_last_wait_and_does_not_gather_at_the_cap():
    backoff = Backoff(jitter="decorrelated", base=1)
    assert backoff.delay(0, draw=0.5) == 2.0
    assert backoff.delay(1, draw=0.5, previous=4.0) == 1 + 0.5 * 11
    assert backoff.delay(9, draw=0.5, previous=15.0) == 1 + 0.5 * 19
    assert backoff.delay(9, draw=0.5, previous=86_400.0) == 1 + 0.5 * 19
    assert backoff.delay(1, draw=0.5, previous=0.001) == 2.0


def test_every_jitter_grows_from_the_slower_base_when_throttled():
    for jitter in JITTERS:
        backoff = Backoff(jitter=jitter, base=0.1, throttled_base=1.0)
        assert backoff.delay(0, draw=0.5, throttled=True) == pytest.approx(10 * backoff.delay(0, draw=0.5))


def test_decorrelated_jitter_has_a_band_even_with_a_base_at_the_cap():
    backoff = Backoff(jitter="decorrelated", base=30, cap=30)
    assert backoff.delay(0, draw=0) == 10.0
    assert backoff.delay(0, draw=0.5) == 20.0


def test_proportional_jitter_keeps_the_cap_with_its_whole_band_below():
    backoff = Backoff(jitter="proportional", base=1, spread=0.25)
    assert backoff.delay(0, draw=0) == 0.75
    assert backoff.delay(0, draw=0.5) == 1.0
    assert backoff.delay(50, draw=0) == pytest.approx(20 * 0.75 / 1.25)
    assert backoff.delay(50, draw=ALMOST_ONE) == pytest.approx(20.0)


@example(Backoff(base=1.0, throttled_base=1.0, cap=5e-324, jitter="proportional", spread=0.75), 0, 0.875, False, None)
@given(backoffs, repeats, draws, st.booleans(), st.none() | positive)
def test_no_wait_is_negative_or_beyond_the_cap(backoff, k, draw, throttled, previous):
    wait = backoff.delay(k, draw=draw, throttled=throttled, previous=previous)
    assert 0 <= wait <= backoff.cap * (1 + 1e-12)


@given(backoffs, repeats, repeats, st.booleans())
def test_ceilings_never_fall(backoff, k, more, throttled):
    assert backoff.ceiling(k, throttled=throttled) <= backoff.ceiling(k + more, throttled=throttled) <= backoff.cap


@given(backoffs, repeats, draws, draws)
@example(Backoff(base=1.0, cap=5e-324, jitter="proportional", spread=1.0), 0, 0.0, 0.5)  # its share of the cap is 0
def test_a_higher_draw_waits_no_shorter(backoff, k, one, other):
    low, high = sorted([one, other])
    assert backoff.delay(k, draw=low) <= backoff.delay(k, draw=high) * (1 + 1e-12)


@given(backoffs, draws, draws)
def test_each_jitter_spreads(backoff, one, other):
    assume(abs(one - other) > 0.01)
    assume(min(backoff.base, backoff.cap) > 1e-300)
    assert backoff.delay(3, draw=one) != backoff.delay(3, draw=other)


@given(backoffs, repeats, draws, positive)
def test_retry_after_is_a_floor_with_a_tenth_of_jitter(backoff, k, draw, hint):
    plain = backoff.delay(k, draw=draw)
    wait = backoff.delay(k, draw=draw, retry_after=hint)
    assert wait >= hint
    assert wait >= plain
    assert wait <= max(plain, hint * 1.1)


@given(backoffs, draws, st.integers(1, 10**400))
def test_no_hint_overflows(backoff, draw, hint):
    assert backoff.delay(10**400, draw=draw, retry_after=hint) >= float(min(hint, sys.float_info.max))


@pytest.mark.parametrize("hint", [0, -5.0, -math.inf, math.nan, None])
def test_a_hint_that_is_not_above_zero_is_none(hint):
    assert Backoff().delay(3, draw=0.25, retry_after=hint) == Backoff().delay(3, draw=0.25)


def test_fits_to_the_second():
    assert fits(9.9, now=100.0, deadline=110.0)
    assert not fits(10.0, now=100.0, deadline=110.0)
    assert not fits(0.0, now=111.0, deadline=110.0)


def test_without_a_deadline_nothing_is_slept_for_ever():
    assert fits(LONGEST_WAIT, now=0.0, deadline=None)
    assert not fits(LONGEST_WAIT + 0.1, now=0.0, deadline=None)
    assert not fits(math.inf, now=0.0, deadline=None)
    assert not fits(math.nan, now=0.0, deadline=None)
    assert not fits(math.nan, now=0.0, deadline=10.0)


@pytest.mark.case("035")
@pytest.mark.parametrize(
    ("hint", "within", "slept"),
    [(9_999_999_999.0, 600.0, False), (86_400.0, 30.0, False), (300.0, 600.0, True), (math.inf, 600.0, False)],
)
def test_case_035_a_huge_retry_after_is_waited_in_full_or_not_at_all(hint, within, slept):
    wait = Backoff().delay(0, draw=0.9, throttled=True, retry_after=hint)
    assert wait >= float(min(hint, sys.float_info.max))
    assert fits(wait, now=1000.0, deadline=1000.0 + within) is slept


def test_full_jitter_breaks_up_a_herd_best():
    """1,000 callers fail together; the peak of their next arrivals within 100 ms, over five repeats."""
    peaks = {"none": 1000}
    for jitter in ("full", "equal"):
        dice, backoff = random.Random(1), Backoff(base=1, jitter=jitter)
        arrivals = []
        for _ in range(1000):
            at = 0.0
            for k in range(5):
                at += backoff.delay(k, draw=dice.random())
                arrivals.append(int(at * 10))
        peaks[jitter] = max(arrivals.count(slot) for slot in set(arrivals))
    assert peaks["full"] < peaks["equal"] < peaks["none"] / 3


def test_every_number_within_the_bounds_is_taken():
    taken = [{"base": 5e-324}, {"throttled_base": 0.5}, {"cap": 1e308}, {"spread": 0.05}, {"spread": 1}]
    assert [numbers for numbers in taken if raised(Backoff, **numbers)] == []
    assert [k for k in (0, 1, 2, 5000) if raised(Backoff().ceiling, k)] == []
    assert [draw for draw in (0, 0.0, 0.5, math.nextafter(1, 0)) if raised(Backoff().delay, 0, draw=draw)] == []
    assert (Backoff().ceiling(0), Backoff().ceiling(0, throttled=True)) == (0.1, 1.0)
