"""From a bound call to an ask: which action is it, in which scope, with which key and fingerprint."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from settled import host
from settled.api.calls.bound import ORDINARY
from settled.api.calls.recent import told_as
from settled.api.runs.current_run import current_run
from settled.api.tools.approving import leave_for
from settled.api.tools.giving_way import fall_to
from settled.api.tools.schema import snapshot
from settled.core.approval.drafts import as_draft, draft_key, scope_of_draft
from settled.core.ask import Ask
from settled.core.encoding import codec
from settled.core.encoding.keys import (
    business_key,
    content_digest,
    fingerprint,
    random_key,
    template_parts,
    without_defaults,
)
from settled.core.instead.by_hand import by_hand_terms
from settled.core.instead.fallback import INSTEAD, instead_key
from settled.core.model import KeyKind, Leave
from settled.core.parts import OF
from settled.current import CurrentCall, current

if TYPE_CHECKING:
    from settled.api.calls.bound import BoundCall, CallOptions, DraftOf, InsteadOf
    from settled.api.guard import Guard
    from settled.api.runs.run import Run
    from settled.api.tools.schema import Arguments
    from settled.api.tools.tool import Tool
    from settled.core.matching.entry import Entry


class Place(Struct, frozen=True):
    """Where a call is made: in a run, inside another call, or neither."""

    run: Run | None
    inside: CurrentCall | None

    @property
    def scope(self) -> str:
        """The scope that like calls are looked for in; empty outside of runs and calls."""
        if self.inside is not None:
            return f"call:{self.inside.operation_id}"
        return self.run.scope if self.run else ""

    @property
    def memory(self) -> Entry | None:
        """What this entry of the scope was told."""
        if self.inside is not None:
            return self.inside.entry
        return self.run.memory if self.run else None

    @property
    def deadline(self) -> float | None:
        """The nearest deadline around the call, on ``time.monotonic()``."""
        around = (self.run.deadline if self.run else None, self.inside.deadline if self.inside else None)
        return min((at for at in around if at is not None), default=None)


NOWHERE = Place(None, None)


def place_of(guard: Guard) -> Place:
    """Return where the calling code is."""
    run, inside = current_run.get(), current.get()
    if run is None and (inside is None or not inside.operation_id):
        return NOWHERE
    own = run if run is not None and run.guard is guard else None
    if inside is None or not inside.operation_id or (own is not None and own.inside is inside):
        return Place(own, None)  # a run that was entered inside the call is the inner one
    return Place(own, inside)


def needs_record(bound: BoundCall[Any], place: Place) -> bool:
    """Whether a call is put on record: all but reads outside of runs are, and those for which something asks for it."""
    options, checked = bound.options, bound.tool.checked
    if not checked.may_stay_unrecorded or (place is not NOWHERE and place.scope):
        return not checked.is_model
    return options is not ORDINARY and (options.key is not None or bool(options.step))


def make_ask(guard: Guard, bound: BoundCall[Any], arguments: Arguments, place: Place) -> Ask:
    """Return the ask of a call that is put on record.

    Raises ``ValueError`` where an argument has no canonical form, or a key cannot be made.
    """
    tool, options, declared = bound.tool, bound.options, bound.tool.checked.options
    mark, words = digests(tool, arguments, options)
    kind, key = _key(guard, bound, arguments, place)
    shown = guard.vault.shown(arguments.plain, declared.redact) if declared.redact else arguments.plain
    around = current.get()
    ask = Ask(
        tenant=guard.tenant,
        tool=tool.name,
        terms=tool.checked.policy.terms,
        kind=kind,
        identity=mark,
        words=words,
        fingerprint=mark,
        arguments=guard.vault.lock(codec.dumps(shown)),
        operation_id=new_operation_id(),
        owner=host.this_process(),
        lease=guard.lease,
        key=key,
        around=_NONE if around is None else around.around,
        here=guard.floor.asking,
        identity_declared=declared.identity is not None,
        while_unknown=declared.while_unknown,
        untold=tool.checked.untold,
    )
    if kind is KeyKind.RANDOM and guard.told_open:
        ask = replace(ask, told=guard.told_open.get(told_as(tool.name, mark), ""))
    if place is not NOWHERE:
        ask = _placed(ask, place)
    if declared.approve is not None or tool.fallbacks:
        ask = _as_declared(ask, guard, bound, arguments)
    return ask if options is ORDINARY else _as_given(ask, options)


_NONE: frozenset[str] = frozenset()


def _placed(ask: Ask, place: Place) -> Ask:
    """Return the ask of a call that is made in a run, or inside another call."""
    run = place.run
    if run is None:
        return replace(ask, scope=place.scope, entry=place.memory)
    return replace(
        ask,
        scope=place.scope,
        entry=place.memory,
        run_id=run.run_id,
        run_entry=run.run_entry,
        lane=run.lane,
        lane_entry=run.lane_entry,
    )


def _as_declared(ask: Ask, guard: Guard, bound: BoundCall[Any], arguments: Arguments) -> Ask:
    """Return the ask with the leave that it needs, and with what may be done in its place."""
    tool = bound.tool
    if bound.by_hand:
        return ask
    asks = tool.checked.options.approve is not None and bound.options.part is None
    leave, falls_to = leave_for(tool, arguments) if asks else None, fall_to(guard, tool) if tool.fallbacks else ()
    return replace(ask, leave=leave, falls_to=falls_to)


def _as_given(ask: Ask, options: CallOptions) -> Ask:
    """Return the ask with what was given for this call alone."""
    ask = replace(
        ask,
        step=options.step or "",
        message=f"{OF}{options.part.operation_id}" if options.part else options.message,
        sibling=options.sibling,
        by_model=options.by_model,
        despite=options.despite,
    )
    if options.undoes:
        return replace(ask, scope=f"undo:{options.undoes}")
    if options.draft is not None:
        return _drafting(ask, options.draft)
    return ask if options.instead is None else _instead(ask, options.instead)


def _drafting(ask: Ask, draft: DraftOf) -> Ask:
    terms = as_draft(ask.terms, draft.discard, draft.kept)
    return replace(ask, scope=scope_of_draft(draft.operation_id), terms=terms)


def _instead(ask: Ask, of: InsteadOf) -> Ask:
    identity = INSTEAD if ask.identity.startswith(INSTEAD) else ask.identity
    ask = replace(ask, instead=(of.operation_id, of.no), identity=identity)
    if not of.by_hand:
        return ask
    return replace(ask, terms=by_hand_terms(ask.terms), leave=Leave(of.wanted, 0.0, by_hand=of.by_hand))


def digests(tool: Tool[Any, Any], arguments: Arguments, options: CallOptions = ORDINARY) -> tuple[str, str]:
    """Return the digest of what says which action it is, and that of all its words. Raises ``ValueError``."""
    checked, identity = tool.checked, tool.checked.options.identity
    counted = without_defaults(arguments.plain, arguments.defaults, checked.rules)
    given = "" if options is ORDINARY else _mark(tool, options)
    if given:
        return given, given if options.draft or options.part else content_digest(counted, checked.rules)
    mark = fingerprint(counted, identity=identity, rules=checked.rules)
    return mark, content_digest(counted, checked.rules) if identity else mark


def _mark(tool: Tool[Any, Any], options: CallOptions) -> str:
    """Return what says which action it is, where that are not its arguments; empty: it is."""
    if options.undoes:  # what it undoes says which action it is; a repeat sends what is on record
        return options.undoes
    if options.draft:
        return options.draft.operation_id
    if options.part:  # the items that it goes on with say which action it is
        return options.part.key
    if options.instead and (options.instead.by_hand or tool.checked.options.key is None):
        return f"{INSTEAD}:{options.instead.operation_id}:{options.instead.no}"
    return ""


def new_operation_id() -> str:
    """Return a fresh id. It begins with the time, so that an index over ids grows at one end."""
    return f"op_{int(time.time()):08x}{os.urandom(10).hex()}"


def _key(guard: Guard, bound: BoundCall[Any], arguments: Arguments, place: Place) -> tuple[KeyKind, str]:
    """The first that exists: a business key, the place in a run or call, a step, a fresh random key."""
    tool, options = bound.tool, bound.options
    key = "" if options is ORDINARY else _key_for(guard, bound)
    if key:
        return KeyKind.BUSINESS, key
    if (options.key is not None or tool.checked.options.key is not None) and not bound.by_hand:
        return KeyKind.BUSINESS, _business_key(guard, bound, arguments, place)
    if options.instead is not None:
        return KeyKind.BUSINESS, instead_key(guard.tenant, tool.name, options.instead.operation_id, options.instead.no)
    if place is not NOWHERE and place.scope:
        return KeyKind.SCOPED, ""
    if options.step:
        return KeyKind.STEP, business_key(guard.tenant, tool.name, (options.step,), "step")
    return KeyKind.RANDOM, random_key(os.urandom(16), tool=tool.name, at=time.time())


def _key_for(guard: Guard, bound: BoundCall[Any]) -> str:
    """The key that follows from what a call is made for; empty: none does."""
    options, tool = bound.options, bound.tool.name
    if options.undoes:
        return business_key(guard.tenant, tool, (options.undoes,), "undo")
    if options.draft:
        return draft_key(guard.tenant, tool, options.draft.operation_id, options.draft.no)
    return options.part.key if options.part else ""


def _business_key(guard: Guard, bound: BoundCall[Any], arguments: Arguments, place: Place) -> str:
    parts, in_run = _business_parts(bound, arguments), bound.tool.checked.options.key_scope == "run"
    if in_run and place.run is None:
        raise ValueError("key_scope='run' needs a run: make the call inside `with guard.run(…)`")
    return business_key(guard.tenant, bound.tool.name, parts, place.run.scope if in_run and place.run else None)


def _business_parts(bound: BoundCall[Any], arguments: Arguments) -> tuple[str, ...]:
    key = bound.tool.checked.options.key
    if bound.options.key is not None:
        return ("given", bound.options.key)
    if not callable(key):
        return template_parts(key or "", arguments.plain)
    made = key(**snapshot(arguments.given))
    if not made or type(made) is not str:
        raise ValueError("key= gave no text: a key made of nothing would make all such calls the same one")
    return ("made", made)
