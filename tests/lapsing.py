"""Time that a person had is over, and nobody waits for it: a short one would be over too soon on a busy machine."""

from settled.core.call import evolve
from settled.core.states import Event
from settled.core.values import replace
from settled.testing.records import Look


def lapse(guard, operation_id):
    """Let the leave that is asked for, or was given, have ended."""
    call = guard.journal.get(operation_id)
    over = evolve(call, Event.NOTE, guard.journal.now(), leave=replace(call.leave, until=0.0))
    guard.journal.perform(Look(lambda books: (books.by_id(operation_id), books.put(*over))))
