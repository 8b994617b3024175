"""What retries do to a service, in virtual time: settled's own parts keep their bounds, and the naive ways do not."""

from __future__ import annotations

import pytest

from bench.simulation import amplification, herd, reopening, stall

WAYS = {way.name: way for way in stall.WAYS}


@pytest.mark.parametrize("failing", [0.01, 0.1, 0.3, 1.0])
def test_a_pool_bounds_the_attempts_at_any_failure_rate(failing):
    assert amplification.of_one_layer(amplification.POOLED, failing).attempts <= 1.11


def test_without_a_pool_an_outage_sees_three_times_the_attempts():
    assert amplification.of_one_layer(amplification.NAIVE, 1.0).attempts == 3.0


def test_a_pool_costs_few_successes_where_a_tenth_fails():
    assert amplification.of_one_layer(amplification.POOLED, 0.1).succeeded > 0.98


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_layers_multiply_by_three_without_pools_and_by_a_tenth_more_with_them(layers):
    assert amplification.of_layers(amplification.NAIVE, layers, 100) == 3.0**layers
    assert amplification.of_layers(amplification.POOLED, layers) <= 1.11**layers


def test_jitter_alone_keeps_a_service_down_after_a_stall_and_breaker_with_pool_lets_it_come_back():
    assert stall.play(WAYS["3 attempts, full jitter"], 1, 1).recovery is None
    back = stall.play(WAYS["settled: all three"], 1, 1).recovery
    assert back is not None
    assert back <= 10


def test_a_service_without_stall_serves_in_order():
    service = stall.Service()
    assert [service.send(1.0) for _ in range(stall.WORKERS + 1)] == pytest.approx([1.1] * stall.WORKERS + [1.2])


def test_nothing_moves_while_the_service_stalls():
    service = stall.Service()
    assert service.send(stall.STALL - 0.05) == pytest.approx(stall.STALL + 0.05 + stall.STALLED)
    assert service.send(stall.STALL + 1) == pytest.approx(stall.STALL + stall.STALLED + stall.SERVICE)


def test_full_jitter_spreads_a_herd():
    peaks = [herd.play(jitter).peak for jitter in (None, "equal", "full")]
    assert peaks[0] == herd.CALLERS
    assert peaks == sorted(peaks, reverse=True)


def test_one_probe_for_each_cool_down_reaches_a_dead_service_and_jitter_spreads_them():
    found = {name: reopening.play(make) for name, make in reopening.WAYS.items()}
    fixed = found["fixed 30 s, one probe, no jitter"]
    probes = reopening.OUTAGE // 30
    trips = reopening.CLIENTS * reopening.AT_ONCE
    assert trips < fixed.wasted <= trips + probes * reopening.CLIENTS
    assert 3 * found["settled (5 s doubling to 60 s)"].peak <= fixed.peak
    assert found["no breaker"].wasted == reopening.CLIENTS * reopening.AT_ONCE * reopening.OUTAGE
