"""What the benchmarks share: an environment of their own, the machine's name, interleaved rounds, a table."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".bench-venv"
PINS = ROOT / "requirements" / "bench.txt"


def progress(text: str) -> None:
    """Tell on standard error what long work is at."""
    print(text, file=sys.stderr, flush=True)


def in_own_environment(module: str) -> None:
    """Run ``module`` again in the environment that holds the peers, which is made where it is missing.

    Returns only inside of it: elsewhere the process ends with the exit code of the one that does the work.
    """
    if Path(sys.prefix).resolve() == ENVIRONMENT.resolve() or os.environ.get("SETTLED_BENCH_HERE"):
        return
    python = _made()
    own = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [str(python), "-m", module, *sys.argv[1:]]
    sys.exit(subprocess.run(command, env=own, cwd=ROOT, check=False).returncode)  # noqa: S603 - this very module


def _made() -> Path:
    python, stamp = ENVIRONMENT / "bin" / "python", ENVIRONMENT / "installed"
    wanted = hashlib.sha256(PINS.read_bytes() + sys.version.encode()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"installing the packages of {PINS.relative_to(ROOT)} (once)", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)], check=True)  # noqa: S603 - fixed
        pip = [str(python), "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps", "-r", str(PINS)]
        subprocess.run(pip, check=True, stdout=sys.stderr, timeout=900)  # noqa: S603 - fixed
        stamp.write_text(wanted)
    return python


def machine(folder: str | None = None) -> dict[str, Any]:
    """Name the machine: processors, Python, system, load, and how long its disk takes for one sync."""
    return {
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "load": [round(load, 1) for load in os.getloadavg()],
        "fdatasync_us": round(fsync_probe(folder) * 1e6),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def fsync_probe(folder: str | None = None, times: int = 50) -> float:
    """Return the median seconds of one append of 4 KiB that is synced to the disk."""
    sync = getattr(os, "fdatasync", os.fsync)
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        taken = []
        for _ in range(times):
            began = time.perf_counter()
            os.write(file.fileno(), b"x" * 4096)
            sync(file.fileno())
            taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def versions(*names: str) -> dict[str, str]:
    """Return the installed versions of these packages."""
    return {name: metadata.version(name) for name in names}


@dataclass(slots=True)
class Case:
    """One thing to measure: ``run(n)`` does it ``n`` times."""

    name: str
    run: Callable[[int], object]
    times: int = 0
    """How often in one round; 0: as often as fits ``ROUND`` seconds."""
    close: Callable[[], object] | None = None
    cpu: list[float] = field(default_factory=list)
    """CPU seconds of one, by round."""
    wall: list[float] = field(default_factory=list)
    """Seconds of one, by round."""

    def round(self) -> None:
        """Measure one round."""
        began, cpu = time.perf_counter(), time.process_time()
        self.run(self.times)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - began
        self.cpu.append(cpu / self.times)
        self.wall.append(wall / self.times)


ROUND = 0.02
"""CPU seconds that one case takes in one round."""


def interleaved(cases: Sequence[Case], rounds: int) -> None:
    """Measure all cases round by round, so that a load on the machine meets all of them; garbage is left lying."""
    for case in cases:
        case.run(3)
        case.times = case.times or _calibrated(case)
    for number in range(rounds):
        for case in cases if number % 2 else reversed(cases):
            gc.collect()
            gc.disable()
            try:
                case.round()
            finally:
                gc.enable()


def _calibrated(case: Case) -> int:
    times = 1
    while True:
        cpu = time.process_time()
        case.run(times)
        taken = time.process_time() - cpu
        if taken > ROUND / 4:
            return max(1, round(times * ROUND / taken))
        times *= 4


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median of the rounds' own ratios: what slows both in one round falls out."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )


def output(found: dict[str, Any], text: str, *, as_json: bool) -> None:
    """Print what was found, as JSON or as text."""
    print(json.dumps(found, indent=1) if as_json else text)
