"""What a transition will look at, as far as its fields tell: locked in one order, and asked for at once.

A hint, not a rule: what it misses is fetched when it is asked for, and locked then - or, if another process holds that
lock, the transaction is made once more with the lock taken from the start. So locks are waited for in one order only,
and no two processes can wait for each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from settled.core.matching.match import HARMLESS
from settled.core.model import KeyKind
from settled.core.noted.notes import PAUSED
from settled.core.runs.entering import scope_of_run
from settled.core.runs.lanes import lane_id
from settled.journals.books import ALIKE, BY_STEP, LAST_N, MADE, NOTE, OWED, UNSETTLED, UNSETTLED_ALIKE
from settled.journals.runs import RUN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from settled.core.ask import Ask


@dataclass(slots=True)
class Hints:
    """What a batch of transitions names."""

    ids: dict[str, None] = field(default_factory=dict)
    keys: dict[str, None] = field(default_factory=dict)
    scopes: set[str] = field(default_factory=set)
    """Scopes whose calls, steps and runs are looked through."""
    look_ups: dict[tuple[str, tuple[Any, ...]], None] = field(default_factory=dict)
    """Statements, with their values, that look through them."""

    def locks(self, journal_id: str) -> set[int]:
        """Return the numbers of the locks: of scopes, and of keys that others may bring at the same time."""
        names = [f"scope {scope}" for scope in self.scopes] + [f"key {key}" for key in self.keys]
        return {number_of(journal_id, name) for name in names}


def number_of(journal_id: str, name: str) -> int:
    """Return the number of an advisory lock; two names that share one only wait for each other needlessly."""
    digest = blake2b(f"{journal_id} {name}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def waiting_for(journal_id: str, operation_id: str) -> int:
    """Return the number of the lock that is held while somebody waits for a call; never 0."""
    return number_of(journal_id, f"wait {operation_id}") or 1


@lru_cache(maxsize=16)
def channel_of(journal_id: str) -> str:
    """Return the name under which the waiting are told."""
    return f"settled_{number_of(journal_id, 'ear') & 0xFFFF_FFFF_FFFF_FFFF:016x}"


def hints_of(transitions: Iterable[Any]) -> Hints:
    """Return what these transitions name."""
    hints = Hints()
    for transition in transitions:
        inside = getattr(transition, "first", transition)  # what an attempt beside its own rows begins with
        _note(getattr(inside, "transition", inside), hints)
    return hints


def _note(transition: Any, hints: Hints) -> None:
    named = (getattr(transition, "operation_id", ""), getattr(transition, "pinned", ""))
    more = (*getattr(transition, "operation_ids", ()), *(claim[0] for claim in getattr(transition, "claims", ())))
    hints.ids.update(dict.fromkeys(filter(None, (*named, *more))))
    ask = getattr(transition, "ask", None)
    for asked in (ask,) if ask is not None else getattr(transition, "asks", ()):
        _note_ask(asked, hints)
    charge = getattr(transition, "charge", None)
    if charge is not None and ask is not None:
        _note_run(ask.tenant, charge.run_id, hints)
    run_id = getattr(transition, "run_id", None)
    if run_id is not None:
        _note_run(transition.tenant, run_id, hints)


def _note_ask(ask: Ask, hints: Hints) -> None:
    hints.look_ups[NOTE, (PAUSED, ask.tool)] = None
    entry = ask.entry
    waited, _ = entry.waiting.get(ask.operation_id, ("", False)) if entry else ("", False)
    around = ask.scope.removeprefix("call:") if ask.scope.startswith("call:") else ""
    open_ones = list(entry.open)[:50] if entry else ()
    hints.ids.update(dict.fromkeys(filter(None, (ask.operation_id, ask.told, waited, around, *open_ones))))
    if ask.key and ask.kind is not KeyKind.RANDOM:  # which nobody else can bring
        hints.keys[ask.key] = None
    if ask.run_id:
        _note_run(ask.tenant, ask.run_id, hints)
    if ask.lane_entry:
        _note_run(ask.tenant, lane_id(ask.run_id, ask.lane), hints)
    if ask.scope:
        _note_scope(ask, ask.scope, hints)
    elif ask.kind is KeyKind.RANDOM and ask.while_unknown != "any":
        hints.look_ups.update(dict.fromkeys(looked_for_outside(ask)))


def looked_for_outside(ask: Ask) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """Return what a claim with a random key looks for outside of scopes, where only like calls bar it."""
    if ask.while_unknown == "allow" or ask.terms.effect in HARMLESS:
        return ()
    alike = UNSETTLED_ALIKE, (ask.tool, ask.scope, ask.tenant, ask.identity)
    return alike, (OWED, (ask.tenant, ask.tool, ask.fingerprint))


def _note_run(tenant: str, run_id: str, hints: Hints) -> None:
    hints.scopes.add(scope_of_run(tenant, run_id))
    hints.look_ups[RUN, (tenant, run_id)] = None


def _note_scope(ask: Ask, scope: str, hints: Hints) -> None:
    hints.scopes.add(scope)
    if ask.step:
        hints.look_ups[BY_STEP, (ask.step_scope, ask.step)] = None
    earlier = ask.entry.earlier if ask.entry else ()
    if earlier:
        hints.look_ups[ALIKE, (scope, ask.tool, ask.lane, ask.identity, earlier[0], earlier[-1])] = None
        hints.look_ups[MADE, (scope, ask.tool, earlier[0], earlier[-1])] = None
    hints.look_ups[LAST_N, (scope, ask.tool, ask.lane, ask.identity)] = None
    if ask.while_unknown != "allow" and ask.terms.effect not in HARMLESS:
        hints.look_ups[UNSETTLED, (ask.tool, scope, ask.tenant)] = None
