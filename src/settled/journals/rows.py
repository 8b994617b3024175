"""A call as a row: a few columns that are looked up or shown, and the rest as one short JSON text.

Hand-written for speed. New fields go to the end of a list and have a default, so that older rows still read.
JSON keeps every text as it is, lone surrogates and NUL too, and every float exactly.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from contextlib import suppress
from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import msgspec

from settled.core.call import Call
from settled.core.expiry import due
from settled.core.model import (
    Attempt,
    BatchItem,
    Effect,
    Evidence,
    Exchange,
    Fault,
    FaultClass,
    KeyKind,
    Leave,
    Moment,
    Owner,
    Part,
    Phase,
    Standing,
    Terms,
)
from settled.core.states import State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FIXED: Final = ("operation_id", "key", "kind", "tenant", "tool", "scope", "lane", "identity", "n", "entry", "terms")
"""What a call is found by and what it was made under: never changes."""
CHANGING: Final = (
    *("state", "epoch", "disputed", "log_no", "log_head", "lease_wall", "lease_boot", "lease_mono", "due_at"),
    *("arguments", "result", "body"),
)
COLUMNS: Final = (*FIXED, *CHANGING)

_STATES: Final = {state.value: state for state in State}
_KINDS: Final = {kind.value: kind for kind in KeyKind}
_STANDINGS: Final = {standing.value: standing for standing in Standing}
_FOREVER: Final = Moment(float("inf"), "", 0.0)

to_json = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
from_json = json.JSONDecoder().decode
_quickly = msgspec.json.Encoder().encode
_read_quickly = msgspec.json.Decoder().decode


def fixed(call: Call) -> tuple[Any, ...]:
    """Return the values of the ``FIXED`` columns."""
    return (
        call.operation_id,
        call.key,
        call.kind._value_,
        call.tenant,
        call.tool,
        call.scope,
        call.lane,
        call.identity,
        call.n,
        call.entry,
        terms_text(call.terms),
    )


def changing(call: Call) -> tuple[Any, ...]:
    """Return the values of the ``CHANGING`` columns."""
    lease = call.lease
    return (
        call.state._value_,
        call.epoch,
        int(call.disputed),
        call.log_no,
        call.log_head,
        lease.wall,
        lease.boot,
        lease.mono,
        due_at(call),
        call.arguments,
        call.result,
        _body(call),
    )


def due_at(call: Call) -> float | None:
    """Return when the call's retention ends, on the wall clock; ``None``: not as it stands."""
    return call.changed.wall + (call.terms.retention or 0.0) if due(call, _FOREVER) else None


def call_of(row: Sequence[Any]) -> Call:
    """Return the call that ``COLUMNS`` hold."""
    operation_id, key, kind, tenant, tool, scope, lane, identity, n, entry, terms = row[:11]
    state, epoch, disputed, log_no, log_head, wall, boot, mono, _, arguments, result, body = row[11:]
    more = _from_body(body)
    return Call(
        operation_id=operation_id,
        key=key,
        kind=_KINDS[kind],
        tenant=tenant,
        tool=tool,
        terms=terms_of(terms),
        scope=scope,
        lane=lane,
        identity=identity,
        n=n,
        entry=entry,
        arguments=arguments,
        state=_STATES[state],
        epoch=epoch,
        lease=Moment(wall, boot, mono),
        disputed=bool(disputed),
        result=result,
        log_no=log_no,
        log_head=log_head,
        **_unpacked(more),
    )


def _body(call: Call) -> str:
    parts = _parts(call)
    if isfinite(_numbers(call)):  # the quick way writes null for a number that JSON does not have
        with suppress(UnicodeEncodeError, OverflowError):  # a lone surrogate, an integer of more than 64 bits
            return _quickly(parts).decode()
    return to_json(parts)


def _from_body(body: str) -> list[Any]:
    with suppress(UnicodeEncodeError, ValueError):
        found: list[Any] = _read_quickly(body)
        return found
    return list(from_json(body))


def _numbers(call: Call) -> float:
    """Return the sum of all numbers that have to be finite for the quick way; it is not if one of them is not."""
    total = call.created.wall + call.created.mono + call.changed.wall + call.changed.mono + (call.not_before or 0.0)
    for attempt in call.attempts:
        total += attempt.begun.wall + attempt.begun.mono
        for moment in (attempt.ended, attempt.over):
            total += 0.0 if moment is None else moment.wall + moment.mono
        total += _hint(attempt.fault)
    if call.leave is not None:
        total += call.leave.until + call.leave.within
    return total + _hint(call.fault)


def _hint(fault: Fault | None) -> float:
    return 0.0 if fault is None else fault.retry_after or 0.0


def _parts(call: Call) -> list[Any]:
    return [
        call.words,
        call.fingerprint,
        call.claim,
        _owner(call.owner),
        _moment(call.created),
        _moment(call.changed),
        call.series,
        call.before,
        call.message,
        call.step,
        [_attempt(attempt) for attempt in call.attempts],
        fault_list(call.fault),
        call.reason,
        call.note,
        call.decided,
        call.asserted,
        call.held,
        call.not_before,
        call.despite,
        *_later(call),
    ]


def _later(call: Call) -> list[Any]:
    """Return what came with later releases, where there is any: older ones read a row without it."""
    leave = None if call.leave is None else _leave(call.leave)
    return [leave, call.sent_key] if call.sent_key else [] if leave is None else [leave]


