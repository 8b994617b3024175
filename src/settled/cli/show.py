"""One call on the screen: everything a person needs in order to understand it, and to decide."""

import json
from collections.abc import Collection
from typing import Any

from settled.api.people import facts, findings
from settled.api.people.queue import UnderWay, living
from settled.cli import output
from settled.cli.exits import Exit, Problem
from settled.cli.target import Target
from settled.cli.words import local, moment, plural
from settled.core.call import Call
from settled.core.model import Attempt, Exchange
from settled.core.noted.findings import Finding
from settled.core.states import State

Document = dict[str, Any]


def call(target: Target, it: Call, known: Document) -> None:
    """Show a call to a person."""
    now = target.journal.now().wall
    output.facts(_identity(it, now, known))
    output.block("Arguments", known["arguments_note"] or pretty(known["arguments"]))
    if known["draft"] is not None:
        draft = known["draft"]
        output.block(f"Draft ({draft['state']}, {draft['operation_id']})", draft["note"] or pretty(draft["result"]))
    if it.result is not None:
        unknown = known["result"] is None and known["result_note"]
        output.block("Result", known["result_note"] if unknown else pretty(known["result"]))
    if known["items"]:
        output.title("Items")
        names = ("position", "status", "code", "operation_id")
        items = [tuple(str(item[name]) for name in names) for item in known["items"]]
        output.table(("AT", "STATUS", "CODE", "ON RECORD IN"), items)
    for attempt, row in zip(it.attempts, known["attempts"], strict=True):
        output.title(f"Attempt {attempt.no}")
        output.facts(_attempt(attempt, row, now))
    rows = [(str(r.no), local(r.at), r.event, r.state, r.detail) for r in target.journal.log(it.operation_id)]
    output.title("Log")
    output.table(("NO", "AT", "EVENT", "STATE", "DETAIL"), rows)


def _identity(it: Call, now: float, known: Document) -> list[tuple[str, str]]:
    declared = "" if it.terms.declared else ", undeclared: treated as write"
    return [
        ("call", it.operation_id),
        ("tool", f"{it.tool} ({it.terms.effect}{declared})"),
        ("state", _state(it)),
        ("why", known["why"]),
        ("made", moment(it.created.wall, now)),
        ("changed", moment(it.changed.wall, now)),
        ("key", f"{it.key} ({it.kind})" + (f", sent as {it.outward}" if it.outward != it.key else "")),
        ("tenant", it.tenant),
        ("run", known["run"] or ""),
        ("undoes", f"{known['undoes_what']} [{known['undoes']}]" if known["undoes"] else ""),
        ("inside", it.scope if it.scope.startswith("call:") else ""),
        ("part of", known["part_of"] or ""),
        ("step", it.step),
        ("not before", moment(it.not_before, now) if it.not_before is not None else ""),
    ]


def _state(it: Call) -> str:
    marks = [word for word, on in (("disputed", it.disputed), ("asserted", it.asserted), ("held", it.held)) if on]
    return f"{it.state} ({', '.join(marks)})" if marks else str(it.state)


def _attempt(attempt: Attempt, row: Document, now: float) -> list[tuple[str, str]]:
    process = row["process"]
    life = {True: "alive", False: "dead", None: "cannot be seen from here"}[process["alive"]]
    return [
        ("begun", moment(attempt.begun.wall, now)),
        ("ended", moment(attempt.ended.wall, now) if attempt.ended else "no end on record"),
        ("over", moment(attempt.over.wall, now) if attempt.over else row["may_still_act"]),
        ("outcome", row["outcome"]),
        ("effect", row["evidence"]),
        ("process", f"{process['pid']} on {process['host']} ({life})"),
        *(("request", _exchange(each)) for each in (attempt.fault.seen if attempt.fault else ())),
    ]


def _exchange(each: Exchange) -> str:
    end = f"answered {each.status}" if each.status is not None else str(each.phase).replace("_", " ")
    words = [f"{each.method} {each.target}: {end}", each.error, each.body]
    return ", ".join(word for word in words if word)


def finding(target: Target, finding_id: str, *, as_json: bool) -> None:
    """Show what a comparison with a tool's ledger has found, and what to type next."""
    found = {each.finding_id: each for each in findings.all_findings(target.journal)}
    it = found.get(finding_id)
    if it is None:
        raise Problem(Exit.NOT_FOUND, f"no finding in {target.journal.url} has the id {finding_id!r}")
    options = target.given.options()
    further = [("it is seen, and out of the queue", f"settled queue resolve {finding_id} hold --reason '...'{options}")]
    if it.operation_id:
        further.insert(0, ("look at the call", f"settled calls show {it.operation_id}{options}"))
    shown = [{"meaning": meaning, "command": command} for meaning, command in further if it.state == "open"]
    output.emit(as_json, facts.of_finding(it) | {"next": shown}, lambda: _show_finding(target, it, shown))


def _show_finding(target: Target, it: Finding, further: list[dict[str, str]]) -> None:
    now = target.journal.now().wall
    state = f"{it.state} by {it.by}: {it.reason}" if it.by else it.state
    output.facts(
        [
            ("finding", it.finding_id),
            ("kind", it.kind),
            ("tool", it.tool),
            ("what", findings.words(it)),
            ("key", it.key),
            ("effect", it.ref),
            ("at", moment(it.at, now)),
            ("found", moment(it.found, now)),
            ("state", state),
        ]
    )
    if further:
        output.title("What now")
    for each in further:
        output.say(f"{output.INDENT}# {each['meaning']}")
        output.say(f"{output.INDENT}{each['command']}")


def tell_under_way(target: Target, found: UnderWay, *, as_json: bool) -> None:
    """Say that there are calls at work that may soon stand in the queue, and what brings them there."""
    if as_json or not (found.dead or found.unseen):
        return
    app = target.given.app_wanted()
    if found.dead:
        output.tell(f"{plural(found.dead, 'call')} under way of a process that is dead: to take in what it left:")
        output.tell(f"{output.INDENT}settled reconcile{app}{target.given.options()}")
    if found.unseen:
        output.tell(
            f"{plural(found.unseen, 'call')} under way of a process that cannot be seen from here: a reconciliation "
            "takes them in once their lease is over; to look at them:"
        )
        output.tell(f"{output.INDENT}settled calls list --state processing{target.given.options()}")


def tell_unread(target: Target, unread: Collection[str], *, as_json: bool) -> None:
    """Say that there are records that cannot be read: whether they wait for a person nobody can tell."""
    if unread and not as_json:
        output.tell(f"{plural(len(unread), 'record')} cannot be read, and may wait for a person too:")
        output.tell(f"{output.INDENT}settled journal verify{target.given.options()}")


def tell_of_owner(target: Target, call: Call) -> None:
    """Say of a call at work that its process is dead, or cannot be seen."""
    seen = living(call).get(len(call.attempts)) if call.state is State.PROCESSING else True
    if seen is not True:
        tell_under_way(target, UnderWay(dead=seen is False, unseen=seen is None), as_json=False)


def pretty(value: Any) -> str:
    """Return plain data as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False)
