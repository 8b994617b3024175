"""``settled runs``: the tasks of agents, what they did, and what became of it."""

import shlex
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from settled.api.people import facts, story
from settled.api.people.facts import when
from settled.api.people.queue import run_of
from settled.api.runs import carrying_on, sagas
from settled.api.runs.rewinding import Effects, Rewound, rewind
from settled.api.steps import adrive
from settled.cli import output, show
from settled.cli.confirming import confirm
from settled.cli.exits import Exit, Problem
from settled.cli.options import AppOption, ByOption, FailOption, JournalOption, JsonOption, YesOption, who
from settled.cli.target import Given, Target, opened
from settled.cli.words import age, local, plural
from settled.core.books import RunRecord, RunState
from settled.core.call import Call
from settled.core.runs.entering import BARRED, Held
from settled.core.runs.joins import LookAtLanes
from settled.core.runs.lanes import lane_of
from settled.errors import DeclarationError
from settled.journals.unread import noting

runs = typer.Typer(name="runs", help="Runs: tasks of agents, as a whole.", no_args_is_help=True, rich_markup_mode=None)
RunName = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]
TenantOption = Annotated[str | None, typer.Option(metavar="NAME", help="Whose run it is.", show_default="the app's")]
_NEEDS = "what undoes a call is declared with its tool"
_MEANS = {
    RunState.ACTIVE: "at work, cut off, or a framework's, which has no end: entered again it goes on where it stopped",
    RunState.COMPLETED: "it came to its end: entered again it replays",
    RunState.KEPT: "it failed, and what it did was kept: it may be entered again",
    RunState.ROLLING_BACK: "it is being undone: no call of it begins any more",
    RunState.COMPENSATED: "all that it did is undone",
    RunState.PARTLY_COMPENSATED: "it is undone in part: what is left stands in the queue",
}


