"""Processes of their own, for what a test process cannot do to itself: ``python actors.py <act> <folder>``.

Each prints what it saw as one line of JSON.
"""

import json
import os
import resource
import stat
import sys
import time
from pathlib import Path

import settled

NOBODY = 65534
FULL, ROOM = 0, resource.RLIM_INFINITY


def limit(size):
    """Let no file of this process be written at or beyond ``size`` bytes: as a full disk, to be lifted again."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


class Shop:
    """A guard with one tool over a list of effects."""

    def __init__(self, folder, **options):
        self.effects, self.after, self.events = [], lambda: None, []
        url = f"sqlite:///{folder}/agent.db"
        told = lambda event, facts: self.events.append(event)  # noqa: E731 - one line
        self.guard = settled.Guard(url, lease=options.pop("lease", 30.0), alerts=told, **options)

        @self.guard.tool(effect="write", key="{order}")
        def send(order: str) -> str:
            self.effects.append(order)
            self.after()
            return f"{order} done"

        self.send = send

    def ask(self, order):
        """Return how it was answered, as plain data."""
        try:
            result = self.send.options(wait=0.0).call(order=order)
        except settled.JournalError as error:
            return {"error": str(error)}
        return {"status": result.status, "value": result.value, "recorded": result.recorded, "id": result.operation_id}

    def settled_within(self, seconds, operation_id):
        end = time.monotonic() + seconds
        while self.guard.look(operation_id).status != "succeeded" and time.monotonic() < end:
            time.sleep(0.01)
        return self.guard.look(operation_id).status


def full_before(folder):
    shop = Shop(folder)
    limit(FULL)
    refused = shop.ask("a")
    effects = list(shop.effects)
    limit(ROOM)
    return {"refused": refused, "effects": effects, "then": shop.ask("a"), "after": shop.effects}


def full_after(folder):
    """The disk is full at the commit after the effect, for the spill file too; then there is room again."""
    shop = Shop(folder)
    shop.after = lambda: limit(FULL)
    first = shop.ask("a")
    meanwhile = [shop.ask("a"), shop.ask("b")]
    effects = list(shop.effects)
    limit(ROOM)
    shop.after = lambda: None
    status = shop.settled_within(60, first["id"])
    return {
        "first": first,
        "meanwhile": meanwhile,
        "effects": effects,
        "events": shop.events,
        "status": status,
        "then": shop.ask("a"),
        "after": shop.effects,
    }


def full_and_gone(folder):
    """The same, and the process dies before there is room."""
    shop = Shop(folder, lease=2.0)
    shop.after = lambda: limit(FULL)
    return {"first": shop.ask("a"), "effects": shop.effects}


def full_with_spill_elsewhere(folder):
    """The journal's disk is full, the spill file's is not; the process dies before there is room."""
    (Path(folder) / "other-disk").mkdir()
    shop = Shop(folder, spill=f"{folder}/other-disk/spill")
    for number in range(8):
        shop.ask(f"filler {number}")
    shop.effects.clear()
    shop.after = lambda: limit(4096)  # the write-ahead log is beyond that; the spill file is not
    return {"first": shop.ask("a"), "effects": shop.effects, "events": shop.events}


def read_only(folder):
    """Without rights: the file, then the folder, then both, is read-only, before opening and while it is open."""
    if os.geteuid() == 0:
        _read_only(Path(folder) / "rehearsal")  # loads what must be loaded before the rights are gone
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    return _read_only(Path(folder) / "home")


def _read_only(home):
    home.mkdir()
    shop = Shop(home)
    seen = {"first": shop.ask("a")}
    _protect(home, writable=False)
    seen["while_open"] = shop.ask("b")
    seen["effects_while_open"] = list(shop.effects)
    shop.guard.close()
    for name, paths in {"file": [home / "agent.db"], "folder": [home], "both": [home, home / "agent.db"]}.items():
        _protect(home, writable=True)
        Shop(home).guard.close()  # folds the write-ahead log away, which could still be written
        for path in paths:
            path.chmod(0o500 if path == home else 0o400)
        seen[name] = _tried(home)
    _protect(home, writable=True)
    seen["again"] = _tried(home)
    return seen


def _tried(home):
    try:
        shop = Shop(home)
    except settled.JournalError as error:
        return {"error": str(error), "effects": []}
    answers = [shop.ask("a"), shop.ask("c")]
    shop.guard.close()
    return {"answers": answers, "effects": shop.effects}


def _protect(home, *, writable):
    home.chmod(stat.S_IRWXU if writable else 0o500)
    for path in home.iterdir():
        path.chmod(0o600 if writable else 0o400)


if __name__ == "__main__":
    acts = {act.__name__: act for act in (full_before, full_after, full_and_gone, full_with_spill_elsewhere, read_only)}
    seen = acts[sys.argv[1]](sys.argv[2])
    sys.stdout.write(json.dumps(seen) + "\n")
    sys.stdout.flush()
    os._exit(0)  # as a process that dies: no last round of chores