def _unpacked(more: list[Any]) -> dict[str, Any]:
    words, fingerprint, claim, owner, created, changed, series, before, message, step, attempts, fault = more[:12]
    reason, note, decided, asserted, held, not_before, despite, *later = more[12:]
    leave, sent_key = [*later, None, ""][:2] if len(later) < 2 else later  # noqa: PLR2004 - as ``_later`` writes it
    return {
        "words": words,
        "fingerprint": fingerprint,
        "claim": claim,
        "owner": _owner_of(*owner),
        "created": Moment(*created),
        "changed": Moment(*changed),
        "series": series,
        "before": before,
        "message": message,
        "step": step,
        "attempts": tuple(_attempt_of(values) for values in attempts),
        "fault": fault_of(fault),
        "reason": reason,
        "note": note,
        "decided": decided,
        "asserted": asserted,
        "held": held,
        "not_before": not_before,
        "despite": tuple(despite),
        "leave": _leave_of(*leave) if leave else None,
        "sent_key": sent_key or "",
    }


def _leave(leave: Leave) -> list[Any]:
    return [
        leave.why,
        leave.until,
        leave.version,
        leave.persons,
        leave.within,
        leave.by,
        leave.given,
        leave.used,
        *((leave.by_hand,) if leave.by_hand else ()),
    ]


def _leave_of(*values: Any) -> Leave:
    why, until, version, persons, within, by, given, used, *by_hand = values
    return Leave(why, until, version, persons, within, tuple(by), given, used, *by_hand)


def _moment(moment: Moment | None) -> tuple[float, str, float] | None:
    return None if moment is None else (moment.wall, moment.boot, moment.mono)


def _owner(owner: Owner) -> tuple[str, str, str, int, str]:
    return owner.host, owner.boot, owner.space, owner.pid, owner.started


@lru_cache(maxsize=1024)
def _owner_of(host: str, boot: str, space: str, pid: int, started: str) -> Owner:
    return Owner(host, boot, space, pid, started)


def _attempt(attempt: Attempt) -> tuple[Any, ...]:
    return (
        attempt.no,
        attempt.epoch,
        _owner(attempt.owner),
        _moment(attempt.begun),
        attempt.standing._value_,
        _moment(attempt.ended),
        _moment(attempt.over),
        fault_list(attempt.fault),
    )


def _attempt_of(values: list[Any]) -> Attempt:
    no, epoch, owner, begun, standing, ended, over, fault = values
    return Attempt(
        no=no,
        epoch=epoch,
        owner=_owner_of(*owner),
        begun=Moment(*begun),
        standing=_STANDINGS[standing],
        ended=None if ended is None else Moment(*ended),
        over=None if over is None else Moment(*over),
        fault=fault_of(fault),
    )


def fault_list(fault: Fault | None) -> tuple[Any, ...] | None:
    """Return a fault as what JSON can hold."""
    if fault is None:
        return None
    return (
        fault.kind._value_,
        fault.evidence._value_,
        fault.code,
        fault.message,
        fault.throttled,
        fault.retry_after,
        fault.local,
        fault.own_success,
        fault.in_progress,
        fault.refresh,
        fault.uncertain,
        fault.gate,
        *(([_exchange(each) for each in fault.seen],) if fault.seen or fault.items else ()),
        *(([_item(each) for each in fault.items],) if fault.items else ()),
    )


def fault_of(values: Sequence[Any] | None) -> Fault | None:
    """Return the fault that ``fault_list`` made a list of."""
    if values is None:
        return None
    kind, evidence, *rest = values
    plain, more = rest[:_PLAIN], rest[_PLAIN:]
    seen = _exchanges_of(more[0]) if more else ()
    items = tuple(_item_of(*each) for each in more[1]) if len(more) > 1 else ()
    return Fault(FaultClass(kind), Evidence(evidence), *(*plain, seen, items))


_PLAIN: Final = 10
"""The fields of a fault between its evidence and the requests that were seen."""


def _item(each: BatchItem) -> tuple[str, ...]:
    arguments = (b64encode(each.arguments).decode(),) if each.arguments else ()
    return each.key, each.part.value, each.code, *arguments


def _item_of(key: str, part: str, code: str, arguments: str = "") -> BatchItem:
    return BatchItem(key, Part(part), code, b64decode(arguments))


def _exchange(each: Exchange) -> tuple[Any, ...]:
    return (
        each.method,
        each.target,
        each.phase.value,
        each.status,
        each.headers,
        each.body,
        each.error,
        each.begun,
        each.took,
        each.key,
    )


def _exchanges_of(values: Sequence[Sequence[Any]]) -> tuple[Exchange, ...]:
    return tuple(_exchange_of(*each) for each in values)


def _exchange_of(method: str, target: str, phase: str, status: int | None, headers: list[Any], *rest: Any) -> Exchange:
    return Exchange(method, target, Phase(phase), status, tuple((name, value) for name, value in headers), *rest)


@lru_cache(maxsize=1024)
def terms_text(terms: Terms) -> str:
    """Return a tool's terms as JSON: the same text for all its calls."""
    undoing = [terms.compensate, terms.irreversible, terms.waived, *([True] if terms.drafted else ())]
    return to_json(
        [
            terms.effect._value_,
            terms.declared,
            terms.version,
            terms.lifetime,
            terms.attempt_lifetime,
            terms.timeout,
            terms.remote_retention,
            terms.remote_errors,
            terms.retention,
            terms.probed,
            *(undoing if any(undoing) else ()),
        ]
    )


@lru_cache(maxsize=1024)
def terms_of(text: str) -> Terms:
    """Return the terms that ``terms_text`` wrote."""
    values = from_json(text)
    return Terms(Effect(values[0]), *values[1:])


def spent_text(spent: Mapping[str, int]) -> str:
    """Return a run's retries by tool as JSON."""
    return to_json(dict(spent))


def plain(value: Any) -> Any:
    """Return the text that was stored, in whichever form."""
    return value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else value
