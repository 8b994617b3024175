"""What watched transports see of each attempt, and what is done with it when the attempt ends or is left."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from settled.core.model import Effect
from settled.recorder import Recorder, hooks

if TYPE_CHECKING:
    from collections.abc import Callable

    from settled.core.commands import Invoke
    from settled.core.faults.exchanges import Sight
    from settled.drivers.floor import Binding

_making = threading.Lock()


def wire_of(command: Invoke, binding: Binding) -> Recorder | None:
    """Return what takes down the requests of this attempt; ``None`` where no transport is watched.

    The attempt's own thread and the one that leaves it may both be the first to ask.
    """
    if command.call is None or (binding.wires is None and not hooks.live):
        return None
    with _making:
        if binding.wires is None:
            binding.wires = {}
        if command.no not in binding.wires:
            binding.wires[command.no] = Recorder(_key(command, binding), bodies=binding.bodies)
        return binding.wires[command.no]


def _key(command: Invoke, binding: Binding) -> str:
    ours = command.call is not None and binding.policy.terms.effect is Effect.DEDUPLICATED
    return binding.key_for_tool(command.call.outward) if ours and command.call is not None else ""


def sight_of(command: Invoke, binding: Binding, *, failed: bool) -> Sight | None:
    """Return what was seen of an attempt that has ended; one that has failed sends nothing for the first time."""
    wire = None if binding.wires is None else wire_of(command, binding)
    if wire is None:
        return None
    if failed:
        wire.leave()
    return wire.sight()


def turned_away(command: Invoke, binding: Binding) -> BaseException | None:
    """Return the error by which a request of this attempt was held back: what its tool then returns is no answer."""
    wire = None if binding.wires is None else wire_of(command, binding)
    return None if wire is None else wire.turned_away


def cut(command: Invoke, binding: Binding, late: Callable[[], None] | None = None) -> None:
    """The attempt is cut off inside the requests that are under way; ``late`` hears of their answers."""
    wire = wire_of(command, binding)
    if wire is not None:
        wire.leave(late, cut=True)
