"""Which call of which message of which turn: read from the history that a framework hands over, in neutral words."""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from settled.api.conversation import Asked, step_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    Calls = Sequence[tuple[str, str, Mapping[str, Any]]]
    """Call id, tool, arguments."""

MOST_HISTORIES = 1000
"""Conversations whose histories one process remembers; one that is forgotten is read anew."""


class History:
    """What one conversation holds, up to the message that was read last. An adapter's reader tells it, in order."""

    def __init__(self) -> None:
        self.count, self.last = 0, None
        """Messages that were read."""
        self.texts: list[str] = []
        self.turn, self.turn_was = turn_of(()), ""
        """Of what is worked on, and its name before the history was shortened."""
        self.mark = ""
        """Of the user's message: the same as long as it is that one."""
        self.place = 0
        """Of what comes next in its turn."""
        self.answered: frozenset[str] = frozenset()
        """Steps of this turn."""
        self.name = ""
        self.calls: Calls = ()
        """The last message that asks for calls."""
        self.steps: list[str] = []
        """Of its calls."""
        self.waiting: dict[str, list[str]] = {}
        """The same, by call id."""
        self.seen: frozenset[str] = frozenset()
        """Steps that were answered before it."""
        self.closed = False
        """The last that came is the answer to the user."""

    def says(self, text: str, mark: str = "") -> None:
        """The user writes; ``mark`` tells this message from others of the same words."""
        if self.closed or not self.texts or self.texts[-1] != text:  # else it is sent again
            self.texts.append(text)
            self.turn, self.place, self.answered = turn_of(self.texts), 0, frozenset()
            self.turn_was, self.mark = "", mark
        self.place, self.closed = self.place + 1, False

    def asks(self, calls: Calls, name: str = "") -> None:
        """The model asks for calls (call id, tool, arguments), or for none: it answers. ``name``: the message's id."""
        self.closed = not calls
        if calls:
            self.name = name = name or f"{self.turn}.m{self.place}"
            self.calls, self.seen = calls, self.answered
            if len(calls) == 1:  # as most: no loop for it
                self.steps = [step_of(name, 0)]
                self.waiting = {calls[0][0]: self.steps}
            else:
                self.steps = [step_of(name, place) for place in range(len(calls))]
                self.waiting = {}
                for call, step in zip(calls, self.steps, strict=True):
                    self.waiting.setdefault(call[0], []).append(step)
        self.place += 1

    def answers(self, call_id: str) -> None:
        """A call is answered."""
        self.answered = self.answered.union(self.waiting.get(call_id, ()))
        self.place, self.closed = self.place + 1, False

    def follows(self, before: History) -> None:
        """It was read anew: its turn is another's if that had the same message of the user, or the same answers.

        What was said before it may be gone since, or told in other words; the turn is named by that.
        """
        if self.turn != before.turn and ((self.mark and self.mark == before.mark) or self.answered & before.answered):
            self.turn_was = before.turn

    def asked(self, run: str, call_id: str, tool: str, arguments: Mapping[str, Any]) -> Asked:
        """Return the call as the last message has it; only its run and turn if that does not ask for it."""
        calls = self.calls
        steps = self.waiting.get(call_id)
        if steps is None or len(calls) > 1 or calls[0][1] != tool:
            steps = self._alike(call_id, tool, arguments)
        if not steps:
            return Asked(run, self.turn, turn_was=self.turn_was)
        return Asked(run, self.turn, self.name, steps, calls, self.seen, self.turn_was)

    def _alike(self, call_id: str, tool: str, arguments: Mapping[str, Any]) -> list[str]:
        calls = zip(self.calls, self.steps, strict=True)
        alike = [(call[2], step) for call, step in calls if call[0] == call_id and call[1] == tool]
        same = [step for given, step in alike if given == arguments] if len(alike) > 1 else []
        return same or [step for _, step in alike]


class Histories:
    """Reads the histories of a framework's conversations, each message once. Thread-safe.

    A call id is trusted within its message only: servers use the same ones again and again. A message of the user that
    is repeated word for word is the same turn, unless the first was answered: so a framework that failed is called
    again, and what its calls were answered since is in the history.

    Args:
        read: tells a history what the next of the framework's messages says.
    """

    def __init__(self, read: Callable[[History, Any], None]) -> None:
        self._read = read
        self._known: OrderedDict[str, History] = OrderedDict()
        self._lock = threading.Lock()

    def asked(self, run: str, messages: Sequence[Any], call_id: str, tool: str, arguments: Mapping[str, Any]) -> Asked:
        """Return which call it is; where the history does not ask for it, only which run and turn."""
        with self._lock:
            return self._read_to(run, messages).asked(run, call_id, tool, arguments)

    def turn(self, run: str, messages: Sequence[Any]) -> tuple[str, str, AbstractSet[str]]:
        """Return what the turn is named by, what it was, and all that was answered; for histories without calls."""
        with self._lock:
            known = self._read_to(run, messages)
            return known.turn, known.turn_was, known.seen

    def _read_to(self, run: str, messages: Sequence[Any]) -> History:
        before, count = self._known.get(run), len(messages)
        if before is None or not 0 < before.count <= count or messages[before.count - 1] is not before.last:
            known = self._afresh(run)
        else:
            known = before
        if known.count != count:
            read, new = self._read, messages[known.count :]
            known.count, known.last = count, None  # so a history that was read in part is read anew
            for message in new:
                read(known, message)
            known.last = message
        if known is not before and before is not None:
            known.follows(before)
        return known

    def _afresh(self, run: str) -> History:
        self._known[run] = known = History()
        if len(self._known) > MOST_HISTORIES:
            self._known.popitem(last=False)
        return known


def kinds(*classes: type[Any]) -> Callable[[type[Any]], type[Any] | None]:
    """Return what tells of a class which of these it is or comes from: frameworks' own classes take long to tell."""

    def kind(of: type[Any]) -> type[Any] | None:
        return next((each for each in classes if issubclass(of, each)), None)

    return cast("Callable[[type[Any]], type[Any] | None]", cache(kind))


def turn_of(texts: Iterable[str]) -> str:
    """Return what names the turn in which the last of these texts was said."""
    return sha256("\x1f".join(texts).encode(errors="surrogatepass")).hexdigest()[:24]
