"""The judge of rollbacks: each finished step undone once, last first, or in the queue; nothing behind their back.

It knows what happened in the world and what was put on record, and none of the rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from settled.core.books import RunState
from settled.core.runs.entering import scope_of_run
from settled.core.states import Event, State
from settled.testing.simulation.chain_oracle import is_by_hand
from settled.testing.simulation.plans import TENANT
from settled.testing.simulation.tools import TOOLS

if TYPE_CHECKING:
    from settled.core.books import RunRecord
    from settled.core.call import Call, LogRow
    from settled.testing.simulation.oracle import Oracle
    from settled.testing.simulation.shaky import ShakyJournal
    from settled.testing.simulation.world import Effect

BARRED = (RunState.ROLLING_BACK, RunState.COMPENSATED, RunState.PARTLY_COMPENSATED)
TRUE_REASONS = ("irreversible", "undo_failed", "undo_unknown", "by_hand")
"""Why a step may be left in the queue when everybody had time, tools and a calm sea."""


@dataclass(slots=True)
class SagaOracle:
    """Watches runs and the calls that undo."""

    oracle: Oracle
    runs: dict[str, RunRecord] = field(default_factory=dict)
    """By scope."""
    moment: int = 0
    asked: dict[tuple[str, int], int] = field(default_factory=dict)
    """Operation id and attempt -> when the series of that attempt was claimed: what was known then it could rely on."""
    ended: dict[str, int] = field(default_factory=dict)
    """Operation id -> when its first attempt had ended on record."""
    known: dict[str, int] = field(default_factory=dict)
    """Operation id -> when it was put on record as done."""
    inside: dict[str, str] = field(default_factory=dict)
    """Scope of a run -> the one of the run that its program entered it in."""
    joined: dict[str, tuple[int, str, int]] = field(default_factory=dict)
    """Id of a joined agent's ask -> entry of the run that gave its token; its lane's record and entry of that."""
    until: dict[str, float] = field(default_factory=dict)
    """Claim of a joined agent -> when its token expires, on the wall clock."""

    def run_changed(self, run: RunRecord) -> None:
        """One change of a run is on record."""
        scope = scope_of_run(run.tenant, run.run_id)
        before = self.runs.get(scope)
        self.runs[scope] = run
        if run.claim in self.until and (before is None or before.claim != run.claim):
            self._joins(run, self.until[run.claim])
        if before is None or before.state is not run.state:
            self.oracle.note("run", run.run_id, run.state, run.entry, run.reason)
            self.oracle.facts[f"run {run.state}"] += 1
        if before is not None and before.state is RunState.COMPENSATED and run.state is not RunState.COMPENSATED:
            self.oracle.object_to(f"I6 {run.run_id}: was undone, and is {run.state}")

    def committed(self, after: Call, row: LogRow) -> None:
        """One change of one call is on record."""
        self.moment += 1
        op = after.operation_id
        if row.event in (Event.CLAIM, Event.BEGIN):
            self._begins(after, row.event)
        elif len(after.attempts) == 1:
            self.ended.setdefault(op, self.moment)
        if row.event is Event.UNDO:
            self._undoes(after)
        decided = row.event is Event.GRANT or (row.event is Event.REFUSE and after.decided.startswith("person:"))
        if (decided or row.event is Event.ASK_LEAVE) and self.is_barred(after):
            self.oracle.object_to(f"I6 {op} ({after.tool}): {row.event} in a run that is undone")
        if after.scope.startswith("undo:") and row.no == 1:
            self._made_for(after.scope.removeprefix("undo:"))
        if after.state is State.SUCCEEDED:
            self.known.setdefault(op, self.moment)

    def _begins(self, call: Call, event: Event) -> None:
        op, no = call.operation_id, len(call.attempts)
        again = event is Event.BEGIN
        self.asked[op, no] = self.asked.get((op, no - 1), self.moment) if again else self.moment
        run = self.runs.get(call.scope)
        if run is not None and run.state in BARRED:
            self.oracle.object_to(f"I6 {op} ({call.tool}): attempt {no} begins in a run that is {run.state}")
        outer = self.runs.get(self.inside.get(call.scope, ""))
        if outer is not None and outer.state in BARRED:
            self.oracle.object_to(f"I6 {op} ({call.tool}): attempt {no} begins inside of a run that is {outer.state}")
        if call.claim in self.joined and run is not None:
            self._begins_in_a_lane(call, event, run)

    def _joins(self, lane: RunRecord, until: float) -> None:
        """An agent has joined a run: its token must not have expired, nor the run have ended."""
        self.oracle.facts["joined"] += 1
        if self.oracle.clock().wall >= until:
            self.oracle.object_to(f"I6 {lane.run_id}: joined by a token that has expired")
        host = self.runs.get(scope_of_run(lane.tenant, lane.parent))
        if host is None or host.state is not RunState.ACTIVE:
            self.oracle.object_to(f"I6 {lane.run_id}: joined a run that is {host.state if host else None}")

    def _begins_in_a_lane(self, call: Call, event: Event, run: RunRecord) -> None:
        """A joined agent's call begins: by the entry that let it in, in its lane's last one, while the run goes on."""
        who = f"I6 {call.operation_id} ({call.tool}) of lane {call.lane}"
        entry, lane, lane_entry = self.joined[call.claim]
        if run.state is not RunState.ACTIVE:
            self.oracle.object_to(f"{who}: begins in a run that has ended, {run.state}")
        if event is Event.CLAIM and run.entry != entry:
            self.oracle.object_to(f"{who}: begins by the token of an entry that is over")
        if event is Event.CLAIM and self.runs[lane].entry != lane_entry:
            self.oracle.object_to(f"{who}: begins, and its lane is another process's")

    def answered_in_a_lane(self, call: Call, lane: str) -> None:
        """An agent was told that its call is done: it must be its own."""
        if call.lane != lane:
            self.oracle.object_to(f"I6 {call.operation_id} ({call.tool}) of lane {call.lane!r}: answers lane {lane!r}")

    def _made_for(self, op: str) -> None:
        step = self.oracle.known.get(op)
        if step is None or step.state is not State.COMPENSATING:
            self.oracle.object_to(f"I6 {op}: its compensation begins, and it is {step.state if step else None}")

    def _undoes(self, step: Call) -> None:
        """A step begins to be undone: those that came after it must be undone, or be known to stand in the queue."""
        op = step.operation_id
        for other in list(self.oracle.known.values()):
            if other.scope == step.scope and other is not step and self._after(other, step) and _waits_its_turn(other):
                self.oracle.object_to(f"I6 {op} ({step.tool}): undone before {other.operation_id} ({other.state})")

    def _after(self, later: Call, earlier: Call) -> bool:
        """Whether a step may rely on the other one.

        It is of a later group, and was asked for when the other was known to be done; or, each tried once, had ended.
        """
        if later.lane != earlier.lane:  # what another agent has done comes to it by its arguments, as first recorded
            done, asked = self.known.get(earlier.operation_id), self.asked.get((later.operation_id, 1), 0)
            return done is not None and done < asked
        if self._group(later) <= self._group(earlier):
            return False
        first, only = later.operation_id, len(later.attempts) == len(earlier.attempts) == 1
        began = self.asked.get((first, self._effective(later)), 0)
        done = self.known.get(earlier.operation_id)
        if only and earlier.operation_id in self.ended:
            done = self.ended[earlier.operation_id]
        return done is not None and done < began

    def _group(self, call: Call) -> int:
        """Return which group of its run's plan the call was made for: those of one group go side by side."""
        return int(self.oracle.truth[call.operation_id][1].split(".")[1])

    def _effective(self, call: Call) -> int:
        """Return the attempt that had the effect in the world; the last one if none had."""
        made = [e.attempt for e in self.oracle.world.effects if e.operation_id == call.operation_id]
        return made[0] if made else len(call.attempts)

    def is_barred(self, call: Call) -> bool:
        """Whether the call belongs to a run that was, or is being, undone."""
        run = self.runs.get(call.scope)
        return run is not None and run.state in BARRED

    # --- in the end ---

    def judge(self, journal: ShakyJournal) -> None:
        """Everybody had time to go on with it: hold each run against the world."""
        undoing: dict[str, list[Effect]] = {}
        for effect in self.oracle.world.effects:
            if effect.intention[1].startswith("undo "):
                undoing.setdefault(effect.intention[1].removeprefix("undo "), []).append(effect)
        for scope, run in self.runs.items():
            if run.state is RunState.ROLLING_BACK:
                self.oracle.object_to(f"I6 {run.run_id}: its rollback has not come to its end")
            outer = self.runs.get(self.inside.get(scope, ""))
            if outer is not None and outer.state is RunState.COMPENSATED and run.state is not RunState.COMPENSATED:
                self.oracle.object_to(f"I6 {run.run_id}: is {run.state}, and the run around it is undone")
            within = [inner for inner, around in self.inside.items() if around == scope]
            left = any(self._anything_left(journal, each) for each in (scope, *within))
            if run.state is RunState.PARTLY_COMPENSATED and not left:
                self.oracle.object_to(f"I6 {run.run_id}: on record as undone in part, and nothing is left of it")
            for call in list(journal.books.calls.values()):
                if call.scope == scope:
                    self._judge_step(journal, run, call, undoing.get(call.operation_id, []))

    def _anything_left(self, journal: ShakyJournal, scope: str) -> bool:
        calls = [call for call in journal.books.calls.values() if call.scope == scope]
        left = (State.UNKNOWN, State.PROCESSING, State.SUCCEEDED, State.COMPENSATING)
        waived = [TOOLS[call.tool].terms.waived for call in calls]
        return any(call.state in left and not may for call, may in zip(calls, waived, strict=True))

    def _judge_step(self, journal: ShakyJournal, run: RunRecord, call: Call, undone: list[Effect]) -> None:
        op = call.operation_id
        if run.state in BARRED and call.state is State.AWAITING_APPROVAL:
            self.oracle.object_to(f"I6 {op} ({call.tool}): waits for leave in a run that is {run.state}")
        effect = next((e for e in self.oracle.world.effects if e.operation_id == op), None)
        who = f"I6 {op} ({call.tool}, {call.state}) of {run.run_id} ({run.state})"
        if undone and run.state not in BARRED:
            self.oracle.object_to(f"{who}: undone, though its run is not")
        if undone and (effect is None or effect.at > undone[0].at):
            self.oracle.object_to(f"{who}: undone without, or before, its effect")
        if call.state is State.COMPENSATED and not undone and not call.asserted:
            self.oracle.object_to(f"{who}: on record as undone, and it is not")
        if run.state not in BARRED or effect is None or TOOLS[call.tool].terms.waived:
            return
        if not undone and not _queued(journal, call):
            self.oracle.object_to(f"{who}: neither undone nor in the queue")
        too_late = is_by_hand(call) and call.disputed and call.state is State.REFUSED
        if run.state is RunState.COMPENSATED and not undone and not call.asserted and not too_late:
            self.oracle.object_to(f"{who}: its run is on record as undone")
        if call.state is State.COMPENSATING and not _justified(journal, call):
            self.oracle.object_to(f"{who}: in the queue without need ({call.reason or 'no reason'})")


