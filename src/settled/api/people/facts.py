"""Records as plain data with stable names, for JSON output, tables and pages. Times are ISO 8601 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from math import isfinite
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from settled.api import secrets
from settled.api.people import explain, findings
from settled.api.vault import SEALED
from settled.core.encoding import codec
from settled.core.parts import part_of
from settled.core.runs import entering as runs
from settled.errors import JournalError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from settled.api.guard import Guard
    from settled.api.people.ledgers import Compared
    from settled.api.tools.tool import Tool
    from settled.core.call import Call, LogRow
    from settled.core.model import Attempt, Exchange, Moment, Owner
    from settled.core.noted.findings import Finding
    from settled.core.parts import ItemNow
    from settled.ports import Alert

Facts = dict[str, Any]
run_of = runs.run_of
LATEST = 253_402_214_400.0
"""The last day of the year 9999: what is later, since the other side asked for it, is shown as this."""

_MOST_BITS = 2048
"""Of a whole number that is written in digits: from 4300 digits on Python writes none by itself."""


def when(wall: float | None) -> str | None:
    """Return a time as ISO 8601 in UTC with microseconds."""
    return None if wall is None else datetime.fromtimestamp(min(wall, LATEST), UTC).isoformat(timespec="microseconds")


def of_call(call: Call, now: Moment) -> Facts:
    """Return one row of a list of calls."""
    return {
        "operation_id": call.operation_id,
        "tool": call.tool,
        "state": str(call.state),
        "waiting": explain.waiting(call, now),
        "why": explain.why(call, now),
        "effect": str(call.terms.effect),
        "declared": call.terms.declared,
        "created": when(call.created.wall),
        "changed": when(call.changed.wall),
        "attempts": len(call.attempts),
        "reason": call.reason,
        "decided": call.decided,
        "disputed": call.disputed,
        "asserted": call.asserted,
        "held": call.held,
        "not_before": when(call.not_before),
        "key": call.key,
        "sent_key": call.outward,
        "key_kind": str(call.kind),
        "tenant": call.tenant,
        "run": run_of(call.scope),
        "undoes": undone_by(call),
        "scope": call.scope,
        "step": call.step,
        "part_of": part_of(call) or None,
    }


def of_items(items: Sequence[ItemNow]) -> list[Facts]:
    """Return what became of each item of a batch; nothing for another call."""
    return [
        {"position": n, "status": str(item.part), "code": item.code, "key": item.key, "operation_id": item.operation_id}
        for n, item in enumerate(items)
    ]


def of_claim(claim: Mapping[str, Any] | None) -> Facts:
    """Return who looks at a call; ``None``: nobody does."""
    return {"looked_at": None if claim is None else {"by": claim["by"], "until": when(claim["until"])}}


def of_leave(call: Call) -> Facts | None:
    """Return whose leave a call waits for, or was given; ``None``: it needs none."""
    leave = call.leave
    if leave is None:
        return None
    return {
        "why": leave.why,
        "persons": leave.persons,
        "agreed": list(leave.by),
        "given": leave.given,
        "until": None if leave.by_hand else when(leave.until),
        "by_hand": leave.by_hand or None,
    }


def undone_by(call: Call) -> str | None:
    """Return the operation id of the step that a compensation undoes; ``None`` if the call is none."""
    return call.scope.removeprefix("undo:") if call.scope.startswith("undo:") else None


def of_attempt(attempt: Attempt, call: Call, now: Moment, alive: bool | None) -> Facts:  # noqa: FBT001 - three-valued
    """Return all that is known of one attempt; ``alive``: whether its process lives."""
    fault = attempt.fault
    return {
        "no": attempt.no,
        "begun": when(attempt.begun.wall),
        "ended": when(attempt.ended.wall) if attempt.ended else None,
        "over": when(attempt.over.wall) if attempt.over else None,
        "standing": str(attempt.standing),
        "evidence": explain.evidence(attempt, call),
        "outcome": explain.fault_words(attempt),
        "code": fault.code if fault else None,
        "message": fault.message if fault else None,
        "kind": str(fault.kind) if fault else None,
        "may_still_act": explain.still_at_work(attempt, call, now, alive),
        "requests": [of_exchange(each) for each in fault.seen] if fault else [],
        "process": of_process(attempt.owner, alive),
    }


def of_exchange(exchange: Exchange) -> Facts:
    """Return one request that was seen, and what came of it; times in seconds."""
    return {
        "method": exchange.method,
        "target": exchange.target,
        "phase": str(exchange.phase),
        "status": exchange.status,
        "headers": dict(exchange.headers),
        "body": exchange.body,
        "error": exchange.error,
        "begun": when(exchange.begun),
        "took": exchange.took,
        "key": exchange.key,
    }


def of_process(owner: Owner, alive: bool | None) -> Facts:  # noqa: FBT001 - three-valued
    """Return which process it was, and whether it lives."""
    return {"host": owner.host, "pid": owner.pid, "alive": alive}


def of_log(row: LogRow) -> Facts:
    """Return one row of a call's log."""
    return {
        "no": row.no,
        "at": when(row.at),
        "event": str(row.event),
        "state": str(row.state),
        "attempt": row.attempt,
        "epoch": row.epoch,
        "detail": row.detail,
        "digest": row.digest,
        "head": row.head,
    }


