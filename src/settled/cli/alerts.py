"""``settled alerts``: what people are to be told of, and whether it reaches them."""

import time
from typing import Annotated, Any

import typer

from settled.api.alerts.alerting import probe_notice
from settled.api.alerts.delivering import Deliveries
from settled.api.people import facts
from settled.cli import output
from settled.cli.exits import Exit, Problem
from settled.cli.options import AppOption, JournalOption, JsonOption
from settled.cli.target import Given, Target, opened
from settled.cli.words import age, plural
from settled.core.noted import notes

alerts = typer.Typer(name="alerts", help="What people are to be told of.", no_args_is_help=True, rich_markup_mode=None)


@alerts.command("list")
def list_alerts(
    *,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many of either kind.")] = 100,
    journal: JournalOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the alerts that were not delivered yet, and those that are open.

    Open are alerts that were delivered, and whose reason is not over: receivers are told when it is.
    """
    with opened(Given(journal, app)) as target:
        document = {"undelivered": _undelivered(target, limit), "open": _open(target)[:limit]}
        now = target.journal.now().wall
        output.emit(as_json, document, lambda: _show(document, now))


def _undelivered(target: Target, limit: int) -> list[dict[str, Any]]:
    tries = {name: notes.read(text) for name, text in target.journal.notes(notes.DELIVERY).items()}
    rows = target.journal.alerts(limit)
    return [facts.of_alert(row, tries.get(str(row.alert_id), {})) for row in rows]


def _open(target: Target) -> list[dict[str, Any]]:
    found = [notes.read(text) for text in target.journal.notes(notes.ALARM).values()]
    return [facts.of_alarm(told) for told in sorted(found, key=lambda told: told["at"])]


def _show(document: dict[str, Any], now: float) -> None:
    if not document["undelivered"] and not document["open"]:
        output.tell("no alert waits, and none is open")
        return
    rows = [
        (each["about"], "to be told", each["kind"], age(each["since"], now), _trouble(each))
        for each in document["undelivered"]
    ]
    rows += [(each["about"], "open", each["kind"], age(each["since"], now), each["title"]) for each in document["open"]]
    output.table(("ABOUT", "STATE", "KIND", "SINCE", "WHAT"), rows)
    if document["undelivered"]:
        told = "a guard with alerts= delivers them, in the app or in its settled worker; without one nobody is told"
        output.tell(f"{plural(len(document['undelivered']), 'alert')} not delivered: {told}")


def _trouble(row: dict[str, Any]) -> str:
    failed = [
        f"{each['receiver']}: {each['error']} ({plural(each['attempts'], 'try', 'tries')})" for each in row["failed"]
    ]
    return "; ".join(failed)


@alerts.command("test")
def try_alerts(*, journal: JournalOption = None, app: AppOption = None, as_json: JsonOption = False) -> None:
    """Send a test to every receiver of the app, now.

    Exit code 1 if one of them has not taken it. Needs --app.
    """
    with opened(Given(journal, app), tools="receivers are declared with their guard") as target:
        receivers = target.guard.postman.receivers
        if not receivers:
            raise Problem(
                Exit.REFUSED, "the app's guard has no receivers: Guard(…, alerts=[settled.observe.Webhook(…)])"
            )
        notice = probe_notice(target.journal, time.time())
        rows = [(receiver.name, Deliveries().tell(receiver, notice)) for receiver in receivers]
        told = [
            {"receiver": name, "taken": failure is None, "error": failure.why if failure else ""}
            for name, failure in rows
        ]
        output.emit(as_json, {"notice_id": notice.notice_id, "receivers": told}, lambda: _show_told(told))
    if not all(each["taken"] for each in told):
        raise typer.Exit(Exit.ATTENTION)


def _show_told(told: list[dict[str, Any]]) -> None:
    rows = [(each["receiver"], "taken" if each["taken"] else "not taken", each["error"]) for each in told]
    output.table(("RECEIVER", "TEST", "WHY"), rows)
