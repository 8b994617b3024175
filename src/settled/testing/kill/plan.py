"""What one process is to do, and where it is to die."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

RUN = "trip"
"""The run that scripts work in, if they work in one."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One life of one process on one journal; everything lies in ``folder``, but for a journal in a database."""

    folder: str
    script: str
    name: str = "first"
    """Names the process's own files: what it was told, and where it has been."""
    is_async: bool = False
    channel: str = "main"
    """Whose boundaries count towards ``at``."""
    at: int | str | None = None
    """The boundary to die at, counted from 1, or the first of that name; ``None``: none."""
    later: float = 0.0
    """Seconds by which the journal's clock is ahead: more than a lease, and every lost owner's is over."""
    entry: int = 1
    """Which time the script is played: the model's ids and words differ each time."""
    wait: float = 5.0
    """Seconds to wait for another owner's answer."""
    lease: float = 30.0
    """Seconds."""
    journal: str = ""
    """The address of a server, where the journal is to be there; each folder has a schema (or prefix) of its own."""
    elsewhere: bool = False
    """Name the process as one of another machine would be: nobody here can see whether it lives."""

    def dumps(self) -> str:
        """Return it as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> Self:
        """Return the plan that ``dumps`` wrote."""
        return cls(**json.loads(text))

    @property
    def home(self) -> Path:
        """The folder."""
        return Path(self.folder)

    @property
    def trace(self) -> Path:
        """Where the process writes each boundary that it crosses."""
        return self.home / f"{self.name}.trace"

    @property
    def told(self) -> Path:
        """Where it writes what it was told."""
        return self.home / f"{self.name}.told"

    @property
    def over(self) -> Path:
        """What it leaves when it has come to its end."""
        return self.home / f"{self.name}.over"
