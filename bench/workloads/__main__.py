"""``python -m bench.workloads``: replay the tasks of a real agent benchmark under faults and kills."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from rich.progress import Progress

from bench.workloads import home, report
from bench.workloads.judge import Figures, judge
from bench.workloads.orders import ROWS, Orders, Row
from bench.workloads.seeds import play
from bench.workloads.world.weather import Weather


def main(arguments: list[str] | None = None) -> int:
    """Play and judge; return 1 if anything that must hold does not."""
    given = _read(arguments)
    rows: list[Row] = given.row or list(ROWS)
    folder = Path(tempfile.mkdtemp(prefix="settled-workloads-"))
    python = home.prepared() if given.world == home.BFCL else Path(sys.executable)
    with home.Home(Weather(killed=given.kills), python, given.world) as world:
        figures = play_all(world, folder, rows, given.seeds, jobs=given.jobs, tasks=given.tasks)
    if given.json:
        print(json.dumps({row: each.as_json() for row, each in figures.items()}))
    else:
        report.show(figures, f"{given.world.rpartition('.')[2]}, {given.seeds} seeds")
    fine = report.passed(figures, sys.stderr if given.json else sys.stdout)
    if fine and not given.keep:
        shutil.rmtree(folder)
    else:
        print(f"files: {folder}", file=sys.stderr)
    return 0 if fine else 1


def _read(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.workloads", description=__doc__)
    parser.add_argument("--row", action="append", choices=ROWS, help="who makes the calls; all rows by default")
    parser.add_argument("--seeds", type=int, default=20, help="how often each task is played (20)")
    parser.add_argument("--tasks", type=int, help="only the first so many of the 200 tasks")
    parser.add_argument("--jobs", type=int, default=2, help="agents at work at once (2)")
    parser.add_argument(
        "--kills", type=float, default=Weather().killed, help="share of first requests that kill (0.02)"
    )
    parser.add_argument("--world", default=home.BFCL, help="module with the tasks; others are run by this Python")
    parser.add_argument("--json", action="store_true", help="figures and evidence as JSON on standard output")
    parser.add_argument("--keep", action="store_true", help="keep journals and reports")
    return parser.parse_args(arguments)


def play_all(
    world: home.Home, folder: Path, rows: list[Row], seeds: int, *, jobs: int, tasks: int | None = None
) -> dict[Row, Figures]:
    """Play ``seeds`` seeds of each row and judge them; return the figures by row."""
    plan = world.plan()
    plan["tasks"] = plan["tasks"][:tasks]
    path = folder / "plan.json"
    path.write_text(json.dumps(plan))
    figures: dict[Row, Figures] = {}
    with Progress(auto_refresh=False, disable=not sys.stderr.isatty()) as progress:  # a refreshing thread would fork
        for row in rows:
            bar = progress.add_task(row, total=seeds)
            figures[row] = Figures()
            for seed in play(_orders(world.url, folder, row, seeds, path), jobs, progress.refresh):
                figures[row].take(judge(seed.orders, plan, world.close_run))
                figures[row].take(Figures(kills=seed.kills, seconds=seed.seconds))
                progress.advance(bar)
    return figures


def _orders(url: str, folder: Path, row: Row, seeds: int, plan: Path) -> list[Orders]:
    every = [Orders(folder / row / str(seed), url, row, seed, plan) for seed in range(1, seeds + 1)]
    for orders in every:
        orders.folder.mkdir(parents=True)
    return every


if __name__ == "__main__":
    sys.exit(main())
