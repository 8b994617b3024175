"""What must hold after any death, by the ledger: nothing done twice, nothing misreported, nothing lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from settled.api.people.queue import waiting
from settled.core import rules
from settled.core.encoding import codec
from settled.core.model import Standing
from settled.core.states import State
from settled.core.values import replace
from settled.ports import CallQuery
from settled.testing.kill.aftermath import HOUR, relive
from settled.testing.kill.scripts import SCRIPTS, one_by_one, play
from settled.testing.kill.service import PROBED, REPEATABLE
from settled.testing.kill.stage import ELSEWHERE, Stage, Told

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from settled.core.call import Call
    from settled.core.model import Moment
    from settled.testing.kill.plan import Plan
    from settled.testing.kill.script import Script
    from settled.testing.kill.service import Action

MARGIN = 5.0
"""Seconds."""
NEVER_MORE = ("succeeded", "failed", "expired")
"""What an agent was told for good."""


@dataclass(frozen=True, slots=True)
class Scene:
    """How things stand at one moment: records, effects, and what any process was told."""

    records: Mapping[str, list[Call]]
    effects: Mapping[str, list[str]]
    told: list[Told]
    now: Moment

    def record(self, order: str) -> Call | None:
        """Return the record of an intention, if there is one."""
        return next(iter(self.records.get(order, [])), None)

    def count(self, order: str) -> int:
        """Return how many effects an intention had."""
        return len(self.effects.get(order, []))


def judge(plan: Plan) -> list[str]:
    """Start again in the dead process's place: at once, and once every lease is over; return what is wrong.

    ``plan``: that of the last process that lived.
    """
    script = SCRIPTS[plan.script]
    if script.end is not None:
        trip = SCRIPTS[script.again] if script.again else script
        return relive(plan, trip, lambda its: Stage(its, trip), lambda stage: play(stage, trip))
    (plan.home / "go-on").touch()  # nobody holds up the tools of the living
    with Stage(replace(plan, name="again", entry=plan.entry + 1, wait=0.0), script) as stage:
        dead = see(stage)
        first = _ask(stage, script)
        soon = see(stage)
    plan = replace(plan, name="later", entry=plan.entry + 2, wait=5.0, later=plan.later + HOUR)
    with Stage(plan, script) as stage:
        between = see(stage)
        stage.guard.reconcile()
        second = _ask(stage, script)
        end = see(stage)
        problems = _journal(stage, end)
    for action in script.actions:
        problems += _at_once(action, dead, first[action.order])
        problems += _not_again(action, dead, soon)
        problems += _later(action, between, second[action.order])
        problems += _not_again(action, between, end)
        problems += _truth(action, end)
    return problems


def _ask(stage: Stage, script: Script) -> dict[str, Told]:
    """Ask for every action, in this process; return what was told of each."""
    play(stage, replace(script, flow=one_by_one, outside=False))
    return {told.order: told for told in stage.told_by(stage.plan.name)}


def see(stage: Stage) -> Scene:
    """Look without asking for anything."""
    records = _grouped((_order(call), call) for call in stage.journal.find(CallQuery(limit=1000)))
    effects = _grouped((effect.order, effect.value) for effect in stage.ledger.effects())
    return Scene(records, effects, stage.everything_told(), stage.journal.now())


def _order(call: Call) -> str:
    if not call.arguments:  # a tombstone: its key still holds the order
        return call.key
    arguments: dict[str, Any] = codec.loads(call.arguments)
    return str(arguments["order"])


def _grouped(pairs: Iterable[tuple[str, Any]]) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for name, value in pairs:
        groups.setdefault(name, []).append(value)
    return groups


def _owned(call: Call | None, now: Moment) -> bool:
    """Whether its owner may live, for all that can be seen from here, and its lease runs on while one asks."""
    unseen = call is not None and call.state is State.PROCESSING and call.owner.space == ELSEWHERE
    return unseen and call is not None and not rules.lease_over(call, now.plus(MARGIN))


def _in_doubt(call: Call | None) -> bool:
    return call is not None and call.state in (State.PROCESSING, State.UNKNOWN) and bool(call.doubtful)


def _at_once(action: Action, dead: Scene, told: Told) -> list[str]:
    """Right after the death: who can see it need not wait; who cannot takes the owner for alive."""
    order, record = action.order, dead.record(action.order)
    if _owned(record, dead.now) and told.status != "in_progress":
        return [f"{order}: its owner may live, and it is told {told.status}"]
    if told.status == "in_progress" and not _owned(record, dead.now.plus(-2 * MARGIN)):
        return [f"{order}: nobody is at work on it, and it is told in_progress"]
    return []


def _later(action: Action, before: Scene, told: Told) -> list[str]:
    """Once every lease is over: settled, or unknown where nothing can tell."""
    order, record = action.order, before.record(action.order)
    blind = action.tool not in (*REPEATABLE, PROBED)
    may_stay = blind and (_in_doubt(record) or action.trouble in ("lost", "dropped"))
    if told.status == "unknown" and not may_stay:
        return [f"{order}: needlessly unknown ({told.reason})"]
    if told.status not in ("succeeded", "unknown") and (told.status, action.tool) != ("expired", "note"):
        return [f"{order}: neither done nor unknown but {told.status} ({told.reason})"]
    return []


def _not_again(action: Action, before: Scene, after: Scene) -> list[str]:
    """What was in doubt and cannot be looked up, or had succeeded, is not made by asking."""
    order, record = action.order, before.record(action.order)
    if after.count(order) == before.count(order) or record is None:
        return []
    if action.tool not in (*REPEATABLE, PROBED) and _in_doubt(record):
        return [f"{order}: it was in doubt, and was made again"]
    return [f"{order}: it had succeeded, and was made again"] if record.state is State.SUCCEEDED else []


def _truth(action: Action, end: Scene) -> list[str]:
    """What anybody was ever told, against the ledger."""
    order, problems = action.order, []
    values, told = end.effects.get(order, []), [t for t in end.told if t.order == order]
    if action.tool not in ("look", "put") and len(values) > 1:
        problems.append(f"{order}: done {len(values)} times")
    # What was proved not done may be asked for anew in other words, and stays on record beside it.
    standing = [r for r in end.records.get(order, []) if r.state not in (State.NOT_DONE, State.PARKED)]
    if action.tool not in ("look", "put") and len(standing) > 1:
        problems.append(f"{order}: on record {len(standing)} times")
    for each in told:
        if each.status == "succeeded" and not values:
            problems.append(f"{order}: told succeeded, and it never happened")
        if each.value is not None and each.value not in values:
            problems.append(f"{order}: told a value that nothing has returned: {each.value}")
        again = each.status == "not_done" and _all_begun_since(end.records.get(order, []), each.at)
        if each.status in ("failed", "not_done", "expired") and values and action.tool != "note" and not again:
            problems.append(f"{order}: told {each.status}, and it happened")
    known = {each.value for each in told if each.status == "succeeded" and each.value is not None}
    if len(known) > 1:
        problems.append(f"{order}: told {len(known)} different values")
    return problems + _steady(order, told)


def _all_begun_since(records: list[Call], told: float) -> bool:
    """Whether each attempt that may have done something was begun after this was told: then it was true.

    A person's verdict may let a call run again; who asks in between is told that it is not done.
    """
    able = [a for call in records for a in call.attempts if a.standing is not Standing.NONE]
    return bool(able) and all(a.begun.wall > told for a in able)


def _steady(order: str, told: list[Told]) -> list[str]:
    """Once told for good, never told otherwise (``told`` is sorted by process, not by time: compare pairs)."""
    final = {each.status for each in told if each.status in NEVER_MORE} - {"expired"}
    return [f"{order}: told for good {sorted(final)}"] if len(final) > 1 else []


def _journal(stage: Stage, end: Scene) -> list[str]:
    """Nothing is dropped, the log is whole, and so is the file."""
    queued = {call.operation_id for call in waiting(stage.journal)}
    delivered = stage.plan.home / "alerted"
    alerted = {alert.operation_id for alert in stage.journal.alerts(1000)}
    alerted |= set(delivered.read_text().split()) if delivered.exists() else set()
    problems = [*stage.journal.verify().problems, *stage.journal.check().problems]
    for call in (call for calls in end.records.values() for call in calls):
        who = f"{call.operation_id} ({call.tool})"
        if call.state is State.PROCESSING:
            problems.append(f"{who} is left in processing")
        if call.state is State.UNKNOWN and call.operation_id not in queued:
            problems.append(f"{who} is unknown, and not in the queue")
        if call.state is State.UNKNOWN and call.operation_id not in alerted:
            problems.append(f"{who} is unknown, and nobody is alerted")
        if call.disputed:
            problems.append(f"{who} is disputed")
    return problems
