"""``settled breakers``: tools that are left alone for a while because they fail."""

from typing import Annotated, Any

import typer

from settled.api.people import facts
from settled.cli import output
from settled.cli.exits import Exit, Problem
from settled.cli.options import AppOption, JournalOption, JsonOption
from settled.cli.target import Given, opened

breakers = typer.Typer(
    name="breakers", help="Tools that are left alone because they fail.", no_args_is_help=True, rich_markup_mode=None
)


@breakers.command("list")
def list_breakers(*, journal: JournalOption = None, app: AppOption = None, as_json: JsonOption = False) -> None:
    """List the breakers as the guards have last kept them."""
    with opened(Given(journal, app)) as target:
        known = target.journal.breakers()
        rows = [facts.of_breaker(name, known[name]) for name in sorted(known)]
        output.emit(as_json, {"breakers": rows}, lambda: _show(rows))


def _show(rows: list[dict[str, Any]]) -> None:
    if not rows:
        output.tell("no breaker is on record")
        return
    output.table(("BREAKER", "STATE", "FAILED", "TRIPS", "USUAL FAILURES"), [_row(row) for row in rows])


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    usual = f"{row['usual_failure_rate']:.0%}"
    return row["name"], row["state"].replace("_", " "), f"{row['failures']} of {row['calls']}", str(row["trips"]), usual


@breakers.command("reset")
def reset_breakers(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[BREAKER]...", help="Names as breakers list shows them.")
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Reset all of them.")] = False,
    journal: JournalOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let calls through again.

    The guards at work take it up within about a second.
    """
    if bool(names) is every:
        raise Problem(Exit.USAGE, "name the breakers to reset, or give --all")
    with opened(Given(journal, app)) as target:
        known = sorted(target.journal.breakers())
        missing = [name for name in names or () if name not in known]
        if missing:
            listed = ", ".join(known) or "none"
            raise Problem(Exit.NOT_FOUND, f"there is no breaker {', '.join(missing)}; on record are: {listed}")
        done = sorted(target.journal.reset_breakers(names or None))
        output.emit(as_json, {"reset": done}, lambda: output.say(f"reset: {', '.join(done) or 'none'}"))
