"""A call as a row: a few columns that are looked up or shown, and the rest as one short JSON text.

Its values (``core.model``) are written as lists. A new field goes to the end of its class and has a default, so that
older rows still read.
JSON keeps every text as it is, lone surrogates and NUL too, and every float exactly.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import msgspec

from settled.core.call import Call
from settled.core.expiry import due
from settled.core.model import Attempt, Effect, Fault, KeyKind, Leave, Moment, Owner, Terms
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
_FOREVER: Final = Moment(float("inf"), "", 0.0)

to_json = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
from_json = json.JSONDecoder().decode


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
        words=more.words,
        fingerprint=more.fingerprint,
        claim=more.claim,
        owner=more.owner,
        created=more.created,
        changed=more.changed,
        series=more.series,
        before=more.before,
        message=more.message,
        step=more.step,
        attempts=more.attempts,
        fault=more.fault,
        reason=more.reason,
        note=more.note,
        decided=more.decided,
        asserted=more.asserted,
        held=more.held,
        not_before=more.not_before,
        despite=more.despite,
        leave=more.leave,
        sent_key=more.sent_key,
    )


class _Body(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What is neither looked up nor shown, as it is read; written by ``_body`` in this order.

    A field more is of a later release: written anew without it, the record would lose it.
    """

    words: str
    fingerprint: str
    claim: str
    owner: Owner
    created: Moment
    changed: Moment
    series: int
    before: int
    message: str
    step: str
    attempts: tuple[Attempt, ...]
    fault: Fault | None
    reason: str
    note: str
    decided: str
    asserted: bool
    held: bool
    not_before: float | None
    despite: tuple[str, ...]
    leave: Leave | None = None
    sent_key: str = ""


_quickly = msgspec.json.Encoder().encode
_read_quickly = msgspec.json.Decoder(_Body).decode


def _body(call: Call) -> str:
    parts = (
        call.words,
        call.fingerprint,
        call.claim,
        call.owner,
        call.created,
        call.changed,
        call.series,
        call.before,
        call.message,
        call.step,
        call.attempts,
        call.fault,
        call.reason,
        call.note,
        call.decided,
        call.asserted,
        call.held,
        call.not_before,
        call.despite,
        *((call.leave, call.sent_key) if call.leave is not None or call.sent_key else ()),
    )
    if isfinite(_numbers(call)):  # the quick way writes null for a number that JSON does not have
        try:
            return _quickly(parts).decode()
        except (UnicodeEncodeError, OverflowError):  # a lone surrogate, an integer of more than 64 bits
            pass
    return to_json(msgspec.to_builtins(parts))


def _from_body(body: str) -> _Body:
    with suppress(UnicodeEncodeError, ValueError):  # as ``_body`` says
        return _read_quickly(body)
    return msgspec.convert(from_json(body), _Body)


def _numbers(call: Call) -> float:
    """Return the sum of all numbers but a clock's own: it is not finite if one of them is not."""
    total = call.not_before or 0.0
    for attempt in call.attempts:
        if attempt.fault is not None:
            total += _of_fault(attempt.fault)
    if call.leave is not None:
        total += call.leave.until + call.leave.within
    return total if call.fault is None else total + _of_fault(call.fault)


def _of_fault(fault: Fault) -> float:
    return (fault.retry_after or 0.0) + sum(each.begun + each.took for each in fault.seen)


def fault_list(fault: Fault | None) -> list[Any] | None:
    """Return a fault as what JSON can hold."""
    found: list[Any] | None = msgspec.to_builtins(fault)
    return found


def fault_of(values: Sequence[Any] | None) -> Fault | None:
    """Return the fault that ``fault_list`` made a list of."""
    return msgspec.convert(values, Fault | None)


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
