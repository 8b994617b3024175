"""``settled queue``: what waits for a person, and what a person decides."""

import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import Annotated, Any

import typer

from settled.api.people import explain, facts, findings
from settled.api.people.deciding import decide
from settled.api.people.deciding_many import Filter
from settled.api.people.evidence import evidence
from settled.api.people.listing import Listed, listed
from settled.api.people.queue import aprobe, claims, look_at, look_away, under_way
from settled.cli import output, show, verdicts
from settled.cli.exits import Exit, refusals
from settled.cli.filters import ListedFilter, RunFilter, ToolFilter, complain_of, kinds_of
from settled.cli.options import AppOption, ByOption, FailOption, JournalOption, JsonOption, Operation, who
from settled.cli.resolving import resolve
from settled.cli.target import Given, Target, opened
from settled.cli.words import age, moment, plural, seconds_of
from settled.core.call import Call
from settled.core.instead.by_hand import is_by_hand
from settled.core.model import Moment
from settled.core.noted.findings import Finding
from settled.core.states import State

queue = typer.Typer(
    name="queue",
    help="What waits for a person.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_SAID = {
    "happened": "the probe says: it happened",
    "not_happened": "the probe does not see it",
    "inconclusive": "the probe could not tell",
    "failed": "the probe failed",
    "": "the probe was not asked",
}


