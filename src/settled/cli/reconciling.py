"""``settled reconcile``: settle what can be settled, and compare the tools' ledgers with the journal."""

import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import Annotated, Any

import typer

from settled.api.people import facts, findings
from settled.api.people.ledgers import Compared, with_ledger
from settled.api.people.queue import waiting
from settled.cli import output
from settled.cli.exits import Exit, Problem
from settled.cli.options import AppOption, FailOption, JournalOption, JsonOption
from settled.cli.show import tell_unread
from settled.cli.target import Given, Target, opened
from settled.cli.words import seconds_of
from settled.journals.unread import noting


def reconcile(
    *,
    limit: Annotated[int, typer.Option(min=1, help="Look at no more calls than this.")] = 1000,
    ledger: Annotated[
        bool, typer.Option("--ledger", help="Then compare the journal with the tools' own lists of effects.")
    ] = False,
    since: Annotated[
        float | None,
        typer.Option(
            parser=seconds_of,
            metavar="TIME",
            help="With --ledger: so far back (30m, 2h, 7d; else a day). It says that all calls since are on record.",
        ),
    ] = None,
    fail: FailOption = False,
    journal: JournalOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Settle what can be settled.

    Takes in calls of lost processes, and asks the tools' probes about unknown ones; makes no attempt. Needs --app.

    With --ledger each tool that offers a ledger is compared with it: missing (a call counts as done, and the ledger has
    no effect of it), orphaned (an effect that no call explains), doubled (one effect more of a call). Unknown calls are
    settled by it, what is found goes to the queue, and exit code 1 says that a finding is open or a ledger failed.
    """
    if since is not None and not ledger:
        raise Problem(Exit.USAGE, "--since goes with --ledger")
    with opened(Given(journal, app), tools="probes are declared with their tools") as target:
        if ledger and not with_ledger(target.guard):
            raise Problem(Exit.REFUSED, "no tool of this app offers a ledger: declare ledger=")
        with redirect_stdout(sys.stderr), output.progress("reconciling", as_json=as_json) as progress:
            done = target.guard.floor.home.run(
                target.guard.areconcile(limit=limit, progress=progress, ledger=ledger, since=since)
            )
        with noting() as unread:
            left = len(waiting(target.journal))
        document: dict[str, Any] = {**asdict(done), "waiting": left, "unreadable": list(unread)}
        document.pop("ledgers")
        if ledger:
            document["ledgers"] = [facts.of_compared(compared) for compared in done.ledgers]
        noted = findings.open_findings(target.journal)
        output.emit(as_json, document, lambda: _show(target, document, done.ledgers))
        tell_unread(target, unread, as_json=as_json)
    wrong = ledger and (bool(noted) or any(compared.trouble for compared in done.ledgers))
    if wrong or (fail and (left or noted or unread)):
        raise typer.Exit(Exit.ATTENTION)


def _show(target: Target, document: dict[str, Any], ledgers: tuple[Compared, ...]) -> None:
    names = {
        "orphans": "taken from lost processes",
        "happened": "settled: happened",
        "did_not_happen": "settled: did not happen",
        "left": "looked at, still unknown",
        "probes_failed": "of these, probes that failed",
        "waiting": "waiting for a person",
    }
    output.facts([(words, str(document[name])) for name, words in names.items()])
    for compared in ledgers:
        output.title(f"Ledger of {compared.tool}")
        _show_compared(compared)
    if any(compared.findings for compared in ledgers):
        output.tell(f"to look at what was found: settled queue list{target.given.options()}")


def _show_compared(compared: Compared) -> None:
    if compared.trouble:
        output.say(f"{output.INDENT}not compared: {compared.trouble}")
        return
    facts_of = (
        ("effects", compared.effects),
        ("settled: happened", compared.happened),
        ("settled: did not happen", compared.did_not_happen),
        ("recorded as not done, and there", compared.contradicted),
        ("missing", compared.count("missing")),
        ("orphaned", compared.count("orphaned")),
        ("doubled", compared.count("doubled")),
        ("of these, new", compared.new),
        ("earlier ones that are gone", compared.gone),
    )
    output.facts([(words, str(number)) for words, number in facts_of])
    for finding in compared.findings:
        output.say(f"{output.INDENT}{finding.finding_id}  {finding.kind}: {findings.words(finding)}")
