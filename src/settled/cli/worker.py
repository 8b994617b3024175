"""``settled worker``: settle what processes have left behind, until told to stop."""

import asyncio
import json
import signal
import sys
import time
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import Annotated, Any, TextIO

import typer

from settled.api.people.facts import when
from settled.api.people.queue import waiting
from settled.api.people.worker import Round, Worker
from settled.cli import output
from settled.cli.exits import Exit
from settled.cli.options import AppOption, FailOption, JournalOption
from settled.cli.show import tell_unread
from settled.cli.target import Given, opened
from settled.cli.words import local
from settled.journals.unread import noting


def worker(
    *,
    every: Annotated[float, typer.Option(min=0.01, metavar="SECONDS", help="Seconds between rounds.")] = 5.0,
    together: Annotated[int, typer.Option(min=1, help="Ask about so many calls at the same time.")] = 8,
    ledger_every: Annotated[
        float,
        typer.Option(
            min=0, metavar="SECONDS", help="Seconds between comparisons with a tool's ledger, by any worker; 0: none."
        ),
    ] = 3600.0,
    no_prune: Annotated[bool, typer.Option("--no-prune", help="Erase nothing that is past its retention.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Make one round, and end.")] = False,
    fail: FailOption = False,
    journal: JournalOption = None,
    app: AppOption = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON document a line: each round that did something, then the sum."),
    ] = False,
) -> None:
    """Settle what lost processes leave behind, until told to stop.

    Takes in their calls, asks the tools' probes about unknown ones, goes on with undoing runs, compares the tools'
    ledgers with the journal, erases what is past its retention, seals the log and delivers alerts; begins no call of a
    run. Any number of workers may run on one journal: each call, run and ledger is looked after by one of them at a
    time. SIGTERM and Ctrl-C end it once what is under way is done; a second one ends it at once.
    Needs --app. With --once, exit code 1 if a part of the round failed.
    """
    with opened(Given(journal, app), tools="probes are declared with their tools") as target:
        work = Worker(
            target.guard, every=every, together=together, prune=not no_prune, ledger_every=ledger_every or None
        )
        data, told = sys.stdout, list[str]()
        with redirect_stdout(sys.stderr):  # what probes print is talk
            total = asyncio.run(_working(work, told, data, once=once, as_json=as_json))
        with noting() as unread:
            left = len(waiting(target.journal))
        tell_unread(target, unread, as_json=as_json)
        _show_sum(total, left, as_json=as_json)
    if "SIGINT" in told:
        raise typer.Exit(Exit.INTERRUPTED)
    if (once and total.trouble) or (fail and (left or unread)):
        raise typer.Exit(Exit.ATTENTION)


async def _working(work: Worker, told: list[str], data: TextIO, *, once: bool, as_json: bool) -> Round:
    """Work until told to stop; ``told`` is told by which signals."""
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        told.append(number.name)
        loop.remove_signal_handler(number)  # a second one ends the process, as it would any other
        work.stop()

    def tell(done: Round) -> None:
        with redirect_stdout(data):
            _show_round(done, as_json=as_json)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    if once:
        return await work.around()
    output.tell(f"working every {work.every:g} s; SIGTERM or Ctrl-C ends it")
    return await work.arun(tell)


def _document(done: Round, **more: Any) -> dict[str, Any]:
    undone = {"runs_undone": done.undone.compensated, "runs_partly_undone": done.undone.partly}
    settled = {name: number for name, number in asdict(done.settled).items() if name != "ledgers"}
    found = {**settled, **undone, "pruned": done.pruned, "findings": done.findings, **more}
    return {**found, "trouble": done.trouble} if done.trouble else found


def _show_round(done: Round, *, as_json: bool) -> None:
    if as_json:
        output.say(json.dumps(_document(done, at=when(time.time()))))
    elif done.trouble:
        output.tell(f"settled: {done.trouble}")
    else:
        output.say(f"{local(time.time())}  {_words(done)}")
    sys.stdout.flush()


def _words(done: Round) -> str:
    parts = [f"{number} {_NAMES[name]}" for name, number in _document(done).items() if number and name in _NAMES]
    return ", ".join(parts)


_NAMES = {
    "orphans": "taken from lost processes",
    "happened": "settled: happened",
    "did_not_happen": "settled: did not happen",
    "left": "looked at, still unknown",
    "probes_failed": "of these, probes that failed",
    "runs_undone": "runs undone",
    "runs_partly_undone": "runs undone in part",
    "pruned": "past retention, erased",
    "findings": "found by a ledger, new in the queue",
}


def _show_sum(total: Round, left: int, *, as_json: bool) -> None:
    document = _document(total, waiting=left)
    if as_json:
        output.say(json.dumps(document))
    else:
        if total.trouble:
            output.tell(f"settled: {total.trouble}")
        names = {**_NAMES, "waiting": "waiting for a person"}
        output.facts([(words, str(document[name])) for name, words in names.items()])
