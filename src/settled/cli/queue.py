"""``settled queue``: what waits for a person, and what a person decides."""

import asyncio
import getpass
import sys
from contextlib import redirect_stdout
from enum import StrEnum
from typing import Annotated, Any, Literal

import typer

from settled.api import explain, facts
from settled.api.deciding import decide
from settled.api.queue import aprobe, run_of, waiting
from settled.cli import output, show, verdicts
from settled.cli.confirming import confirm
from settled.cli.exits import Exit, Problem
from settled.cli.options import AppOption, FailOption, JournalOption, JsonOption, Operation, YesOption
from settled.cli.target import Given, Target, opened
from settled.cli.words import age, moment
from settled.core.call import Call
from settled.core.model import Moment
from settled.core.states import State
from settled.errors import DeclarationError

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


class VerdictName(StrEnum):
    """A verdict as it is typed."""

    HAPPENED = "happened"
    DID_NOT_HAPPEN = "did-not-happen"
    HOLD = "hold"
    UNDONE = "undone"


class ThenName(StrEnum):
    """What follows when it did not happen."""

    RERUN = "rerun"
    FAIL = "fail"


@queue.command("list")
def list_queue(
    *,
    limit: Annotated[int, typer.Option(min=1, help="Show at most so many; all are counted.")] = 100,
    fail: FailOption = False,
    journal: JournalOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what waits for a person, oldest first.

    Calls of unknown outcome, calls whose process was lost (orphans), calls whose record is disputed, steps of a run
    that could not be undone, and calls that need a person's leave. A tool without a declared effect is marked with a
    star.
    """
    with opened(Given(journal, app)) as target:
        found, now = waiting(target.journal), target.journal.now()
        runs = [run_of(target.journal, call) for call in found[:limit]]
        rows = [facts.of_call(call, now) | {"run": run} for call, run in zip(found, runs, strict=False)]
        document = {"total": len(found), "calls": rows}
        output.emit(as_json, document, lambda: _show_list(target, found, runs, now))
    if fail and found:
        raise typer.Exit(Exit.ATTENTION)


def _show_list(target: Target, found: list[Call], runs: list[str | None], now: Moment) -> None:
    if not found:
        output.tell("nothing waits for a person")
        return
    header: tuple[str, ...] = ("OP", "SINCE", "WHAT", "TOOL", "WHY")
    rows = [_row(call, now) for call in found[: len(runs)]]
    if any(runs):
        header, rows = (*header, "RUN"), [(*row, run or "-") for row, run in zip(rows, runs, strict=True)]
    output.table(header, rows)
    if any(not call.terms.declared for call in found[: len(runs)]):
        output.tell("* no effect is declared for this tool, so it is treated as a write")
    if len(found) > len(runs):
        output.tell(f"{len(found) - len(runs)} more wait: --limit {len(found)}")
    output.tell(f"to look at one: settled queue show {found[0].operation_id}{target.given.options()}")


def _row(call: Call, now: Moment) -> tuple[str, ...]:
    star = "" if call.terms.declared else " *"
    what = "held" if call.held else explain.waiting(call, now) or ""
    since = age(call.created.wall, now.wall).removesuffix(" ago")
    return call.operation_id, since, what, f"{call.tool}{star}", explain.brief(call, now)


@queue.command("show")
def show_waiting(
    op: Operation, *, journal: JournalOption = None, app: AppOption = None, as_json: JsonOption = False
) -> None:
    """Show all that is needed to decide on a call.

    What it was, every attempt with its evidence, its log, when a probe can prove that nothing happened, and the
    commands to type next.
    """
    with opened(Given(journal, app)) as target:
        call = target.call(op)
        document = show.document(target, call) | {"next": verdicts.commands(target, call)}
        output.emit(as_json, document, lambda: _show(target, call, document))


def _show(target: Target, call: Call, document: dict[str, Any]) -> None:
    show.call(target, call, document)
    now = target.journal.now()
    if explain.waiting(call, now) is None:
        output.tell("this call waits for nobody")
        return
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
        try:
            with redirect_stdout(sys.stderr):
                probing = asyncio.run(aprobe(target.guard, call.operation_id, wait=wait))
        except DeclarationError as error:
            raise Problem(Exit.REFUSED, str(error)) from error
        document = {"said": probing.said, "words": probing.words} | show.document(target, probing.call)
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
    by: Annotated[str | None, typer.Option(metavar="NAME", help="Who decides.", show_default="your user name")] = None,
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
    by: Annotated[str | None, typer.Option(metavar="NAME", help="Who decides.", show_default="your user name")] = None,
    journal: JournalOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Refuse a call that waits for leave: it is never made."""
    _decide(Given(journal, app), op, give=False, by=by, reason=reason, as_json=as_json)


def _decide(given: Given, op: str, *, give: bool, by: str | None, reason: str, as_json: bool) -> None:
    with opened(given) as target:
        call = target.call(op)
        try:
            decide(
                target.guard,
                call.operation_id,
                give=give,
                by=getpass.getuser() if by is None else by,
                reason=reason,
                any_tenant=True,
            )
        except DeclarationError as error:
            raise Problem(Exit.REFUSED, str(error)) from error
        after, now = target.call(call.operation_id), target.journal.now()
        words = verdicts.leave_words(after)
        output.emit(as_json, facts.of_call(after, now), lambda: output.say(f"{after.operation_id}: {words}"))


@queue.command("resolve")
def resolve_call(
    op: Operation,
    verdict: Annotated[VerdictName, typer.Argument(help="What a person has found out.")],
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="How you know. It goes on record.")],
    by: Annotated[str | None, typer.Option(metavar="NAME", help="Who decides.", show_default="your user name")] = None,
    result: Annotated[str | None, typer.Option(metavar="JSON", help="With happened: what the call returned.")] = None,
    then: Annotated[
        ThenName | None,
        typer.Option(help="With did-not-happen: may it run again, or has it failed?", show_default="fail"),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="With did-not-happen: on your word, although it could still take effect.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would become of the call.")] = False,
    yes: YesOption = False,
    journal: JournalOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a person's verdict on a call.

    On a settled call that is disputed, hold takes it off the queue: seen. On a step of a run that could not be undone,
    undone says that somebody did it by hand, and hold leaves its effect as it is. --app checks the result against the
    tool's declared type, and is needed where the journal is encrypted.
    """
    verdicts.check_options(verdict.value, reason=reason, result=result, then=then, force=force)
    with opened(Given(journal, app)) as target:
        call = target.call(op)
        given = verdicts.read_result(target, call, result)
        kind: Any = verdict.value.replace("-", "_")
        follows: Literal["rerun", "fail"] = "rerun" if then is ThenName.RERUN else "fail"
        decision = verdicts.Decision(kind, getpass.getuser() if by is None else by, reason, follows, given, force=force)
        if force and not dry_run:
            confirm(
                f"{call.operation_id} could still take effect after it is settled as not done on your word", yes=yes
            )
        after = verdicts.try_out(target, call, decision) if dry_run else verdicts.give(target, call, decision)
        now = target.journal.now()
        document = {"dry_run": dry_run} | facts.of_call(after, now)
        would = "would be" if dry_run else "is now"
        output.emit(
            as_json, document, lambda: output.say(f"{after.operation_id} {would} {verdicts.standing(after, now)}")
        )
