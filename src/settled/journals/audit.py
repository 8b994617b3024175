"""What the journals share: which calls a query means, and how their logs are sealed and checked."""

from __future__ import annotations

import time
from hashlib import sha256
from itertools import groupby, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from settled.core.call import Call, LogRow, chain, named
from settled.core.expiry import due
from settled.core.rules import lease_over
from settled.core.states import State
from settled.core.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from settled.core.model import Moment
    from settled.ports import CallQuery


Head = tuple[str, int, str]
"""A log row for a seal: whose it is, its number, and its head."""
MOST_IN_SEAL: Final = 20_000
"""Rows in one seal, so that none keeps others waiting long."""
_BETWEEN: Final = 0.005
"""Seconds between two seals: who waits for a lock on SQLite looks for it every millisecond or less."""


def matches(call: Call, query: CallQuery, now: Moment) -> bool:
    """Whether a call is among those that are asked for."""
    wanted = (
        query.states is None or call.state in query.states,
        query.tool is None or call.tool == query.tool,
        query.tenant is None or call.tenant == query.tenant,
        query.scope is None or call.scope == query.scope,
        query.disputed is None or call.disputed is query.disputed,
        not query.lease_over or (call.state is State.PROCESSING and lease_over(call, now)),
        not query.past_retention or due(call, now),
    )
    return all(wanted)


def seal_over(previous: str, heads: Iterable[Head]) -> str:
    """Return the seal that chains ``heads`` to the seal before."""
    lines = [previous, *[f"{operation_id} {no} {head}" for operation_id, no, head in heads]]
    return sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def in_pieces(seal: Callable[[], int]) -> bool:
    """Seal a log that may be long, each piece in a transaction of its own; return whether there was anything."""
    sealed = rows = seal()
    while rows >= MOST_IN_SEAL:
        time.sleep(_BETWEEN)  # others write meanwhile
        rows = seal()
    return sealed > 0


def head_of(row: LogRow) -> Head:
    """Return what a seal covers of a log row: it stands for all the rest."""
    return row.operation_id, row.no, row.head


def broken_chains(rows: Iterable[LogRow]) -> Iterator[str]:
    """Yield a line for each row that does not follow from the row before it.

    ``rows`` come grouped by operation, in the order of their numbers.
    """
    for operation_id, group in groupby(rows, key=attrgetter("operation_id")):
        no, head = 0, ""
        for row in group:
            if row.no != no + 1:
                yield f"{operation_id}: log row {row.no} follows row {no}: rows are missing or were changed"
            elif chain(head, replace(row, head="")) != row.head:
                yield f"{operation_id}: log row {row.no} was changed: its head does not follow from row {no}"
            no, head = row.no, row.head


def broken_seals(
    rows: Iterable[LogRow], seals: Iterable[tuple[int, str]], root: tuple[int, str] = (0, "")
) -> Iterator[str]:
    """Yield a line for each seal that the log does not give.

    ``rows`` are the log in order, behind the seal ``root``; each seal says how many rows it covers, from the start on.
    """
    log, (done, previous) = iter(rows), root
    for upto, text in seals:
        piece = list(islice(log, upto - done))
        if len(piece) != upto - done:
            there = done + len(piece)
            yield f"seal {text[:12]}: covers {upto} log rows, but only {there} are there: the tail was cut off"
            return
        if seal_over(previous, map(head_of, piece)) != text:
            yield f"seal {text[:12]}: log rows {done + 1} to {upto} are not the ones that were sealed"
        done, previous = upto, text


def off_its_log(call: Call, log: Sequence[LogRow]) -> str | None:
    """Say how a call differs from what its log says of it, if it does."""
    if not log:
        return f"{call.operation_id}: the call has no log"
    last = log[-1]
    recorded = (last.no, last.head, last.state, last.epoch, last.attempt)
    if recorded != (call.log_no, call.log_head, call.state, call.epoch, len(call.attempts)):
        return (
            f"{call.operation_id}: the call stands at {call.state}, epoch {call.epoch}, row {call.log_no}, "
            f"but its log ends at {last.state}, epoch {last.epoch}, row {last.no}"
        )
    first = log[0].digest if log[0].no == 1 else ""
    arguments, _, asked = first.partition("/")  # either may be empty: older releases did not note it
    if call.arguments and arguments and sha256(call.arguments).hexdigest() != arguments:
        return f"{call.operation_id}: the arguments are not those whose digest its log holds"
    if asked and named(call) != asked:
        return f"{call.operation_id}: its tool, tenant, scope or key is not the one whose digest its log holds"
    brought = next((row.digest for row in reversed(log) if row.digest and row.no > 1), "")
    if call.result and sha256(call.result).hexdigest() != brought:
        return f"{call.operation_id}: the result is not the one whose digest its log holds"
    return None


def missing_head(head: str | None, seals: Iterable[str]) -> str | None:
    """Say that a head that was kept elsewhere is not among the seals, if so."""
    if not head or head in seals:
        return None
    return f"the given head {head[:12]} is not in this log: it was cut off, or the journal was replaced"
