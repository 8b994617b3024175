"""Making one call: arguments in, machine and driver at work, ``Result`` out."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from settled.api.calls.answering import invalid, not_tried, to_result
from settled.api.calls.asking import NOWHERE, Place, make_ask, needs_record, place_of
from settled.api.calls.binding import make_binding
from settled.api.calls.bound import ORDINARY
from settled.api.calls.streaks import turned_away
from settled.api.runs import recalling
from settled.api.tools.schema import BadArguments
from settled.api.tools.undoing import demand_undoing
from settled.core.answer import rejected
from settled.core.machine import Life
from settled.core.policy import Limits
from settled.core.values import replace
from settled.errors import DeclarationError
from settled.transaction import lent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from settled.api.calls.bound import BoundCall, PartOf
    from settled.api.calls.result import Result
    from settled.api.guard import Guard
    from settled.api.runs.run import Run
    from settled.api.tools.schema import Arguments
    from settled.core.ask import Ask
    from settled.core.policy import Policy
    from settled.drivers.floor import Binding


class Prepared(Struct, frozen=True):
    """A call that can be driven."""

    bound: BoundCall[Any]
    life: Life
    binding: Binding
    arguments: Mapping[str, Any] = {}
    """As the function takes them, where something else may be called with them."""


def prepare(guard: Guard, bound: BoundCall[Any]) -> Prepared | Result[Any]:
    """Validate and bind; return what can be driven, or the result that says what is wrong."""
    tool, place = bound.tool, place_of(guard)
    if lent.get() is not None and needs_record(bound, place):
        raise DeclarationError(f"{tool.name} is called inside of a transactional tool: {_INSIDE}")
    if place is not NOWHERE:
        place = _allowed(bound, place)
        if place.run is not None and place.inside is None and not place.run.allows(tool.name):
            return not_tried(tool.name, "not_in_token")
    try:
        arguments = tool.schema.bind(bound.args, bound.kwargs)
        ask = make_ask(guard, bound, arguments, place) if needs_record(bound, place) else None
    except BadArguments as error:
        return invalid(guard, bound, error.fields)
    except (ValueError, RecursionError) as error:
        return invalid(guard, bound, {"arguments": str(error)})
    except Exception as error:  # noqa: BLE001 - the tool's own key= function
        return invalid(guard, bound, {"arguments": f"no key can be made of them: {type(error).__name__}"})
    if bound.options.by_model and (refused := turned_away(guard, bound, arguments)) is not None:
        return refused
    if ask is None:
        why = guard.pauses.reason(tool.name)
        if why is not None:
            return to_result(guard, tool, replace(rejected("paused"), note=why))
    elif ask.leave is not None:
        guard.floor.attend()  # its asker may wait for the person whom the alert is to reach
    binding = make_binding(guard, tool, arguments, ask, bound.options.part)
    if place is NOWHERE and bound.options is ORDINARY:
        life = without_limits(guard, ask, binding)
    else:
        life = _life_in(place, guard, bound, ask, binding)
        if place.run is not None:
            _of_run(place.run, life, tool.name, binding, arguments)
    return Prepared(bound, life, binding, arguments.given)


def without_limits(guard: Guard, ask: Ask | None, binding: Binding) -> Life:
    """Return the machine of a call that is made nowhere in particular, with no options of its own."""
    return Life(ask, binding.policy, _UNLIMITED, guard.floor.now(), clean=binding.clean)


def _life_in(place: Place, guard: Guard, bound: BoundCall[Any], ask: Ask | None, binding: Binding) -> Life:
    """Return the machine of a call that is made in a run or another call, or has options of its own."""
    limits, part, policy = _limits(guard, bound, place), bound.options.part, bound.tool.checked.policy
    if part is not None:
        policy = _policy_of(part, policy)
    life = Life(ask, policy, limits, guard.floor.now(), clean=binding.clean)
    if part is not None:
        life.again = part.again
    return life


def _of_run(run: Run, life: Life, tool: str, binding: Binding, arguments: Arguments) -> None:
    """Let a call draw on what its run has."""
    if life.ask is not None:
        recalling.to_be_claimed(run, life.ask)
    run.bind(binding, tool, arguments.plain)
    life.budget, life.state, life.share = run.charge, run.state, binding.share


def _policy_of(part: PartOf, policy: Policy) -> Policy:
    return dataclasses.replace(policy, attempts=max(1, part.attempts))


_INSIDE = "it would be put on record while the transaction around it may yet be rolled back; call it before or after"


def _allowed(bound: BoundCall[Any], place: Place) -> Place:
    """A compensation is made outside of its run, which is over; in a run to be undone, only what can be undone."""
    if bound.options.undoes:
        return NOWHERE
    covered = bound.options.draft is not None or (place.inside is not None and place.inside.covered)
    if place.run is not None and place.run.on_error == "compensate" and not covered:
        demand_undoing(bound.tool)
    return place


_UNLIMITED = Limits(None, ORDINARY.wait)


def _limits(guard: Guard, bound: BoundCall[Any], place: Place) -> Limits:
    deadline, within = place.deadline, bound.options.within
    if within is not None:
        own = guard.floor.now() + within
        deadline = own if deadline is None else min(own, deadline)
    return Limits(deadline, bound.options.wait)
