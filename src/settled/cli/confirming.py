"""Asking before what cannot be taken back."""

import sys

import typer

from settled.cli.exits import Exit, Problem


def confirm(warning: str, *, yes: bool) -> None:
    """Go on if a person at the terminal agrees, or has agreed beforehand by --yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Problem(Exit.REFUSED, f"{warning}. Nobody is here to be asked: give --yes to agree to that")
    if not typer.confirm(f"{warning}. Go on?", err=True):
        raise Problem(Exit.REFUSED, "not confirmed; nothing was changed")
