"""By what a call is found in the index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.states import UNSETTLED, State
from settled.journals.redis.cells import NEW, moment_text, prefix
from settled.journals.rows import due_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from settled.core.call import Call


def of_the_whole_life(call: Call) -> Iterable[bytes]:
    """Return by what a call is found as long as it is there."""
    yield prefix("all")
    if call.scope:
        yield prefix("alike", call.scope, call.lane, call.tool, call.identity)
        yield prefix("made", call.scope, call.tool)
        yield prefix("in", call.scope)


def as_it_stands(call: Call) -> dict[bytes, bytes]:
    """Return by what a call is found as it stands, and what it sorts by there if not by its place."""
    found: dict[bytes, bytes] = {}
    if call.state in UNSETTLED:
        found[prefix("open", call.tenant, call.scope, call.tool)] = NEW
        found[prefix("open", call.tenant, call.scope, call.tool, call.identity)] = NEW
        if call.scope:
            found[prefix("open in", call.scope)] = NEW
    if call.state is not State.SUCCEEDED:
        found[prefix("state", call.state._value_)] = NEW
    if call.disputed:
        found[prefix("disputed")] = NEW
    due = due_at(call)
    if due is not None:
        found[prefix("due")] = moment_text(due)
    return found
