"""A guard that is open, in use and at work in other threads while its process forks again and again."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING

from settled.core.values import replace
from settled.testing.kill.service import MOST_PATIENCE, Action

if TYPE_CHECKING:
    from settled.testing.kill.script import Flow
    from settled.testing.kill.stage import Stage

CHILDREN = 8
SHARED = Action("send", "shared")
"""Asked for by every child and by the parent."""


def forking(stage: Stage, actions: tuple[Action, ...]) -> Flow:
    """Use the guard; then fork while a thread goes on with it, and go on in the children and here."""
    for action in actions:
        stage.tell(action, (yield stage.bind(action)))
    enough = threading.Event()
    thread = threading.Thread(target=_go_on, args=(stage, enough))
    thread.start()
    try:
        children = [_fork(stage, number) for number in range(CHILDREN)]
        stage.tell(SHARED, (yield stage.bind(SHARED)))
        codes = [_wait(pid) for pid in children]
    finally:
        enough.set()
        thread.join()
    if any(codes):
        raise RuntimeError(f"children ended with {codes}")


def _go_on(stage: Stage, enough: threading.Event) -> None:
    number = 0
    while not enough.is_set():
        number += 1
        action = Action("send", f"thread {number}")
        stage.tell(action, stage.bind(action).call())


def _fork(stage: Stage, number: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        stage.plan = replace(stage.plan, name=f"child-{number}")
        for action in (SHARED, Action("send", f"own {number}"), Action("look", "shared look")):
            stage.tell(action, stage.bind(action).call())
        stage.guard.close()
        code = 0
    finally:
        os._exit(code)


def _wait(pid: int) -> int:
    """Return a child's exit code; one that hangs is killed, and its code says so."""
    end = time.monotonic() + MOST_PATIENCE
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
