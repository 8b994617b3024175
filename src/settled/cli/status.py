"""``settled status``: how things stand."""

from dataclasses import asdict
from typing import Any

import typer

from settled.api.people import explain, facts, pausing
from settled.api.people.findings import open_findings
from settled.api.people.queue import UnderWay, under_way, waiting
from settled.cli import output, show
from settled.cli.exits import Exit
from settled.cli.options import AppOption, FailOption, JournalOption, JsonOption
from settled.cli.target import Given, Target, opened
from settled.cli.words import moment
from settled.core.call import Call
from settled.core.model import Moment
from settled.journals.unread import noting

_ALERTS = 10_000
KINDS = ("unknown", "orphan", "disputed", "undo", "approval", "by_hand")


def status(
    *, fail: FailOption = False, journal: JournalOption = None, app: AppOption = None, as_json: JsonOption = False
) -> None:
    """Tell how things stand.

    Calls by state, what waits for a person, alerts not delivered, open breakers.
    """
    with opened(Given(journal, app)) as target, noting() as unread:
        found, now = waiting(target.journal), target.journal.now()
        noted = open_findings(target.journal)
        document = _document(target, found, now) | {"unreadable": list(unread)}
        output.emit(as_json, document, lambda: _show(target, found, document, now))
        show.tell_under_way(target, UnderWay(**document["under_way"]), as_json=as_json)
        show.tell_unread(target, unread, as_json=as_json)
    if fail and (found or noted or unread):
        raise typer.Exit(Exit.ATTENTION)


def _document(target: Target, found: list[Call], now: Moment) -> dict[str, Any]:
    kinds: list[str | None] = [explain.waiting(call, now) for call in found]
    journal = target.journal
    breakers = [facts.of_breaker(name, snapshot) for name, snapshot in journal.breakers().items()]
    return {
        "journal": journal.url,
        "journal_id": journal.journal_id,
        "calls": {str(state): count for state, count in sorted(journal.count().items())},
        "queue": {
            "total": len(found),
            **{kind: kinds.count(kind) for kind in KINDS},
            "undeclared": sum(not call.terms.declared for call in found),
            "held": sum(call.held for call in found),
            "oldest": facts.when(found[0].created.wall) if found else None,
        },
        "findings": len(open_findings(journal)),
        "under_way": asdict(under_way(journal)),
        "alerts_undelivered": len(journal.alerts(_ALERTS)),
        "tools_paused": sorted(pausing.paused(journal)),
        "breakers_open": [breaker["name"] for breaker in breakers if breaker["state"] != "closed"],
    }


def _show(target: Target, found: list[Call], document: dict[str, Any], now: Moment) -> None:
    waits = document["queue"]
    parts = [f"{waits[kind]} {kind}" for kind in (*KINDS, "undeclared", "held") if waits[kind]]
    output.facts(
        [
            ("journal", f"{document['journal']} ({document['journal_id']})"),
            ("calls", ", ".join(f"{count} {state}" for state, count in document["calls"].items()) or "none"),
            ("queue", f"{waits['total']} ({', '.join(parts)})" if found else "empty"),
            ("ledger findings", str(document["findings"] or "")),
            ("oldest", moment(found[0].created.wall, now.wall) if found else ""),
            ("alerts", f"{document['alerts_undelivered']} not delivered" if document["alerts_undelivered"] else ""),
            ("tools paused", ", ".join(document["tools_paused"])),
            ("breakers open", ", ".join(document["breakers_open"])),
        ]
    )
    if document["alerts_undelivered"]:
        output.tell(f"to see why alerts are not delivered: settled alerts list{target.given.options()}")
    if found or document["findings"]:
        output.tell(f"to look at the queue: settled queue list{target.given.options()}")