@queue.command("list")
def list_queue(
    *,
    tool: ToolFilter = None,
    state: ListedFilter = None,
    run: RunFilter = None,
    limit: Annotated[int, typer.Option(min=1, help="Show at most so many; all are counted.")] = 100,
    fail: FailOption = False,
    journal: JournalOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what waits for a person, oldest first.

    Calls of unknown outcome, calls whose process was lost (orphans), calls whose record is disputed, steps of a run
    that could not be undone, calls that need a person's leave or are left to a person, and what a comparison with a
    tool's ledger has found. A tool without a declared effect is marked with a star.

    With filters (--tool, --state, --run) what fits all of them is listed and counted; what a ledger has found belongs
    to no run and has no such state. A filter that names a tool or a run that nothing on record has is an error.
    """
    meant = Filter(tool, kinds_of(state), run=run)
    with opened(Given(journal, app)) as target:
        queued, apart = listed(target.journal, meant, limit), under_way(target.journal)
        if not queued:
            complain_of(target, meant)
        document = queued.facts() | {"under_way": asdict(apart)}
        output.emit(as_json, document, lambda: _show_list(target, queued, limit, filtered=meant != Filter()))
        show.tell_under_way(target, apart, as_json=as_json)
        show.tell_unread(target, queued.unread, as_json=as_json)
    if fail and (queued or queued.unread):
        raise typer.Exit(Exit.ATTENTION)


def _show_list(target: Target, queue: Listed, limit: int, *, filtered: bool) -> None:
    now, calls, noted = queue.now, queue.calls, queue.findings
    if not queue:
        output.tell("nothing that is meant by this waits" if filtered else "nothing waits for a person")
        return
    rows = [(*_row(call, now, queue.looking), run or "-") for call, run in zip(calls, queue.runs, strict=False)]
    rows += [(*_row_of(finding, now), "-") for finding in noted[: limit - len(rows)]]
    header = ("OP", "SINCE", "WHAT", "TOOL", "WHY", "RUN")
    output.table(*((header, rows) if any(queue.runs) else (header[:-1], [row[:-1] for row in rows])))
    if any(not call.terms.declared for call in calls[:limit]):
        output.tell("* no effect is declared for this tool, so it is treated as a write")
    total = len(calls) + len(noted)
    if total > limit:
        output.tell(f"{total - limit} more wait: --limit {total}")
    output.tell(f"to look at one: settled queue show {rows[0][0]}{target.given.options()}")


def _row_of(finding: Finding, now: Moment) -> tuple[str, ...]:
    since = age(finding.found, now.wall).removesuffix(" ago")
    return finding.finding_id, since, finding.kind, finding.tool, findings.words(finding)


def _row(call: Call, now: Moment, looking: Mapping[str, dict[str, Any]]) -> tuple[str, ...]:
    star = "" if call.terms.declared else " *"
    what = "held" if call.held else explain.waiting(call, now) or ""
    since = age(call.created.wall, now.wall).removesuffix(" ago")
    claim = looking.get(call.operation_id)
    looks = f"; {claim['by']} looks at it" if claim else ""
    return call.operation_id, since, what, f"{call.tool}{star}", explain.brief(call, now) + looks


@queue.command("show")
def show_waiting(
    op: Operation, *, journal: JournalOption = None, app: AppOption = None, as_json: JsonOption = False
) -> None:
    """Show all that is needed to decide on a call.

    What it was, every attempt with its evidence, its log, when a probe can prove that nothing happened, and the
    commands to type next.
    """
    with opened(Given(journal, app)) as target:
        if op.startswith(findings.MARK):
            show.finding(target, op, as_json=as_json)
            return
        call = target.call(op)
        claim = claims(target.journal).get(call.operation_id)
        document = evidence(target.guard, call) | facts.of_claim(claim) | {"next": verdicts.commands(target, call)}
        output.emit(as_json, document, lambda: _show(target, call, document))


def _show(target: Target, call: Call, document: dict[str, Any]) -> None:
    show.call(target, call, document)
    now = target.journal.now()
    if explain.waiting(call, now) is None:
        output.tell("this call waits for nobody")
        show.tell_of_owner(target, call)
        return
    if call.leave is not None and call.state is State.AWAITING_APPROVAL:
        output.title("By hand" if is_by_hand(call) else "Leave")
        output.facts(_by_hand(call) if is_by_hand(call) else _leave(call, now))
    if document["looked_at"]:
        output.title("Looked at")
        looked = document["looked_at"]
        output.facts([("by", looked["by"]), ("until", looked["until"])])
    if call.state in (State.UNKNOWN, State.PROCESSING):
        output.title("Proof")
        output.facts(_proof(call, now))
    output.title("What now")
    for command in document["next"]:
        output.say(f"{output.INDENT}# {command['meaning']}")
        output.say(f"{output.INDENT}{command['command']}")


def _proof(call: Call, now: Moment) -> list[tuple[str, str]]:
    proof = explain.proof(call, now)
    since = f" (from {moment(proof.since, now.wall)})" if proof.since is not None else ""
    again = "asking for the call again does no harm, and may settle it" if explain.repeatable(call, now) else ""
    return [
        ("probe", "declared" if call.terms.probed else "none declared"),
        ("proves absence", f"{proof.why}{since}"),
        ("again", again),
    ]


def _by_hand(call: Call) -> list[tuple[str, str]]:
    leave = call.leave
    return [] if leave is None else [("wanted", leave.why or "what its tool does"), ("before", leave.by_hand)]


def _leave(call: Call, now: Moment) -> list[tuple[str, str]]:
    leave = call.leave
    if leave is None:
        return []
    return [
        ("why", leave.why),
        ("needed", plural(leave.persons, "person")),
        ("agreed", ", ".join(leave.by) or "nobody so far"),
        ("until", moment(leave.until, now.wall)),
    ]


@queue.command("claim")
def claim_call(
    op: Operation,
    *,
    seconds: Annotated[
        float, typer.Option("--for", parser=seconds_of, metavar="TIME", help="How long: 90, 30m, 2h.")
    ] = "30m",  # type: ignore[assignment]  # read by the parser, as what is typed
    take_over: Annotated[bool, typer.Option("--take-over", help="Also from somebody else who looks at it.")] = False,
    by: ByOption = None,
    journal: JournalOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say that you look at a call: nobody else decides on it meanwhile.

    Your decision is taken only while the call stands as it stood when you claimed it.
    """
    with opened(Given(journal, app)) as target:
        call = target.call(op)
        with refusals():
            claim = look_at(target.guard, call.operation_id, by=who(by), seconds=seconds, take_over=take_over)
        document = {"operation_id": call.operation_id} | facts.of_claim(claim)
        until = moment(claim["until"], target.journal.now().wall)
        output.emit(
            as_json, document, lambda: output.say(f"{call.operation_id}: {claim['by']} looks at it until {until}")
        )


@queue.command("release")
def release_call(
    op: Operation,
    *,
    by: ByOption = None,
    journal: JournalOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let go of a call that you have claimed."""
    with opened(Given(journal, app)) as target:
        call = target.call(op)
        with refusals():
            was = look_away(target.guard, call.operation_id, by=who(by))
        words = "nobody looks at it now" if was else "nobody was looking at it"
        output.emit(
            as_json,
            {"operation_id": call.operation_id, "released": was},
            lambda: output.say(f"{call.operation_id}: {words}"),
        )


@queue.command("probe")
def probe_call(
    op: Operation,
    *,
    wait: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Wait so long for a negative answer to be proof.")
    ] = 0.0,
    journal: JournalOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask the tool's own system whether the call happened.

    Settles it if the answer is proof. Needs --app. Exit code 1 if it is still unknown then.
    """
    with opened(Given(journal, app), tools="a probe is declared with its tool") as target:
        call = target.call(op)
        with refusals(), redirect_stdout(sys.stderr):
            probing = target.guard.floor.home.run(aprobe(target.guard, call.operation_id, wait=wait))
        document = {"said": probing.said, "words": probing.words} | evidence(target.guard, probing.call)
        output.emit(as_json, document, lambda: _show_probing(target, probing.call, probing.said, probing.words))
    if probing.call.state is State.UNKNOWN:
        raise typer.Exit(Exit.ATTENTION)


def _show_probing(target: Target, call: Call, said: str, words: str) -> None:
    now = target.journal.now()
    output.say(_SAID[said] + (f": {words}" if words else ""))
    output.say(f"{call.operation_id} is {call.state}: {explain.why(call, now)}")
    if call.state is State.UNKNOWN and said == "not_happened":
        proof = explain.proof(call, now)
        output.say(f"when that is proof: {proof.why}" + (f" ({moment(proof.since, now.wall)})" if proof.since else ""))


@queue.command("approve")
def approve_call(
    op: Operation,
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why. It goes on record.")] = "",
    by: ByOption = None,
    journal: JournalOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give leave for a call that waits for it: for this call as it stands, once.

    Whoever waits for it goes on; else it is made when its program asks again.
    """
    _decide(Given(journal, app), op, give=True, by=by, reason=reason, as_json=as_json)


@queue.command("refuse")
def refuse_call(
    op: Operation,
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why. It goes on record, and the program is told.")],
    by: ByOption = None,
    journal: JournalOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Refuse a call that waits for leave, or is left to a person: it is never made."""
    _decide(Given(journal, app), op, give=False, by=by, reason=reason, as_json=as_json)


def _decide(given: Given, op: str, *, give: bool, by: str | None, reason: str, as_json: bool) -> None:
    with opened(given) as target:
        call = target.call(op)
        with refusals():
            decide(target.guard, call.operation_id, give=give, by=who(by), reason=reason, any_tenant=True)
        after, now = target.call(call.operation_id), target.journal.now()
        words = verdicts.leave_words(after)
        output.emit(as_json, facts.of_call(after, now), lambda: output.say(f"{after.operation_id}: {words}"))


queue.command("resolve")(resolve)
