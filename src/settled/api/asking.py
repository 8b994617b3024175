"""From a bound call to an ask: which action is it, in which scope, with which key and fingerprint."""

from __future__ import annotations

import os
import secrets
import time
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from settled import host
from settled.api.approving import leave_for
from settled.api.bound import ORDINARY
from settled.api.giving_way import fall_to
from settled.api.recent import told_as
from settled.api.run import Run, current_run
from settled.core import codec
from settled.core.ask import Ask
from settled.core.by_hand import by_hand_terms
from settled.core.drafts import as_draft, draft_key, scope_of_draft
from settled.core.fallback import INSTEAD, instead_key
from settled.core.keys import business_key, content_digest, fingerprint, random_key, template_parts, without_defaults
from settled.core.model import KeyKind, Leave
from settled.core.parts import OF
from settled.current import CurrentCall, current

if TYPE_CHECKING:
    from settled.api.bound import BoundCall, CallOptions
    from settled.api.guard import Guard
    from settled.api.schema import Arguments
    from settled.api.tool import Tool
    from settled.core.entry import Entry
    from settled.core.model import Terms


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
    tool, options = bound.tool, bound.options
    declared = tool.checked.options
    mark, words = digests(tool, arguments, options)
    operation_id = new_operation_id()
    kind, key = _key(guard, bound, arguments, place)
    return Ask(
        tenant=guard.tenant,
        tool=tool.name,
        terms=_terms(bound),
        kind=kind,
        identity=INSTEAD if mark.startswith(INSTEAD) else mark,
        words=words,
        fingerprint=mark,
        arguments=guard.vault.lock(codec.dumps(guard.vault.shown(arguments.plain, declared.redact))),
        operation_id=operation_id,
        owner=host.this_process(),
        lease=guard.lease,
        key=key,
        scope=_scope(options, place) if kind is not KeyKind.RANDOM else "",
        run_id=place.run.run_id if place.run else "",
        run_entry=place.run.run_entry if place.run else 0,
        lane=place.run.lane if place.run else "",
        lane_entry=place.run.lane_entry if place.run else 0,
        identity_declared=declared.identity is not None,
        step=options.step or "",
        message=f"{OF}{options.part.operation_id}" if options.part else options.message,
        sibling=options.sibling,
        by_model=options.by_model,
        despite=options.despite,
        around=inside.around if (inside := current.get()) else frozenset(),
        here=guard.floor.asking,
        told=guard.told_open.get(told_as(tool.name, mark), "") if kind is KeyKind.RANDOM else "",
        while_unknown=declared.while_unknown,
        untold=declared.untold,
        leave=_leave(bound, arguments),
        instead=(options.instead.operation_id, options.instead.no) if options.instead else None,
        falls_to=fall_to(guard, tool) if tool.fallbacks and not bound.by_hand else (),
        entry=place.memory,
    )


def digests(tool: Tool[Any, Any], arguments: Arguments, options: CallOptions = ORDINARY) -> tuple[str, str]:
    """Return the digest of what says which action it is, and that of all its words. Raises ``ValueError``."""
    checked, identity = tool.checked, tool.checked.options.identity
    counted = without_defaults(arguments.plain, arguments.defaults, checked.rules)
    if options.undoes:  # what it undoes says which action it is; a repeat sends what is on record
        return options.undoes, content_digest(counted, checked.rules)
    if options.draft:
        return options.draft.operation_id, options.draft.operation_id
    if options.part:  # the items that it goes on with say which action it is
        return options.part.key, options.part.key
    if options.instead and (options.instead.by_hand or checked.options.key is None):
        return f"{INSTEAD}:{options.instead.operation_id}:{options.instead.no}", content_digest(counted, checked.rules)
    mark = fingerprint(counted, identity=identity, rules=checked.rules)
    return mark, content_digest(counted, checked.rules) if identity else mark


def _scope(options: CallOptions, place: Place) -> str:
    if options.undoes:
        return f"undo:{options.undoes}"
    return scope_of_draft(options.draft.operation_id) if options.draft else place.scope


def _terms(bound: BoundCall[Any]) -> Terms:
    terms, draft = bound.tool.checked.policy.terms, bound.options.draft
    if bound.by_hand:
        return by_hand_terms(terms)
    return terms if draft is None else as_draft(terms, draft.discard, draft.kept)


def _leave(bound: BoundCall[Any], arguments: Arguments) -> Leave | None:
    instead = bound.options.instead
    if instead is not None and instead.by_hand:
        return Leave(instead.wanted, 0.0, by_hand=instead.by_hand)
    asks = bound.tool.checked.options.approve is not None and bound.options.part is None
    return leave_for(bound.tool, arguments) if asks else None


def new_operation_id() -> str:
    """Return a fresh id. It begins with the time, so that an index over ids grows at one end."""
    return f"op_{int(time.time()):08x}{secrets.token_hex(10)}"


def _key(guard: Guard, bound: BoundCall[Any], arguments: Arguments, place: Place) -> tuple[KeyKind, str]:
    """The first that exists: a business key, the place in a run or call, a step, a fresh random key."""
    if bound.options.undoes:
        return KeyKind.BUSINESS, business_key(guard.tenant, bound.tool.name, (bound.options.undoes,), "undo")
    draft = bound.options.draft
    if draft:
        return KeyKind.BUSINESS, draft_key(guard.tenant, bound.tool.name, draft.operation_id, draft.no)
    if bound.options.part:
        return KeyKind.BUSINESS, bound.options.part.key
    instead = bound.options.instead
    parts = None if bound.by_hand else _business_parts(bound, arguments)
    declared = bound.tool.checked.options
    if parts is not None:
        if declared.key_scope == "run" and place.run is None:
            raise ValueError("key_scope='run' needs a run: make the call inside `with guard.run(…)`")
        scope = place.run.scope if declared.key_scope == "run" and place.run else None
        return KeyKind.BUSINESS, business_key(guard.tenant, bound.tool.name, parts, scope)
    if instead is not None:
        return KeyKind.BUSINESS, instead_key(guard.tenant, bound.tool.name, instead.operation_id, instead.no)
    if place.scope:
        return KeyKind.SCOPED, ""
    if bound.options.step:
        return KeyKind.STEP, business_key(guard.tenant, bound.tool.name, (bound.options.step,), "step")
    return KeyKind.RANDOM, random_key(os.urandom(16), tool=bound.tool.name)


def _business_parts(bound: BoundCall[Any], arguments: Arguments) -> tuple[str, ...] | None:
    declared = bound.tool.checked.options
    if bound.options.key is not None:
        return ("given", bound.options.key)
    if callable(declared.key):
        made = declared.key(**arguments.given)
        if not made or type(made) is not str:
            raise ValueError("key= gave no text: a key made of nothing would make all such calls the same one")
        return ("made", made)
    return template_parts(declared.key, arguments.plain) if declared.key is not None else None
