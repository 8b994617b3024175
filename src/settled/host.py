"""This machine and this process: clocks that do not jump, and names by which others can see us die."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

from settled.core.model import Moment, Owner


@cache
def boot_id() -> str:
    """Return what names this boot of this machine."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    if sys.platform == "darwin":
        command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            return subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout.strip()  # noqa: S603 - fixed command
    # Elsewhere: the minute of the boot, the finest that a stepped wall clock leaves comparable.
    return f"{socket.gethostname()}/{round((time.time() - time.monotonic()) / 60)}"


if hasattr(time, "CLOCK_BOOTTIME"):

    def steady() -> float:
        """Return seconds on the clock that counts suspend and never jumps."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:
    steady = time.monotonic  # macOS: since boot and the same for all processes


def now() -> Moment:
    """Return this instant on both clocks."""
    return Moment(time.time(), boot_id(), steady())


def this_process() -> Owner:
    """Return the name of this process; a forked child gets its own."""
    return _process(os.getpid())


class Lineage:
    """Tells a forked child from its parent, without asking the system for the process's number."""

    __slots__ = ("forks",)

    def __init__(self) -> None:
        self.forks = 0
        """How many forks lie between this process and the one that loaded this module."""

    def forked(self) -> None:
        """In a forked child."""
        self.forks += 1


lineage = Lineage()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lineage.forked)


@cache
def _process(pid: int) -> Owner:
    return Owner(socket.gethostname(), boot_id(), _space(), pid, _started(pid) or "")


@cache
def _space() -> str:
    with contextlib.suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink())
    return sys.platform


def _started(pid: int) -> str | None:
    """Return what tells this process from an earlier one with the same number; ``None`` if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else _started_by_ps(pid)
    except OSError:
        return ""
    return None if fields[0] in "ZX" else fields[19]


def _started_by_ps(pid: int) -> str | None:
    command = ["/bin/ps", "-o", "lstart=", "-p", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=5)  # noqa: S603 - fixed command
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() or None


def alive(owner: Owner) -> bool | None:
    """Return whether a process lives; ``None`` where it cannot be told from here."""
    if owner.boot != boot_id():
        return False if owner.host == socket.gethostname() else None
    if owner.space != _space():
        return None
    started = _started(owner.pid)
    if started is None or (started and owner.started and started != owner.started):
        return False
    return True if started else None
