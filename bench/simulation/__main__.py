"""``python -m bench.simulation``: play all models, print their figures, and check what settled claims of itself."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from statistics import mean
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from bench.simulation import amplification, herd, reopening, stall

RATES = (0.01, 0.1, 0.3, 0.5, 1.0)
LAYERS = (1, 2, 3, 4)
SEEDS = (1, 2, 3)
SLACK = 0.01
SOON = 10.0
"""Seconds within which one client is to be back after a stall."""


def amplified() -> dict[str, Any]:
    """Attempts for each call by failure rate, and through layers."""
    ways = (amplification.NAIVE, amplification.POOLED)
    return {
        "rates": {way.name: {rate: asdict(amplification.of_one_layer(way, rate)) for rate in RATES} for way in ways},
        "layers": {way.name: {n: amplification.of_layers(way, n) for n in LAYERS} for way in ways},
    }


def stalled(clients: int) -> dict[str, Any]:
    """Recovery from a stall: the worst of the seeds, the means of the rest."""
    found: dict[str, Any] = {}
    for way in stall.WAYS:
        outcomes = [stall.play(way, clients, seed) for seed in SEEDS]
        times = [outcome.recovery for outcome in outcomes]
        found[way.name] = {
            "recovery": None if None in times else max(time for time in times if time is not None),
            "succeeded": mean(outcome.succeeded for outcome in outcomes),
            "attempts": mean(outcome.attempts for outcome in outcomes),
        }
    return found


def play() -> dict[str, Any]:
    """Play everything; return plain data."""
    return {
        "amplification": amplified(),
        "stall": {clients: stalled(clients) for clients in (1, 100)},
        "herd": {jitter or "none": asdict(herd.play(jitter)) for jitter in herd.JITTERS},
        "reopening": {name: asdict(reopening.play(make)) for name, make in reopening.WAYS.items()},
    }


def claims(found: dict[str, Any]) -> dict[str, bool]:
    """What must hold of settled's own parts."""
    pooled, naive = amplification.POOLED.name, amplification.NAIVE.name
    rates, layers = found["amplification"]["rates"], found["amplification"]["layers"]
    peaks = {name: each["peak"] for name, each in found["herd"].items()}
    gates, ours = found["reopening"], "settled: all three"
    one, many = found["stall"][1], found["stall"][100]
    return {
        "at any failure rate at most 1.10 attempts a call": all(
            rates[pooled][rate]["attempts"] <= 1.1 + SLACK for rate in RATES
        ),
        "at a failure rate of 10 % a pool costs at most 2 % of the successes": rates[pooled][0.1]["succeeded"]
        >= rates[naive][0.1]["succeeded"] - 0.02,
        "through L layers at most 1.1^L attempts": all(layers[pooled][n] <= (1.1 + SLACK) ** n for n in LAYERS),
        "jitter alone: after a stall never back": one["3 attempts, full jitter"]["recovery"] is None,
        "one client is back within 10 s": one[ours]["recovery"] is not None and one[ours]["recovery"] <= SOON,
        "a hundred clients are back sooner than without retries": many[ours]["recovery"] is not None
        and many[ours]["recovery"] < many["no retries"]["recovery"],
        "peak of a herd: full < equal < none": peaks["full"] < peaks["equal"] < peaks["none"],
        "full jitter waits least": found["herd"]["full"]["wait"] == min(e["wait"] for e in found["herd"].values()),
        "jitter of the cool-down lowers the peak on a dead service at least threefold": 3
        * gates["settled (5 s doubling to 60 s)"]["peak"]
        <= gates["fixed 30 s, one probe, no jitter"]["peak"],
    }


def show(found: dict[str, Any]) -> None:
    """Print the tables."""
    amplified = found["amplification"]
    _table(
        "attempts a call (calls succeeded)",
        [f"{rate:.0%} fail" for rate in RATES],
        {
            name: [f"{each['attempts']:.2f} ({each['succeeded']:.1%})" for each in row.values()]
            for name, row in amplified["rates"].items()
        },
    )
    _table(
        "attempts a call at a dead service, through layers of retries",
        [f"{n} layers" for n in LAYERS],
        {name: [f"{each:.2f}" for each in row.values()] for name, row in amplified["layers"].items()},
    )
    for clients, ways in found["stall"].items():
        _table(
            f"after a stall of 15 s, {clients} client(s)",
            ["back after", "calls succeeded", "requests a call"],
            {name: [_time(e["recovery"]), f"{e['succeeded']:.0%}", f"{e['attempts']:.2f}"] for name, e in ways.items()},
        )
    _table(
        "1,000 callers that fail at once: five repeats",
        ["peak in 100 ms", "mean wait in all"],
        {name: [f"{each['peak']}", f"{each['wait']:.1f} s"] for name, each in found["herd"].items()},
    )
    _table(
        "200 clients, a service dead for 120 s",
        ["calls wasted", "peak in 1 s", "back after: mean", "last"],
        {
            name: [f"{e['wasted']:,}", f"{e['peak']}", f"{e['mean']:.1f} s", f"{e['last']:.1f} s"]
            for name, e in found["reopening"].items()
        },
    )


def _time(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.0f} s"


def _table(title: str, columns: list[str], rows: dict[str, list[str]]) -> None:
    shown = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    shown.add_column("")
    for column in columns:
        shown.add_column(column, justify="right", no_wrap=True)
    for name, cells in rows.items():
        shown.add_row(name, *cells)
    Console(width=120).print(shown)


def main() -> int:
    """Play and check; return 1 if a claim does not hold."""
    parser = argparse.ArgumentParser(prog="python -m bench.simulation", description=__doc__)
    parser.add_argument("--json", action="store_true", help="all figures as JSON on standard output")
    given = parser.parse_args()
    found = play()
    held = claims(found)
    if given.json:
        print(json.dumps({**found, "claims": held}))
    else:
        show(found)
        for words, holds in held.items():
            print(f"{'PASS' if holds else 'FAIL'}  {words}")
    return 0 if all(held.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