def _waits_its_turn(call: Call) -> bool:
    terms = call.terms
    undone_first = call.state is State.COMPENSATING and not call.reason
    return bool(terms.compensate) and (undone_first or call.state is State.SUCCEEDED)


def _undoing(journal: ShakyJournal, call: Call) -> Call | None:
    return journal.books.by_key(f"undo:{call.operation_id}")


def _queued(journal: ShakyJournal, call: Call) -> bool:
    if call.state is State.UNKNOWN or call.disputed:
        return True
    undoing = _undoing(journal, call)
    in_doubt = undoing is not None and undoing.state is State.UNKNOWN
    return call.state is State.COMPENSATING and (bool(call.reason) or in_doubt)


def _justified(journal: ShakyJournal, call: Call) -> bool:
    """Whether a step stands in the queue for a true refusal or a true doubt, or since nothing undoes it."""
    if call.reason not in TRUE_REASONS:
        return False
    undoing = _undoing(journal, call)
    match call.reason:
        case "irreversible":
            return call.terms.irreversible
        case "by_hand":
            return is_by_hand(call)
        case "undo_failed":
            return undoing is not None and undoing.state is State.FAILED
        case _:
            return undoing is not None and undoing.state is State.UNKNOWN


def is_of_a_run(call: Call) -> bool:
    """Whether a call was made in one of these runs: nobody asks for it from outside."""
    return call.scope.startswith(f"run:{len(TENANT)}:{TENANT}:trip")
