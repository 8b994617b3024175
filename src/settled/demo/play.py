"""One demo from start to table: both agents at once, each with a shop of its own and the same weather."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from settled.demo.agent import journal_of
from settled.demo.report import as_json as figures_as_json
from settled.demo.report import show
from settled.demo.run import DemoFailed, Kind, Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from settled.demo.judge import Figures

KINDS: tuple[Kind, ...] = ("guarded", "careful")
_TITLES: dict[Kind, str] = {"guarded": "with settled", "careful": "careful script"}
INTERRUPTED = 130


def play(calls: int, seed: int, *, as_json: bool) -> int:
    """Run it, show it, return the exit code."""
    folder = Path(tempfile.mkdtemp(prefix="settled-demo-"))
    began = time.monotonic()
    try:
        figures = _watched(folder, calls, seed, quiet=as_json)
    except DemoFailed as error:
        print(f"the demo could not be run to its end; its files are in {folder}\n{error}", file=sys.stderr)  # noqa: T201 - it speaks to a terminal
        return 2
    except KeyboardInterrupt:
        print(f"stopped; its files are in {folder}", file=sys.stderr)  # noqa: T201 - same
        return INTERRUPTED
    guarded, careful = figures["guarded"], figures["careful"]
    command = f"settled queue list --journal {shlex.quote(journal_of(folder / 'guarded'))}"
    if as_json:
        facts: dict[str, Any] = {kind: figures_as_json(figures[kind]) for kind in KINDS}
        facts |= {"calls": calls, "seed": seed, "folder": str(folder), "next": command}
        print(json.dumps(facts | {"seconds": round(time.monotonic() - began, 1)}))  # noqa: T201 - its output
    else:
        show(guarded, careful, folder, seed=seed, command=command)
    return 0 if guarded.clean else 1


def _watched(folder: Path, calls: int, seed: int, *, quiet: bool) -> dict[Kind, Figures]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal) as progress:
        bars = {kind: progress.add_task(_TITLES[kind], total=calls) for kind in KINDS}
        return run_both(folder, calls, seed, lambda kind: progress.advance(bars[kind]))


def run_both(folder: Path, calls: int, seed: int, tell: Callable[[Kind], None]) -> dict[Kind, Figures]:
    """Run both agents side by side, and stop all their processes if either fails or the user interrupts."""
    sessions = {kind: Session(kind, folder / kind, calls, seed, _teller(tell, kind)) for kind in KINDS}
    threads = ThreadPoolExecutor(len(sessions), "settled-demo")
    try:
        running = {kind: threads.submit(session.run) for kind, session in sessions.items()}
        return {kind: future.result() for kind, future in running.items()}
    finally:
        for session in sessions.values():
            session.stop()
        threads.shutdown()


def _teller(tell: Callable[[Kind], None], kind: Kind) -> Callable[[], None]:
    lock = threading.Lock()

    def advance() -> None:
        with lock:
            tell(kind)

    return advance
