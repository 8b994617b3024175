"""Batches done in part: what became of each item, over all the calls that went on with it.

The call's own record keeps what its answer said of each item. An item in doubt becomes a record of its own, in the
commit of that answer: it stands in the queue, and is never repeated as part of anything else. Items that were surely
not done are gone on with by one further call, whose key follows from the record of the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from settled.core.call import Call, evolve
from settled.core.encoding.keys import business_key
from settled.core.matching.owed import doubted
from settled.core.model import BatchItem, Effect, Evidence, Fault, FaultClass, KeyKind, Part, Standing
from settled.core.states import Event, State
from settled.core.values import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from settled.core.books import Books
    from settled.core.model import Attempt, Moment, Terms

_AS_A_WHOLE = {
    State.SUCCEEDED: Part.DONE,
    State.COMPENSATING: Part.DONE,
    State.COMPENSATED: Part.DONE,
    State.PARTIAL: Part.UNKNOWN,
    State.NOT_DONE: Part.NOT_DONE,
    State.PARKED: Part.NOT_DONE,
    State.AWAITING_APPROVAL: Part.NOT_DONE,
    State.FAILED: Part.FAILED,
    State.REFUSED: Part.FAILED,
    State.UNKNOWN: Part.UNKNOWN,
    State.PROCESSING: Part.UNKNOWN,
    State.EXPIRED: Part.UNKNOWN,
}
"""What a record says of the items that it is about, where it has no answer for each."""


OF = "part/"
"""Begins the message of a call that goes on with another one's items."""


class ItemNow(Struct, frozen=True):
    """How one item stands."""

    key: str
    part: Part
    code: str
    operation_id: str
    """The record that says so."""


def part_key(call: Call) -> str:
    """Return the key of the call that goes on with the items of this one that were not done."""
    return business_key(call.tenant, call.tool, (call.operation_id,), "part")


def part_of(call: Call) -> str:
    """Return the operation id of the call whose items this one is about; empty for a call of its own."""
    return call.message.removeprefix(OF) if call.message.startswith(OF) and call.kind is KeyKind.BUSINESS else ""


def is_item(call: Call) -> bool:
    """Whether it is the record of one item in doubt."""
    batch = part_of(call)
    return bool(batch) and call.key != business_key(call.tenant, call.tool, (batch,), "part")


def split_of(call: Call) -> tuple[Attempt, tuple[BatchItem, ...]] | None:
    """Return the attempt that was answered item by item, and what it said; ``None`` if there is none."""
    for attempt in reversed(call.attempts):
        if attempt.standing is Standing.SOME and attempt.fault is not None and attempt.fault.items:
            return attempt, attempt.fault.items
    return None


def items_of(books: Books, call: Call) -> tuple[ItemNow, ...]:
    """Return how each item of a batch stands, in their order; nothing for a call that was not answered so."""
    split = split_of(call)
    if split is None:
        return ()
    again = books.by_key(part_key(call))
    further = {} if again is None else {item.key: item for item in items_of(books, again)}
    return tuple(_now(books, call, item, again, further.get(item.key)) for item in split[1])


def _now(books: Books, call: Call, item: BatchItem, again: Call | None, further: ItemNow | None) -> ItemNow:
    own = ItemNow(item.key, item.part, item.code, call.operation_id)
    if item.part is Part.UNKNOWN:
        record = books.by_key(item.key)
        return own if record is None else _by(record, item)
    if item.part is not Part.NOT_DONE or again is None:
        return own
    return further or _by(again, item)


def _by(record: Call, item: BatchItem) -> ItemNow:
    code = record.fault.code if record.fault is not None else item.code
    return ItemNow(item.key, _AS_A_WHOLE[record.state], code, record.operation_id)


# --- items in doubt -------------------------------------------------------------------------------


def on_record(attempts: Sequence[Attempt]) -> tuple[Attempt, ...]:
    """Return the attempts as they are kept: what an item in doubt was asked with goes to its own record."""
    return tuple(replace(a, fault=bare(a.fault)) if a.fault is not None and a.fault.items else a for a in attempts)


def bare(fault: Fault | None) -> Fault | None:
    """Return the fault without the arguments of its items."""
    if fault is None or not any(item.arguments for item in fault.items):
        return fault
    return replace(fault, items=tuple(replace(item, arguments=b"") for item in fault.items))


