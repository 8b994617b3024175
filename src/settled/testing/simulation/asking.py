"""How the simulated askers ask: an intent put into words, at a place, driven by the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from settled.core.ask import Ask
from settled.core.encoding.keys import scoped_key
from settled.core.machine import Life
from settled.core.model import KeyKind, Leave
from settled.core.policy import Limits
from settled.core.runs.entering import scope_of_run
from settled.core.runs.lanes import lane_id
from settled.errors import JournalError
from settled.testing.simulation.driver import Hand, drive
from settled.testing.simulation.loop import Until
from settled.testing.simulation.plans import TENANT
from settled.testing.simulation.tools import fall_to

if TYPE_CHECKING:
    from settled.core.answer import Answer
    from settled.core.attempts.charge import Charge
    from settled.core.matching.entry import Entry
    from settled.testing.simulation.loop import Steps
    from settled.testing.simulation.plans import Intent, Words
    from settled.testing.simulation.workers import Process


class Place(NamedTuple):
    """Where a call is made."""

    scope: str = ""
    run_id: str = ""
    entry: Entry | None = None
    run_entry: int = 0
    by_model: bool = False
    charge: Charge | None = None
    lane: str = ""
    lane_entry: int = 0


class Spot(NamedTuple):
    """Which call of which message it is."""

    step: str = ""
    message: str = ""
    sibling: str = ""


def make_ask(
    process: Process, intent: Intent, words: Words, place: Place, spot: Spot | None = None, *, key: str = ""
) -> Ask:
    """Return the ask of an intent, as it is put into words."""
    tool, sim, spot = intent.tool, process.sim, spot or Spot()
    everything = f"{words.who}|{words.what}"
    mark = words.who if tool.identity else everything
    operation_id = sim.mint("op")
    sim.oracle.meant[operation_id] = intent.intention
    if place.lane_entry:
        record = scope_of_run(TENANT, lane_id(place.run_id, place.lane))
        sim.oracle.sagas.joined[operation_id] = (place.run_entry, record, place.lane_entry)
    if tool.business or key:
        kind, key = KeyKind.BUSINESS, key or f"{tool.name}:{words.who}"
    elif place.scope:
        kind, key = KeyKind.SCOPED, ""
    elif spot.step:
        kind, key = KeyKind.STEP, f"step:{spot.step}"
    else:
        kind, key = KeyKind.RANDOM, scoped_key(TENANT, "random", "", tool.name, operation_id, 1)
    return Ask(
        tenant=TENANT,
        tool=tool.name,
        terms=tool.terms,
        kind=kind,
        identity=mark,
        words=everything,
        fingerprint=mark,
        arguments=everything.encode(),
        operation_id=operation_id,
        owner=process.owner,
        lease=sim.profile.lease,
        key=key,
        scope=place.scope if kind is not KeyKind.RANDOM else "",
        run_id=place.run_id,
        run_entry=place.run_entry,
        lane=place.lane,
        lane_entry=place.lane_entry,
        identity_declared=tool.identity,
        step=spot.step,
        message=spot.message,
        sibling=spot.sibling,
        by_model=place.by_model,
        while_unknown=tool.while_unknown,
        untold=tool.untold,
        leave=Leave("asks", 0.0, within=tool.approve) if tool.approve else None,
        falls_to=fall_to(tool.name),
        entry=place.entry,
    )


class Told(NamedTuple):
    """What an asker was told; ``own``: by an attempt made for it, of a call that it had not found by likeness."""

    answer: Answer
    own: bool


def once(process: Process, intent: Intent, ask: Ask, charge: Charge | None = None) -> Steps[Told | None]:
    """Make one call, and nothing in its place; ``None``: the asker was cancelled, or the journal failed before."""
    sim = process.sim
    within = None if process.steady else sim.dice.choice(sim.profile.deadlines)
    deadline = None if within is None else sim.loop.now + within
    limits = Limits(deadline=deadline, wait=sim.dice.choice((0.0, 5.0, 40.0)))
    life = Life(ask, intent.tool.policy, limits, sim.loop.now, budget=charge)
    task = sim.loop.start(driven(process, intent, life), process)
    leaves = sim.dice.random() < sim.profile.cancel and not process.steady
    patience = sim.dice.uniform(0.0, 12.0) if leaves else None
    yield Until(task.done, patience)
    if not task.done.is_open:
        life.abandon()
        sim.oracle.facts["cancelled"] += 1
        return None
    answer: Answer | None = task.done.value
    sim.oracle.note("asker of", ask.operation_id, intent.intention, "words", ask.words, "step", ask.step, ask.message)
    if answer is not None:
        sim.oracle.answered(answer)
        return Told(answer, own=life.made > 0 and not answer.like)
    return None


def driven(process: Process, intent: Intent, life: Life) -> Steps[Answer | None]:
    """Drive one life to its answer; ``None``: the journal failed before."""
    hand = Hand(process, intent.tool, intent.intention, life)
    process.calls += 1
    try:
        answer = yield from drive(life.run(), hand)
    except JournalError:
        process.sim.oracle.facts["journal error"] += 1
        return None
    finally:
        process.calls -= 1
    process.sim.oracle.ended(hand)
    return answer
