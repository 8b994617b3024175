"""What a store does to its users: a guard over a file, a count of effects, a process that holds the file's lock."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

import settled

HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
connection.execute("ROLLBACK")
"""


class Holder:
    """Another process that takes the write lock of a journal and keeps it."""

    def __init__(self, path):
        self.path, self.process = str(path), None

    def hold(self):
        command = [sys.executable, "-c", HOLDER, self.path]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "held\n"

    def let_go(self):
        if self.process is not None:
            self.process.stdin.close()
            assert self.process.wait(60) == 0
            self.process.stdout.close()
            self.process = None


@pytest.fixture
def holder(tmp_path):
    holder = Holder(tmp_path / "agent.db")
    yield holder
    holder.let_go()


@pytest.fixture
def shop(tmp_path):
    """Opens guards on one file, each with the tools ``send`` and ``asend``, over one list of effects."""
    shop = SimpleNamespace(effects=[], after=lambda: None, guards=[], path=tmp_path / "agent.db")

    def act(order):
        shop.effects.append(order)
        shop.after()
        return f"{order} done"

    def opened(**options):
        guard = settled.Guard(f"sqlite:///{shop.path}", **{"busy_timeout": 0.3, "lease": 30.0, **options})
        shop.guards.append(guard)

        @guard.tool(effect="write", key="{order}")
        def send(order: str) -> str:
            return act(order)

        @guard.tool(effect="write", key="{order}")
        async def asend(order: str) -> str:
            return act(order)

        return SimpleNamespace(guard=guard, send=send, asend=asend)

    shop.open = opened
    yield shop
    for guard in shop.guards:
        guard.close()
