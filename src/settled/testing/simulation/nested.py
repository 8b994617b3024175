"""Calls made inside of another call: the tool's function is a small program of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core.commands import Raised, Returned
from settled.core.matching.entry import Entry
from settled.testing.simulation.asking import Place, Told, make_ask
from settled.testing.simulation.chains import call
from settled.testing.simulation.plans import Intent, Words
from settled.testing.simulation.tools import RESET, TOOLS, Failure

if TYPE_CHECKING:
    from settled.core.commands import Invoke
    from settled.testing.simulation.driver import Hand, Left
    from settled.testing.simulation.loop import Steps

INNER = ("ticket", "order", "refund")


def inside(hand: Hand, command: Invoke, left: Left) -> Steps[Returned | Raised]:
    """Make the inner calls one by one; done if each is. A repeat finds in its scope what the first attempt did."""
    assert command.call is not None
    assert hand.life is not None
    assert hand.life.ask is not None
    asked, outer, sim = hand.life.ask, command.call, hand.sim
    place = Place(f"call:{outer.operation_id}", asked.run_id, Entry(command.no, range(1, command.no)), asked.run_entry)
    for no, name in enumerate(INNER):
        intent = Intent(TOOLS[name], f"{outer.operation_id}/{no}", "w")
        sim.oracle.intended[intent.intention] = 1
        ask = make_ask(hand.process, intent, Words(intent.who, intent.what), place)
        told: Told | None = yield from call(hand.process, intent, ask, hand.life.budget)
        if left.stopped or told is None or told.answer.status != "succeeded":
            return Raised(Failure(RESET))
        yield sim.dice.uniform(0.0, 0.5)
    if hand.intention is not None:
        sim.world.whole(hand.tool, outer, command.no, sim.oracle.truth.get(outer.operation_id, hand.intention))
    return Returned("all done", b"all done")
