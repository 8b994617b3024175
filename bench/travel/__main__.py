"""``python -m bench.travel``: make trips under faults and kills, and judge them by the services' books."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.travel import claims
from bench.travel.fleet import Fleet, Pace
from bench.travel.journals import KINDS, journal
from bench.travel.judge import Evidence, Findings, judge, unexplained
from bench.travel.orders import rows
from bench.travel.plan import SERVICES

if TYPE_CHECKING:
    from collections.abc import Callable

LEAST = 0.95
"""Share of the trips that are wholly done or wholly undone."""
ENOUGH = 1000
"""Trips from which on that share means something."""
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Played:
    """One play, and what was found."""

    findings: Findings
    evidence: Evidence
    kills: dict[str, int]
    seconds: float
    """From the first agent's start to the last one's end."""

    @property
    def whole(self) -> float:
        """Share of the trips that are wholly done or wholly undone."""
        kinds = self.findings.kinds
        return (kinds["done"] + kinds["undone"]) / len(self.evidence.trips)

    @property
    def fine(self) -> bool:
        """Whether all holds that must hold."""
        return not self.findings.wrong and (len(self.evidence.trips) < ENOUGH or self.whole >= LEAST)

    def as_json(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        books, found = self.evidence.books, self.findings
        return {
            "trips": len(self.evidence.trips),
            "kinds": dict(found.kinds),
            "whole": round(self.whole, 4),
            "queue": len(self.evidence.queue),
            "reasons": dict(found.reasons),
            "undone late": found.late,
            "wrong": {kind: len(lines) for kind, lines in found.wrong.items()},
            "requests": len(books),
            "faults": sum(bool(row["fault"]) for row in books),
            "effects": sum(row["word"] == "booked" for row in books),
            "undone effects": sum(row["word"] == "cancelled" for row in books),
            "kills": self.kills,
            "seconds": round(self.seconds, 1),
        }


def play(kind: str, folder: Path, *, runs: int, seed: int, pace: Pace, tell: Callable[[str], object]) -> Played:
    """Make the trips on a journal of a kind, and judge them. Raises ``PlayFailed``."""
    with journal(kind, folder) as address, Fleet(folder, address, seed=seed, runs=runs, pace=pace) as fleet:
        began = time.monotonic()
        fleet.play(tell, longest=120.0 + runs / 2)
        seconds = time.monotonic() - began
        fleet.settle(tell)
        evidence = _evidence(fleet)
    return Played(judge(evidence), evidence, dict(fleet.kills), seconds)


def _evidence(fleet: Fleet) -> Evidence:
    orders, folder = fleet.orders, fleet.folder
    books = [row | {"service": name} for name in SERVICES for row in rows(folder / f"{name}.jsonl")]
    books.sort(key=lambda row: int(row["at"]))
    queue = claims.entries(fleet.command)
    for entry in unexplained(books, queue):
        entry.update(claims.attempts(fleet.command, entry["operation_id"]))
    told = [row for path in sorted(folder.glob("told-*.jsonl")) for row in rows(path)]
    killed = frozenset(row["pid"] for row in rows(folder / "killed.jsonl"))
    return Evidence(orders.trips, books, queue, claims.runs(fleet.command, 3 * orders.runs), told, killed)


def main(arguments: list[str] | None = None) -> int:
    """Play and judge; return 1 if anything that must hold does not."""
    given = _read(arguments)
    folder = Path(tempfile.mkdtemp(prefix="settled-travel-"))
    pace = Pace(agents=given.agents, agent=given.kill_every)
    played = play(given.journal, folder, runs=given.runs, seed=given.seed, pace=pace, tell=_tell)
    if given.json:
        print(json.dumps(played.as_json()))
    else:
        for name, value in played.as_json().items():
            print(f"{name:>14}  {value}")
    for kind, lines in played.findings.wrong.items():
        print(f"WRONG, {kind}: {len(lines)}", *lines[:_SHOWN], sep="\n    ", file=sys.stderr)
    if played.fine and not given.keep:
        shutil.rmtree(folder)
    else:
        print(f"files: {folder}", file=sys.stderr)
    return 0 if played.fine else 1


def _read(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.travel", description=__doc__)
    parser.add_argument("--runs", type=int, default=500, help="trips to make (500)")
    parser.add_argument("--journal", choices=KINDS, default="sqlite", help="what they are recorded in (sqlite)")
    parser.add_argument("--seed", type=int, default=1, help="of trips and faults (1)")
    parser.add_argument("--agents", type=int, default=Pace().agents, help="agents at work at the same time (3)")
    parser.add_argument("--kill-every", type=float, default=Pace().agent, help="seconds between two kills of agents")
    parser.add_argument("--json", action="store_true", help="figures as JSON on standard output")
    parser.add_argument("--keep", action="store_true", help="keep journal, books and what agents were told")
    return parser.parse_args(arguments)


def _tell(what: str) -> None:
    print(time.strftime("%H:%M:%S"), what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
