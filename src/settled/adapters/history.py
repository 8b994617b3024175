"""Which call of which message of which turn: read from the history that a framework hands over, in neutral words."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from functools import cache
from hashlib import sha256
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from msgspec.structs import replace

from settled.api.runs.conversation import Asked, step_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    Calls = Sequence[tuple[str | None, str, Mapping[str, Any]]]
    """Call id, tool, arguments."""

MOST_HISTORIES = 1000
"""Conversations whose histories one process remembers; one that is forgotten is read anew."""
MOST_TEXTS = 8
"""Of the user's, in a window over a conversation whose turns look alike."""
MOST_KEPT = 100
"""Of them those whose messages it keeps, to see whether they are still the same; another's are read anew."""


class Session(NamedTuple):
    """The framework's own run, where it tells one: it works on one turn."""

    at_work: str
    made_in: str
    """The one in which the message was made that is worked on: another, where that is gone on with."""


NO_SESSION = Session("", "")


class History:
    """What one conversation holds, up to the message that was read last. An adapter's reader tells it, in order."""

    def __init__(self) -> None:
        self.read: list[Any] = []
        """The messages; none while they are read, or once they are kept no longer."""
        self.texts: list[str] = []
        self.turn, self.turn_was = turn_of(()), ""
        """Of what is worked on, and its name before the history was shortened."""
        self.prefix = self.turn
        """Of the names of its messages that have none of their own: what the turn was named by at first."""
        self.mark = ""
        """Of the user's message: the same as long as it is that one."""
        self.after: tuple[str, ...] | None = ()
        """What was answered last before this turn: its id, and the steps that it may be; ``None``: to be found out."""
        self.answered: frozenset[str] = frozenset()
        """Steps of this turn."""
        self.turn_before = ""
        """The turn before this one."""
        self.cut_off: tuple[str, ...] = ()
        """The turns just before this one that ended without an answer to the user."""
        self.heard: frozenset[str] = frozenset()
        """Steps of those turns that were answered."""
        self.told: AbstractSet[str] = frozenset()
        """What was answered meanwhile, and its messages need not show."""
        self.name = ""
        self.calls: Calls = ()
        """The last message that asks for calls."""
        self.before: tuple[str, str] = ("", "")
        """Of the last such message before this turn: its own name, and the id of its first call."""
        self.names: set[str] = set()
        """Of the messages of this turn that have none of their own."""
        self.steps: dict[str | None, list[str]] = {}
        """Of its calls, by call id."""
        self.seen: frozenset[str] = frozenset()
        """Steps that were answered before it."""
        self.closed = False
        """The last that came is the answer to the user."""
        self.session = NO_SESSION

    def says(self, text: str, mark: str = "") -> None:
        """The user writes; ``mark`` tells this message from others of the same words."""
        if self.closed or not self.texts or self.texts[-1] != text:  # else it is sent again
            if self.answered:
                self.before = "" if self.name in self.names else self.name, self.calls[0][0] or ""
            ended = self.closed or not self.texts
            self.cut_off = () if ended else (*self.cut_off, self.turn)
            self.heard = frozenset() if ended else self.heard.union(self.shown())
            self.turn_before = self.turn if self.texts else ""
            self.texts.append(text)
            self.turn = self.prefix = turn_of(self.texts)
            self.answered = frozenset()
            self.turn_was, self.mark, self.after = "", mark, None
            self.names.clear()
        self.closed = False

    def asks(self, calls: Calls, name: str = "") -> None:
        """The model asks for calls (call id, tool, arguments), or for none: it answers. ``name``: the message's id."""
        self.closed = not calls
        if calls:
            self.name = name = name or self._named_by(calls[0][0])
            self.calls, self.seen, self.steps = calls, self.answered, {}
            for place, call in enumerate(calls):
                self.steps.setdefault(call[0], []).append(step_of(name, place))

    def _named_by(self, call_id: str | None) -> str:
        """Return a name for a message by its first call; where an id is used again, by its number too."""
        name = f"{self.prefix}:{call_id or ''}"
        if name in self.names or not call_id:
            name = f"{name}.m{len(self.names)}"
        self.names.add(name)
        return name

    def answers(self, call_id: str) -> None:
        """A call is answered."""
        self.answered = self.answered.union(self.steps.get(call_id, ()))

    def shown(self) -> Iterable[str]:
        """Return the steps of this turn whose answers the history holds."""
        return self.answered

    def find_after(self) -> tuple[str, ...]:
        """Return what was answered last before this turn: its id, and the steps that it may be.

        A message without a name of its own was named by its turn, which may have shown fewer texts, or one more.
        """
        name, call_id = self.before
        if name or not call_id:
            return (name, step_of(name, 0)) if name else ()
        texts = self.texts
        shown = [texts, *(texts[-many - 1 : -1] for many in range(1, min(len(texts), MOST_TEXTS))), [texts[-1], *texts]]
        return (call_id, *dict.fromkeys(step_of(f"{turn_of(each)}:{call_id}", 0) for each in shown))

    def begins_in(self, session: Session, before: History | None) -> None:
        """It is read anew. As long as it shows no message of the user, its turn is what the session works on."""
        if session.made_in:
            self.turn = self.prefix = turn_of(("", session.made_in))
        if before is not None and session.at_work and session.at_work == before.session.at_work:
            self.turn_was = before.turn if before.turn != self.turn else before.turn_was
            self.prefix, self.after = before.prefix, before.after

    def follows(self, before: History) -> None:
        """It was read anew: its turn is another's if that had the same message of the user, or the same answers.

        What was said before it may be gone since, or told in other words; the turn is named by that.
        """
        theirs = before.answered.union(before.told, *before.steps.values())  # what was asked for is answered since
        if (self.mark and self.mark == before.mark) or self.answered & theirs:
            self.turn_was = before.turn if self.turn != before.turn else before.turn_was
            self.after = self.after or before.after

    def alike(self, call_id: str | None, tool: str, arguments: Mapping[str, Any]) -> list[str]:
        """Return the steps of the last message's calls that may be this one; none if it does not ask for it."""
        named = [(call, step_of(self.name, place)) for place, call in enumerate(self.calls)]
        alike = [(call[2], step) for call, step in named if call[0] == call_id and call[1] == tool]
        same = [step for given, step in alike if given == arguments] if len(alike) > 1 else []
        return same or [step for _, step in alike]


