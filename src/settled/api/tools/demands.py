"""Options of the right kind: for a wrong one it is said what to write instead."""

from __future__ import annotations

from settled.errors import DeclarationError


def demand(name: str, given: object, kind: type) -> None:
    """Raise ``DeclarationError`` unless an option is of this kind, or was left out."""
    if given is not None and not isinstance(given, kind):
        raise DeclarationError(f"{name} must be a settled.{kind.__name__}(…), not {given!r}")
