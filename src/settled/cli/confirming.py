"""Asking before what cannot be taken back."""

import sys

import typer

from settled.cli.exits import Exit, Problem


def confirm(question: str, *, yes: bool) -> None:
    """Go on if a person at the terminal agrees, or has agreed beforehand by --yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Problem(Exit.REFUSED, f"{question} Nobody is here to be asked: give --yes to agree beforehand")
    if not typer.confirm(question, err=True):
        raise Problem(Exit.REFUSED, "not confirmed; nothing was changed")
