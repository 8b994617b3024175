"""Those who settle what is left: persons who look and tell the truth, and reconciliation now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled.core import rules
from settled.core.approval.leave import Decide
from settled.core.doubt.settle import settle
from settled.core.doubt.settling import Adopt, Resolve
from settled.core.doubt.tending import AdoptLost, LayDown, TakeUp, next_look
from settled.core.expiry import Expire
from settled.core.instead.by_hand import is_by_hand
from settled.core.states import State
from settled.errors import JournalError
from settled.ports import CallQuery
from settled.testing.simulation.driver import Hand, drive, transact
from settled.testing.simulation.loop import Until
from settled.testing.simulation.plans import TENANT
from settled.testing.simulation.tools import TOOLS
from settled.testing.simulation.trips import carry_on

if TYPE_CHECKING:
    from settled.core.call import Call
    from settled.testing.simulation.loop import Steps
    from settled.testing.simulation.simulation import Simulation
    from settled.testing.simulation.workers import Process

QUERY = CallQuery(states=(State.UNKNOWN,), limit=10_000)
ORPHANS = CallQuery(lease_over=True, limit=10_000)
WAITING = CallQuery(states=(State.AWAITING_APPROVAL,), limit=10_000)
OLD = CallQuery(past_retention=True, limit=10_000)


def reconcile(process: Process, patience: float = 0.0) -> Steps[None]:
    """Adopt orphans, settle what is unknown by the tools' probes, let go of what is old. Makes no attempt."""
    journal = process.sim.journal
    try:
        for orphan in journal.find(ORPHANS):
            yield from transact(process, Adopt(orphan.operation_id))
        for call in journal.find(QUERY):
            tool = TOOLS[call.tool]
            yield from drive(settle(call, tool.policy, patience), Hand(process, tool, None))
        for old in journal.find(OLD):
            yield from transact(process, Expire(old.operation_id))
    except JournalError:
        process.sim.oracle.facts["reconciliation cut short"] += 1


def now_and_then(sim: Simulation) -> Steps[None]:
    """Let some process reconcile, every now and then."""
    while True:
        yield sim.dice.uniform(10.0, 120.0)
        process = sim.some_process()
        sim.loop.start(reconcile(process), process)
        if sim.profile.trips:
            sim.loop.start(carry_on(process), process)


def tender(sim: Simulation) -> Steps[None]:
    """Let a process tend what others leave, and another one once it has died: ``settled worker``."""
    while True:
        process = sim.new_process(sim.dice.choice(sim.profile.spaces))
        task = sim.loop.start(_tend(process), process)
        while process.alive and not task.done.is_open:
            yield Until(task.done, 20.0)
        yield sim.dice.uniform(1.0, 20.0)


def _tend(process: Process) -> Steps[None]:
    while True:
        try:
            yield from _round(process)
        except JournalError:
            process.sim.oracle.facts["a round cut short"] += 1
        yield from process.stumble(process.sim.dice.uniform(2.0, 10.0))


def _round(process: Process) -> Steps[None]:
    """Make one round of a worker, as ``api/people/worker.py`` does it."""
    journal = process.sim.journal
    for lost in journal.find(CallQuery(states=(State.PROCESSING,), limit=10_000)):
        if process.sees(lost.owner) is False:
            yield from transact(process, Adopt(lost.operation_id, dead=lost.epoch))
    yield from transact(process, AdoptLost(TENANT, 100))
    for call in (yield from transact(process, TakeUp(TENANT, tuple(TOOLS), 10, 60.0))):
        tool = TOOLS[call.tool]
        settled = yield from drive(settle(call, tool.policy, 0.0), Hand(process, tool, None))
        process.sim.oracle.facts["tended"] += 1
        if settled.state is State.UNKNOWN:
            wait = next_look(rules.under(settled, tool.terms), process.sim.clock(), 2.0)
            yield from transact(process, LayDown(call.operation_id, settled.epoch, wait))
    yield from carry_on(process)


def person(sim: Simulation) -> Steps[None]:
    """Look at one unknown call, at the world, and say what is true."""
    while True:
        yield sim.dice.uniform(20.0, 100.0) if not sim.asks_for_leave else sim.dice.uniform(3.0, 25.0)
        if sim.asks_for_leave:
            _decide(sim)
        unknown = sim.journal.find(QUERY)
        if not unknown or sim.journal.is_down:
            continue
        call = sim.dice.choice(list(unknown))
        verdict = _verdict(sim, call)
        if verdict is not None:
            yield sim.dice.uniform(0.0, 10.0)
            sim.tell_journal(verdict)


def _decide(sim: Simulation) -> None:
    """Look at one call that waits for leave; others may be faster, or have seen it before it changed."""
    waiting = sim.journal.find(WAITING) if not sim.journal.is_down else []
    if waiting:
        call, dice = sim.dice.choice(waiting), sim.dice
        if is_by_hand(call):
            sim.loop.start(_by_hand(sim, call), sim.outside)
            return
        log_no = call.log_no if dice.random() < 0.5 else None
        sim.tell_journal(Decide(call.operation_id, dice.random() < 0.85, dice.choice(("ann", "bob")), "looked", log_no))


def _by_hand(sim: Simulation, call: Call) -> Steps[None]:
    """Do what was left to a person, unless it is done already, and say so; or refuse it. It takes a while."""
    dice, op = sim.dice, call.operation_id
    if op in sim.at_hand:
        return
    sim.at_hand.add(op)
    try:
        if dice.random() < 0.15 and not sim.world.by_key[call.key]:
            sim.tell_journal(Decide(op, give=False, by="eva", reason="not so"))
            return
        yield dice.uniform(0.0, 5.0)
        done = sim.world.by_key[call.key]
        if not done and sim.journal.books.by_id(op) is not call and dice.random() < 0.7:
            return  # it has been refused, or closed, meanwhile: seen in time
        if not done:
            sim.oracle.chains.by_hand(call)
        value = done[0].value if done else sim.world.by_hand(TOOLS[call.tool], call, sim.oracle.truth[op])
        yield dice.uniform(0.0, 20.0)
        sim.tell_journal(Resolve(op, "happened", by="eva", reason="done by hand", result=value.encode()))
    finally:
        sim.at_hand.discard(op)


def _verdict(sim: Simulation, call: Call) -> Resolve | None:
    now = sim.clock()
    who = {"by": "ann", "reason": "looked", "epoch": call.epoch}
    seen = sim.world.seen(call.key)
    if seen is not None:
        return Resolve(call.operation_id, "happened", result=seen.encode(), **who)  # type: ignore[arg-type]  # as named
    if sim.dice.random() < 0.05:
        return Resolve(call.operation_id, "hold", **who)  # type: ignore[arg-type]  # as named
    if sim.dice.random() < sim.profile.forced:
        return Resolve(call.operation_id, "did_not_happen", force=True, **who)  # type: ignore[arg-type]  # as named
    ripe = rules.proves_absence(call, now, now)  # what the queue shows: it can be proved now
    if not ripe and call.terms.lifetime is not None:
        return None
    then = sim.dice.choice(("rerun", "fail"))
    return Resolve(call.operation_id, "did_not_happen", then=then, force=not ripe, **who)  # type: ignore[arg-type]  # as named
