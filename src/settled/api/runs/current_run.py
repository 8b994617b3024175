"""Which run the calling code works on."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from settled.api.runs.run import Run

current_run: ContextVar[Run | None] = ContextVar("settled_run", default=None)
