"""A model that says what the test wrote, and what it was shown: the same for every framework."""

from __future__ import annotations

from dataclasses import dataclass, field


class ModelDown(RuntimeError):  # noqa: N818 - the name says what is wrong
    """The model's service fails: whatever the framework had not stored by then is lost."""


@dataclass(frozen=True)
class Call:
    """One tool call that the model asks for."""

    tool: str
    arguments: dict
    id: str


@dataclass(frozen=True)
class Answer:
    """What the model sees of one call."""

    id: str
    text: str


@dataclass
class Script:
    """Replies in order: calls, a closing text, or ``ModelDown``."""

    replies: list
    shown: list[list] = field(default_factory=list)
    """For each request the history: user texts (str), lists of calls, answers."""

    def reply(self, history: list) -> list[Call] | str:
        self.shown.append(history)
        strict(history)
        said = self.replies.pop(0)
        if said is ModelDown:
            raise ModelDown("503")
        return said

    def answers(self) -> list[Answer]:
        return [item for item in self.shown[-1] if isinstance(item, Answer)]

    def answer(self, call_id: str) -> str:
        """The last answer of that id."""
        return [each.text for each in self.answers() if each.id == call_id][-1]


def strict(history: list) -> None:
    """Refuse what strict providers refuse: every call is answered once, before anything else is said."""
    waiting: list[str] = []
    for item in history:
        if isinstance(item, Answer):
            assert item.id in waiting, f"an answer without its call: {item} in {history}"
            waiting.remove(item.id)
            continue
        assert not waiting, f"calls without an answer: {waiting} in {history}"
        if isinstance(item, list):
            waiting = [call.id for call in item]
    assert not waiting, f"calls without an answer at the end: {waiting} in {history}"
