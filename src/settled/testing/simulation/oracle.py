"""The judge: what was promised against what happened. It knows the world, and none of the rules."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from settled.core.call import chain
from settled.core.model import Effect as Kind
from settled.core.model import Evidence, Fault
from settled.core.states import FINAL, TABLE, Event, State
from settled.core.values import replace
from settled.testing.simulation.chain_oracle import ChainOracle, is_by_hand
from settled.testing.simulation.saga_oracle import SagaOracle
from settled.testing.simulation.tools import TOOLS

if TYPE_CHECKING:
    from collections.abc import Callable

    from settled.core.answer import Answer
    from settled.core.attempts.budget import RetryBudget
    from settled.core.call import Call, LogRow
    from settled.core.commands import Invoke
    from settled.core.model import Owner
    from settled.testing.simulation.driver import Hand
    from settled.testing.simulation.loop import Clock, Loop
    from settled.testing.simulation.shaky import ShakyJournal
    from settled.testing.simulation.workers import Process
    from settled.testing.simulation.world import Intention, Request, World

ABSENT = frozenset({State.NOT_DONE, State.FAILED, State.PARKED})
LONG = 3600.0
"""Seconds: no world lasts that long, so a store that keeps keys longer remembers them all."""
LEGAL_AFTER_FINAL = frozenset({State.EXPIRED, State.COMPENSATING, State.COMPENSATED})


@dataclass(slots=True)
class Asker:
    """What one asker's attempts have cost."""

    attempts: int = 0
    admitted: bool = False
    shut: bool = False
    owed: float = 0.0
    """Spent for the next attempt."""