@runs.command("list")
def list_runs(
    *,
    state: Annotated[
        list[RunState] | None, typer.Option(help="Only runs in this state; may be given more than once.")
    ] = None,
    tenant: Annotated[str | None, typer.Option(metavar="NAME", help="Only runs of this tenant.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Look at so many at the most.")] = 100,
    fail: FailOption = False,
    journal: JournalOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """List runs, newest first. With --fail, exit code 1 if one is being undone, or is undone in part."""
    with opened(Given(journal, app)) as target, noting() as unread:
        looked = _looked_at(target, state, limit)
        found = [r for r in looked if (not state or r.state in state) and (tenant is None or r.tenant == tenant)]
        now, more = target.journal.now().wall, len(looked) >= limit
        document = {"runs": [story.of_run(run) for run in found], "more": more, "unreadable": list(unread)}
        output.emit(as_json, document, lambda: _show_list(target, found, now))
        if more and not as_json:
            output.tell(f"no more than {limit} were looked at: --limit {10 * limit} looks at older ones")
        show.tell_unread(target, unread, as_json=as_json)
        wanting = target.journal.undoing(1)
    if fail and (wanting or unread):
        raise typer.Exit(Exit.ATTENTION)


def _looked_at(target: Target, states: list[RunState] | None, limit: int) -> Sequence[RunRecord]:
    """Return the newest runs; of those whose undoing wants somebody, all, however old they are."""
    if states and {*states} <= {RunState.ROLLING_BACK, RunState.PARTLY_COMPENSATED}:
        return target.journal.undoing(limit)[::-1]
    return target.journal.runs(limit)


def _show_list(target: Target, found: list[RunRecord], now: float) -> None:
    if not found:
        output.tell("no runs")
        return
    rows = [(_name(r), str(r.state), age(r.changed, now) if r.changed else "-", str(r.entry), r.reason) for r in found]
    output.table(("RUN", "STATE", "CHANGED", "ENTRIES", "WHY"), rows)
    first = found[0].parent if lane_of(found[0]) else found[0].run_id
    output.tell(f"to look at one: settled runs show {shlex.quote(first)}{target.given.options()}")


def _name(run: RunRecord) -> str:
    """Return how a run is listed, or what an agent that has joined one does in it."""
    lane = lane_of(run)
    return f"{run.parent} (lane {lane})" if lane else run.run_id


@runs.command("show")
def show_run(
    run: RunName,
    *,
    tenant: TenantOption = None,
    journal: JournalOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell what a run did, line by line, with what undid it."""
    with opened(Given(journal, app)) as target:
        record = _run(target, run, tenant)
        lines, left = story.story(target.guard, record), story.left_of(target.journal, record)
        commands = _next(target, record, left)
        told = [{"at": when(line.at), "operation_id": line.operation_id, "words": line.words} for line in lines]
        now = target.journal.now()
        rows = [facts.of_call(call, now) | {"run": run_of(target.journal, call)} for call in left]
        lanes = target.journal.perform(LookAtLanes(record.run_id, record.tenant))
        joined = {lane_of(lane): str(lane.state) for lane in lanes}
        document = story.of_run(record) | {"lanes": joined, "story": told, "left": rows, "next": commands}

        def shown() -> None:
            _show(record, _means(record, left), joined, now.wall)
            _show_story(target, lines, left, commands)

        output.emit(as_json, document, shown)


def _show(run: RunRecord, means: str, joined: dict[str, str], now: float) -> None:
    output.facts(
        [
            ("run", run.run_id),
            ("tenant", run.tenant),
            ("state", f"{run.state}: {means}"),
            ("why", run.reason),
            ("begun", f"{local(run.begun)} ({age(run.begun, now)})" if run.begun else ""),
            ("entries", str(run.entry)),
            ("inside", run.parent),
            ("joined", ", ".join(f"{lane} ({state})" for lane, state in joined.items())),
            ("process", f"{run.owner.pid} on {run.owner.host}" if run.owner else ""),
        ]
    )


def _means(run: RunRecord, left: list[Call]) -> str:
    decided = run.state is RunState.PARTLY_COMPENSATED and not left
    return "it is undone in part: of the rest nothing waits for a person" if decided else _MEANS[run.state]


def _show_story(target: Target, lines: list[story.Line], left: list[Call], commands: list[str]) -> None:
    output.title("What happened")
    for line in lines:
        output.say(f"{output.INDENT}{local(line.at)}  {output.INDENT * line.depth}{line.words}  [{line.operation_id}]")
    if not lines:
        output.say(f"{output.INDENT}no call is on record")
    if left:
        output.title("What is left for a person")
    for call in left:
        output.say(f"{output.INDENT}{story.left_words(target.guard, call)}  [{call.operation_id}]")
    if commands:
        output.title("What now")
        for command in commands:
            output.say(f"{output.INDENT}{command}")


def _next(target: Target, run: RunRecord, left: list[Call]) -> list[str]:
    options, app = target.given.options(), target.given.app_wanted()
    if run.state in (RunState.ROLLING_BACK, RunState.PARTLY_COMPENSATED):
        name = shlex.quote(run.run_id)
        resume, look = f"settled runs resume {name}{app}{options}", f"settled queue list --run {name}{options}"
        decided = run.state is RunState.PARTLY_COMPENSATED and not left
        return [] if decided else [resume, look]
    if run.state is RunState.COMPENSATED:
        return []
    first = [f"settled queue list --run {shlex.quote(run.run_id)}{options}"] if left else []
    return [*first, f"settled runs compensate {shlex.quote(run.run_id)} --reason '...'{app}{options}"]


def _run(target: Target, name: str, tenant: str | None) -> RunRecord:
    whose = target.guard.tenant if tenant is None else tenant
    found = target.journal.run(whose, name)
    if found is None:
        of = f" of tenant {whose!r}" if whose else ""
        raise Problem(Exit.NOT_FOUND, f"no run{of} in {target.journal.url} has the id {name!r}")
    return found


@runs.command("compensate")
def compensate_run(
    run: RunName,
    *,
    reason: Annotated[
        str,
        typer.Option(metavar="TEXT", help="Why. It goes on record, unless the run is being undone already."),
    ],
    wait: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Wait so long for what is in flight, and for proof.")
    ] = 30.0,
    yes: YesOption = False,
    journal: JournalOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Undo what a run did, the last first.

    Needs --app. Exit code 1 if something of it could not be undone: it stands in the queue then.
    """
    with opened(Given(journal, app), tools=_NEEDS) as target:
        record = _run(target, run, None)
        if record.state is not RunState.COMPENSATED:
            confirm(f"what run {record.run_id!r} did is undone, and none of its calls is made any more", yes=yes)
        if record.state in BARRED and record.reason:
            output.tell(f"it is {record.state} already ({record.reason}), and that stays the reason on record")
        ended = _roll_back(target, record, reason, wait)
        _report(target, [ended], as_json=as_json)


@runs.command("resume")
def resume_runs(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Only this run.")] = None,
    *,
    wait: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Wait so long for what is in flight, and for proof.")
    ] = 30.0,
    journal: JournalOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Go on with undoing that a lost process has left, or that has become possible since.

    Put this, or ``settled worker``, on a schedule. A run that is not being undone is resumed by its own program, which
    enters it again. Needs --app. Exit code 1 if something could not be undone.
    """
    with opened(Given(journal, app), tools=_NEEDS) as target:
        if run is not None:
            record = _run(target, run, None)
            if record.state not in (RunState.ROLLING_BACK, RunState.PARTLY_COMPENSATED, RunState.COMPENSATED):
                raise Problem(
                    Exit.REFUSED, f"run {run!r} is {record.state}: its own program goes on, by entering it again"
                )
            found = [record]
        else:
            found = carrying_on.unfinished(target.guard, 1000)
        ended = [_roll_back(target, record, "", wait) for record in found]
        _report(target, ended, as_json=as_json)


@runs.command("rewind")
def rewind_run(
    run: RunName,
    *,
    first: Annotated[
        str, typer.Option("--from", metavar="OP", help="The first call to be made anew, by its operation id or key.")
    ],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why. It goes on record.")],
    by: ByOption = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="Undo what those calls did first, the last begun first. Needs --app.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep-effects", help="Let what those calls did stand, besides what is made anew.")
    ] = False,
    tenant: TenantOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be set aside.")] = False,
    yes: YesOption = False,
    journal: JournalOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set aside the calls of a run from one on: its next entry makes them anew, with whatever arguments.

    For a call in conflict: its key is known with other arguments. Where a call from there on had an effect nothing is
    done, unless --undo or --keep-effects says what becomes of it. What is unknown has to be settled first. Their
    records stay, and each says who set it aside and why.
    """
    if undo and keep:
        raise Problem(Exit.USAGE, "--undo and --keep-effects exclude each other")
    with opened(Given(journal, app), tools=_NEEDS if undo else "") as target:
        record, call = _run(target, run, tenant), target.call(first)
        how: Any = "undo" if undo else "keep" if keep else "refuse"
        choice = Choice(record, call.operation_id, who(by), reason, how)
        plan = _rewind(target, choice, dry_run=True)
        if not dry_run:
            confirm(f"{plural(len(plan.operation_ids), 'call')} of run {run!r} will be made anew", yes=yes)
            plan = _rewind(target, choice, dry_run=False)
        document = {"dry_run": dry_run, "run": run, "set_aside": plan.operation_ids}
        document |= {"undone": plan.undone, "kept": plan.kept}
        output.emit(as_json, document, lambda: _tell_rewound(target, plan, dry_run=dry_run))


@dataclass(frozen=True, slots=True)
class Choice:
    """What is rewound, on whose word."""

    run: RunRecord
    operation_id: str
    by: str
    reason: str
    effects: Effects


def _rewind(target: Target, choice: Choice, *, dry_run: bool) -> Rewound:
    steps = rewind(
        target.guard,
        choice.run.run_id,
        choice.operation_id,
        by=choice.by,
        reason=choice.reason,
        effects=choice.effects,
        dry_run=dry_run,
        tenant=choice.run.tenant,
    )
    try:
        with redirect_stdout(sys.stderr):
            return target.guard.floor.home.run(adrive(target.guard, steps))
    except DeclarationError as error:
        raise Problem(Exit.REFUSED, str(error)) from error


def _tell_rewound(target: Target, plan: Rewound, *, dry_run: bool) -> None:
    would = "would be" if dry_run else "is"
    for operation_id in plan.operation_ids:
        what = (
            " and undone" if operation_id in plan.undone else ", what it did stays" if operation_id in plan.kept else ""
        )
        tool = target.call(operation_id).tool
        output.say(f"{tool} [{operation_id}] {would} set aside{what}")
    if not dry_run:
        output.tell(f"the next entry of run {plan.run_id!r} makes them anew")


def _roll_back(target: Target, run: RunRecord, reason: str, wait: float) -> RunRecord:
    order = sagas.order_for(target.guard, run.run_id, tenant=run.tenant, reason=reason, wait=wait)
    with redirect_stdout(sys.stderr):
        ended = target.guard.floor.home.run(sagas.aroll_back(target.guard, order))
    if isinstance(ended, Held):
        owner = ended.run.owner
        who = f" (process {owner.pid} on {owner.host})" if owner else ""
        raise Problem(Exit.REFUSED, f"another process works on run {run.run_id!r}{who}; nothing was done")
    return ended or run


def _report(target: Target, ended: list[RunRecord], *, as_json: bool) -> None:
    document: dict[str, Any] = {"runs": [story.of_run(run) for run in ended]}
    output.emit(as_json, document, lambda: _tell(target, ended))
    if any(run.state is not RunState.COMPENSATED for run in ended):
        raise typer.Exit(Exit.ATTENTION)


def _tell(target: Target, ended: list[RunRecord]) -> None:
    if not ended:
        output.tell("nothing is left to be gone on with")
    waiting = 0
    for run in ended:
        left = story.left_of(target.journal, run)
        waiting += bool(left) and run.state is not RunState.COMPENSATED
        output.say(f"{run.run_id} is {run.state}: {_means(run, left)}")
    if waiting:
        output.tell(f"of {plural(waiting, 'run')} something is left: settled queue list{target.given.options()}")
