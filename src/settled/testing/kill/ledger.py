"""What truly happened: one line for each effect, on disk before the tool goes on."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect in the world of a kill test."""

    tool: str
    order: str
    """The intention: whatever has the same order was meant once."""
    key: str
    value: str
    """What the tool returned for it; another one for each effect."""


class Ledger:
    """A file of effects. Safe for threads and processes: each line is one write in append mode."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def write(self, effect: Effect) -> None:
        """Let an effect happen."""
        append(self.path, json.dumps(asdict(effect)))

    def once(self, effect: Effect) -> Effect:
        """Let it happen unless its key was used before; return the one that did: what an idempotent service does."""
        with self._locked():
            known = next((e for e in self.effects() if e.key == effect.key), None)
            if known is None:
                self.write(effect)
            return known or effect

    def effects(self) -> list[Effect]:
        """Return all effects, oldest first; of one that is just being written a part may be seen, which is none yet."""
        text = self.path.read_text() if self.path.exists() else ""
        return [Effect(**json.loads(line)) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def of(self, order: str) -> list[Effect]:
        """Return the effects of one intention."""
        return [effect for effect in self.effects() if effect.order == order]

    @contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = os.open(f"{self.path}-lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def append(path: Path, line: str) -> None:
    """Append one line, durably."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, line.encode() + b"\n")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
