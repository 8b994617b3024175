"""``settled calls``: what is on record."""

from typing import Annotated

import typer

from settled.api.people import facts
from settled.api.people.deciding_many import Filter
from settled.api.people.evidence import evidence
from settled.cli import output, show
from settled.cli.filters import complain_of
from settled.cli.options import AppOption, JournalOption, JsonOption, Operation
from settled.cli.target import Given, opened
from settled.cli.words import age
from settled.core.call import Call
from settled.core.runs.entering import scope_of_run
from settled.core.states import State
from settled.journals.unread import noting
from settled.ports import CallQuery

calls = typer.Typer(name="calls", help="The calls on record.", no_args_is_help=True, rich_markup_mode=None)


@calls.command("list")
def list_calls(
    *,
    state: Annotated[
        list[State] | None, typer.Option(help="Only calls in this state; may be given more than once.")
    ] = None,
    tool: Annotated[str | None, typer.Option(metavar="NAME", help="Only calls of this tool.")] = None,
    tenant: Annotated[str | None, typer.Option(metavar="NAME", help="Only calls of this tenant.")] = None,
    run: Annotated[
        str | None, typer.Option(metavar="ID", help="Only calls of this run (of --tenant, where there are any).")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 50,
    after: Annotated[
        str | None, typer.Option(metavar="OP", help="Go on after this call, the last one of the page before.")
    ] = None,
    journal: JournalOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """List calls, newest first."""
    with opened(Given(journal, app)) as target:
        place = target.call(after).operation_id if after is not None else None
        scope = None if run is None else scope_of_run(tenant or "", run)
        query = CallQuery(
            states=state or None, tool=tool, tenant=tenant, scope=scope, limit=limit + 1, after=place, readable=True
        )
        with noting() as unread:
            found = list(target.journal.find(query))
        if not found and not unread:
            complain_of(target, Filter(tool, run=run))
        page, more = found[:limit], len(found) > limit
        now = target.journal.now()
        document = {
            "calls": [facts.of_call(call, now) for call in page],
            "next_after": page[-1].operation_id if more else None,
            "unreadable": list(unread),
        }
        output.emit(as_json, document, lambda: _show_list(page, now.wall, more=more))
        show.tell_unread(target, unread, as_json=as_json)


def _show_list(page: list[Call], now: float, *, more: bool) -> None:
    if not page:
        output.tell("no calls")
        return
    rows = [(c.operation_id, _state(c), age(c.created.wall, now), str(len(c.attempts)), c.tool) for c in page]
    output.table(("OP", "STATE", "MADE", "ATTEMPTS", "TOOL"), rows)
    if more:
        output.tell(f"there are more: --after {page[-1].operation_id}")


def _state(call: Call) -> str:
    return f"{call.state} (disputed)" if call.disputed else str(call.state)


@calls.command("show")
def show_call(
    op: Operation, *, journal: JournalOption = None, app: AppOption = None, as_json: JsonOption = False
) -> None:
    """Show one call with every attempt and its log."""
    with opened(Given(journal, app)) as target:
        call = target.call(op)
        document = evidence(target.guard, call)
        output.emit(as_json, document, lambda: show.call(target, call, document))
