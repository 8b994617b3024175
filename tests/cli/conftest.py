"""A shop with real SQLite journals, and the command line run on them in this process or in one of its own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import settled
from settled.cli import main
from tests.shared import ROOT

SHOP = """
import os
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import settled

guard = settled.Guard("sqlite:///shop.db", lease={lease})
ORDERS = Path("orders.txt")


@dataclass
class Order:
    number: int
    due: date


def orders():
    return ORDERS.read_text().split("\\n") if ORDERS.exists() else []


def find_order(call):
    print("asked for", call.arguments["item"])
    if call.arguments["item"] in orders():
        return settled.Happened(Order(1, date(2030, 1, 2)))
    return settled.NotHappened()


async def find_parcel(call):
    return settled.Inconclusive("the carrier's site is down")


def ring(call):
    raise OSError("no line")


@guard.tool(effect="write", probe=find_order, max_request_lifetime={lifetime}, redact=["card"])
def order(item: str, card: str = "") -> Order:
    return lost(item)


@guard.tool(effect="write", probe=find_parcel, max_request_lifetime={lifetime})
def ship(item: str) -> str:
    return lost(item)


@guard.tool(effect="write", probe=ring, max_request_lifetime={lifetime})
def phone(number: str) -> None:
    return lost(number)


@guard.tool
def mail(to: str, text: str = "") -> None:
    raise TimeoutError("no answer")


@guard.tool(effect="idempotent", attempts=1)
def label(item: str) -> str:
    raise ConnectionResetError("reset")


@guard.tool(effect="read", record=True)
def price(item: str) -> float:
    return 9.5


@guard.tool(effect="write", retention=0.0)
def note(text: str) -> str:
    return text


@guard.tool(effect="write")
def crash(item: str) -> None:
    os.kill(os.getpid(), 9)


def lost(item):
    if item.startswith("lost"):
        with ORDERS.open("a") as file:
            file.write(item + "\\n")
    raise TimeoutError("no answer from the shop")


def make():
    return guard


def broken():
    raise RuntimeError("no database")


async def later():
    return guard


number = 5
"""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def error(self):
        return json.loads(self.err)["error"]


class Shop:
    """A folder with a shop in it, whose probes are not asked while its calls are made."""

    def __init__(self, folder, capsys):
        self.folder, self.capsys = folder, capsys
        self.url = "sqlite:///shop.db"
        self.write()

    def write(self, *, lifetime=3600.0, lease=30.0):
        (self.folder / "shop.py").write_text(SHOP.replace("{lifetime}", str(lifetime)).replace("{lease}", str(lease)))
        sys.modules.pop("shop", None)

    def open(self):
        """Return the shop's module, its guard open."""
        import importlib  # noqa: PLC0415 - the module is written by the test

        sys.modules.pop("shop", None)
        importlib.invalidate_caches()
        return importlib.import_module("shop")

    def make(self, tool, *, run=None, **arguments):
        """Make a call, its probe unasked; return its Result."""
        shop = self.open()
        made = shop.guard.tools[tool]
        object.__setattr__(made.checked, "policy", _without_probe(made.checked.policy))
        with shop.guard as guard:
            if run is None:
                return made.call(**arguments)
            with guard.run(run):
                return made.call(**arguments)

    def cli(self, *words, journal=True, app=False):
        """Run a command in this process."""
        sys.modules.pop("shop", None)
        given = ["--journal", self.url] if journal else []
        given += ["--app", "shop:guard"] if app else []
        self.capsys.readouterr()
        code = main([*words, *given])
        said = self.capsys.readouterr()
        return Ended(code, said.out, said.err)

    def look(self, operation_id):
        guard = settled.Guard(self.url, must_exist=True)
        with guard:
            return guard.journal.get(operation_id)


def _without_probe(policy):
    from settled.core.values import replace  # noqa: PLC0415

    return replace(policy, probe=False)


@pytest.fixture
def shop(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in ("SETTLED_JOURNAL", "SETTLED_APP", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    yield Shop(tmp_path, capsys)
    sys.modules.pop("shop", None)


@pytest.fixture
def process(shop):
    """Run ``python -m settled.cli`` in a process of its own."""

    def run(*words, environment=None, **options):
        chosen = {"SETTLED_JOURNAL": shop.url} if environment is None else environment
        around = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src"), **chosen}
        command = [sys.executable, "-m", "settled.cli", *words]
        done = subprocess.run(
            command, cwd=shop.folder, env=around, capture_output=True, text=True, timeout=60, check=False, **options
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    return run


def there(folder):
    """Return the names of the files in a folder, without Python's own."""
    return sorted(path.name for path in Path(folder).iterdir() if path.name != "__pycache__")
