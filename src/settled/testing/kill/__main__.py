"""``python -m settled.testing.kill --rounds N --seed S``: kill processes at random boundaries, and judge each time."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from settled.testing.kill.nursery import Nursery
from settled.testing.kill.plan import Plan
from settled.testing.kill.rounds import AT_RANDOM, Death, at_random, everywhere
from settled.testing.kill.scripts import SCRIPTS

if TYPE_CHECKING:
    from collections.abc import Iterator

EVERY = ("agent", "doubt", "desk", "fan", "person", "care", "late", "saga", "doubtful saga")


def main(arguments: list[str] | None = None) -> int:
    """Play the rounds; return 1 if anything was wrong, or if nothing was killed."""
    parser = argparse.ArgumentParser(prog="python -m settled.testing.kill", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="rounds with random deaths")
    parser.add_argument("--seed", type=int, default=0, help="the first round's seed; each next one's is one higher")
    parser.add_argument("--every", action="store_true", help="instead, kill every script at every boundary")
    parser.add_argument("--step", type=int, default=1, help="with --every: boundaries from one death to the next")
    parser.add_argument("--script", action="append", choices=SCRIPTS, help="only this one; may be given again")
    parser.add_argument("--journal", default="", help="the address of a server for the journals; files otherwise")
    given = parser.parse_args(arguments)
    totals, bad = Counter[str](), 0
    with tempfile.TemporaryDirectory(prefix="settled-kill-") as folder, Nursery() as nursery:
        rounds = _every(nursery, Path(folder), given) if given.every else _random(nursery, Path(folder), given)
        for name, deaths in rounds:
            totals.update(processes=len(deaths), killed=sum(d.died for d in deaths))
            totals.update(f"killed at: {d.boundary or 'the start'}" for d in deaths if d.died)
            for death in deaths:
                if death.problems:
                    bad += 1
                    sys.stderr.write(f"{name}: {death}\n")
    for what, number in sorted(totals.items(), key=lambda item: (-item[1], item[0])):
        sys.stdout.write(f"{number:6d} {what}\n")
    sys.stdout.write(f"{bad:6d} wrong\n")
    return 1 if bad or not totals["killed"] else 0


def _random(nursery: Nursery, folder: Path, given: argparse.Namespace) -> Iterator[tuple[str, list[Death]]]:
    for seed in range(given.seed, given.seed + given.rounds):
        home = folder / str(seed)
        home.mkdir()
        dice = Random(seed)  # noqa: S311 - a seed repeats it
        scripts = given.script or AT_RANDOM
        yield f"seed {seed}", at_random(nursery, home, dice, scripts=scripts, journal=given.journal)


def _every(nursery: Nursery, folder: Path, given: argparse.Namespace) -> Iterator[tuple[str, list[Death]]]:
    for script in given.script or EVERY:
        for is_async in (False, True):
            plan = Plan(str(folder), script, is_async=is_async, journal=given.journal)
            for death in everywhere(nursery, plan, step=given.step):
                yield script, [death]


if __name__ == "__main__":
    sys.exit(main())
