"""One attempt within the journal's transaction: both drivers make it alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from settled.core.attempts.joint import Look, Made
from settled.core.attempts.outcome import read
from settled.core.call import Call
from settled.core.commands import Ended, Invoke, Joined, Raised, Returned
from settled.core.values import replace
from settled.drivers.attempts import run_here
from settled.transaction import EndedByTool, lent

if TYPE_CHECKING:
    from collections.abc import Callable

    from settled.core.commands import Join
    from settled.drivers.floor import Binding, Floor
    from settled.transaction import Transaction


class Work:
    """What is done in one transaction (see ``ports.Joint``)."""

    def __init__(self, command: Join, binding: Binding, floor: Floor, gone: Callable[[], bool]) -> None:
        self.first = command.first
        self.look = Look(command.first)
        self.ended: Ended | None = None
        self.committed = False
        self._command, self._binding, self._floor, self._gone = command, binding, floor, gone

    def run(self, transaction: Transaction) -> Made | None:
        """Call the function; return what is to be put on record, ``None`` to roll everything back."""
        command, binding, floor = self._command, self._binding, self._floor
        if command.start:
            floor.begin(binding)
        token = lent.set(transaction)
        try:
            invoke = Invoke(None, command.no, None, command.deadline)
            self.ended = ended = run_here(invoke, binding, floor, transaction.finish)
        finally:
            lent.reset(token)
            transaction.end()
        outcome = ended.outcome
        if self._gone() or type(outcome) is not Returned:
            return None  # who has gone may have asked again already, where nothing was on record yet
        if read(ended, binding.policy, binding.clean, attempt=command.no, doubtful=False) is not None:
            return None
        return Made(command.first, *binding.encode(outcome.value), checkpoint=command.checkpoint)


def join(
    command: Join, binding: Binding, floor: Floor, gone: Callable[[], bool] = lambda: False
) -> tuple[Joined, BaseException | None]:
    """Make the attempt; return its event, and what interrupted it (Ctrl-C, exit), to be raised afterwards.

    ``gone`` says whether the asker has left. Raises ``JournalError`` where it is not known whether the commit took
    effect.
    """
    work = Work(command, binding, floor, gone)
    try:
        reply: Any = floor.journal.together(work)  # type: ignore[attr-defined]  # the guard has looked whether it can
    except EndedByTool as loose:
        outcome = Ended(Raised(loose), over=True, draw=floor.draw(), at=floor.now(), abandoned=gone())
        return Joined(None, outcome, floor.now(), loose=True), None
    # A call that was on record already is answered from its record, whatever was run meanwhile and rolled back.
    ended = None if isinstance(reply, Call) and not work.committed else work.ended
    error = getattr(ended.outcome, "error", None) if ended else None
    if ended is None or error is None or isinstance(error, Exception):
        return Joined(reply, ended, floor.now()), None
    return Joined(reply, replace(ended, abandoned=True), floor.now()), error
