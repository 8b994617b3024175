"""A scripted model in an agent's loop: it says its plan, reads the JSON it is given back, and acts as it is told.

It knows nothing but that text: on ``untold_before`` it recognises its own doings by the arguments listed; one call
stands for one of its wishes, so an answer by a call that is spoken for is no answer; what is unknown it does not
repeat; what was not done it asks for again, a bounded number of times.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from settled.demo.books import mark_in

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from settled.demo.agent import Word
    from settled.demo.script import Said, Wish

MOST_TRIES = 5
_LONGEST_PAUSE = 2.0
_SAID_OF: dict[str, Word] = {"succeeded": "done", "unknown": "unknown", "in_progress": "unknown"}


@dataclass(slots=True)
class Call:
    """One wish on its way through the conversation."""

    wish: Wish
    tries: int = 0
    said: Word | None = None
    answer: dict[str, Any] | None = None
    why: str = ""
    operation_id: str = ""

    @property
    def text(self) -> str:
        """The arguments as JSON, as a model writes them."""
        return json.dumps(self.wish.arguments)


@dataclass(slots=True)
class Turn:
    """A message with the calls in it."""

    message_id: str
    calls: list[Call]
    pause: float = 0.0
    """Seconds that the model was told to wait first."""


@dataclass(slots=True)
class Model:
    """Says a run's messages one after the other; calls that it must ask for again come in a message of their own."""

    said: Sequence[Said]
    dice: random.Random
    calls: list[Call] = field(default_factory=list)
    _spoken_for: set[str] = field(default_factory=set)
    """Operation ids of calls that stand for one of its wishes already."""
    _next: deque[Turn] = field(default_factory=deque)

    def __post_init__(self) -> None:
        for message in self.said:
            calls = [Call(wish) for wish in message.wishes]
            self.calls += calls
            self._next.append(Turn(message.message_id, calls))

    def speak(self) -> Turn | None:
        """Return the next message, without what the model has learnt meanwhile; ``None`` at the end."""
        while self._next:
            turn = self._next.popleft()
            turn.calls = [call for call in turn.calls if call.said is None]
            if turn.calls:
                return turn
        return None

    def hear(self, turn: Turn, answers: Sequence[str]) -> None:
        """Read what became of a message's calls."""
        heard = [(call, json.loads(text)) for call, text in zip(turn.calls, answers, strict=True)]
        for call, facts in heard:
            if facts["status"] != "rejected":
                self._take(call, facts)
        for call, facts in heard:
            if facts["status"] == "rejected" and call.said is None:
                self._be_refused(call, facts)
        again = [call for call in turn.calls if call.said is None]
        if again:
            pause = max(float(facts.get("retry_after_seconds", 0.0)) for _, facts in heard)
            message_id = f"msg_{self.dice.getrandbits(48):012x}"
            self._next.appendleft(Turn(message_id, again, min(pause, _LONGEST_PAUSE)))

    def _take(self, call: Call, facts: dict[str, Any]) -> None:
        call.why, call.operation_id = facts.get("message", ""), facts.get("operation_id", "")
        call.tries += 1
        match facts["status"]:
            case "succeeded" if call.operation_id in self._spoken_for and call.tries < MOST_TRIES:
                return
            case "succeeded":
                call.said, call.answer = "done", facts["result"]
                self._spoken_for.add(call.operation_id)
            case "unknown":
                call.said = "unknown"
            case "not_done" | "in_progress" if call.tries < MOST_TRIES:
                return
            case "not_done":
                call.said = "not_done"
            case "in_progress":
                call.said = "unknown"
            case _:
                call.said = "failed"

    def _be_refused(self, call: Call, facts: dict[str, Any]) -> None:
        call.why = facts["message"]
        call.tries += 1
        if facts["next"] == "ask_human":
            call.said = "blocked"
        elif facts["next"] == "give_up" or call.tries >= MOST_TRIES:
            call.said = "not_done"
        else:
            for earlier in facts.get("earlier_calls", ()):
                self._recognise(call.wish.tool, earlier)

    def _recognise(self, tool: str, earlier: dict[str, Any]) -> None:
        """See that a call listed as made is one of one's own, and need not be made."""
        mark = mark_in(json.dumps(earlier["arguments"]))
        own = [call for call in self.calls if call.said is None and (call.wish.tool, call.wish.mark) == (tool, mark)]
        if own and earlier["status"] in _SAID_OF and earlier["operation_id"] not in self._spoken_for:
            self._spoken_for.add(earlier["operation_id"])
            own[0].said = _SAID_OF[earlier["status"]]
            own[0].why, own[0].operation_id = "listed as made before", earlier["operation_id"]
