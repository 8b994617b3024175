"""An app whose calls are left in doubt by processes that die, on either kind of journal."""

import itertools
import json
import os
import signal
import subprocess
import sys

import pytest

from tests.shared import ROOT
from tests.waiting import until

APP = """
import os
import signal
import time
from pathlib import Path

import settled

guard = settled.Guard(os.environ["PLACE"])
effects, asked, hurry, told = Path("effects"), Path("asked"), Path("hurry"), Path("told to stop")


def note(path, text):
    with path.open("a") as file:
        file.write(text + "\\n")


def look(call):
    note(asked, call.arguments["order"])
    while call.arguments["order"].startswith("slow") and not hurry.exists():
        time.sleep(0.01)
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # the worker has heard a first one
            told.touch()
    if call.arguments["order"] in (effects.read_text().split() if effects.exists() else ()):
        return settled.Happened("receipt")
    if call.arguments["order"].startswith("odd"):
        raise OSError("no line")
    return settled.NotHappened()


@guard.tool(effect="write", key="{order}", probe=look, max_request_lifetime=0.0, breaker=None)
def pay(order: str) -> str:
    if not order.startswith(("lost", "odd")):
        note(effects, order)
    if order.startswith("killed"):
        os.kill(os.getpid(), 9)
    raise TimeoutError("no answer")


@guard.tool(effect="write", key="mail {order}", retention=0.0)
def mail(order: str) -> str:
    return order


def leave(*orders):
    \"\"\"Leave these calls in doubt: nobody asks their probe, and a worker may at once.\"\"\"
    from settled.core.doubt.tending import LayDown
    from settled.core.values import replace
    policy = pay.checked.policy
    object.__setattr__(pay.checked, "policy", replace(policy, probe=False))
    for order in orders:
        guard.journal.perform(LayDown(pay.call(order).operation_id, 1, 0.0))
"""

_numbers = itertools.count(1)


class App:
    """The app's folder, its journal, and processes that are started there."""

    def __init__(self, folder, place):
        self.folder = folder
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{folder}",
            "PLACE": place,
            "SETTLED_APP": "app:guard",
        }
        (folder / "app.py").write_text(APP)

    def start(self, *words):
        command = [sys.executable, *words]
        return subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def python(self, program):
        process = self.start("-c", f"import app\n{program}")
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def worker(self, *words):
        return self.start("-m", "settled.cli", "worker", *words)

    def once(self, *words):
        process = self.worker("--once", "--json", *words)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        return json.loads(out)

    def lines(self, name):
        path = self.folder / name
        return path.read_text().split() if path.exists() else []

    def told_to_stop(self, worker):
        """Tell a worker whose probe is under way, and wait until it has heard it: two signals at once may be one."""
        until(lambda: self.lines("asked"), "the first probe")
        worker.send_signal(signal.SIGTERM)
        until((self.folder / "told to stop").exists, "that it has heard it")
        assert worker.poll() is None, "it waits for the probe"

    def states(self):
        code, out, err = self.python("print(*[f'{c}' for c in app.guard.journal.count().items()], sep='\\n')")
        assert code == 0, err
        return out


@pytest.fixture(params=["sqlite", "postgres"])
def app(request, tmp_path):
    if request.param == "sqlite":
        return App(tmp_path, f"sqlite:///{tmp_path}/agent.db")
    server = request.getfixturevalue("postgres")
    return App(tmp_path, server.url(schema=f"worker_{next(_numbers)}", spill=tmp_path / "spill"))
