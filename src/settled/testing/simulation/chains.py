"""How the simulated askers go down a chain of fallbacks: the core's own walk, over calls of the simulated world."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from settled.core.answer import from_record
from settled.core.instead.by_hand import by_hand_terms
from settled.core.instead.chain import Came, Instead, Overtaken, go_down
from settled.core.instead.fallback import INSTEAD, instead_key
from settled.core.model import Leave
from settled.core.values import replace
from settled.errors import JournalError
from settled.testing.simulation.asking import Place, Told, make_ask, once
from settled.testing.simulation.driver import transact
from settled.testing.simulation.plans import TENANT, Intent, Words
from settled.testing.simulation.tools import CHAINS, PERSON, TOOLS

if TYPE_CHECKING:
    from settled.core.answer import Answer
    from settled.core.ask import Ask
    from settled.core.attempts.charge import Charge
    from settled.testing.simulation.loop import Steps
    from settled.testing.simulation.workers import Process


class Said(NamedTuple):
    """What an asker was told, as a chain looks at it."""

    told: Told

    @property
    def status(self) -> str:
        """As of any answer."""
        return self.told.answer.status

    @property
    def reason(self) -> str:
        """Why."""
        return self.told.answer.reason

    @property
    def operation_id(self) -> str:
        """Of its record."""
        return self.told.answer.call.operation_id if self.told.answer.call else ""

    @property
    def asserted(self) -> bool:
        """Whether it rests on a person's word."""
        return bool(self.told.answer.call and self.told.answer.call.asserted)

    @property
    def disputed(self) -> bool:
        """Whether evidence speaks against it."""
        return bool(self.told.answer.call and self.told.answer.call.disputed)


def call(process: Process, intent: Intent, ask: Ask, charge: Charge | None = None) -> Steps[Told | None]:
    """Make one call, or what stands in its place; ``None``: the asker was cancelled, or the journal failed before."""
    told = yield from once(process, intent, ask, charge)
    chain = CHAINS.get(intent.tool.name, ())
    if told is None or not chain:
        return told
    try:
        came = yield from _walk(process, intent, ask, charge, told)
    except JournalError:
        process.sim.oracle.facts["chain cut short"] += 1
        return None
    if isinstance(came, Overtaken):
        return told if came.call is None else _retold(told, from_record(came.call))
    process.sim.oracle.facts[f"answered by place {came.no} of a chain"] += 1
    last: Told = came.outcome.told
    return last if last is told else _retold(told, last.answer, own=last.own)


def _retold(told: Told, answer: Answer, *, own: bool = False) -> Told:
    """Return what the asker of the call itself is told: a like call's fallbacks are a like call's too."""
    return Told(replace(answer, like=answer.like or told.answer.like), own and not told.answer.like)


def _walk(process: Process, intent: Intent, ask: Ask, charge: Charge | None, told: Told) -> Steps[Came | Overtaken]:
    walk, answer = go_down(Said(told), ask, len(CHAINS[intent.tool.name])), None
    try:
        while True:
            wanted: Any = walk.send(answer)
            if isinstance(wanted, Instead):
                answer = yield from _instead(process, intent, ask, charge, wanted)
            else:
                answer = yield from transact(process, wanted)
    except StopIteration as stop:
        came: Came | Overtaken = stop.value
        return came
    finally:
        walk.close()


def _instead(
    process: Process, intent: Intent, ask: Ask, charge: Charge | None, wanted: Instead
) -> Steps[tuple[Said, Ask | None]]:
    given_up = wanted.given_up
    assert given_up is not None
    who, _, what = given_up.arguments.decode().partition("|")  # what is on record is done
    name = CHAINS[intent.tool.name][wanted.no]
    tool = intent.tool if name == PERSON else TOOLS[name]
    own = Intent(tool, who, what)
    place = Place(ask.scope, ask.run_id, ask.entry, ask.run_entry, lane=ask.lane, lane_entry=ask.lane_entry)
    key = instead_key(TENANT, tool.name, given_up.operation_id, wanted.no)
    step = make_ask(process, own, Words(who, what), place, key=key)
    mark = f"{INSTEAD}:{given_up.operation_id}:{wanted.no}"
    step = replace(step, identity=INSTEAD, fingerprint=mark, instead=(given_up.operation_id, wanted.no))
    if name == PERSON:
        leave = Leave("do it by hand", 0.0, by_hand="nothing before it was done")
        step = replace(step, leave=leave, terms=by_hand_terms(tool.terms), falls_to=())
    process.sim.oracle.chains.asked(step, process.sim.oracle.truth[given_up.operation_id])
    told = yield from (once if name == PERSON else call)(process, own, step, charge)
    if told is None:
        raise JournalError("the asker of a step has gone")
    return Said(told), step
