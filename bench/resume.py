"""What it takes to enter a run again whose steps are all on record: `python -m bench.resume [--json]`.

A run of 1,000 steps (tools of effect "write" that do nothing; SQLite, synchronous=FULL) is cut by a SIGKILL after its
last step; a new process enters it again and walks from the top. Timed is the walk, from before the run is entered until
after it is left. Beside it the same with DBOS on SQLite (a workflow of 1,000 steps, which its recovery replays; timed
from its first line to its last), and what the steps took when they were done afresh, with each.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import kit

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 300.0
"""Seconds after which a process that does not answer fails the benchmark."""

# ------------------------------------------------------------------------------------------------------------ the cases


def with_settled(folder: Path, steps: int, tell: Callable[[float], None]) -> None:
    """Walk through a run, tell what that took, and wait for the kill inside of it; entered again, leave it first."""
    import settled

    guard = settled.Guard(f"sqlite:///{folder / 'journal.db'}")
    tool = guard.tool(effect="write", name="pay")(_pay)
    again = guard.journal.run("", "trip") is not None
    began = time.perf_counter()
    with guard.run("trip"):
        for number in range(steps):
            assert tool(number=number) == {"number": number}
        if not again:
            tell(time.perf_counter() - began)
            signal.pause()
    tell(time.perf_counter() - began)


def with_dbos(folder: Path, steps: int, tell: Callable[[float], None]) -> None:
    """Walk through a workflow, tell what that took, and wait for the kill inside of it; DBOS recovers it by itself."""
    os.environ["DBOS__VMID"] = "bench"
    from dbos import DBOS

    file = folder / "dbos.db"
    again, over = file.exists(), threading.Event()
    url = f"sqlite:///{file}"
    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "CRITICAL", "run_admin_server": False})
    step = DBOS.step(name="pay")(_pay)

    @DBOS.workflow(name="many")
    def many(steps: int) -> None:
        began = time.perf_counter()
        for number in range(steps):
            assert step(number) == {"number": number}
        tell(time.perf_counter() - began)
        over.set()
        if not again:
            signal.pause()

    DBOS.launch()
    if again:
        over.wait(PATIENCE)
    else:
        many(steps)


def _pay(number: int) -> dict[str, int]:
    MADE.append(number)
    return {"number": number}


MADE: list[int] = []
"""The steps that were done in this process."""
CASES = {"settled": with_settled, "DBOS": with_dbos}


def serve(name: str, folder: str, steps: int) -> None:
    """Be one process of a case: tell what the walk took, and how many steps were done in it."""
    logging.disable()

    def tell(seconds: float) -> None:
        print(json.dumps([seconds, len(MADE)]), flush=True)

    CASES[name](Path(folder), steps, tell)
    os._exit(0)  # peers leave threads behind


# ------------------------------------------------------------------------------------------------------------ measuring


def walked(name: str, folder: Path, steps: int, *, cut: bool) -> tuple[float, int]:
    """Start a process; return the seconds of its walk and the steps that it did. ``cut``: it is killed then."""
    command = [sys.executable, "-m", "bench.resume", "--serve", name, "--folder", str(folder), "--steps", str(steps)]
    own = {**os.environ, "SETTLED_BENCH_HERE": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=own, cwd=kit.ROOT)  # noqa: S603 - this very module
    limit = threading.Timer(PATIENCE, process.kill)
    limit.start()
    try:
        assert process.stdout is not None
        seconds, made = json.loads(process.stdout.readline())
        if cut:
            process.kill()
        process.wait()
    finally:
        limit.cancel()
        process.kill()
        process.wait()
    return seconds, made


def measured(steps: int, rounds: int, place: str | None) -> dict[str, dict[str, list[float]]]:
    """Let the cases work in turns; return by case the seconds of its walks, afresh and again."""
    found: dict[str, dict[str, list[float]]] = {name: {"afresh": [], "again": []} for name in CASES}
    for number in range(rounds):
        for name in CASES if number % 2 else reversed(CASES):
            with tempfile.TemporaryDirectory(dir=place) as folder:
                seconds, made = walked(name, Path(folder), steps, cut=True)
                assert made == steps
                found[name]["afresh"].append(seconds)
                seconds, made = walked(name, Path(folder), steps, cut=False)
                assert made == 0, f"{name} did {made} steps again"
                found[name]["again"].append(seconds)
    return found


def compared(steps: int, rounds: int, place: str | None) -> dict[str, Any]:
    """Return the medians, and the ratios of the rounds."""
    found = measured(steps, rounds, place)
    ours, theirs = found["settled"], found["DBOS"]
    return {
        "steps": steps,
        "rounds": rounds,
        "milliseconds": {
            name: {walk: round(1000 * statistics.median(taken), 1) for walk, taken in walks.items()}
            for name, walks in found.items()
        },
        "again, DBOS's time of ours": round(kit.ratio(theirs["again"], ours["again"]), 2),
        "ours again of ours afresh": round(kit.ratio(ours["again"], ours["afresh"]), 3),
        "ours again of DBOS afresh": round(kit.ratio(ours["again"], theirs["afresh"]), 3),
    }


# ---------------------------------------------------------------------------------------------------------- the command


def text_of(found: dict[str, Any]) -> str:
    """Return the report to be read."""
    group = found["resume"]
    rows = [[name, f"{w['afresh']} ms", f"{w['again']} ms"] for name, w in group["milliseconds"].items()]
    facts = {name: value for name, value in group.items() if name != "milliseconds"}
    table = kit.table(["case", "done afresh", "entered again"], rows)
    return "\n".join([f"machine: {found['machine']}", f"versions: {found['versions']}", "", f"{facts}", "", table])


def main() -> None:
    """Measure, and print it."""
    parser = argparse.ArgumentParser(prog="python -m bench.resume", description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--steps", type=int, default=1000, help="steps of the run (1000)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (5)")
    parser.add_argument("--folder", help="folder for the files: its disk is the one that is measured")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, given.folder, given.steps)
    kit.in_own_environment("bench.resume")
    found = {"machine": kit.machine(given.folder), "versions": kit.versions("dbos")}
    found["resume"] = compared(given.steps, given.rounds, given.folder)
    kit.output(found, text_of(found), as_json=given.json)


if __name__ == "__main__":
    main()
