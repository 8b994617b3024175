"""Sending a run's token to the agent that is to join: in an HTTP header or MCP ``_meta`` of its own.

Never in baggage or trace state, which travel on to everybody who is called after. ``Guard(token_key=…)`` signs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from settled.errors import TokenRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

HEADER: Final = "Settled-Run"
META: Final = "settled/run"

__all__ = ["HEADER", "META", "RunToken", "from_headers", "from_meta", "to_headers", "to_meta"]


class RunToken:
    """Leave to work on a run. Its text is a secret: it is shown by ``reveal()`` and the ways to send it, and not else.

    No tool takes it for an argument, and no journal keeps it.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"a token is text, not {type(text).__name__}")
        self._text = text

    def reveal(self) -> str:
        """Return the text, to be sent in a way of your own."""
        return self._text

    def __repr__(self) -> str:
        """Name it without showing it."""
        return "RunToken(…)"

    def __reduce__(self) -> Any:
        """Refuse to be pickled: what is pickled is kept somewhere."""
        raise TypeError("a token is not pickled: send token.reveal() over a channel that you trust")


def to_headers(token: RunToken) -> dict[str, str]:
    """Return the HTTP header that hands the token on."""
    return {HEADER: token.reveal()}


def from_headers(headers: Mapping[str, str]) -> RunToken:
    """Return the token of a request's headers, whatever the case of their names.

    Raises ``TokenRefused`` if there is none, or more than one.
    """
    found = [value for name, value in headers.items() if str(name).lower() == HEADER.lower()]
    return _the_one(found, f"header {HEADER}")


def to_meta(token: RunToken) -> dict[str, str]:
    """Return what goes into ``_meta`` of an MCP request: ``session.call_tool(…, meta=to_meta(token))``."""
    return {META: token.reveal()}


def from_meta(meta: Mapping[str, Any] | object) -> RunToken:
    """Return the token of an MCP request's ``_meta``, a mapping or the SDK's own object.

    Raises ``TokenRefused`` if there is none.
    """
    known = meta if hasattr(meta, "get") else getattr(meta, "model_extra", None) or {}
    found = known.get(META) if hasattr(known, "get") else None
    return _the_one([] if found is None else [found], f"_meta of {META}")


def _the_one(found: list[Any], where: str) -> RunToken:
    if len(found) != 1 or not isinstance(found[0], str):
        how_many = "no token" if not found else "more than one token" if len(found) > 1 else "no text"
        raise TokenRefused("", "malformed", f"no run is joined: the request has {how_many} in its {where}")
    return RunToken(found[0].strip())
