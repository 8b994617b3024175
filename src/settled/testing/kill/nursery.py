"""Starting processes for plans, and seeing them die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

import settled

if TYPE_CHECKING:
    from collections.abc import Callable

    from settled.testing.kill.plan import Plan

KILLED = -signal.SIGKILL
PATIENCE = 120.0
"""Seconds after which a process hangs, and the test fails."""


class Nursery:
    """A process that forks one for each plan. A context manager: at its end, whoever still lives is killed."""

    def __init__(self) -> None:
        place = str(Path(settled.__file__).parent.parent)
        path = os.pathsep.join(filter(None, (place, os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "settled.testing.kill.life"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
        )
        self._lock = threading.Lock()
        self._alive: dict[int, Plan] = {}

    def live(self, plan: Plan) -> int:
        """Let a process live by a plan to its end; return its exit code, ``KILLED`` if it died at its boundary.

        Raises ``RuntimeError`` with its words if it failed, or if it hangs.
        """
        return self.wait(self.start(plan))

    def start(self, plan: Plan) -> int:
        """Start a process; return its id."""
        pid = int(self._ask(f"start {plan.dumps()}"))
        self._alive[pid] = plan
        return pid

    def wait(self, pid: int) -> int:
        """Wait for a process; see ``live``."""
        code = awaited(partial(self._end, pid), f"process {pid} hangs")
        plan = self._alive.pop(pid)
        if code not in (0, KILLED):
            error = plan.home / f"{plan.name}.error"
            raise RuntimeError(f"{plan} ended with {code}: {error.read_text() if error.exists() else ''}")
        return code

    def kill(self, pid: int) -> int:
        """Kill a process from outside; return its exit code."""
        os.kill(pid, signal.SIGKILL)
        return self.wait(pid)

    def _end(self, pid: int) -> int | None:
        answer = self._ask(f"look {pid}")
        return None if answer == "alive" else int(answer)

    def _ask(self, order: str) -> str:
        with self._lock:
            _pipe(self._process.stdin).write(f"{order}\n")
            _pipe(self._process.stdin).flush()
            return _pipe(self._process.stdout).readline().strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pid in list(self._alive):
            if self._end(pid) is None:
                os.kill(pid, signal.SIGKILL)
                awaited(partial(self._end, pid), f"process {pid} does not die")
        _pipe(self._process.stdin).close()
        self._process.wait(PATIENCE)
        _pipe(self._process.stdout).close()


def _pipe(stream: IO[str] | None) -> IO[str]:
    if stream is None:
        raise RuntimeError("the nursery has no pipe")
    return stream


def awaited(look: Callable[[], int | None], otherwise: str, seconds: float = PATIENCE) -> int:
    """Return what ``look`` sees as soon as it sees something. Raises ``RuntimeError`` after ``seconds``."""
    end = time.monotonic() + seconds
    while (seen := look()) is None:
        if time.monotonic() > end:
            raise RuntimeError(otherwise)
        time.sleep(0.002)
    return seen
