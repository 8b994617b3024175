"""How many attempts a service sees for each call that was meant, by its failure rate and by layers of retries."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from bench.simulation.callers import Client, Way

CALLS = 40_000
SETTLING_IN = 3_000
"""Calls before the count starts: a full pool is a gift of ten repeats."""
NAIVE = Way("3 attempts")
POOLED = Way("3 attempts, settled's pool", pool=True)


@dataclass(frozen=True, slots=True)
class Load:
    """Attempts for each call, and the share of calls that succeeded."""

    attempts: float
    succeeded: float


def of_one_layer(way: Way, failing: float, seed: int = 1) -> Load:
    """Play calls of one client of a service of which each attempt fails with chance ``failing``."""
    dice = Random(seed)  # noqa: S311 - a plan that can be repeated, no secret
    client = Client(way, dice)
    attempts = succeeded = 0
    for number in range(CALLS + SETTLING_IN):
        made, ok = _call(client, dice, failing)
        if number >= SETTLING_IN:
            attempts, succeeded = attempts + made, succeeded + ok
    return Load(attempts / CALLS, succeeded / CALLS)


def _call(client: Client, dice: Random, failing: float) -> tuple[int, bool]:
    client.first()
    made = 0
    while True:
        made += 1
        if dice.random() >= failing:
            return made, True
        if client.again(made) is None:
            return made, False


def of_layers(way: Way, layers: int, calls: int = 4_000) -> float:
    """Return the attempts that a dead service sees for each call through so many layers, each with its own retries."""
    dice = Random(layers)  # noqa: S311 - as above
    stack = [Client(way, dice) for _ in range(layers)]

    def through(layer: int) -> int:
        """Make a call of a layer, which always fails; return the attempts that reached the service."""
        if layer == layers:
            return 1
        client, made, reached = stack[layer], 0, 0
        client.first()
        while True:
            made, reached = made + 1, reached + through(layer + 1)
            if client.again(made) is None:
                return reached

    for _ in range(1_000):
        through(0)
    return sum(through(0) for _ in range(calls)) / calls
