"""Options of the right kind: for a wrong one it is said what to write instead."""

from __future__ import annotations

from settled.errors import DeclarationError


def demand(name: str, given: object, kind: type) -> None:
    """Raise ``DeclarationError`` unless an option is of this kind, or was left out."""
    if given is not None and not isinstance(given, kind):
        raise DeclarationError(f"{name} must be a settled.{kind.__name__}(…), not {given!r}")


def demand_seconds(name: str, given: object) -> None:
    """Raise ``DeclarationError`` unless an option is a number of seconds above 0."""
    if not isinstance(given, int | float) or not given > 0:
        raise DeclarationError(f"{name} must be seconds above 0, not {given!r}")
