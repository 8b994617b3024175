"""Which call of which message of which turn: read from the history that a framework hands over, in neutral words."""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from settled.api.conversation import Asked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

MOST_HISTORIES = 1000
"""Conversations whose histories one process remembers; one that is forgotten is read anew."""


class Said(Struct, frozen=True):
    """A message of the user."""

    text: str


class Asking(Struct, frozen=True):
    """A message of the model that asks for calls; ``name`` is its id, empty if it has none."""

    name: str
    calls: Sequence[tuple[str, str, Mapping[str, Any]]]
    """Call id, tool, arguments."""


class Answered(Struct, frozen=True):
    """The answer of a call."""

    call_id: str


class Closed(Struct, frozen=True):
    """A message of the model that asks for nothing: the answer to the user."""


Item = Said | Asking | Answered | Closed


class _Read:
    """What is known of a history that was read up to some message."""

    def __init__(self) -> None:
        self.count, self.last = 0, None
        self.texts: list[str] = []
        self.turn = turn_of(())
        self.place = 0
        """Of the next item in its turn."""
        self.steps: set[str] = set()
        """Steps of this turn that were answered."""
        self.asking, self.name = Asking("", ()), ""
        """The last message that asks for calls."""
        self.open_calls: dict[str, list[str]] = {}
        self.before: frozenset[str] = frozenset()
        """Steps that were answered before it."""
        self.closed = False
        """The last item is the answer to the user."""

    def take(self, item: Item) -> None:
        if type(item) is Asking:
            name = item.name or f"{self.turn}.m{self.place}"
            self.asking, self.name, self.before, self.open_calls = item, name, frozenset(self.steps), {}
            for place, call in enumerate(item.calls):
                self.open_calls.setdefault(call[0], []).append(f"{name}/{place}")
        elif type(item) is Answered:
            self.steps.update(self.open_calls.get(item.call_id, ()))
        elif type(item) is Said and (self.closed or not self.texts or self.texts[-1] != item.text):  # not sent again
            self.texts.append(item.text)
            self.turn, self.place, self.steps = turn_of(self.texts), 0, set()
        self.place += 1
        self.closed = type(item) is Closed

    def asked(self, run: str, call_id: str, tool: str, arguments: Mapping[str, Any]) -> Asked | None:
        """Return the call as the last message has it; ``None`` if that does not ask for it."""
        calls = self.asking.calls
        alike = [place for place, call in enumerate(calls) if call[0] == call_id and call[1] == tool]
        if not alike:
            return None
        if len(alike) > 1:
            alike = [place for place in alike if calls[place][2] == arguments] or alike
        return Asked(run, self.turn, self.name, alike, [call[1:] for call in calls], self.before)


class Histories:
    """Reads the histories of a framework's conversations, each message once. Thread-safe.

    A call id is trusted within its message only: servers use the same ones again and again. A message of the user that
    is repeated word for word is the same turn, unless the first was answered: so a framework that failed is called
    again, and what its calls were answered since is in the history.

    Args:
        items_of: what one of the framework's messages says, in neutral words.
    """

    def __init__(self, items_of: Callable[[Any], Iterable[Item]]) -> None:
        self._items_of = items_of
        self._known: OrderedDict[str, _Read] = OrderedDict()
        self._lock = threading.Lock()

    def asked(self, run: str, messages: Sequence[Any], call_id: str, tool: str, arguments: Mapping[str, Any]) -> Asked:
        """Return which call it is; where the history does not ask for it, only which run and turn."""
        with self._lock:
            read = self._read(run, messages)
            return read.asked(run, call_id, tool, arguments) or Asked(run, read.turn)

    def _read(self, run: str, messages: Sequence[Any]) -> _Read:
        read, count = self._known.get(run), len(messages)
        if read is None or read.count > count or (read.count and messages[read.count - 1] is not read.last):
            read = self._known[run] = _Read()
            if len(self._known) > MOST_HISTORIES:
                self._known.popitem(last=False)
        for at in range(read.count, count):
            for item in self._items_of(messages[at]):
                read.take(item)
        read.count, read.last = count, messages[-1] if count else None
        return read


def kinds(*classes: type[Any]) -> Callable[[type[Any]], type[Any] | None]:
    """Return what tells of a class which of these it is or comes from: frameworks' own classes take long to tell."""

    def kind(of: type[Any]) -> type[Any] | None:
        return next((each for each in classes if issubclass(of, each)), None)

    return cast("Callable[[type[Any]], type[Any] | None]", cache(kind))


def turn_of(texts: Iterable[str]) -> str:
    """Return what names the turn in which the last of these texts was said."""
    return sha256("\x1f".join(texts).encode(errors="surrogatepass")).hexdigest()[:24]


def said_in(items: Iterable[dict[str, Any]]) -> list[str]:
    """Return what the user said; what is sent again before the model has answered it counts once."""
    said: list[str] = []
    closed = False
    for item in items:
        text, role = str(item.get("content")), item.get("role")
        if role == "user" and (closed or not said or said[-1] != text):
            said.append(text)
        closed = role == "assistant"  # a call that goes with such a message is kept after it, and answered
    return said
