"""``settled journal``: the health of the journal itself."""

from typing import Annotated, Any

import typer

from settled.api.people.queue import pages
from settled.cli import output
from settled.cli.confirming import confirm
from settled.cli.exits import Exit
from settled.cli.options import AppOption, JournalOption, JsonOption, YesOption
from settled.cli.target import Given, Target, file_of, opened
from settled.cli.words import plural
from settled.core.model import KeyKind
from settled.errors import JournalError
from settled.journals.prune import Pruned, prune
from settled.ports import CallQuery, Report

journal = typer.Typer(
    name="journal", help="The health of the journal itself.", no_args_is_help=True, rich_markup_mode=None
)
_BATCH = 1000


@journal.command("check")
def check(*, journal: JournalOption = None, app: AppOption = None, as_json: JsonOption = False) -> None:
    """Look at schema, integrity and size.

    Exit code 1 if there is a problem.
    """
    with opened(Given(journal, app)) as target:
        report = target.journal.check()
    _report(report, as_json=as_json)


@journal.command("verify")
def verify(
    *,
    head: Annotated[
        str | None, typer.Option(metavar="HEAD", help="A head kept elsewhere: the log must go on from it.")
    ] = None,
    journal: JournalOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check that nobody changed or cut off the log.

    Exit code 1 if somebody did; the rows are named.
    """
    with opened(Given(journal, app)) as target:
        report = target.journal.verify(head)
    _report(report, as_json=as_json)


def _report(report: Report, *, as_json: bool) -> None:
    problems = list(report.problems)
    document = {"ok": report.ok, "facts": dict(report.facts), "problems": problems}
    output.emit(as_json, document, lambda: _show_report(report))
    if not report.ok:
        raise typer.Exit(Exit.ATTENTION)


def _show_report(report: Report) -> None:
    output.facts([(name.replace("_", " "), _value(value)) for name, value in report.facts.items()])
    for problem in report.problems:
        output.say(f"problem: {problem}")
    output.say("ok" if report.ok else plural(len(report.problems), "problem"))


def _value(value: Any) -> str:
    return ", ".join(f"{count} {name}" for name, count in value.items()) if isinstance(value, dict) else str(value)


@journal.command("head")
def head(*, journal: JournalOption = None, app: AppOption = None, as_json: JsonOption = False) -> None:
    """Seal the log and print its head.

    Kept elsewhere and given to verify later, it shows whether the log was cut off since.
    """
    with opened(Given(journal, app)) as target:
        target.journal.seal()
        newest = target.journal.head()
        document = {"head": newest, "journal_id": target.journal.journal_id}
        output.emit(as_json, document, lambda: output.say(newest or "nothing is on record yet"))


@journal.command("prune")
def prune_calls(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what is past its retention.")] = False,
    compact: Annotated[
        bool, typer.Option("--compact", help="Then wipe what was erased out of the write-ahead log too.")
    ] = False,
    journal: JournalOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Erase what is past its retention.

    Arguments and results of settled calls go. A tombstone stays where the key could come again: an old key is answered
    as expired, and never done anew.
    """
    with opened(Given(journal, app)) as target:
        done = _due(target) if dry_run else _prune(target, as_json=as_json)
        trouble = _compact(target) if compact and not dry_run else ""
    document: dict[str, Any] = {"dry_run": dry_run, "tombstones": done.tombstones, "removed": done.removed}
    document |= {"compacted": not trouble} if compact and not dry_run else {}
    words = f"{plural(done.total, 'call')} past retention, {'not pruned (dry run)' if dry_run else 'pruned'}: "
    words += f"{plural(done.tombstones, 'tombstone')} left, {done.removed} removed whole"
    output.emit(as_json, document, lambda: output.say(words))
    if trouble:
        output.tell(f"settled: {trouble}")
        raise typer.Exit(Exit.ATTENTION)


def _due(target: Target) -> Pruned:
    kinds = [call.kind for call in pages(target.journal, CallQuery(past_retention=True, readable=True))]
    removed = kinds.count(KeyKind.RANDOM)
    return Pruned(len(kinds) - removed, removed)


def _prune(target: Target, *, as_json: bool) -> Pruned:
    done, total = Pruned(), _due(target).total
    with output.progress("pruning", as_json=as_json) as progress:
        while (step := prune(target.journal, limit=_BATCH)).total:
            done = Pruned(done.tombstones + step.tombstones, done.removed + step.removed)
            progress(done.total, total)
    return done


def _compact(target: Target) -> str:
    """Wipe what was erased; return why that could not be done, if so."""
    compacting = getattr(target.journal, "compact", None)
    if compacting is None:
        return "--compact is for SQLite's files: nothing was wiped here, see the server's own ways"
    try:
        compacting()
    except JournalError as error:
        return str(error)
    return ""


@journal.command("migrate")
def migrate(*, journal: JournalOption = None, as_json: JsonOption = False) -> None:
    """Bring a journal to this release's schema.

    Stop what uses it, and make a copy of it, first.
    """
    from settled.journals.sqlite import migrate as migrate_file  # noqa: PLC0415 - sqlite3 is loaded only when it is used

    before, after = migrate_file(file_of(Given(journal, None)))
    words = f"schema {after}: nothing to do" if before == after else f"schema {before} -> {after}"
    output.emit(as_json, {"before": before, "after": after}, lambda: output.say(words))


@journal.command("accept")
def accept(*, yes: YesOption = False, journal: JournalOption = None, as_json: JsonOption = False) -> None:
    """Let a replaced file count as the journal.

    For one that was replaced, restored or removed on purpose.
    """
    from settled.journals.sqlite import accept as accept_file  # noqa: PLC0415 - as in migrate

    path = file_of(Given(journal, None))
    confirm(f"calls that the former {path} had on record, and this one has not, may be made once more", yes=yes)
    found = accept_file(path)
    words = "no file is there: the next guard creates a new journal" if found is None else f"{found} counts from now on"
    output.emit(as_json, {"journal_id": found}, lambda: output.say(words))
