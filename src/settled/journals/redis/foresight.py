"""What a transition will look at, as far as its fields tell, so that one trip shows it all. A hint, not a rule.

Some transitions need not even that trip: what they will find is known, or may be guessed, and the commit checks it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from settled.core.attempts.progress import Close, End, Renew
from settled.core.matching.claim import Claim
from settled.core.model import KeyKind
from settled.core.noted.notes import PAUSED
from settled.core.runs.lanes import lane_id
from settled.journals.redis.cells import NEW, key_row, name, note_row, prefix
from settled.journals.redis.sight import Sight

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from settled.core.ask import Ask
    from settled.journals.redis.cells import Stored
    from settled.journals.redis.sight import Read


class Hints(Struct, eq=False):
    """Names of what will be looked at."""

    ids: dict[str, Any] = field(default_factory=dict)
    fields: dict[bytes, Any] = field(default_factory=dict)
    prefixes: dict[bytes, Any] = field(default_factory=dict)

    def put_first(self, read: Sight | Read) -> None:
        """Name all that is in a sight before what is named already."""
        self.ids = {**read.calls, **self.ids}
        self.fields = {**read.rows, **self.fields}
        self.prefixes = {**read.ranges, **self.prefixes}


def hints_of(transitions: Iterable[Any]) -> Hints:
    """Return what these transitions name."""
    hints = Hints()
    for transition in transitions:
        _note(transition, hints)
    return hints


def _note(transition: Any, hints: Hints) -> None:
    kind = type(transition)
    if kind is End or kind is Close:
        hints.ids[transition.operation_id] = None
    elif kind is Claim and not transition.pinned and transition.charge is None:
        _note_ask(transition.ask, hints)
    else:
        _note_any(transition, hints)


def _note_any(transition: Any, hints: Hints) -> None:
    named = (getattr(transition, "operation_id", ""), getattr(transition, "pinned", ""))
    more = (*getattr(transition, "operation_ids", ()), *(claim[0] for claim in getattr(transition, "claims", ())))
    hints.ids.update(dict.fromkeys(filter(None, (*named, *more))))
    ask = getattr(transition, "ask", None)
    for asked in (ask,) if ask is not None else getattr(transition, "asks", ()):
        _note_ask(asked, hints)
    charge = getattr(transition, "charge", None)
    if charge is not None and ask is not None:
        hints.fields[name("run", ask.tenant, charge.run_id)] = None
    run_id = getattr(transition, "run_id", None)
    if run_id is not None:
        hints.fields[name("run", transition.tenant, run_id)] = None
        turn = getattr(transition, "turn", None)
        if turn is not None:
            hints.fields[name("turn", transition.tenant, run_id, turn)] = None


def _note_ask(ask: Ask, hints: Hints) -> None:
    hints.fields[note_row(PAUSED, ask.tool)] = None
    entry = ask.entry
    hints.ids[ask.operation_id] = None
    if ask.told:
        hints.ids[ask.told] = None
    if ask.scope.startswith("call:"):
        hints.ids[ask.scope.removeprefix("call:")] = None
    if entry is not None:
        waited, _ = entry.waiting.get(ask.operation_id, ("", False))
        hints.ids.update(dict.fromkeys(filter(None, (waited, *list(entry.open)[:50]))))
    if ask.key and ask.kind is not KeyKind.RANDOM:  # which nobody else can bring
        hints.fields[key_row(ask.key)] = None
    if ask.run_id:
        hints.fields[name("run", ask.tenant, ask.run_id)] = None
    if ask.lane_entry:
        hints.fields[name("run", ask.tenant, lane_id(ask.run_id, ask.lane))] = None
    if ask.step:
        hints.fields[name("step", ask.step_scope, ask.step)] = None
    if ask.kind is KeyKind.SCOPED:
        hints.prefixes[prefix("alike", ask.scope, ask.lane, ask.tool, ask.identity)] = None
        if entry is not None and entry.earlier and ask.by_model:
            hints.prefixes[prefix("made", ask.scope, ask.tool)] = None
        hints.prefixes[prefix("open", ask.tenant, ask.scope, ask.tool)] = None
    elif ask.kind is KeyKind.RANDOM:
        own = () if ask.while_unknown == "any" else (ask.identity,)
        hints.prefixes[prefix("open", ask.tenant, ask.scope, ask.tool, *own)] = None
        hints.fields[name("owed", ask.tenant, ask.tool, ask.fingerprint)] = None


def guess(transitions: Sequence[Any], hints: Hints, own: Mapping[str, Stored], doubted: Container[str]) -> Sight | None:
    """Return what these transitions will find, if that can be guessed: nothing like a new call, and one's own calls.

    ``hints``: what they name. ``doubted``: tools whose last guess was wrong.
    """
    known: dict[str, bytes | Stored] = {}
    news = False
    for transition in transitions:
        kind = type(transition)
        if kind is Claim:
            ask = transition.ask
            if ask.entry is not None or ask.told or transition.pinned or ask.tool in doubted:
                return None
            news = True
        else:
            ids = _own_calls(kind, transition)
            if ids is None:
                return None
            for operation_id in ids:
                if operation_id not in own:
                    return None
                known[operation_id] = own[operation_id]
    if not news:
        return Sight(known)
    nothing = dict.fromkeys(hints.fields, NEW)
    return Sight({**dict.fromkeys(hints.ids, NEW), **known}, nothing, dict.fromkeys(hints.prefixes, ()))


def _own_calls(kind: type[Any], transition: Any) -> Sequence[str] | None:
    """Return the calls that a transition of their owner is about; ``None``: it is not such a one."""
    if kind is End or kind is Close:
        return (transition.operation_id,)
    return [claim[0] for claim in transition.claims] if kind is Renew else None
