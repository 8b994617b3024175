"""What all rules of ``Agreement`` need: both journals, and how they are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from settled.core.books import Transition
    from settled.journals.memory import MemoryJournal
    from settled.ports import Journal


class Rules:
    """A part of the machine."""

    journal: Journal
    model: MemoryJournal
    known: list[str]
    """Ids of calls."""
    seen: Counter[str]
    """How often each kind of answer was compared, for a test to look at what was reached."""

    def both(self, ours: Transition[Any], theirs: Transition[Any]) -> tuple[Any, Any]:
        """Perform the same on both; replies or errors must be equal."""
        expected, found = _outcome(lambda: self.model.perform(ours)), _outcome(lambda: self.journal.perform(theirs))
        assert found == expected
        self.seen[type(expected).__name__] += 1
        return expected, found

    def same(self, transition: Transition[Any]) -> Any:
        """Perform one that remembers nothing."""
        return self.both(transition, transition)[0]

    def pick(self, number: int) -> str:
        """Return the id of a call, rather of a late one; now and then of none."""
        return self.known[-1 - number % min(len(self.known), 7)] if self.known and number < 30 else "op_none"


def _outcome(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - whatever the rule raises, both must raise
        return type(error).__name__, str(error)