def of_doubt(call: Call, now: Moment) -> Facts:
    """Return when absence can be proved, and which verdicts a person may give."""
    proof = explain.proof(call, now)
    return {
        "probe": {
            "declared": call.terms.probed,
            "proves_absence_now": proof.ready,
            "proves_absence_from": when(proof.since),
            "why": proof.why,
        },
        "repeatable": explain.repeatable(call, now),
        "choices": [
            {"verdict": c.verdict, "open": c.open, "asserted": c.asserted, "meaning": c.meaning}
            for c in explain.choices(call, now)
        ],
    }


def arguments_of(guard: Guard, call: Call) -> tuple[Any, str]:
    """Return a call's arguments as plain data, redacted as declared, and a note where they cannot be shown."""
    if not call.arguments:
        return None, "erased when the record expired"
    sealed = call.arguments.startswith(SEALED)
    tool = guard.tools.get(call.tool)
    if sealed and tool is None:
        return None, "encrypted: an app that has this tool, and the key, can show them"
    try:
        arguments = codec.loads(guard.vault.unlock(call.arguments))
    except (ValueError, JournalError) as error:
        return None, str(error)
    if sealed and tool is not None and isinstance(arguments, dict):
        arguments = secrets.redact(arguments, tool.checked.options.redact)
    return plain(arguments), ""


def result_of(guard: Guard, call: Call) -> tuple[Any, str]:
    """Return a call's result as plain data, and a note where it cannot be shown."""
    if call.result is None:
        return None, call.note or "none on record"
    tool = guard.tools.get(call.tool)
    if call.result.startswith(SEALED) and (tool is None or _secret_result(tool)):
        return None, "encrypted, and not shown"
    try:
        return plain(codec.loads(guard.vault.unlock(call.result))), call.note
    except (ValueError, JournalError) as error:
        return None, str(error)


def _secret_result(tool: Tool[Any, Any]) -> bool:
    return any(path.partition(".")[0].removesuffix("[]") == "result" for path in tool.checked.options.redact)


def plain(value: Any) -> Any:
    """Return a decoded value as JSON can hold it, for people to read: not to be decoded again."""
    return _writable(to_jsonable_python(value, bytes_mode="base64", fallback=repr))


def _writable(value: Any) -> Any:
    """Return plain data with the numbers that JSON, or Python's writer of it, does not have as text."""
    if isinstance(value, float) and not isfinite(value):
        return repr(value)
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return hex(value)
    if isinstance(value, list):
        return [_writable(item) for item in value]
    return {name: _writable(item) for name, item in value.items()} if isinstance(value, dict) else value


def of_tool(name: str, tool: Tool[Any, Any] | None, paused: Mapping[str, Any] | None) -> Facts:
    """Return one row of a list of tools; ``tool``: as the app declares it, if it does; ``paused``: who did it."""
    return {
        "name": name,
        "effect": None if tool is None else str(tool.checked.effect),
        "declared": None if tool is None else tool.checked.policy.terms.declared,
        "paused": paused is not None,
        "paused_at": None if paused is None else paused["at"],
        "by": "" if paused is None else paused["by"],
        "reason": "" if paused is None else paused["reason"],
    }


def of_finding(finding: Finding) -> Facts:
    """Return what a comparison with a tool's ledger has found."""
    return {
        "finding_id": finding.finding_id,
        "kind": finding.kind,
        "tool": finding.tool,
        "tenant": finding.tenant,
        "operation_id": finding.operation_id or None,
        "key": finding.key,
        "ref": finding.ref,
        "at": when(finding.at),
        "found": when(finding.found) if finding.found else None,
        "state": finding.state,
        "words": findings.words(finding),
        "by": finding.by,
        "reason": finding.reason,
    }


def of_compared(compared: Compared) -> Facts:
    """Return what the comparison of one ledger brought."""
    kinds = {kind: compared.count(kind) for kind in ("missing", "orphaned", "doubled")}
    counts = {
        name: getattr(compared, name)
        for name in ("effects", "calls", "happened", "did_not_happen", "contradicted", "new", "gone")
    }
    found = [of_finding(finding) for finding in compared.findings]
    return {"tool": compared.tool, **counts, **kinds, "trouble": compared.trouble, "findings": found}


def of_alert(alert: Alert, tried: Mapping[str, Any]) -> Facts:
    """Return an alert that was not delivered yet, and what came of trying; ``since`` in seconds since 1970."""
    failed = [{"receiver": name, **each, "next": when(each["next"])} for name, each in tried.get("failed", {}).items()]
    return {
        "alert_id": alert.alert_id,
        "kind": alert.kind,
        "about": run_of(alert.operation_id) or alert.operation_id,
        "since": alert.at,
        "taken_by": list(tried.get("done", ())),
        "failed": failed,
    }


def of_alarm(told: Mapping[str, Any]) -> Facts:
    """Return an alert that receivers were told of, and whose reason is not over."""
    return {
        "kind": told["kind"],
        "about": run_of(told["subject"]) or told["subject"],
        "since": told["at"],
        "title": told["title"],
        "receivers": list(told.get("receivers", ())),
    }


def of_breaker(name: str, snapshot: Mapping[str, Any]) -> Facts:
    """Return a breaker's last kept state."""
    outcomes = snapshot.get("outcomes", ())
    return {
        "name": name,
        "state": snapshot.get("state", ""),
        "failures": sum(bool(failed) for _, failed in outcomes),
        "calls": len(outcomes),
        "trips": snapshot.get("trips", 0),
        "usual_failure_rate": snapshot.get("usual", 0.0),
        "wait_seconds": snapshot.get("wait", 0.0),
    }
