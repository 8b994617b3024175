"""When a model goes on sending arguments that cannot be accepted.

A stuck model rewords its arguments while the error stays the same, so what is counted is the error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

Next: TypeAlias = Literal["fix_arguments", "repair_prompt", "give_up"]
"""What the answer asks for: another try; from the caller, a prompt with schema, arguments and error; an end."""

SYSTEMIC = 3
"""Messages in a row with the same error, from which on the model will not find out by itself."""

SYSTEMIC_ANY = 10
"""The same for errors of any kind: two that take turns would go on for ever."""

_LONGEST = 4000  # characters of an error that are looked at, so that a dumped payload costs nothing
_KEPT = 200

# As pydantic prints a problem: the field on a line of its own, then the message with its type and the value sent.
_PYDANTIC = re.compile(r"^(?P<field>\S+)\n[ \t]+[^\n]*?\[type=(?P<kind>\w+)", re.MULTILINE)
_INVENTED = frozenset({"extra_forbidden", "unexpected_keyword_argument", "additionalProperties"})

_ADDRESS = re.compile(r"\b\w+://\S+|(?<!\S)\S+@\S+")
_QUOTED = re.compile(
    r'"(?:\\.|[^"\\])*"'
    r"|(?<!\w)'(?:[^'\n]|'(?=\w))*'(?!\w)"  # an apostrophe within a word ends nothing
    r"|`[^`\n]*`|\u201c[^\u201d]*\u201d|\u2018[^\u2019\n]*\u2019"
)
_BRACES = re.compile(r"\{[^{}]*\}")
_EMPTY_LIST = re.compile(r"\[[\s,:#…{}.]*\]")
_PATH = re.compile(r"(?<![\w./\\+@-])(?:[A-Za-z]:|~)?[\w.+@-]*(?:[/\\][\w.+@-]+)+[/\\]?")
_WORD = re.compile(r"[+-]?\w[\w-]*")
_HEX = re.compile(r"[0-9a-f]{8,}", re.IGNORECASE)
_SEVERAL = re.compile(r"#(?:[\s.,:%]*#)+")


def signature(tool: str, error: str | Iterable[tuple[str, str]]) -> str:
    """Name the kind of error, the same for all arguments that are wrong in the same way.

    Args:
        tool: name of the tool, or one name for all unknown ones.
        error: the problems as pairs of field path (``"items.0.price"``) and kind (``"missing"``); or the text, from
            which quoted text, numbers, ids, paths, addresses and printed values are removed. The problems in
            pydantic's own text are recognised.
    """
    if not isinstance(error, str):
        return f"{tool}: {_of_problems(error)}"
    text = error[:_LONGEST]
    problems = _PYDANTIC.findall(text)
    return f"{tool}: {_of_problems(problems) if problems else _of_text(text)}"


def _of_problems(problems: Iterable[tuple[str, str]]) -> str:
    """Which declared fields are wrong, and how. Names that the model invented count only if nothing else is wrong."""
    kinds = {(_pattern_of(path), kind) for path, kind in problems if kind not in _INVENTED}
    named = sorted(f"{path} {kind}" for path, kind in kinds)
    return ", ".join(named) if named else "unknown field"


def _pattern_of(path: str) -> str:
    return ".".join("*" if part.isdigit() else part for part in path.split("."))


def _of_text(text: str) -> str:
    text = _ADDRESS.sub("#", _QUOTED.sub("#", text))  # an address may stand in quotes, and would end them
    text = _without_braces(text)
    text = _WORD.sub(_generalised, _PATH.sub("#", text))
    text = _SEVERAL.sub("#", _EMPTY_LIST.sub("#", text))
    return " ".join(text.casefold().split())[:_KEPT]


def _without_braces(text: str) -> str:
    before = ""
    while text != before:  # innermost first
        before, text = text, _BRACES.sub("#", text)
    return text


def _generalised(word: re.Match[str]) -> str:
    found = word[0]
    return "#" if any(c.isdigit() for c in found) or _HEX.fullmatch(found) else found


@dataclass(slots=True)
class _Tool:
    message: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    """By signature, for those that the last message with an error had."""
    before: dict[str, int] = field(default_factory=dict)
    """The same for the message before that."""
    messages: int = 0
    refused: str | None = None
    """Digest of the arguments that were answered last, once the errors are systemic."""


class InvalidStreak:
    """Counts, for one run, the messages in a row in which a tool was called wrongly.

    A success of the tool starts its count anew, and so does a message that brings another error in place of the last.
    Calls of other tools change nothing. Calls of one message count once: the model has not seen an error yet.
    Invalid calls cost no retry budget; this is what bounds them. Nothing here locks.
    """

    __slots__ = ("_any", "_same", "_tools")

    def __init__(self, same: int = SYSTEMIC, any_error: int = SYSTEMIC_ANY) -> None:
        """``same``: messages with one error that are systemic; ``any_error``: with errors of any kind.

        Raises:
            ValueError: below 1, or ``any_error`` below ``same``.
        """
        if not 1 <= same <= any_error:
            raise ValueError(f"same ({same}) must be at least 1 and at most any_error ({any_error})")
        self._same = same
        self._any = any_error
        self._tools: dict[str, _Tool] = {}

    def failed(
        self, tool: str, error_signature: str, *, message: str | None = None, arguments: str | None = None
    ) -> Next:
        """Count an invalid call and say what to answer.

        Args:
            tool: name of the tool.
            error_signature: as ``signature`` gave it.
            message: id of the model's message that made the call; ``None``: a message of its own.
            arguments: their digest, where only the other side finds what is wrong with them (see ``refused``).

        Returns:
            ``"fix_arguments"`` at first, ``"repair_prompt"`` once the error is systemic, ``"give_up"`` after that.
        """
        seen = self._tools.setdefault(tool, _Tool())
        if message is None or message != seen.message:
            seen.before, seen.counts, seen.message = seen.counts, {}, message
            seen.messages += 1
        seen.counts[error_signature] = seen.before.get(error_signature, 0) + 1
        beyond = max(seen.counts[error_signature] - self._same, seen.messages - self._any)
        seen.refused = None if beyond < 0 else arguments
        if beyond < 0:
            return "fix_arguments"
        return "repair_prompt" if beyond == 0 else "give_up"

    def refused(self, tool: str) -> str | None:
        """Return the digest of the arguments of the last systemic error: they are not sent once more."""
        seen = self._tools.get(tool)
        return None if seen is None else seen.refused

    def succeeded(self, tool: str) -> None:
        """One success: the model has found out. Of other tools it may be what they lacked: they may be asked again."""
        self._tools.pop(tool, None)
        for seen in self._tools.values():
            seen.refused = None