def doubt_items(books: Books, call: Call, fault: Fault | None, now: Moment) -> None:
    """Give each item in doubt a record of its own: unknown, and in the queue. Safe to repeat."""
    split = split_of(call)
    if split is None or fault is None or call.terms.effect is Effect.READ:
        return
    for no, item in enumerate(fault.items, 1):
        if item.part is Part.UNKNOWN and books.by_key(item.key) is None:
            _doubt(books, _alone(call, split[0], item, no, now), f"item {no} of {call.operation_id}", now)


def _doubt(books: Books, fresh: Call, what: str, now: Moment) -> None:
    begun, row = evolve(fresh, Event.CLAIM, now, detail=what)
    books.put(begun, row)
    unknown, row = evolve(begun, Event.DOUBT, now, detail=f"{fresh.reason}/{Evidence.MAYBE}")
    books.put(unknown, row)
    doubted(books, unknown)


def _alone(call: Call, attempt: Attempt, item: BatchItem, no: int, now: Moment) -> Call:
    """Return a record of one item, begun with its batch."""
    fault = Fault(FaultClass.UNKNOWN, Evidence.MAYBE, item.code or "no_answer", uncertain=True)
    operation_id = f"{call.operation_id}-{no}"
    return replace(
        call,
        operation_id=operation_id,
        key=item.key,
        kind=KeyKind.BUSINESS,
        terms=_of_one(call),
        identity=item.key,
        words=item.key,
        fingerprint=item.key,
        n=1,
        arguments=item.arguments,
        state=State.PROCESSING,
        epoch=1,
        claim=operation_id,
        message=f"{OF}{call.operation_id}",
        step="",
        attempts=(replace(attempt, no=1, epoch=1, standing=Standing.MAYBE, fault=fault),),
        result=None,
        fault=fault,
        reason=fault.code,
        note="",
        decided="",
        disputed=False,
        leave=None,
        created=now,
        log_no=0,
        log_head="",
    )


def _of_one(call: Call) -> Terms:
    """Return the terms of an item alone: it was sent under the whole batch's key, so no other side knows its own."""
    one = call.terms.effect is Effect.DEDUPLICATED
    return replace(call.terms, effect=Effect.WRITE) if one else call.terms


# --- the whole ------------------------------------------------------------------------------------


class LookAtItems(Struct, frozen=True):
    """Read how the items of a call stand; changes nothing."""

    operation_id: str

    def apply(self, books: Books, now: Moment) -> tuple[Call | None, tuple[ItemNow, ...], tuple[Call, ...]]:
        """Return the call, its items, and the records that its own items have gone on in."""
        del now
        call = books.by_id(self.operation_id)
        split = None if call is None else split_of(call)
        if call is None or split is None:
            return call, (), ()
        keys = (part_key(call), *(item.key for item in split[1] if item.part is Part.UNKNOWN))
        records = (books.by_key(key) for key in keys)
        return call, items_of(books, call), tuple(record for record in records if record is not None)


class Fold(Struct, frozen=True):
    """Let a call that was done in part end, once each of its items has: all done, or none of them and for good."""

    operation_id: str
    result: bytes | None = None
    """Its value, put together, for the case that all are done."""
    note: str = ""

    def apply(self, books: Books, now: Moment) -> Call | None:
        """Return the call as it stands then."""
        call, items, records = LookAtItems(self.operation_id).apply(books, now)
        if call is None or call.state is not State.PARTIAL:
            return call
        parts = {item.part for item in items}
        word = call.asserted or any(record.asserted for record in records)  # then the whole rests on it, too
        if parts not in ({Part.DONE}, {Part.FAILED}):
            return call
        if parts == {Part.DONE}:
            more: dict[str, object] = {
                "result": self.result,
                "note": self.note,
                "fault": None,
                "reason": "",
                "asserted": word,
            }
            ended, row = evolve(call, Event.SUCCEED, now, detail="all its items are done", decided="answer", **more)
        else:
            more = {"decided": "answer", "asserted": word}
            ended, row = evolve(call, Event.FAIL, now, detail="none of its items is done", **more)
        books.put(ended, row)
        return ended
