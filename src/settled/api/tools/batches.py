"""Tools that take a list of items and may do only some of them: their keys, and what an answer says of each."""

from __future__ import annotations

import collections.abc
import copy
import inspect
import typing
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from settled.api import secrets
from settled.api.tools.schema import plain
from settled.core.encoding import codec
from settled.core.encoding.keys import business_key, content_digest
from settled.core.encoding.loosening import nearest
from settled.core.model import BatchItem, Effect, Part
from settled.core.parts import split_of
from settled.core.values import replace
from settled.current import current
from settled.errors import DeclarationError, NotExecuted, PartlyDone
from settled.partial.outcome import AMBIGUOUS, Outcome, done, not_done, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from settled.api.calls.bound import PartOf
    from settled.api.guard import Guard
    from settled.api.tools.options import Options
    from settled.api.tools.schema import Schema
    from settled.api.tools.tool import Tool
    from settled.core.call import Call

LONGEST_CODE = 100
"""Characters of an item's code that are kept."""
_LISTS = (list, tuple, collections.abc.Sequence)


@dataclass(frozen=True, slots=True)
class Batch:
    """What a tool declares of its items."""

    parameter: str
    read: Any = None
    """Takes an answer and the items; ``None``: only ``PartlyDone`` tells of them."""
    identity: Any = None
    """Names an item: a field's name, or a function of it; ``None``: its place and its content do."""


def batch_of(options: Options, schema: Schema, effect: Effect) -> Batch | None:
    """Return what is declared. Raises ``DeclarationError`` for what cannot work."""
    o = options
    if o.partial is None and o.items is None:
        if o.item_key is not None:
            raise DeclarationError(f"{schema.name}: item_key names the items of a batch: give partial= or items= too")
        return None
    if effect is Effect.TRANSACTIONAL:
        raise DeclarationError(f"{schema.name}: a transactional tool is done wholly or not at all: leave partial out")
    read: Any = o.partial
    if read is not None and (not callable(read) or inspect.iscoroutinefunction(read)):
        raise DeclarationError(f"{schema.name}: partial is a plain function of the answer and the items")
    identity: Any = o.item_key
    if identity is not None and not isinstance(identity, str) and not callable(identity):
        raise DeclarationError(f"{schema.name}: item_key is a field's name or a function, not {identity!r}")
    return Batch(_parameter(o, schema), read, identity)


def _parameter(options: Options, schema: Schema) -> str:
    if options.items is not None:
        if options.items not in schema.parameters:
            hint = nearest(str(options.items), schema.parameters)
            raise DeclarationError(f"{schema.name}: items: there is no parameter {options.items!r}{hint}")
        return options.items
    lists = [name for name in schema.parameters if _is_list(schema.hint(name))]
    if len(lists) != 1:
        raise DeclarationError(f"{schema.name}: which parameter holds the items? Write items=<its name>")
    return lists[0]


def _is_list(hint: Any) -> bool:
    return hint in _LISTS or typing.get_origin(hint) in _LISTS


# --- items and their keys ---------------------------------------------------------------------


def item_keys(guard: Guard, tool: Tool[Any, Any], batch: Batch, operation_id: str, items: Sequence[Any]) -> list[str]:
    """Return the key of each item: of its identity where one is declared, else of its place and content.

    Two items of the same identity have two keys. Raises whatever the tool's own ``item_key`` raises.
    """
    seen: Counter[str] = Counter()
    keys = []
    for place, item in enumerate(items):
        mark = _mark(batch, item, place)
        keys.append(business_key(guard.tenant, tool.name, (operation_id, mark, str(seen[mark])), "item"))
        seen[mark] += 1
    return keys


def _mark(batch: Batch, item: Any, place: int) -> str:
    if batch.identity is None:
        return f"place {place} {content_digest({'item': item})}"
    named = batch.identity(copy.deepcopy(item)) if callable(batch.identity) else item[batch.identity]
    return f"name {content_digest({'item': named})}"


def narrowed(batch: Batch, arguments: Mapping[str, Any], places: Sequence[int]) -> dict[str, Any]:
    """Return the arguments with these items alone."""
    items = arguments[batch.parameter]
    kept = [items[place] for place in places]
    return {**arguments, batch.parameter: tuple(kept) if isinstance(items, tuple) else kept}


