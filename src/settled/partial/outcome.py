"""What an answer says of each item that a batch was asked to do, and how items and answers find each other."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from settled.core.model import Evidence, FaultClass, Part

if TYPE_CHECKING:
    from collections.abc import Hashable

    from settled.core.model import Fault


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one item, as one answer tells it. Made by ``done``, ``failed``, ``not_done`` and ``unknown``."""

    part: Part
    code: str = ""
    """Short and stable, as the other side gave it."""
    value: object = None
    """The item's piece of the answer, if it was done."""
    throttled: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """How one item of a call stands, over all that was done about it: ``Result.items``."""

    position: int
    """In the call's list, from 0 on."""
    status: str
    """``done``, ``failed`` (for good), ``not_done`` (may be tried again), ``unknown`` (may have been done)."""
    code: str = ""
    key: str = ""
    """The item's own key, as ``settled.current_call().items`` gave it to the tool."""
    operation_id: str = ""
    """The record that says so: the call's own, or that of the call that went on with the item."""


Read = Callable[[Any, Sequence[Any]], Sequence[Outcome]]
"""Takes what the tool returned and the items it was asked to do; returns an outcome for each, in the items' order."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the answer of a batch, and puts the pieces of several answers together into one.

    ``merge``: takes the first answer, the values of all items in their order, and the items, once all are done; what it
    returns is the call's value. Without one that is the list of the values.
    """

    read: Read
    merge: Callable[[Any, Sequence[Any], Sequence[Any]], Any] | None = None

    def __call__(self, answer: Any, items: Sequence[Any]) -> Sequence[Outcome]:
        """Read an answer."""
        return self.read(answer, items)


def done(value: object = None, code: str = "") -> Outcome:
    """Say that an item was done."""
    return Outcome(Part.DONE, code, value)


def failed(code: str = "") -> Outcome:
    """Say that an item was surely not done, and that a repeat would end the same way."""
    return Outcome(Part.FAILED, code)


def not_done(code: str = "", *, throttled: bool = False) -> Outcome:
    """Say that an item was surely not done, and may be tried again."""
    return Outcome(Part.NOT_DONE, code, throttled=throttled)


def unknown(code: str = "") -> Outcome:
    """Say that an item may have been done."""
    return Outcome(Part.UNKNOWN, code)


MISSING = unknown("no_answer")
"""Of an item that the answer does not speak of."""
AMBIGUOUS = unknown("ambiguous_answer")
"""Of an item whose part of the answer cannot be told from another's."""


def by_fault(fault: Fault, code: str = "") -> Outcome:
    """Return what a fault of one item means for it."""
    code = code or fault.code
    if fault.evidence is Evidence.DONE:
        return done(code=code)
    if fault.evidence is not Evidence.NONE:
        return unknown(code)
    return not_done(code, throttled=fault.throttled) if fault.kind is FaultClass.RETRYABLE else failed(code)


Entry = tuple["Hashable | None", Outcome]
"""An item's name in the answer, if it has one, and what became of it."""


def place(asked: Sequence[Hashable | None], entries: Sequence[Entry]) -> list[Outcome]:
    """Give each item its part of the answer: by its name, or by its place where nothing speaks against it.

    Where the answer is shorter than what was asked and has no names, nobody can say which of them is missing.
    """
    if all(name is None for name in asked):
        entries = _numbered(entries)
    names = [name for name, _ in entries]
    if len(asked) == len(entries) and all(_agree(*pair) for pair in zip(asked, names, strict=True)):
        return [outcome for _, outcome in entries]
    if None in names or None in asked:
        return [AMBIGUOUS] * len(asked)
    found: defaultdict[Hashable, list[Outcome]] = defaultdict(list)
    for name, outcome in entries:
        found[name].append(outcome)
    wanted = Counter(asked)
    return [_named(found.get(name, []), wanted[name]) for name in asked]


def _numbered(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the entries by their numbers, where that is what names them all: their order says nothing then."""
    found = {str(name): (name, outcome) for name, outcome in entries}
    counts = (range(first, first + len(entries)) for first in (0, 1))
    return next(
        ([found[str(n)] for n in count] for count in counts if found.keys() == {str(n) for n in count}), entries
    )


def names_of(items: Sequence[Any], entries: Sequence[Entry], *fields: str) -> list[Hashable | None]:
    """Return what names each item: one of the fields, or itself where the answer has an entry of that name."""
    found = {str(name): name for name, _ in entries if name is not None}
    return [_own_name(item, name_in(item, *fields), found) for item in items]


def _own_name(item: Any, name: Hashable | None, found: Mapping[str, Hashable]) -> Hashable | None:
    plain = isinstance(item, str | int) and not isinstance(item, bool)
    return found.get(str(item)) if name is None and plain else name


def _agree(asked: Hashable | None, name: Hashable | None) -> bool:
    return asked is None or name is None or asked == name


def _named(found: list[Outcome], wanted: int) -> Outcome:
    """Return the outcome of an item by what the answer says under its name; several may have the same."""
    if not found:
        return MISSING
    clear = len(found) == wanted and len({outcome.part for outcome in found}) == 1
    return found[0] if clear else AMBIGUOUS


def name_in(value: Any, *names: str) -> Hashable | None:
    """Return the first of these fields that names an item; ``None`` if there is none."""
    found = (
        (value.get(name) for name in names) if isinstance(value, Mapping) else (getattr(value, n, None) for n in names)
    )
    return next((each for each in found if isinstance(each, str | int) and not isinstance(each, bool)), None)
