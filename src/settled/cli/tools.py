"""``settled tools``: which tools there are, and which are paused."""

from typing import Annotated, Any

import typer

from settled.api.people import facts, pausing
from settled.cli import output
from settled.cli.exits import Exit, Problem, refusals
from settled.cli.options import AppOption, ByOption, JournalOption, JsonOption, who
from settled.cli.target import Given, Target, opened
from settled.cli.words import moment

tools = typer.Typer(name="tools", help="The tools, and pausing them.", no_args_is_help=True, rich_markup_mode=None)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The tool's name, as its calls show it.")]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why. It goes on record.")]


@tools.command("list")
def list_tools(*, journal: JournalOption = None, app: AppOption = None, as_json: JsonOption = False) -> None:
    """List the tools of the app, and those that are or were paused, with who did it and why."""
    with opened(Given(journal, app)) as target:
        rows = _rows(target)
        now = target.journal.now().wall
        output.emit(as_json, {"tools": rows}, lambda: _show(rows, now))


def _rows(target: Target) -> list[dict[str, Any]]:
    known, paused = target.guard.tools, pausing.paused(target.journal)
    names = sorted({*known, *pausing.seen(target.journal)})
    return [facts.of_tool(name, known.get(name), paused.get(name)) for name in names]


def _show(rows: list[dict[str, Any]], now: float) -> None:
    if not rows:
        output.tell("no tool was ever paused; --app shows the tools of an app")
        return
    output.table(("TOOL", "EFFECT", "STATE", "SINCE", "BY", "REASON"), [_row(row, now) for row in rows])


def _row(row: dict[str, Any], now: float) -> tuple[str, ...]:
    since = moment(row["paused_at"], now) if row["paused"] else ""
    return row["name"], row["effect"] or "", "paused" if row["paused"] else "", since, row["by"], row["reason"]


@tools.command("pause")
def pause_tool(
    name: Name,
    *,
    reason: Reason,
    by: ByOption = None,
    journal: JournalOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let no call of a tool begin, in any process on this journal, until it is resumed.

    What has begun ends. A call that is asked for meanwhile is refused before anything is executed; what the tool is to
    undo waits. A read that leaves no record heeds it within a second.
    """
    _change(Given(journal, app), name, by, reason, resume=False, as_json=as_json)


@tools.command("resume")
def resume_tool(
    name: Name,
    *,
    reason: Reason,
    by: ByOption = None,
    journal: JournalOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a paused tool be called again."""
    _change(Given(journal, app), name, by, reason, resume=True, as_json=as_json)


def _change(given: Given, name: str, by: str | None, reason: str, *, resume: bool, as_json: bool) -> None:
    with opened(given) as target:
        _demand_known(target, name)
        with refusals():
            done = pausing.pause(target.guard, name, by=who(by), reason=reason, resume=resume)
        document = {
            "tool": name,
            **{each: done[each] for each in ("what", "by", "reason")},
            "at": facts.when(done["at"]),
        }
        output.emit(as_json, document, lambda: output.say(f"{name} is {done['what']}"))


def _demand_known(target: Target, name: str) -> None:
    """Refuse a name that neither the app nor the journal knows: nothing would be paused by it."""
    from settled.ports import CallQuery  # noqa: PLC0415 - only here

    known = {*target.guard.tools, *pausing.seen(target.journal)}
    if name not in known and not target.journal.find(CallQuery(tool=name, limit=1)):
        listed = f"the app's tools are: {', '.join(sorted(target.guard.tools)) or 'none'}"
        others = listed if target.given.app else "no app was named (--app) whose tools are known"
        raise Problem(Exit.NOT_FOUND, f"no tool {name!r} has calls on record, and {others}")
