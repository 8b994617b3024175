"""What all processes of one play must know: where the journal and the services are, and which trips there are."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.travel.plan import Trip, trips

if TYPE_CHECKING:
    from collections.abc import Iterator

WHERE = "SETTLED_TRAVEL"
"""The environment variable that names the file."""


@dataclass(frozen=True, slots=True)
class Orders:
    """One play."""

    folder: str
    journal: str
    """Its address."""
    ports: dict[str, int]
    """By service."""
    seed: int
    runs: int

    def write(self) -> None:
        """Put them where every process looks."""
        path = Path(self.folder, "orders.json")
        path.write_text(json.dumps(asdict(self)))
        os.environ[WHERE] = str(path)

    @classmethod
    def read(cls) -> Orders:
        """Read them."""
        return cls(**json.loads(Path(os.environ[WHERE]).read_text()))

    @property
    def trips(self) -> list[Trip]:
        """All trips."""
        return trips(self.seed, self.runs)


def append(path: Path, row: dict[str, Any]) -> None:
    """Add a row to a file of JSON lines; what was written outlives a kill."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, json.dumps(row).encode() + b"\n")
    finally:
        os.close(descriptor)


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of such a file, if there is one."""
    if path.exists():
        with path.open() as file:
            yield from map(json.loads, file)