@dataclass(slots=True)
class Oracle:
    """Collects violations; ``facts`` counts what is no violation."""

    world: World
    loop: Loop
    clock: Clock
    violations: list[str] = field(default_factory=list)
    facts: Counter[str] = field(default_factory=Counter)
    askers: list[Asker] = field(default_factory=list)
    intended: Counter[Intention] = field(default_factory=Counter)
    asserted: set[str] = field(default_factory=set)
    absent: dict[tuple[str, int], str] = field(default_factory=dict)
    """Operation id and number of attempts that were declared to have had no effect -> by whom."""
    values: dict[str, object] = field(default_factory=dict)
    meant: dict[str, Intention] = field(default_factory=dict)
    """What each asker means, by the id of its ask."""
    truth: dict[str, Intention] = field(default_factory=dict)
    """What each recorded call was made for; a repeat sends what is on record."""
    repeats: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Run and tool -> repeats that cost something, over all owners."""
    paid: Counter[tuple[int, str]] = field(default_factory=Counter)
    """Process and tool -> thousandths of repeats that its pool has paid."""
    firsts: Counter[tuple[int, str]] = field(default_factory=Counter)
    leases: dict[str, tuple[float, str]] = field(default_factory=dict)
    """Operation id -> until when, in true time, its owner was promised it, and in which boot."""
    known: dict[str, Call] = field(default_factory=dict)
    lives: Callable[[Owner], bool] = lambda _owner: True
    """Whether a process truly lives: a dead one's lease protects nothing."""
    cut: set[tuple[str, int]] = field(default_factory=set)
    """Call and attempt that its caller left before it had sent: only the transport could have told."""
    dead: set[int] = field(default_factory=set)
    """Processes that died: nobody can ask them whether they had sent."""
    leaves: dict[str, float | None] = field(default_factory=dict)
    """Operation id -> until when, on the wall clock, a leave that was given may be used; ``None``: refused."""
    sagas: SagaOracle = field(init=False)
    chains: ChainOracle = field(init=False)
    story: list[str] | None = None
    """What happened, line by line, if it is to be told."""

    def __post_init__(self) -> None:
        self.sagas = SagaOracle(self)
        self.chains = ChainOracle(self)

    def note(self, *what: object) -> None:
        """Add a line to the story."""
        if self.story is not None:
            self.story.append(f"{self.loop.now:9.3f} " + " ".join(str(part) for part in what))

    def object_to(self, what: str) -> None:
        """Note a violation."""
        self.violations.append(f"{self.loop.now:.3f} {what}")
        self.note("!!", what)

    # --- while it goes on ------------------------------------------------------------------

    def meet(self) -> int:
        """A new asker; return its number."""
        self.askers.append(Asker())
        return len(self.askers) - 1

    def admitted(self, hand: Hand) -> None:
        """The breakers let one attempt through."""
        self.askers[hand.no].admitted, self.askers[hand.no].shut = True, False

    def shut(self, hand: Hand) -> None:
        """A breaker is open: from here on no attempt, and no cost."""
        self.askers[hand.no].admitted, self.askers[hand.no].shut = False, True
        self.facts["shut"] += 1

    def spent(self, hand: Hand, cost: float) -> None:
        """The process's pool paid for the next attempt."""
        self.askers[hand.no].owed = cost
        pool = (hand.process.owner.pid, hand.tool.name)
        self.paid[pool] += round(1000 * cost)
        if self.paid[pool] > 1000 * hand.sim.profile.pool + 100 * self.firsts[pool]:
            self.object_to(f"I5 {hand.tool.name}: {self.paid[pool] / 1000} repeats, {self.firsts[pool]} first attempts")

    def refunded(self, hand: Hand, cost: float) -> None:
        """It got it back."""
        self.askers[hand.no].owed -= cost
        self.paid[hand.process.owner.pid, hand.tool.name] -= round(1000 * cost)

    def invoked(self, hand: Hand, command: Invoke) -> None:
        """An attempt begins."""
        asker = self.askers[hand.no]
        if not asker.admitted:
            self.object_to(f"I5 {hand.tool.name}: an attempt that no breaker let through")
        asker.admitted = False
        asker.attempts += 1
        if asker.attempts == 1:
            self.firsts[hand.process.owner.pid, hand.tool.name] += 1
        elif asker.owed > 0 and hand.life is not None and hand.life.ask is not None:
            self.repeats[hand.life.ask.run_id, hand.tool.name] += 1
        asker.owed = 0.0
        if asker.attempts > hand.tool.policy.attempts:
            self.object_to(f"I5 {hand.tool.name}: attempt {asker.attempts} of a series of {hand.tool.policy.attempts}")
        if command.deadline is not None and self.loop.now > command.deadline + 1.0:
            self.object_to(f"I5 {hand.tool.name}: an attempt began after the deadline")
        self.note("invoke", command.call.operation_id if command.call else "", command.no, hand.intention)

    def sent(self, request: Request, process: Process) -> None:
        """The first byte leaves: the intent must be on record."""
        self.note("sent", request.operation_id, request.attempt, request.fate)
        if not request.operation_id:
            if request.tool.terms.effect is not Kind.READ:
                self.object_to(f"I3 {request.tool.name}: sent without any record")
            return
        call = process.sim.journal.books.by_id(request.operation_id)
        if call is None or len(call.attempts) < request.attempt:
            self.object_to(f"I3 {request.operation_id}: attempt {request.attempt} sent without an intent on record")

    def ended(self, hand: Hand) -> None:
        """An asker has its answer: what an open breaker did not let through must have cost nothing."""
        if self.askers[hand.no].shut and abs(self.askers[hand.no].owed) > 1e-9:
            self.object_to(f"I5 {hand.tool.name}: paid {self.askers[hand.no].owed} for a repeat that was not made")

    def leased(self, call: Call) -> None:
        """An owner was promised the call for a while."""
        seconds = call.lease.mono - self.clock().mono
        self.leases[call.operation_id] = (self.loop.now + seconds, self.clock.boot)

    def _robbed(self, before: Call, after: Call) -> None:
        if not self.lives(before.owner):
            return
        until, boot = self.leases.get(after.operation_id, (0.0, ""))
        if boot == self.clock.boot and self.loop.now < until - 1e-6:
            self.object_to(f"I5 {after.operation_id}: taken {until - self.loop.now:.1f} s before its lease ends")

    def committed(self, before: Call | None, after: Call, row: LogRow) -> None:
        """One change of one call is on record."""
        op = after.operation_id
        self.known[op] = after
        attempts = (f"{a.no}:{a.standing}{'' if a.over else '*'}" for a in after.attempts)
        self.note(op, after.tool, after.arguments.decode(), row.event, "->", row.state, row.detail, *attempts)
        if before is None:
            self.truth[op] = self.meant[after.claim]
        taken = before is not None and before.state is State.PROCESSING and after.epoch > before.epoch
        if before is not None and taken and after.decided != "late":
            self._robbed(before, after)
        if after.state is State.PROCESSING:
            self.leased(after)
        if before is not None and before.state in FINAL:
            self._still_final(before, after)
        if after.asserted and not is_by_hand(after):  # who does it by hand does not guess
            self.asserted.add(op)
        unjust = op not in self.asserted and not self.chains.justified(after)
        if after.disputed and not (before and before.disputed) and unjust:
            self.object_to(f"I2 {op}: disputed ({before.state if before else None})")
        if before is None or before.state is not after.state:
            self._new_state(after)
        self.sagas.committed(after, row)
        self.chains.committed(before, after, row)
        if TOOLS[after.tool].approve:
            self._by_leave(after, row)

    def _by_leave(self, after: Call, row: LogRow) -> None:
        """Each series of what needs leave uses one that was given, in time, and never refused."""
        op, now = after.operation_id, self.clock().wall
        if row.event is Event.REFUSE:
            self.leaves[op] = None
        elif row.event is Event.GRANT:
            self.leaves[op] = now + TOOLS[after.tool].approve
        elif row.event is Event.CLAIM and after.before == len(after.attempts) - 1:
            until = self.leaves.pop(op, 0.0)
            if until is None or until <= now:
                self.object_to(f"leave {op} ({after.tool}): begins, and leave was {_of_leave(until)}")

    def _still_final(self, before: Call, after: Call) -> None:
        if after.state is not before.state and after.state not in LEGAL_AFTER_FINAL:
            self.object_to(f"I4 {before.operation_id}: {before.state} became {after.state}")
        elif after.state is before.state and (after.result, after.decided) != (before.result, before.decided):
            self.object_to(f"I4 {before.operation_id}: a final result was overwritten")

    def _new_state(self, after: Call) -> None:
        op = after.operation_id
        self.facts[f"became {after.state}"] += 1
        if after.state is not State.PROCESSING and after.decided:
            self.facts[f"settled by {after.decided.partition(':')[0]}"] += 1
        asserted = after.operation_id in self.asserted
        if after.state is State.SUCCEEDED and not asserted and not self._happened(after):
            self.object_to(f"I2 {op} ({after.tool}): succeeded by {after.decided}, but nothing happened")
        if after.state is State.UNKNOWN and after.terms.effect is Kind.TRANSACTIONAL:
            self.object_to(f"I2 {op} ({after.tool}): in doubt, though its rows are in one commit with its record")
        if after.state in ABSENT and not asserted and after.terms.effect is not Kind.READ:
            self._declare_absent(op, len(after.attempts), f"record: {after.state} by {after.decided or after.reason}")

    def _happened(self, call: Call) -> bool:
        if call.terms.effect is Kind.READ:
            return True
        return any(effect.key == call.key for effect in self.world.effects)

    def _declare_absent(self, op: str, attempts: int, by: str) -> None:
        self.absent.setdefault((op, attempts), f"{self.loop.now:.3f} {by}")
        if any(e.operation_id == op and e.attempt <= attempts for e in self.world.effects):
            self.object_to(f"I2 {op} ({self.known[op].tool if op in self.known else ''}): {by}, but it had happened")

    def answered(self, answer: Answer) -> None:
        """An asker was told something."""
        self.facts[f"told {answer.status}"] += 1
        call = answer.call
        self.note(
            "told",
            answer.status,
            answer.reason,
            call.operation_id if call else "",
            "like" if answer.like else "",
            *(c.operation_id for c in answer.earlier),
        )
        if call is None or call.operation_id in self.asserted:
            return
        op = call.operation_id
        if answer.status == "succeeded":
            if not self._happened(call):
                self.object_to(f"I2 {op} ({call.tool}): told succeeded, but nothing happened")
            self._same_value(answer, call)
        elif answer.status in ("failed", "not_done") and call.terms.effect is not Kind.READ:
            self._declare_absent(op, len(call.attempts), f"told {answer.status}")

    def _same_value(self, answer: Answer, call: Call) -> None:
        value = answer.value if answer.fresh else (call.result.decode() if call.result is not None else None)
        if call.terms.effect is Kind.READ and not answer.recorded:
            return
        first = self.values.setdefault(call.operation_id, value)
        if first != value:
            self.object_to(f"I4 {call.operation_id} ({call.tool}): told {value!r} after {first!r}")

    # --- in the end ------------------------------------------------------------------------

    def judge(self, journal: ShakyJournal) -> None:
        """Everything has landed; hold each promise against it."""
        self._no_duplicates()
        self._no_lies()
        self._no_losses()
        self._on_record(journal)
        self.sagas.judge(journal)
        self.chains.judge(journal)

    def _no_duplicates(self) -> None:
        for key, effects in self.world.by_key.items():
            asserted = any(e.operation_id in self.asserted for e in effects)
            if len(effects) > 1 and not TOOLS[effects[0].tool].safe and not asserted:
                self.object_to(f"I1 {key}: {len(effects)} effects of one key ({effects[0].tool})")
        asserted_for = {self.truth[op] for op in self.asserted if op in self.truth}
        for intention, count in self.world.counts().items():
            if TOOLS[intention[0]].safe or intention in asserted_for:
                continue
            if count > self.intended[intention]:
                self.object_to(f"I1 {intention}: {count} effects, {self.intended[intention]} intended")

    def _no_lies(self) -> None:
        done = defaultdict(list)
        for effect in self.world.effects:
            done[effect.operation_id].append(effect.attempt)
        for (op, attempts), by in self.absent.items():
            if op not in self.asserted and any(no <= attempts for no in done[op]):
                self.object_to(f"I2 {op}: declared absent at {by}, but it happened")

    def _no_losses(self) -> None:
        for effect in self.world.effects:
            call = self.known.get(effect.operation_id)  # a forgotten one, too
            state = call.state if call else None
            undone = state in (State.COMPENSATING, State.COMPENSATED)  # rollbacks are judged by themselves
            kept = undone or state in (State.SUCCEEDED, State.UNKNOWN, State.EXPIRED)
            waits = call is not None and is_by_hand(call) and (call.disputed or state is State.AWAITING_APPROVAL)
            fine = kept or waits or effect.operation_id in self.asserted
            if not fine:
                self.object_to(f"I3 {effect.operation_id} ({effect.tool}): happened, but stands as {state}")

    def within_budget(self, run_id: str, budget: RetryBudget) -> None:
        """Repeats that are not free stay within what the run allows, whoever makes them."""
        made = {tool: count for (run, tool), count in self.repeats.items() if run == run_id}
        if sum(made.values()) > budget.total:
            self.object_to(f"I5 {run_id}: {sum(made.values())} repeats, {budget.total} allowed")
        for tool, most in (budget.per_tool or {}).items():
            if made.get(tool, 0) > most:
                self.object_to(f"I5 {run_id}: {made[tool]} repeats of {tool}, {most} allowed")

    def believed(self, succeeded: Counter[Intention]) -> None:
        """Program or model believes these to be done: they must be, each as often as that."""
        counts = self.world.counts()
        asserted_for = {self.truth[op] for op in self.asserted if op in self.truth}
        for intention, count in succeeded.items():
            tool = TOOLS[intention[0]]
            if tool.terms.effect is Kind.READ or intention in asserted_for:
                continue
            if counts[intention] < (min(count, 1) if tool.safe else count):
                self.object_to(f"I3 {intention}: believed done {count} times, done {counts[intention]} times")

    def _on_record(self, journal: ShakyJournal) -> None:
        """Each change is one row, each row follows from the one before, and the rows tell how each call stands."""
        logs: defaultdict[str, list[LogRow]] = defaultdict(list)
        for row in journal.books.rows:
            logs[row.operation_id].append(row)
        for op, call in journal.books.calls.items():
            state, head = State.PROCESSING, ""
            for no, row in enumerate(logs[op], 1):
                if row.no != no or chain(head, replace(row, head="")) != row.head:
                    self.object_to(f"I7 {op}: row {row.no} does not follow from row {no - 1}")
                if TABLE[state].get(row.event) is not row.state:
                    self.object_to(f"I7 {op}: {row.event} led from {state} to {row.state}")
                state, head = row.state, row.head
            if state is not call.state or head != call.log_head:
                self.object_to(f"I7 {op}: is {call.state}, its log says {state}")

    def doubt(self, journal: ShakyJournal) -> None:
        """Bounded doubt: what is left unknown could not be looked up, and is tied to a fault that left it in doubt."""
        requests = {(request.operation_id, request.attempt): request for request in self.world.requests}
        for call in journal.books.calls.values():
            if call.state is State.PROCESSING:
                self.object_to(f"I3 {call.operation_id}: still processing without an owner")
            if call.state is not State.UNKNOWN:
                continue
            if self._can_be_settled(call):
                self.object_to(f"doubt {call.operation_id} ({call.tool}): left unknown, though evidence can be had")
            sent = [requests.get((call.operation_id, attempt.no)) for attempt in call.doubtful]
            if any(request is not None and _in_doubt(request) for request in sent):
                continue
            if TOOLS[call.tool].service == "nested":
                continue  # it sends nothing itself; what it calls is looked at on its own
            self.facts["needless unknown"] += 1
            cut = any((call.operation_id, attempt.no) in self.cut for attempt in call.doubtful)
            if not cut and not any(attempt.owner.pid in self.dead for attempt in call.doubtful):
                self.object_to(
                    f"doubt {call.operation_id} ({call.tool}): left unknown, and no fault of the world made it so"
                )

    def _can_be_settled(self, call: Call) -> bool:
        if call.held:
            return False
        effect, tool = call.terms.effect, TOOLS[call.tool]
        if self.sagas.is_barred(call):
            return call.terms.probed  # to ask again would be to make it
        in_time = tool.service == "store" and (call.terms.remote_retention or 0.0) > LONG
        return effect in (Kind.READ, Kind.IDEMPOTENT) or call.terms.probed or in_time


def _of_leave(until: float | None) -> str:
    return "refused" if until is None else "over" if until else "not given, or used before"


def _in_doubt(request: Request) -> bool:
    """Whether nobody can know from the answers what became of this request."""
    answer = request.answer.value
    definite = isinstance(answer, str) or (isinstance(answer, Fault) and answer.evidence is Evidence.NONE)
    return not (request.heard and definite)
