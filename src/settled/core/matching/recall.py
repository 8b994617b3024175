"""Answering from what was read when a run was entered again: the plain case of ``match.py``, without the journal.

The plain case: one call of the run alone has this tool and identity, it has succeeded, and it was asked for in these
very words. Then it is the answer, whatever else is on record. All that is not plain is left to the claim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.matching.family import was_in_doubt
from settled.core.model import KeyKind
from settled.core.runs.rewind import is_set_aside
from settled.core.states import State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from settled.core.call import Call
    from settled.core.matching.entry import Entry


class Recall:
    """The calls of a run that may answer so, as they stood when they were read; each answers once."""

    __slots__ = ("_calls", "_entry")

    def __init__(self, calls: Iterable[Call], entry: Entry) -> None:
        self._entry = entry
        found: dict[tuple[str, str], list[Call]] = {}
        for call in calls:
            if is_set_aside(call):
                continue  # a rewind wants it made anew
            found.setdefault((call.tool, call.identity), []).append(call)
        self._calls = {place: those[0] for place, those in found.items() if len(those) == 1 and _is_plain(*those)}

    def __len__(self) -> int:
        return len(self._calls)

    def leave(self, tool: str, identity: str) -> None:
        """Answer calls of one kind no more."""
        self._calls.pop((tool, identity), None)

    def take(self, tool: str, identity: str, words: str) -> Call | None:
        """Return the call that answers, and note in the entry that it was told; ``None``: the claim is to decide."""
        entry, call = self._entry, self._calls.get((tool, identity))
        if call is None or call.words != words or not entry.of_turn(call):
            return None
        if call.operation_id in entry.answered or call.operation_id in entry.reserved:
            return None
        del self._calls[tool, identity]
        entry.steps.setdefault(call.operation_id, "")
        entry.tell(call)
        return call


def _is_plain(call: Call) -> bool:
    if call.state is not State.SUCCEEDED or call.disputed or was_in_doubt(call):
        return False  # that somebody is told how a doubt has ended goes on record
    return call.kind is KeyKind.SCOPED and not call.lane
