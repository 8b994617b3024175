"""A tool whose effect is rows beside the record, in the simulated world."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from settled.core.attempts.joint import Look, Made
from settled.core.call import Call
from settled.core.commands import Raised, Returned
from settled.testing.simulation import tools

if TYPE_CHECKING:
    from collections.abc import Mapping

    from settled.core.commands import Join
    from settled.core.model import Moment
    from settled.journals.memory import MemoryBooks
    from settled.testing.simulation.tools import ToolSpec
    from settled.testing.simulation.world import Intention, World


class Cancelled(BaseException):
    """The asker has gone."""


_FAULTS = (tools.REFUSAL, tools.RESET, tools.BAD_GATEWAY)


class Rows:
    """The whole of an attempt as one transition: what the journal takes back, it takes back with its rows."""

    def __init__(
        self, command: Join, world: World, tool: ToolSpec, truth: Mapping[str, Intention], meant: Intention
    ) -> None:
        self._first, self._world, self._tool = command.first, world, tool
        self._truth, self._meant = truth, meant
        self.gone = False
        """The asker has left."""
        self.fate: Returned | Raised | None = None
        """How the function ended; ``None``: it was not called."""

    def apply(self, books: MemoryBooks, now: Moment) -> Any:
        """Write rows and record; return as ``ports.TransactionalJournal.together`` does."""
        reply = Look(self._first).apply(books, now)
        if reply is not None:
            return reply
        if self.gone:
            self.fate = Raised(Cancelled())
            return None
        dice = self._world.dice
        if dice.random() < 0.3:
            self.fate = Raised(tools.Failure(dice.choice(_FAULTS)))
            return None
        value = f"done:{self._meant[1]}:{len(self._world.effects)}"
        self.fate = Returned(value, value.encode())
        reply = Made(self._first, value.encode()).apply(books, now)
        if isinstance(reply, Call):
            meant = self._truth.get(reply.operation_id, self._meant)
            books.undo.append(self._world.row(self._tool, reply, meant))
        return reply
