"""Play seeded worlds and let the oracle judge: ``python -m settled.testing.simulate --seeds 1000000 --jobs 2``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from settled.core.states import State
from settled.testing.simulation.profiles import PROFILES, Profile
from settled.testing.simulation.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

CHUNK = 50
"""Worlds that one job plays at a time."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the oracle found in one world. ``facts`` counts what happened there and is no violation."""

    seed: int
    profile: str
    violations: tuple[str, ...]
    facts: Counter[str] = field(compare=False)

    @property
    def ok(self) -> bool:
        """Whether every promise was kept."""
        return not self.violations


def profile_of(seed: int) -> str:
    """Return the kind of world that a seed stands for by itself."""
    return list(PROFILES)[seed % len(PROFILES)]


def simulate(seed: int, profile: str | Profile | None = None) -> Verdict:
    """Play the world of one seed.

    ``profile``: a name of ``PROFILES``, or one of your own; by default the seed says which. The same seed and profile
    always give the same world.
    """
    chosen = profile if isinstance(profile, Profile) else PROFILES[profile or profile_of(seed)]
    simulation = Simulation(seed, chosen)
    simulation.run()
    return _verdict(simulation)


def story(seed: int, profile: str | Profile | None = None) -> list[str]:
    """Return what happened in the world of one seed, line by line, in the order of virtual time."""
    chosen = profile if isinstance(profile, Profile) else PROFILES[profile or profile_of(seed)]
    simulation = Simulation(seed, chosen)
    lines: list[str] = []
    simulation.oracle.story = lines
    simulation.run()
    return lines


def _verdict(simulation: Simulation) -> Verdict:
    facts, calls = simulation.oracle.facts, simulation.journal.books.calls.values()
    facts["worlds"] = 1
    facts["effects"] = len(simulation.world.effects)
    facts["calls"] = len(calls)
    facts["left unknown"] = sum(call.state is State.UNKNOWN for call in calls)
    return Verdict(simulation.seed, simulation.profile.name, tuple(simulation.oracle.violations), facts)


# --- the command ----------------------------------------------------------------------------


def play(seeds: Sequence[int], profile: str | None = None) -> tuple[list[Verdict], Counter[str]]:
    """Play some worlds; return the verdicts with violations, and the facts of all."""
    facts: Counter[str] = Counter()
    failed = []
    for seed in seeds:
        verdict = simulate(seed, profile)
        facts.update(verdict.facts)
        if not verdict.ok:
            failed.append(verdict)
    return failed, facts


def play_all(
    first: int, count: int, jobs: int, profile: str | None = None
) -> Iterator[tuple[list[Verdict], Counter[str]]]:
    """Play ``count`` worlds from seed ``first`` on, on ``jobs`` processors; yield chunk by chunk."""
    chunks = [range(at, min(at + CHUNK, first + count)) for at in range(first, first + count, CHUNK)]
    if jobs == 1:
        yield from (play(chunk, profile) for chunk in chunks)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:  # a fork of a process with threads may hang
        yield from pool.map(play, chunks, [profile] * len(chunks))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; exit code 1 if a promise was broken in any world."""
    options = _parser().parse_args(arguments)
    if options.story is not None:
        _say(story(options.story, options.profile))
        return 0
    began, failed, facts = time.monotonic(), [], Counter[str]()
    for some_failed, some_facts in play_all(options.first, options.seeds, options.jobs, options.profile):
        failed += some_failed
        facts.update(some_facts)
        _progress(facts["worlds"], options.seeds, len(failed), time.monotonic() - began)
    _say(_as_json(failed, facts) if options.json else _as_text(failed, facts))
    if failed:
        Path(options.failing).write_text("".join(f"{v.seed} {v.profile}\n" for v in failed))
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m settled.testing.simulate", description=main.__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many worlds (default: 1000)")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed (default: 0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--profile", choices=list(PROFILES), help="one kind of world (default: all, by the seed)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument(
        "--failing", default="failing-seeds.txt", help="file for failing seeds (written if there are any)"
    )
    parser.add_argument("--story", type=int, metavar="SEED", help="tell what happens in one world, and do nothing else")
    return parser


def _progress(done: int, of: int, failed: int, seconds: float) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done}/{of} worlds, {failed} failed, {done / max(seconds, 1e-9):.0f} a second ")
        sys.stderr.write("\n" if done == of else "")
        sys.stderr.flush()


def _as_json(failed: Sequence[Verdict], facts: Counter[str]) -> list[str]:
    broken = [{"seed": v.seed, "profile": v.profile, "violations": v.violations} for v in failed]
    return [json.dumps({"failed": broken, "facts": dict(sorted(facts.items()))})]


def _as_text(failed: Sequence[Verdict], facts: Counter[str]) -> Iterator[str]:
    for verdict in failed:
        yield f"seed {verdict.seed} ({verdict.profile})"
        yield from (f"    {violation}" for violation in verdict.violations)
    yield f"{facts['worlds']} worlds, {facts['calls']} calls, {facts['effects']} effects; {len(failed)} worlds failed"
    yield f"left unknown: {facts['left unknown']}, of which needless: {facts['needless unknown']}"


def _say(lines: Iterable[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
