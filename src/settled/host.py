"""This machine and this process: clocks that do not jump, and names by which others can see us die."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from settled.core.model import Moment, Owner

_NAMES: Final = ("/etc/machine-id", "/var/lib/dbus/machine-id")
"""Where the name of a machine is kept."""
_OUTSIDE: Final = "pid:[4026531836]"
"""Where Linux numbers what runs in no container: PROC_PID_INIT_INO, the same in every release."""
_NAME: Final = re.compile(rb"[0-9a-fA-F]{32}")


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
    """Return ``machine/namespace``: where this process's number is unique. The machine may be empty (``_machine``)."""
    return f"{_machine()}/{_numbered() or sys.platform}"


def _numbered() -> str:
    """Return where Linux numbers this process."""
    with contextlib.suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink())
    return ""


@cache
def _machine() -> str:
    """Return what names this machine over its boots, empty where nothing does, and in containers.

    There it may have come with the image (as Debian's package of D-Bus makes one), to many machines.
    """
    if sys.platform == "linux" and _numbered() != _OUTSIDE:
        return ""
    for file in _NAMES:
        with contextlib.suppress(OSError):
            named = Path(file).read_bytes().strip()
            if _NAME.fullmatch(named):  # "uninitialized", in an image, is no name
                return _digest(named)  # the name itself is not to be told to others: see machine-id(5)
    if sys.platform == "linux":
        return ""
    import uuid  # noqa: PLC0415 - it takes longer to load than the rest of this

    return _digest(str(uuid.getnode()).encode())


def _digest(name: bytes) -> str:
    return sha256(b"settled " + name).hexdigest()[:16]


def _started(pid: int) -> str | None:
    """Return what tells this process from an earlier one with the same number; ``None`` if it is gone.

    Empty: it is there, and cannot be looked at.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return (_started_by_ps(pid) or "") if _is_there(pid) else None
    return None if fields[0] in "ZX" else fields[19]


def _is_there(pid: int) -> bool:
    """Ask the kernel: ``/proc`` and ``ps`` are silent also on what others run (hidepid=, ProtectProc=)."""
    try:
        if sys.platform != "win32":  # there signal 0 is Ctrl-C
            os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True


_PS = "/bin/ps"


def _started_by_ps(pid: int) -> str:
    if sys.platform == "linux":
        return ""
    command = [_PS, "-o", "lstart=", "-p", str(pid)]
    plain = {"LC_ALL": "C", "TZ": "UTC"}  # else processes with other languages or time zones take each other for dead
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=5, env=plain)  # noqa: S603 - fixed command
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def alive(owner: Owner) -> bool | None:
    """Return whether a process lives; ``None`` where it cannot be told from here."""
    if owner.boot != boot_id():
        return False if _was_here(owner) else None
    if owner.space != _space():
        return None
    started = _started(owner.pid)
    if started is None or (started and owner.started and started != owner.started):
        return False
    return True if started else None


def _was_here(owner: Owner) -> bool:
    """Whether a process of another boot ran on this machine: many machines, and containers, share a host's name."""
    machine = owner.space.partition("/")[0]
    named_by_clock = "/" in owner.boot or "/" in boot_id()  # a boot that is named by the time may get two names
    return bool(machine) and machine == _machine() and owner.host == socket.gethostname() and not named_by_clock
