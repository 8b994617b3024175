"""What an alert says: made of the records when it is delivered, without arguments and results."""

from __future__ import annotations

import shlex
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from settled.api import secrets
from settled.api.people import explain, facts, findings
from settled.core.books import RunState
from settled.core.states import State
from settled.ports import Notice

if TYPE_CHECKING:
    from settled.core.call import Call
    from settled.ports import Alert, Journal

OF_CALLS: Final = ("unknown", "disputed", "undo", "approval", "by_hand")
LONGEST: Final = 1000
"""Characters of a text."""
PROBING: Final = 5.0
"""Seconds for a probe, once a negative answer of it is proof."""
LONGEST_HELD: Final = 60.0
"""Seconds after the doubt within which all that must lie; where it does not, people are told at once."""
_SEVERITY: Final[dict[str, Any]] = {
    "unknown": "error",
    "disputed": "critical",
    "undo": "error",
    "approval": "info",
    "by_hand": "warning",
    "partly_compensated": "error",
    "finding": "warning",
    "breaker": "warning",
}
_TITLES: Final = {
    "unknown": "the outcome of {} is unknown",
    "orphan": "the outcome of {} is unknown",
    "disputed": "the record of {} is disputed",
    "undo": "{} could not be undone",
    "approval": "{} waits for a person's leave",
    "by_hand": "{} is left to a person, to be done by hand",
}


def notice_id(journal_id: str, name: str) -> str:
    """Return the id of a notice: the same from every process, and without a full stop, which signatures split by."""
    return f"msg_{sha256(f'{journal_id} {name}'.encode()).hexdigest()[:32]}"


def describe(journal: Journal, kind: str, subject: str, name: str, at: float) -> Notice | None:
    """Return what there is to tell; ``None``: it is over, or nobody is to be told. Raises ``JournalError``."""
    match kind:
        case "breaker":
            told = _of_breaker(journal, subject)
        case "finding":
            told = _of_finding(journal, subject)
        case "partly_compensated":
            told = _of_run(journal, subject)
        case _:
            told = _of_call(journal, subject)
    if told is None:
        return None
    title, text, known = told
    title, text = secrets.clean(title), secrets.clean(text)[:LONGEST]
    known = {key: value for key, value in known.items() if value not in (None, "")}
    severity = _SEVERITY.get(kind, "error")
    identity = notice_id(journal.journal_id, name)
    return Notice(identity, kind, subject, title, text, severity, at, journal.journal_id, facts=known)


def settles_soon(journal: Journal, row: Alert) -> bool:
    """Whether a call in doubt is likely settled by its own probe before a person could look: that calls nobody yet."""
    call = journal.get(row.operation_id)
    if call is None or call.state is not State.UNKNOWN or not call.terms.probed:
        return False
    now = journal.now()
    since = explain.proof(call, now).since
    return since is not None and row.at <= now.wall < since + PROBING <= row.at + LONGEST_HELD


def resolved(journal: Journal, told: dict[str, Any], at: float) -> Notice:
    """Return what tells that an alarm is over; ``told``: what is noted of it."""
    subject, kind = told["subject"], told["kind"]
    identity = notice_id(journal.journal_id, f"{told['name']} resolved")
    call = journal.get(subject) if kind in OF_CALLS else None
    how = explain.why(call, journal.now()) if call is not None else ""
    text = secrets.clean(how)[:LONGEST]
    known = {"state": str(call.state)} if call is not None else {}
    known = {**told.get("facts", {}), **known}
    severity = _SEVERITY.get(kind, "error")
    notice = Notice(identity, kind, subject, told["title"], text, severity, at, journal.journal_id, facts=known)
    return replace(notice, resolved=True)


def _of_call(journal: Journal, operation_id: str) -> tuple[str, str, dict[str, Any]] | None:
    call, now = journal.get(operation_id), journal.now()
    waits = explain.waiting(call, now) if call is not None else None
    if call is None or waits is None or (waits == "unknown" and not call.terms.declared):
        return None  # a tool without a declared effect stands in the queue, and pages nobody
    return _TITLES[waits].format(call.tool), explain.why(call, now), _facts(journal, call)


def _facts(journal: Journal, call: Call) -> dict[str, Any]:
    verb = "queue show" if call.state is not State.PROCESSING else "calls show"
    return {
        "operation_id": call.operation_id,
        "tool": call.tool,
        "tenant": call.tenant,
        "run": facts.run_of(call.scope),
        "state": str(call.state),
        "command": _command(journal, verb, call.operation_id),
    }


def _command(journal: Journal, words: str, *names: str) -> str:
    """Return what to type; a run is named by whoever enters it, and that name is not to be a command of its own."""
    return f"settled {words} {shlex.join([*names, '--journal', journal.url])}"


def _of_run(journal: Journal, scope: str) -> tuple[str, str, dict[str, Any]] | None:
    run_id = facts.run_of(scope)
    length, _, rest = scope.partition(":")[2].partition(":")
    run = journal.run(rest[: int(length)], run_id) if run_id is not None else None
    if run is None or run.state is not RunState.PARTLY_COMPENSATED:
        return None
    command = _command(journal, "runs show", run.run_id)
    known = {"run": run.run_id, "tenant": run.tenant, "state": str(run.state), "command": command}
    return f"run {run.run_id} is undone in part only", run.reason, known


def _of_finding(journal: Journal, finding_id: str) -> tuple[str, str, dict[str, Any]] | None:
    found = findings.open_finding(journal, finding_id)
    if found is None:
        return None
    command = _command(journal, "queue show", finding_id)
    known = {"tool": found.tool, "tenant": found.tenant, "operation_id": found.operation_id, "command": command}
    return f"{found.kind} in the ledger of {found.tool}", findings.words(found), {"finding": finding_id, **known}


def _of_breaker(journal: Journal, name: str) -> tuple[str, str, dict[str, Any]] | None:
    snapshot = journal.breakers().get(name)
    if snapshot is None or snapshot.get("state") == "closed":
        return None
    known = facts.of_breaker(name, snapshot)
    text = f"{known['failures']} of {known['calls']} calls failed; it is left alone for a while"
    tool = name.removeprefix("tool:") if name.startswith("tool:") else ""
    command = _command(journal, "breakers list")
    return f"the breaker {name} is open", text, {"tool": tool, "breaker": name, "command": command}
