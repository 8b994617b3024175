"""One process: it lives by a plan.

Run as a module it forks one for each plan that it is sent, so that none has to load the library anew.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from typing import TYPE_CHECKING

from settled import host
from settled.testing.kill.fuse import Fuse
from settled.testing.kill.plan import Plan
from settled.testing.kill.scripts import SCRIPTS, play
from settled.testing.kill.stage import ELSEWHERE, Stage

if TYPE_CHECKING:
    from collections.abc import Callable


def live(plan: Plan) -> None:
    """Do what the plan says, up to the boundary to die at."""
    fuse, script = Fuse.of(plan), SCRIPTS[plan.script]
    if plan.elsewhere:
        host._space = lambda: ELSEWHERE  # type: ignore[assignment]  # noqa: SLF001 - what a container would see
    if plan.channel == "files":
        fuse.watch_files(plan.folder)
    with Stage(plan, script, fuse) as stage:
        play(stage, script)


def fork(plan: Plan, live: Callable[[Plan], None] = live) -> int:
    """Start a process for a plan; return its id. It ends with 0, or with 1 and its error in a file."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        silence = os.open(os.devnull, os.O_RDWR)
        os.dup2(silence, 0)
        os.dup2(silence, 1)
        live(plan)
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, the parent reads it in the file
        (plan.home / f"{plan.name}.error").write_text(traceback.format_exc())
    finally:
        os._exit(code)


def _ended(pid: int) -> str:
    done, status = os.waitpid(pid, os.WNOHANG)
    return str(os.waitstatus_to_exitcode(status)) if done else "alive"


def serve() -> None:
    """Take orders on standard input, a line each: ``start <plan>`` or ``look <pid>``; answer each with a line."""
    gc.freeze()  # a child need not look through what it shares with us
    for line in sys.stdin:
        order, _, what = line.strip().partition(" ")
        answer = str(fork(Plan.loads(what))) if order == "start" else _ended(int(what))
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
