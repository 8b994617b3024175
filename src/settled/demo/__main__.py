"""Many seeds in a row: ``python -m settled.demo --seeds 1-20 --calls 200``."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rich.console import Console

from settled.demo import run_demo
from settled.demo.report import summary


def seeds_of(text: str) -> list[int]:
    """Read ``3``, ``1-20`` or ``1-3,7``. Raises ``ValueError``."""
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


def run_seed(seed: int, calls: int) -> dict[str, Any]:
    """Run one demo as a process of its own and return its figures, or under ``failed`` what went wrong with it."""
    command = [sys.executable, "-c", f"import sys, settled.demo as d; sys.exit(d.run_demo({calls}, {seed}, True))"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own code
    if not done.stdout.strip():
        return {"seed": seed, "failed": done.stderr}
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def main() -> int:
    """Run the seeds, print a row for each and the totals; return the worst exit code."""
    parser = argparse.ArgumentParser(prog="python -m settled.demo", description=__doc__)
    parser.add_argument("--seeds", type=seeds_of, default=[1], help="such as 1-20")
    parser.add_argument("--calls", type=int, default=200, help="calls of each demo")
    parser.add_argument("--jobs", type=int, default=1, help="demos at a time")
    parser.add_argument("--json", action="store_true", help="print all figures, a line for each seed")
    given = parser.parse_args()
    if len(given.seeds) == 1:
        return run_demo(given.calls, given.seeds[0], given.json)
    rows: dict[int, dict[str, Any]] = {}
    with ThreadPoolExecutor(given.jobs) as threads:
        for row in threads.map(lambda seed: run_seed(seed, given.calls), given.seeds):
            _tell(row, as_json=given.json)
            if "failed" not in row:
                rows[row["seed"]] = row
    if rows and not given.json:
        Console(highlight=False).print(summary(rows))
    if len(rows) < len(given.seeds):
        return 2
    return 0 if all(row["guarded"]["clean"] for row in rows.values()) else 1


def _tell(row: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(row))  # noqa: T201 - its output
    else:
        print(f"seed {row['seed']}: {_said_of(row)}", file=sys.stderr)  # noqa: T201 - same


def _said_of(row: dict[str, Any]) -> str:
    if "failed" in row:
        return f"could not be run to its end\n{row['failed']}"
    guarded = row["guarded"]
    wrong = guarded["doubled"] + guarded["lost"] + guarded["false"] + guarded["needless"]
    return f"{json.dumps(wrong)} in {row['folder']}" if wrong else "as it should be"


if __name__ == "__main__":
    sys.exit(main())
