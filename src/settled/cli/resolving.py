"""``settled queue resolve``: a person's verdict on one call, or on all that a filter means."""

from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any

import typer

from settled.api.people import facts, findings
from settled.api.people.deciding_many import Decided, Filter, Ruling, decide_all
from settled.cli import output, verdicts
from settled.cli.confirming import confirm
from settled.cli.exits import Exit, Problem, refusals
from settled.cli.filters import RunFilter, StateFilter, TenantFilter, ToolFilter, chosen, kinds_of
from settled.cli.options import AppOption, ByOption, JournalOption, JsonOption, YesOption, who
from settled.cli.show import tell_unread
from settled.cli.target import Given, Target, opened
from settled.cli.words import plural, seconds_of
from settled.core.call import Call
from settled.core.model import Moment
from settled.errors import JournalError
from settled.journals.unread import noting


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


_WORDS = "[OP] VERDICT"


def resolve(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar=_WORDS,
            autocompletion=lambda incomplete: [each for each in VerdictName if each.startswith(incomplete)],
            help=f"The call, unless a filter says which; and what a person has found out: {', '.join(VerdictName)}.",
        ),
    ],
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="How you know. It goes on record.")],
    by: ByOption = None,
    result: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help="With happened: what the call returned. A program that needs it stops without it."
        ),
    ] = None,
    then: Annotated[
        ThenName | None,
        typer.Option(help="With did-not-happen: may it run again, or has it failed?", show_default="fail"),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="With did-not-happen: on your word, although it could still take effect.")
    ] = False,
    tool: ToolFilter = None,
    state: StateFilter = None,
    older_than: Annotated[
        float | None,
        typer.Option(parser=seconds_of, metavar="TIME", help="All calls made so long ago: 90, 30m, 2h, 3d."),
    ] = None,
    tenant: TenantFilter = None,
    run: RunFilter = None,
    limit: Annotated[int | None, typer.Option(min=1, help="With a filter: no more than so many, the oldest.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would become of the call.")] = False,
    yes: YesOption = False,
    journal: JournalOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a person's verdict on a call, or on all that a filter means.

    On a call that is left to a person, happened says that it was done by hand, and --result what it brought. On a
    settled call that is disputed, hold takes it off the queue: seen. On a step of a run that could not be undone,
    undone says that somebody did it by hand, and hold leaves its effect as it is. --app checks the result against the
    tool's declared type, and is needed where the journal is encrypted.

    With a filter (--tool, --state, --older-than, --tenant, --run; all that are given must fit) each call is decided by
    itself, and each result is told; exit code 1 if a verdict could not be taken. A filter that names a tool, a tenant
    or a run that nothing on record has is an error.
    """
    meant = Filter(tool, kinds_of(state), older_than, tenant, run, limit)
    op, verdict = _read(words, filtered=meant != Filter(limit=limit))
    verdicts.check_options(verdict.value, reason=reason, result=result, then=then, force=force)
    kind: Any = verdict.value.replace("-", "_")
    ruling = Ruling(kind, who(by), reason, "rerun" if then is ThenName.RERUN else "fail", force)
    with opened(Given(journal, app)) as target:
        if op is None:
            if result is not None:
                raise Problem(Exit.USAGE, "--result is of one call: name it instead of a filter")
            _many(target, meant, ruling, dry_run=dry_run, yes=yes, as_json=as_json)
        elif op.startswith(findings.MARK):
            _finding(target, op, ruling, dry_run=dry_run, as_json=as_json)
        else:
            _one(target, op, ruling, result, dry_run=dry_run, yes=yes, as_json=as_json)


def _read(words: list[str], *, filtered: bool) -> tuple[str | None, VerdictName]:
    *ops, verdict = words
    if verdict not in list(VerdictName):
        raise Problem(Exit.USAGE, f"{verdict!r} is no verdict: {', '.join(VerdictName)}")
    if len(ops) > 1 or bool(ops) == filtered:
        raise Problem(Exit.USAGE, f"name one call, or say by a filter which calls are meant: {_WORDS}")
    return (ops[0] if ops else None), VerdictName(verdict)


def _one(
    target: Target, op: str, ruling: Ruling, result: str | None, *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    call = target.call(op)
    ruling = replace(ruling, result=verdicts.read_result(target, call, result))
    if ruling.force and not dry_run:
        confirm(f"{call.operation_id} could still take effect after it is settled as not done on your word", yes=yes)
    after = verdicts.try_out(target, call, ruling) if dry_run else verdicts.give(target, call, ruling)
    now = target.journal.now()
    document = {"dry_run": dry_run} | facts.of_call(after, now)
    would = "would be" if dry_run else "is now"
    output.emit(as_json, document, lambda: output.say(f"{after.operation_id} {would} {verdicts.standing(after, now)}"))


def _finding(target: Target, finding_id: str, ruling: Ruling, *, dry_run: bool, as_json: bool) -> None:
    if ruling.verdict != "hold" or dry_run:
        raise Problem(Exit.USAGE, "a finding is not decided on: hold says that somebody has seen it")
    with refusals():
        seen = findings.see(target.guard, finding_id, by=ruling.by, reason=ruling.reason)
    output.emit(as_json, facts.of_finding(seen), lambda: output.say(f"{finding_id} is seen, and out of the queue"))


def _many(target: Target, meant: Filter, ruling: Ruling, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    with noting() as unread:
        calls = chosen(target, meant)
    if calls and not dry_run:
        confirm(f"this decides on {plural(len(calls), 'call')} at once ({ruling.verdict.replace('_', ' ')})", yes=yes)
    now = target.journal.now()
    done, trouble = _decided(target, calls, ruling, dry_run=dry_run)
    refused = sum(bool(each.why) for each in done)
    document = {
        "dry_run": dry_run,
        "total": len(done),
        "refused": refused,
        "unreadable": list(unread),
        "not_reached": len(calls) - len(done),
        "calls": [facts.of_call(each.call, now) | {"taken": not each.why, "refusal": each.why} for each in done],
    }
    output.emit(as_json, document, lambda: _show_many(done, now, dry_run=dry_run))
    tell_unread(target, unread, as_json=as_json)
    if trouble:
        raise Problem(Exit.JOURNAL, f"{len(done)} of {plural(len(calls), 'call')} were decided on; then {trouble}")
    if refused or unread:
        raise typer.Exit(Exit.ATTENTION)


def _decided(target: Target, calls: list[Call], ruling: Ruling, *, dry_run: bool) -> tuple[list[Decided], str]:
    """Return what became of each, and why the rest was not reached, if so: what was decided stands, and is told."""
    done: list[Decided] = []
    try:
        for each in decide_all(target.guard, calls, ruling, dry_run=dry_run):
            done.append(each)  # noqa: PERF402 - what was decided before it raises is kept
    except JournalError as error:
        return done, str(error)
    return done, ""


def _show_many(done: list[Decided], now: Moment, *, dry_run: bool) -> None:
    if not done:
        output.tell("no call that waits is meant by this")
        return
    output.table(("OP", "TOOL", "WOULD BE" if dry_run else "IS NOW"), [_row(each, now) for each in done])
    refused = sum(bool(each.why) for each in done)
    if refused:
        output.tell(f"{plural(refused, 'verdict')} of {len(done)} could not be taken")


def _row(each: Decided, now: Moment) -> tuple[Any, ...]:
    words = f"as it was: {each.why}" if each.why else verdicts.standing(each.call, now)
    return each.call.operation_id, each.call.tool, words