def own_done(call: Call, batch: Batch, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with those items alone that the call itself has done."""
    split = split_of(call)
    if split is None or len(split[1]) != len(arguments.get(batch.parameter, ())):
        return dict(arguments)
    return narrowed(batch, arguments, [n for n, item in enumerate(split[1]) if item.part is Part.DONE])


def outcomes_of(batch: Batch, answer: Any, items: Sequence[Any]) -> list[Outcome]:
    """Read an answer; what it leaves out, or says of something else, is in doubt.

    A reader that fails, or does not return one outcome for each item, tells nothing: nobody can say which it left out.
    """
    if batch.read is None:
        return [done()] * len(items)
    try:
        found = list(batch.read(answer, items))
    except Exception as error:  # noqa: BLE001 - the tool's own code, after the effect
        return [unknown(f"look_failed_{type(error).__name__}")] * len(items)
    if len(found) != len(items) or not all(isinstance(each, Outcome) for each in found):
        return [AMBIGUOUS] * len(items)
    return found


# --- one attempt --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reading:
    """One attempt of a batch, whose answer is read item by item."""

    guard: Guard
    tool: Tool[Any, Any]
    batch: Batch
    arguments: Mapping[str, Any]
    """Plain."""
    keys: Sequence[str]
    doubted: bool
    """An earlier attempt may have done any of them."""

    def of(self, answer: Any) -> Any:
        """Return the answer if all was done. Raises ``PartlyDone``, with what became of each item."""
        items = self.arguments[self.batch.parameter]
        outcomes = outcomes_of(self.batch, answer, items)
        if all(outcome.part is Part.DONE for outcome in outcomes):
            return answer
        raise self._split(outcomes, answer=answer, answered=True)

    async def later(self, answer: Any) -> Any:
        """Like ``of``, of what is to be awaited."""
        try:
            found = await answer
        except PartlyDone as error:
            raise self.said(error) from error
        return self.of(found)

    def said(self, error: PartlyDone) -> PartlyDone:
        """Return what the tool itself said, by item; as it is where it speaks of something else than its items."""
        items = self.arguments[self.batch.parameter]
        outcomes: list[Outcome] = [unknown("not_told")] * len(items)
        for told, outcome in [(each, done()) for each in error.done] + [
            (each, not_done("failed")) for each in error.failed
        ]:
            places = (n for n, item in enumerate(items) if outcomes[n].code == "not_told" and item == plain(told))
            place = next(places, None)
            if place is None:
                return error
            outcomes[place] = outcome
        return self._split(outcomes)

    def _split(self, outcomes: Sequence[Outcome], **answer: Any) -> PartlyDone:
        parts = [self._part(outcome) for outcome in outcomes]
        items = tuple(
            BatchItem(key, part, self._code(outcome), self._alone(n) if part is Part.UNKNOWN else b"")
            for n, (key, part, outcome) in enumerate(zip(self.keys, parts, outcomes, strict=True))
        )
        error = PartlyDone()
        error.items, error.throttled = items, any(outcome.throttled for outcome in outcomes)
        for name, value in answer.items():
            setattr(error, name, value)
        return error

    def _part(self, outcome: Outcome) -> Part:
        effect, part = self.tool.checked.effect, outcome.part
        if effect is Effect.READ:
            return Part.NOT_DONE if part is Part.UNKNOWN else part
        refused = part in (Part.FAILED, Part.NOT_DONE)
        return Part.UNKNOWN if refused and self.doubted else part  # a later refusal clears no doubt

    def _code(self, outcome: Outcome) -> str:
        """Return the code as it is kept: it is the other side's text, and may repeat a secret that it was sent."""
        if not outcome.code:
            return ""
        hidden = secrets.hidden(self.arguments, self.tool.checked.options.redact)
        return secrets.clean(str(outcome.code), hidden)[:LONGEST_CODE]

    def _alone(self, place: int) -> bytes:
        """Return the arguments of one item, as a record keeps them."""
        own = narrowed(self.batch, self.arguments, [place])
        shown = self.guard.vault.shown(own, self.tool.checked.options.redact)
        return self.guard.vault.lock(codec.dumps(shown))


def by_item(  # noqa: PLR0917 - whose attempt, of which call, with what
    guard: Guard,
    tool: Tool[Any, Any],
    part: PartOf | None,
    call: Call | None,
    own: Mapping[str, Any],
    make: Callable[[], Any],
) -> Any:
    """Make one attempt of a batch; return its answer, or raise ``PartlyDone`` with what became of each item."""
    batch = tool.checked.batch
    items = own.get(batch.parameter) if batch is not None else None
    if batch is None or call is None or not items:
        return make()
    arguments = {name: plain(value) for name, value in own.items()}
    try:
        keys = part.keys if part else item_keys(guard, tool, batch, call.operation_id, arguments[batch.parameter])
    except Exception as error:
        raise NotExecuted(f"item_key cannot name an item: {type(error).__name__}") from error
    _tell(keys)
    reading = Reading(guard, tool, batch, arguments, keys, call.doubted_before)
    try:
        answer = make()
    except PartlyDone as error:
        raise reading.said(error) from error
    return reading.later(answer) if inspect.isawaitable(answer) else reading.of(answer)


def _tell(keys: Sequence[str]) -> None:
    """Let the tool see the keys of its items."""
    now = current.get()
    if now is not None:
        current.set(replace(now, items=tuple(keys)))
