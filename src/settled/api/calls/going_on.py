"""Going on with a batch that was done in part: only with what was surely not done, each time under a key of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from settled.api.calls import answering
from settled.api.calls.binding import as_recorded, encoder
from settled.api.calls.bound import BoundCall, CallOptions, PartOf
from settled.api.tools.batches import narrowed, outcomes_of
from settled.core.answer import from_record
from settled.core.attempts.retry import THROTTLED_COST, Again
from settled.core.encoding import codec
from settled.core.model import Effect, Part
from settled.core.parts import Fold, LookAtItems, part_key, split_of
from settled.core.states import State
from settled.core.values import replace
from settled.errors import JournalError
from settled.partial.outcome import Item

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from settled.api.calls.making import Prepared
    from settled.api.calls.result import Result
    from settled.api.guard import Guard
    from settled.api.steps import Steps
    from settled.api.tools.batches import Batch
    from settled.api.tools.tool import Tool
    from settled.core.call import Call
    from settled.core.parts import ItemNow

SEPARATE = "it took several calls, and its tool does not say how their answers are put together"


def go_on(guard: Guard, prepared: Prepared, result: Result[Any]) -> Steps[Result[Any]]:
    """Go on with the items that were not done, as far as the asker's attempts reach; then say how all stand."""
    batch = prepared.bound.tool.checked.batch
    call, items, records = yield LookAtItems(result.operation_id)
    if batch is None or call is None or not items:
        return result
    made = 0
    for wanted in _wanted(guard, prepared, call, items, records):
        yield wanted
        made += 1
    return (yield from _told(guard, prepared, batch, result, made=made))


def _wanted(
    guard: Guard, prepared: Prepared, call: Call, items: Sequence[ItemNow], records: Sequence[Call]
) -> Iterator[BoundCall[Any]]:
    """Yield the calls to be made: one for all that surely failed, and one for each that is in doubt by itself."""
    tool, life = prepared.bound.tool, prepared.life
    part = prepared.bound.options.part
    left = (part.attempts if part else tool.checked.policy.attempts) - life.made
    own = as_recorded(guard, tool, call, dict(prepared.arguments))
    split = split_of(call)
    batch = tool.checked.batch
    if left <= 0 or split is None or batch is None or len(own[batch.parameter]) != len(items):
        return
    by_key = {record.key: record for record in records}
    again = [n for n, item in enumerate(split[1]) if item.part is Part.NOT_DONE and items[n].part in _OPEN]
    if again and not _late(guard, prepared, step := _step(guard, tool, call, life.made)):
        keys = tuple(item.key for item in split[1] if item.part is Part.NOT_DONE)
        all_left = [n for n, item in enumerate(split[1]) if item.part is Part.NOT_DONE]
        yield _call(
            prepared, narrowed(batch, own, all_left), PartOf(call.operation_id, part_key(call), keys, left, step)
        )
    for n, item in enumerate(split[1]):
        record = by_key.get(item.key) if item.part is Part.UNKNOWN else None
        if record is not None and _may_change(tool, record):
            yield _call(
                prepared, narrowed(batch, own, [n]), PartOf(call.operation_id, item.key, (item.key,), left, None)
            )


_OPEN = (Part.NOT_DONE, Part.UNKNOWN)


def _step(guard: Guard, tool: Tool[Any, Any], call: Call, made: int) -> Again:
    throttled = call.fault is not None and call.fault.throttled
    backoff = tool.checked.policy.backoff
    delay = backoff.delay(max(0, made - 1), draw=guard.floor.draw(), throttled=throttled) if made else 0.0
    return Again(delay, THROTTLED_COST if throttled else 1.0)


def _late(guard: Guard, prepared: Prepared, step: Again) -> bool:
    deadline = prepared.life.limits.deadline
    return deadline is not None and guard.floor.now() + step.delay >= deadline


def _may_change(tool: Tool[Any, Any], record: Call) -> bool:
    """Whether asking for an item in doubt may bring anything: a probe, a repeat that does no harm, or a verdict."""
    if record.state is State.UNKNOWN:
        return tool.checked.policy.probe or record.terms.effect is Effect.IDEMPOTENT
    return record.state in (State.NOT_DONE, State.PARKED, State.PROCESSING)


def _call(prepared: Prepared, arguments: dict[str, Any], part: PartOf) -> BoundCall[Any]:
    options = prepared.bound.options
    return BoundCall(
        prepared.bound.tool,
        kwargs=arguments,
        options=CallOptions(wait=options.wait, within=options.within, part=part),
    )


# --- what came of it ------------------------------------------------------------------------------


def _told(guard: Guard, prepared: Prepared, batch: Batch, result: Result[Any], *, made: int) -> Steps[Result[Any]]:
    tool = prepared.bound.tool
    call, items, _ = yield LookAtItems(result.operation_id)
    if {item.part for item in items} in ({Part.DONE}, {Part.FAILED}) and call.state is State.PARTIAL:
        done = all(item.part is Part.DONE for item in items)
        data, note = (yield from _whole(guard, tool, batch, call)) if done else (None, "")
        call = yield Fold(call.operation_id, data, note)
    entry = prepared.life.ask.entry if prepared.life.ask is not None else None
    if entry is not None:
        entry.tell(call)
    told = answering.to_result(guard, tool, from_record(call), prepared.life)
    told = replace(told, replayed=told.replayed and not made, attempts=max(told.attempts, result.attempts))
    return with_items(guard, tool, call, items, told)