class Histories:
    """Reads the histories of a framework's conversations, each message once. Thread-safe.

    A call id is trusted within its message only: servers use the same ones again and again. A message of the user that
    is repeated word for word is the same turn, unless the first was answered: so a framework that failed is called
    again, and what its calls were answered since is in the history.

    Args:
        read: tells a history what the next of the framework's messages say. kind: of history.
    """

    def __init__(self, read: Callable[[Any, Sequence[Any]], None], kind: type[History] = History) -> None:
        self._read, self._kind = read, kind
        self._known: OrderedDict[str, History] = OrderedDict()
        self._kept: deque[History] = deque()
        self._lock = threading.Lock()

    def asked(  # noqa: PLR0917 - where, and which call
        self,
        run: str,
        messages: Sequence[Any],
        call_id: str | None,
        tool: str,
        arguments: Mapping[str, Any],
        session: Session = NO_SESSION,
    ) -> Asked:
        """Return the call as the last message has it; only its run and turn if that does not ask for it."""
        with self._lock:
            known = self._read_to(run, messages, session)
            steps, calls = known.steps.get(call_id), known.calls
            if steps is None or len(calls) > 1 or calls[0][1] != tool:
                steps = known.alike(call_id, tool, arguments)
            turn = self._turn(run, known)
            return replace(turn, message=known.name, steps=steps, calls=calls, seen=known.seen) if steps else turn

    def turn(self, run: str, messages: Sequence[Any], told: AbstractSet[str]) -> tuple[Asked, AbstractSet[str]]:
        """Return the turn, for a framework that shows the last message's calls elsewhere; and all that was answered.

        ``told``: grows with what is answered meanwhile, which these messages need not show.
        """
        with self._lock:
            known = self._read_to(run, messages)
            known.told = told
            return self._turn(run, known), known.seen

    @staticmethod
    def _turn(run: str, known: History) -> Asked:
        asked = Asked(run, known.turn, turn_was=known.turn_was, after=known.after or (), follows=known.turn_before)
        return replace(asked, cut_off=known.cut_off, heard=known.heard) if known.cut_off else asked

    def _read_to(self, run: str, messages: Sequence[Any], session: Session = NO_SESSION) -> History:
        before = known = self._known.get(run)
        count = 0 if known is None else len(known.read)
        if known is None or not 0 < count <= len(messages) or not all(map(is_, known.read, messages)):
            known = self._afresh(run)
            known.begins_in(session, before)
            self._read_on(known, messages)
        elif count < len(messages):
            self._read_on(known, messages[count:])
        known.session = session
        if before is not None and before is not known:
            known.follows(before)
        return known

    def _read_on(self, known: History, new: Sequence[Any]) -> History:
        read, known.read = known.read, []  # so a history that was read in part is read anew
        self._read(known, new)
        read += new
        known.read = read
        if known.after is None:
            known.after = known.find_after()
        return known

    def _afresh(self, run: str) -> History:
        self._known.pop(run, None)
        self._known[run] = known = self._kind()
        self._kept.append(known)
        if len(self._kept) > MOST_KEPT:
            self._kept.popleft().read = []
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
