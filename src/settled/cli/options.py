"""The options that many commands share."""

import getpass
from typing import Annotated

import typer

from settled.api.opening import VARIABLE
from settled.cli.exits import Exit, Problem
from settled.cli.target import APP_VARIABLE

JournalOption = Annotated[
    str | None,
    typer.Option("--journal", metavar="URL", envvar=VARIABLE, help="The journal, as sqlite:///agent.db."),
]
AppOption = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="MODULE:GUARD",
        envvar=APP_VARIABLE,
        help="The guard to use, with its journal, tools and key. The module is imported from the current directory: "
        "calls at its top level are made.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Operation = Annotated[str, typer.Argument(metavar="OP", help="The call's operation id, or its key.")]
FailOption = Annotated[bool, typer.Option("--fail", help="End with exit code 1 if a call waits for a person.")]
ByOption = Annotated[
    str | None, typer.Option("--by", metavar="NAME", help="Who decides.", show_default="your user name")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def who(by: str | None) -> str:
    """Return who decides: the name that was given, or that of the user."""
    if by is not None:
        return by
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError) as error:  # a container whose user has a number only
        raise Problem(Exit.USAGE, "who decides? This user has no name here: give --by NAME") from error
