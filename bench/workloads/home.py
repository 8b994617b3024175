"""Starting the tools' world: its environment, made at first use, and its process."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import venv
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self, cast

import httpx

if TYPE_CHECKING:
    from bench.workloads.world.weather import Weather

ROOT = Path(__file__).parents[2]
ENVIRONMENT = ROOT / "build" / "bfcl"
"""Ignored by git, as all of ``build`` is."""
REQUIREMENTS = Path(__file__).parent / "world" / "requirements.txt"
BFCL = "bench.workloads.world.bfcl"
_GOODBYE = 10.0
_INSTALLING = 600.0


def prepared() -> Path:
    """Return the Python of the world's environment; make it first if it is not there or not up to date."""
    python = ENVIRONMENT / "bin" / "python"
    stamp, wanted = ENVIRONMENT / "installed", hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"installing the data set into {ENVIRONMENT.relative_to(ROOT)}", file=sys.stderr)
    venv.create(ENVIRONMENT, clear=True, with_pip=True)
    options = ["--quiet", "--no-deps", "--require-hashes", "--requirement", str(REQUIREMENTS)]
    subprocess.run([str(python), "-m", "pip", "install", *options], check=True, timeout=_INSTALLING)  # noqa: S603 - our own pip
    stamp.write_text(wanted)
    return python


class Home:
    """The world as a process; a context manager. It ends with the driver, at the latest."""

    def __init__(self, weather: Weather, python: Path, tasks: str = BFCL) -> None:
        command = [str(python), "-m", "bench.workloads.world", tasks, json.dumps(asdict(weather))]
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            start_new_session=True,  # Ctrl-C is for the driver, which then ends the world
        )
        port = cast("IO[str]", self._process.stdout).readline().strip()
        if not port:
            raise RuntimeError("the tools' world did not start: see above")
        self.url = f"http://127.0.0.1:{port}"
        self._client = httpx.Client(base_url=self.url, timeout=60.0, trust_env=False)

    def plan(self) -> dict[str, Any]:
        """Return the tools and the tasks."""
        found: dict[str, Any] = self._client.get("/plan").raise_for_status().json()
        return found

    def close_run(self, run: str, but: list[int]) -> dict[str, Any]:
        """Return the state and the ledger of a run."""
        found: dict[str, Any] = self._client.post(f"/runs/{run}/close", json={"but": but}).raise_for_status().json()
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        try:
            self._process.communicate("", timeout=_GOODBYE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