def told_again(guard: Guard, tool: Tool[Any, Any], result: Result[Any]) -> Steps[Result[Any]]:
    """Say of a call that had come to its end before what became of each item, as was said then."""
    call, items, _ = yield LookAtItems(result.operation_id)
    return with_items(guard, tool, call, items, result) if items else result


def with_items(
    guard: Guard, tool: Tool[Any, Any], call: Call, items: Sequence[ItemNow], result: Result[Any]
) -> Result[Any]:
    """Return the result with what became of each item."""
    shown = tuple(Item(n, str(item.part), item.code, item.key, item.operation_id) for n, item in enumerate(items))
    if call.state is not State.PARTIAL:
        return replace(result, items=shown)
    value = _by_part(guard, tool, call, shown)
    parts = {item.part for item in items}
    step: Any = "ask_human" if Part.UNKNOWN in parts else "ask_again" if Part.NOT_DONE in parts else "fix_arguments"
    return replace(
        result,
        items=shown,
        value=value,
        value_available=value is not None,
        message=_words(shown),
        next=step,
        retryable=Part.NOT_DONE in parts,
    )


def _by_part(guard: Guard, tool: Tool[Any, Any], call: Call, shown: Sequence[Item]) -> Any:
    """Return the items as they were asked for, by what became of them."""
    batch = tool.checked.batch
    try:
        asked = codec.loads(guard.vault.unlock(call.arguments))[batch.parameter] if batch is not None else ()
    except (ValueError, KeyError, JournalError):
        return None
    if len(asked) != len(shown):
        return None
    parts = {"done": ("done",), "failed": ("failed", "not_done"), "unknown": ("unknown",)}
    pairs = list(zip(asked, shown, strict=True))
    return {name: [each for each, item in pairs if item.status in of] for name, of in parts.items()}


_SAID = {
    "done": "done",
    "not_done": "not done, and may be tried again",
    "failed": "not done, and would fail again",
    "unknown": "in doubt: do not do these again in any other way",
}


def _words(shown: Sequence[Item]) -> str:
    counts = {status: sum(item.status == status for item in shown) for status in _SAID}
    said = [f"{count} {_SAID[status]}" for status, count in counts.items() if count]
    return f"of {len(shown)} items: {'; '.join(said)}. Ask for what is left alone, never for all of them again"


# --- one value of several answers -------------------------------------------------------------------


def _whole(guard: Guard, tool: Tool[Any, Any], batch: Batch, call: Call) -> Steps[tuple[Any, str]]:
    """Return the encoded value of a call whose items took several calls, and a note."""
    split = split_of(call)
    if batch.read is None or split is None:
        return None, SEPARATE
    keys = [item.key for item in split[1]]
    pieces = yield from _pieces(guard, tool, batch, call, keys)
    values = [pieces.get(key) for key in keys]
    merge = getattr(batch.read, "merge", None)
    try:
        value = values if merge is None else merge(_answer(guard, tool, call), values, _asked(guard, batch, call))
    except Exception as error:  # noqa: BLE001 - the tool's own code, after the effect
        return None, f"its answers could not be put together: {type(error).__name__}"
    return encoder(guard, tool)(value)


def _pieces(guard: Guard, tool: Tool[Any, Any], batch: Batch, call: Call, keys: Sequence[str]) -> Steps[dict[str, Any]]:
    """Return what the answers say of each item that was done, over all the calls that went on with one of them."""
    found: dict[str, Any] = {}
    try:
        outcomes = outcomes_of(batch, _answer(guard, tool, call), _asked(guard, batch, call))
    except (ValueError, KeyError, JournalError):
        outcomes = []
    if len(outcomes) == len(keys):
        found = {key: each.value for key, each in zip(keys, outcomes, strict=True) if each.part is Part.DONE}
    split = split_of(call)
    _, _, records = yield LookAtItems(call.operation_id)
    for record in records:
        batch_again = split is not None and record.key == part_key(call)
        own = [i.key for i in split[1] if i.part is Part.NOT_DONE] if batch_again and split else [record.key]
        found |= yield from _pieces(guard, tool, batch, record, own)
    return found


def _answer(guard: Guard, tool: Tool[Any, Any], call: Call) -> Any:
    if call.result is None:
        raise ValueError("its answer was not kept")
    return tool.schema.decode(guard.vault.unlock(call.result), call.note)


def _asked(guard: Guard, batch: Batch, call: Call) -> Sequence[Any]:
    asked: Sequence[Any] = codec.loads(guard.vault.unlock(call.arguments))[batch.parameter]
    return asked


def look_at_items(guard: Guard, tool: Tool[Any, Any], call: Call, result: Result[Any]) -> Result[Any]:
    """Return the result of a recorded call with what became of each item, for who only looks at it."""
    _, items, _ = guard.journal.perform(LookAtItems(call.operation_id))
    return with_items(guard, tool, call, items, result) if items else result
