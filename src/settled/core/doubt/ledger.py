"""A tool's own list of its effects against the calls on record: what belongs to what, and what belongs to nothing.

Pure. Effects and calls are matched by the key that the tool sent along; else by identity, one to one, in the order of
their times. What is made of it is decided elsewhere: see ``api/people/ledgers.py``.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from settled.core.doubt.late import HAPPENED
from settled.core.states import UNSETTLED, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from settled.core.call import Call

SKEW: Final = 300.0
"""Seconds by which the ledger's clock may differ from the journal's."""
Kind = Literal["missing", "orphaned", "doubled"]
DONE: Final = HAPPENED | {State.PARTIAL}


_LATEST: Final = 1e12
"""Seconds since 1970, in the 34th millennium: what lies beyond is no time."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect of a tool, as its own system lists it.

    Args:
        at: when it happened, by that system's clock: a datetime with a time zone, the same as ISO 8601, or seconds
            since 1970.
        key: the key that the tool sent along (``settled.current_call().key``), if the system keeps it.
        arguments: what the call was given, as its function takes it: finds the call where no key is kept.
        ref: the system's own name for the effect, which tells one entry from another.
        result: what the call would have returned, for one whose answer was lost.

    Raises:
        ValueError: neither key nor arguments, or a time that is none.
    """

    at: datetime | float | str
    key: str = ""
    arguments: Mapping[str, Any] | None = None
    ref: str = ""
    result: Any = None
    has_result: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        """Refuse what no call could be found by."""
        if not self.key and self.arguments is None:
            raise ValueError("an effect needs key= or arguments=: by nothing else can its call be found")
        at = datetime.fromisoformat(self.at) if isinstance(self.at, str) else self.at
        if isinstance(at, datetime) and at.tzinfo is None:
            raise ValueError(f"at={self.at!r} has no time zone: give it one, or seconds since 1970")
        if not isinstance(at, datetime) and (type(at) not in (int, float) or not abs(at) < _LATEST):
            raise ValueError(f"at={self.at!r} is no time: a datetime, ISO 8601, or seconds since 1970")
        object.__setattr__(self, "at", at)
        object.__setattr__(self, "has_result", self.result is not None)

    @property
    def wall(self) -> float:
        """When it happened, in seconds since 1970."""
        return self.at.timestamp() if isinstance(self.at, datetime) else float(self.at)


class Entry(Struct, frozen=True):
    """An effect with the digest of its arguments, made as a call's is; empty where it gives none."""

    effect: Effect
    identity: str = ""

    @property
    def name(self) -> tuple[object, ...]:
        """What tells one entry from another: the same one may be listed on two pages."""
        effect = self.effect
        return (effect.ref,) if effect.ref else (effect.key, self.identity, effect.wall)


class Known(Struct, frozen=True):
    """A call on record, with the key as its tool sends it, and the identity that its arguments have."""

    call: Call
    key: str
    identity: str
    items: tuple[str, ...] = ()
    """Of a batch: the keys of its items. Its effects may be listed under either, one for each item."""


@dataclass(slots=True)
class Match:
    """What belongs to what."""

    by_key: dict[str, Entry] = field(default_factory=dict)
    """Operation id -> its effect, found by the key."""
    by_identity: dict[str, Entry] = field(default_factory=dict)
    """Operation id -> an effect that can be its own."""
    by_item: set[str] = field(default_factory=set)
    """Operation ids of batches of which the key of an item is listed: some of it was done."""
    item_keys: set[str] = field(default_factory=set)
    """The keys of items that are listed."""
    doubled: list[tuple[Entry, Call]] = field(default_factory=list)
    """Further effects of a call."""
    strangers: list[tuple[Entry, Call | None]] = field(default_factory=list)
    """Effects that no call explains; with a like call that is proved not done, if there is one."""

    def has(self, call: Call) -> bool:
        """Whether the ledger lists an effect of the call, or one that can be its own."""
        return any(call.operation_id in found for found in (self.by_key, self.by_identity, self.by_item))


def distinct(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries in the order of their times, each once."""
    once = {entry.name: entry for entry in entries}
    return sorted(once.values(), key=lambda entry: entry.effect.wall)


def match(entries: Sequence[Entry], calls: Sequence[Known]) -> Match:
    """Match effects with calls. ``entries``: each once, in the order of their times."""
    found = Match()
    items: defaultdict[str, list[Known]] = defaultdict(list)  # a call that goes on with a batch's items has them, too
    for known in calls:
        for key in known.items:
            items[key].append(known)
    own = {known.key: known for known in calls} | {known.call.key: known for known in calls if known.call.key in items}
    rest = [entry for entry in entries if not (_by_key(entry, own, items, found) or _by_item(entry, items, found))]
    alike: defaultdict[str, list[Call]] = defaultdict(list)
    for known in calls:
        alike[known.identity].append(known.call)
    for entry in rest:
        _by_identity(entry, alike[entry.identity] if entry.identity else [], found)
    return found


def _by_key(entry: Entry, own: Mapping[str, Known], items: Mapping[str, Sequence[Known]], found: Match) -> bool:
    key = entry.effect.key
    known = own.get(key) if key else None
    if known is None:
        return False
    call = known.call
    if key in items:
        found.item_keys.add(key)
    if call.operation_id not in found.by_key:
        found.by_key[call.operation_id] = entry
    elif call.state is not State.PARTIAL and not known.items:  # one call of a batch may have several effects
        found.doubled.append((entry, call))
    return True


def _by_item(entry: Entry, items: Mapping[str, Sequence[Known]], found: Match) -> bool:
    key = entry.effect.key
    if not key or key not in items:
        return False
    if key in found.item_keys:
        found.doubled.append((entry, items[key][0].call))
    found.item_keys.add(key)
    found.by_item |= {known.call.operation_id for known in items[key]}
    return True


def _by_identity(entry: Entry, calls: Sequence[Call], found: Match) -> None:
    possible = [call for call in calls if call.attempts and call.first_intent.wall - SKEW <= entry.effect.wall]
    free = [call for call in possible if not found.has(call)]
    best = min(free, key=lambda call: (_rank(call), call.first_intent.wall), default=None)
    taken = next((call for call in possible if found.has(call)), None)
    if best is not None and _rank(best) < _LAST:
        found.by_identity[best.operation_id] = entry
    elif taken is not None:
        found.doubled.append((entry, taken))
    else:
        found.strangers.append((entry, best))


_LAST: Final = 2


def _rank(call: Call) -> int:
    if call.state in DONE or call.state is State.EXPIRED:
        return 0
    return 1 if call.state in UNSETTLED else _LAST
