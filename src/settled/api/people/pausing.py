"""Pausing tools, for every process on the journal."""

from __future__ import annotations

import time
from contextlib import suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from settled.api import secrets
from settled.core.doubt.settling import Refused
from settled.core.noted import notes
from settled.core.noted.pausing import Pause
from settled.errors import DeclarationError, JournalError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from settled.api.guard import Guard
    from settled.ports import Journal

YOUNG: Final = 1.0
"""Seconds for which a call that leaves no record goes by what was read of the journal before."""


def pause(guard: Guard, tool: str, *, by: str, reason: str, resume: bool = False) -> dict[str, Any]:
    """Pause or resume a tool; return what was put on record. Raises ``DeclarationError`` if it cannot be done."""
    if not by.strip() or not reason.strip():
        raise DeclarationError("to pause or resume a tool takes a name (by=) and a reason (reason=)")
    by, reason = secrets.clean(by.strip()), secrets.clean(reason.strip())
    done = guard.journal.perform(Pause(tool, by, reason, resume, token_hex(8)))
    if isinstance(done, Refused):
        raise DeclarationError(done.why)
    guard.pauses.forget()
    return done


def paused(journal: Journal) -> dict[str, dict[str, Any]]:
    """Return the paused tools: who has paused each, why, and when (``at``, seconds since 1970)."""
    return {tool: notes.read(text) for tool, text in journal.notes(notes.PAUSED).items()}


def seen(journal: Journal) -> set[str]:
    """Return the tools that were ever paused."""
    return set(journal.notes(notes.PAUSES))


def history(journal: Journal, tool: str) -> list[dict[str, Any]]:
    """Return who has paused and resumed a tool, the oldest first."""
    return list(notes.read(journal.notes(notes.PAUSES).get(tool)).get("history", ()))


class Pauses:
    """The paused tools as this process has read them last: for calls that leave no record, and so make no claim."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._read: Mapping[str, str] = {}
        self._until = 0.0

    def forget(self) -> None:
        """Read them anew the next time."""
        self._until = 0.0

    def reason(self, tool: str) -> str | None:
        """Return why a tool is paused; ``None`` if it is not, or was not a second ago."""
        if time.monotonic() >= self._until:
            self._until = time.monotonic() + YOUNG
            with suppress(JournalError):  # such a call needs no journal: it goes by what was read last
                self._read = self._journal.notes(notes.PAUSED)
        text = self._read.get(tool)
        return None if text is None else str(notes.read(text).get("reason", ""))
