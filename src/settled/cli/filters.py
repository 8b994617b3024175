"""Filters over the queue: what they are called, and what is wrong with one that means nothing."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from settled.api.people.deciding_many import Filter
from settled.cli.exits import Exit, Problem
from settled.cli.target import Target
from settled.core.call import Call


class WaitingName(StrEnum):
    """Why a call waits for a verdict, as ``queue list`` shows it."""

    UNKNOWN = "unknown"
    ORPHAN = "orphan"
    DISPUTED = "disputed"
    UNDO = "undo"
    BY_HAND = "by_hand"


class ListedName(StrEnum):
    """Why a call stands in the queue."""

    UNKNOWN = "unknown"
    ORPHAN = "orphan"
    DISPUTED = "disputed"
    UNDO = "undo"
    BY_HAND = "by_hand"
    APPROVAL = "approval"


ToolFilter = Annotated[str | None, typer.Option("--tool", metavar="NAME", help="All calls of this tool.")]
RunFilter = Annotated[str | None, typer.Option("--run", metavar="ID", help="All calls of this run.")]
TenantFilter = Annotated[str | None, typer.Option("--tenant", metavar="NAME", help="All calls of this tenant.")]
StateFilter = Annotated[
    list[WaitingName] | None,
    typer.Option("--state", help="All calls that wait for this; may be given more than once."),
]
ListedFilter = Annotated[
    list[ListedName] | None,
    typer.Option("--state", help="All calls that wait for this; may be given more than once."),
]


def kinds_of(state: list[Any] | None) -> tuple[Any, ...] | None:
    """Return why the calls wait that are meant; ``None``: any."""
    return tuple(each.value for each in state) if state else None


def chosen(target: Target, meant: Filter) -> list[Call]:
    """Return the calls that a filter means. Raises ``Problem`` where it names what nothing on record has."""
    calls = meant.chosen(target.journal)
    if not calls:
        complain_of(target, meant)
    return calls


def complain_of(target: Target, meant: Filter) -> None:
    """Raise ``Problem`` for a filter that means no call because it names what nothing on record has."""
    why = meant.mistaken(target.guard)
    if why:
        raise Problem(Exit.USAGE, why)
    if meant.misses_run(target.guard):
        raise Problem(Exit.NOT_FOUND, f"no run in {target.journal.url} has the id {meant.run!r}")
