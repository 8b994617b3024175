"""What one entry of a run has been told: the memory behind the rule of doubt and repetition.

It lives with the process that works on the run and dies with it; a new entry starts empty.
Rules change it only while a claim is being decided, one claim at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from settled.core.states import FINAL, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.core.ask import Ask
    from settled.core.call import Call

SETTLED_FOR_ASKER = FINAL | {State.NOT_DONE}


class Entry(Struct):
    """One time that a process works on a scope (a run, or one attempt of an enclosing call)."""

    no: int = 1
    earlier: Sequence[int] = ()
    """The entries, in order, whose calls may answer a like call of this one: those of the same turn."""
    past: Sequence[int] = ()
    """Those of turns just before this one that nobody saw the end of: what they did is told of, and answers nothing."""
    wide: bool | None = None
    """Whether doubt elsewhere may bar what is asked for here (``core/matching/family.py``); ``None``: not known."""
    answered: dict[str, str] = {}
    """Operation id -> the words it was asked for with."""
    steps: dict[str, str] = {}
    """Operation id -> the step that it first answered."""
    told: dict[str, State] = {}
    """Operation id -> the last outcome that the asker was given."""
    open: dict[str, None] = {}
    """Operation ids of calls whose final outcome was not given, in order."""
    waiting: dict[str, tuple[str, bool]] = {}
    """Asker -> the operation id that it waits for, and whether it was matched by likeness."""
    reserved: dict[str, str] = {}
    """Operation id -> the sibling (message and position) that it was matched to."""
    loose: set[str] = set()
    """Those of them that were matched in other words."""
    refused: dict[str, tuple[Call, ...]] = {}
    """Step or asker -> the untold calls it was answered with."""
    lists: dict[str, str] = {}
    """Asker that is about to hear such a list -> its key in ``refused``."""
    listed: dict[str, str] = {}
    """Operation id -> the message that was answered with it as untold: its siblings were written without knowing."""

    def told_of(self) -> Sequence[int]:
        """The entries of which a model must know what they did before it does something else."""
        return (*self.past, *self.earlier) if self.past else self.earlier

    def of_turn(self, call: Call) -> bool:
        """Whether a call was made in this turn: an id that is used again in another one stands for something else."""
        return call.entry == self.no or call.entry in self.earlier

    def free(self, call: Call, words: str) -> bool:
        """Whether ``call`` may still answer: a reworded match does not use it up for the old words."""
        given = self.answered.get(call.operation_id)
        return given is None or (given != call.words and words == call.words)

    def take(self, call: Call, words: str, asker: str, *, like: bool, step: str) -> None:
        """An asker waits for this call now. Harmless when repeated: the journal's answer may be lost."""
        operation_id = call.operation_id
        if self.answered.get(operation_id) != call.words:  # once answered in its own words, it is used up
            self.answered[operation_id] = words
        self.steps.setdefault(operation_id, step)
        self.open[operation_id] = None
        self.waiting[asker] = (operation_id, like)

    def leave(self, asker: str, state: State | None, *, heard: bool) -> None:
        """An asker has gone, having been given ``state``; not ``heard``: it was cancelled, or failed."""
        key = self.lists.pop(asker, "")
        for call in () if heard else self.refused.pop(key, ()):
            for memory in (self.answered, self.told, self.listed):
                memory.pop(call.operation_id, None)
        operation_id, _ = self.waiting.pop(asker, ("", False))
        if operation_id and state is not None:
            self.told[operation_id] = state
        if self.told.get(operation_id) in SETTLED_FOR_ASKER and not self.awaited(operation_id):
            self.open.pop(operation_id, None)

    def awaited(self, operation_id: str) -> bool:
        """Whether an asker waits for this call: who asks for a like one meanwhile means another one."""
        return any(awaited == operation_id for awaited, _ in list(self.waiting.values()))

    def refuse(self, key: str, ask: Ask, calls: tuple[Call, ...]) -> None:
        """An asker is answered with calls that it had not been told of; that tells them, once it hears it.

        It does not use them up: who asks in the words of one of them is asked about that one by itself.
        """
        asker, message = ask.operation_id, ask.message
        for call in calls:
            self.tell(call)
            if ask.words != call.words:
                self.answered[call.operation_id] = ""
            self.listed.setdefault(call.operation_id, message)
        self.refused[key] = calls
        self.lists[asker] = key

    def tell(self, call: Call) -> None:
        """The asker is given this call's standing without having asked for it."""
        self.answered[call.operation_id] = call.words
        self.told[call.operation_id] = call.state
        if call.state in SETTLED_FOR_ASKER:
            self.open.pop(call.operation_id, None)
        else:
            self.open[call.operation_id] = None

    def go_on(self, asker: str, operation_id: str) -> None:
        """Something is done in the place of a call that did nothing: its asker still waits."""
        self.waiting[asker] = (operation_id, False)
        self.open[operation_id] = None
        self.told[operation_id] = State.PROCESSING

    def came_to(self, asker: str, operation_id: str, state: State | None) -> None:
        """Its asker waits no longer; ``None``: it has not come to an end, and the next like ask is about this call."""
        self.waiting.pop(asker, None)
        if state is not None:
            self.told[operation_id] = state
            if state in SETTLED_FOR_ASKER:
                self.open.pop(operation_id, None)

    def untold(self, call: Call) -> bool:
        """Whether the asker has not been given what is now known of this call."""
        return self.told.get(call.operation_id) != call.state

    def reserve(self, call: Call, sibling: str, *, loose: bool) -> None:
        """Keep a call for one sibling of a message; ``loose``: it is matched in other words."""
        self.reserved[call.operation_id] = sibling
        if loose:
            self.loose.add(call.operation_id)
        else:
            self.loose.discard(call.operation_id)

    def unread(self, call: Call, message: str) -> bool:
        """Whether the call was listed to a sibling of this message: what is told to one, the others had not read."""
        return bool(message) and self.listed.get(call.operation_id) == message
