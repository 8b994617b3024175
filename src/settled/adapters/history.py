"""Which call of which message of which turn: read from the history that a framework hands over, in neutral words."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from settled.api.conversation import Asked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Item = "Said | Asking | Answered"


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


def asked_of(
    run: str, items: Sequence[Said | Asking | Answered], call_id: str, tool: str, arguments: Mapping[str, Any]
) -> Asked:
    """Return the call as the last message that asks for it has it.

    A call id is trusted within its message only: servers use the same ones again and again.
    """
    at = next((at for at in range(len(items) - 1, -1, -1) if _asks(items[at], call_id, tool)), None)
    said = [(place, item.text) for place, item in enumerate(items) if type(item) is Said]
    if at is None:
        return Asked(run, turn_of([text for _, text in said]))
    message = items[at]
    assert isinstance(message, Asking)  # noqa: S101 - for the type checker: _asks has looked
    begun = _begun(said)
    alike = [place for place, call in enumerate(message.calls) if call[:2] == (call_id, tool)]
    if len(alike) > 1:
        alike = [place for place in alike if message.calls[place][2] == arguments] or alike
    return Asked(
        run,
        turn_of([text for _, text in said]),
        _name(message, at - begun),
        alike,
        [call[1:] for call in message.calls],
        _seen(items, begun, at),
    )


def _asks(item: Said | Asking | Answered, call_id: str, tool: str) -> bool:
    return type(item) is Asking and any(call[:2] == (call_id, tool) for call in item.calls)


def _name(message: Asking, place: int) -> str:
    return message.name or f"m{place}"


def _begun(said: Sequence[tuple[int, str]]) -> int:
    """Return where the turn of the last user message begins: it may have been sent several times."""
    begun = 0
    for place, text in reversed(said):
        if text != said[-1][1]:
            break
        begun = place
    return begun


def turn_of(texts: Sequence[str]) -> str:
    """Return what names the turn: the same again when the same words are sent again.

    A framework that has failed is called again with them; what was answered since is in the history.
    """
    kept = [text for place, text in enumerate(texts) if place == 0 or text != texts[place - 1]]
    return sha256("\x1f".join(kept).encode(errors="surrogatepass")).hexdigest()[:24]


def _seen(items: Sequence[Said | Asking | Answered], begun: int, end: int) -> set[str]:
    """Return the steps that were answered between two places."""
    steps: set[str] = set()
    open_calls: dict[str, list[str]] = {}
    for at in range(begun, end):
        item = items[at]
        if type(item) is Asking:
            open_calls, name = {}, _name(item, at - begun)
            for place, call in enumerate(item.calls):
                open_calls.setdefault(call[0], []).append(f"{name}/{place}")
        elif type(item) is Answered:
            steps.update(open_calls.get(item.call_id, ()))
    return steps
