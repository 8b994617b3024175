"""Programs and models at work: they ask, hear answers, die, and start again from the top."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from settled.core.attempts.charge import Charge
from settled.core.matching.claim import Reserve
from settled.core.matching.entry import Entry
from settled.core.runs.entering import EnterRun, scope_of_run
from settled.core.values import replace
from settled.errors import JournalError
from settled.testing.simulation.asking import Place, Spot, Told, make_ask
from settled.testing.simulation.chains import call
from settled.testing.simulation.driver import transact
from settled.testing.simulation.loop import Until
from settled.testing.simulation.mind import Mind
from settled.testing.simulation.plans import (
    TENANT,
    Intent,
    Message,
    Plan,
    Words,
    grouped,
    in_words,
    make_plan,
    planned_anew,
)

if TYPE_CHECKING:
    from settled.core.answer import Answer
    from settled.core.ask import Ask
    from settled.core.attempts.budget import RetryBudget
    from settled.testing.simulation.loop import Steps
    from settled.testing.simulation.simulation import Simulation
    from settled.testing.simulation.workers import Process
    from settled.testing.simulation.world import Intention

FENCED_OUT = ("superseded", "run_ended", "rolled_back")
ROUNDS = 4
"""How often one message is asked again before its intents are given up."""


@dataclass(slots=True)
class Errand:
    """One run of an agent over all its entries and turns."""

    sim: Simulation
    run_id: str
    by_model: bool
    variation: str
    turns: int = 1
    steps_given: bool = False
    """Plain code gives step ids of its own."""
    bare: bool = False
    """Calls come without step and message, as from a loop that knows neither."""
    budget: RetryBudget | None = None
    plan: Plan = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    """Steps whose answers stand in the history that every entry is given."""
    said: list[str] = field(default_factory=list)
    """Steps of this entry that are not in the history yet."""
    turn: int = 0
    tries: int = 0
    """Entries of this turn."""
    serial: int = 0
    """Number of the entry that is at work; one that hung and wakes sees another."""
    finished: int = 0
    """Messages that a framework's checkpoint holds (variation ``resume``)."""
    memory: Mind | None = None
    before: Counter[Intention] = field(default_factory=Counter)
    """Intended in the turns before."""
    meant: Counter[Intention] = field(default_factory=Counter)
    """Intended in this turn, in any of its entries."""
    believed: Counter[Intention] = field(default_factory=Counter)
    past: frozenset[str] = frozenset()
    """Operation ids of what is believed to have been done in the turns before."""
    all: Plan = field(default_factory=list)
    over: bool = False

    # --- around the entries ----------------------------------------------------------------

    def supervise(self) -> Steps[None]:
        """Start entry after entry, turn after turn, until all is done or the patience is spent."""
        while self.turn < self.turns:
            self._begin_turn()
            while not self.over and self.tries < self.sim.profile.entries:
                self.tries += 1
                yield from self._one_entry()
            if not self.over:
                return
            self.before.update(self.meant)
            self.all += self.plan
            self.turn += 1
            yield self.sim.dice.uniform(0.0, 20.0)

    def _begin_turn(self) -> None:
        dice, names = self.sim.dice, self.sim.profile.tools
        self.over, self.tries, self.finished, self.memory = False, 0, 0, None
        self.meant.clear()
        self.plan = make_plan(dice, names, dice.randrange(1, 5), f"{self._of}.{self.turn}")
        if self.all and dice.random() < 0.3:
            again = dice.choice(self.all)
            if not again.tool.business:
                self.plan.append(Intent(again.tool, again.who, again.what))
        self.messages = grouped(dice, self.plan, single=self.by_model and self.bare)

    def _one_entry(self) -> Steps[None]:
        sim = self.sim
        process = sim.some_process()
        self.serial += 1
        task = sim.loop.start(self._entry(process, self.serial), process)
        while not task.done.is_open and process.alive:
            yield Until(task.done, sim.dice.uniform(5.0, 60.0))
            if process.paused_until > sim.loop.now and sim.dice.random() < 0.7:
                return  # it hangs: another one takes over, and the old one wakes some day
            if sim.loop.now > sim.profile.ends:
                return
        yield sim.dice.uniform(0.1, 3 * sim.profile.lease)

    # --- one entry -------------------------------------------------------------------------

    def _entry(self, process: Process, number: int) -> Steps[None]:
        try:
            place = yield from self._enter(process)
        except JournalError:
            return
        try:
            if number == self.serial and place is not None:
                yield from self._all_messages(process, number, place)
        finally:
            self._left(process)

    def _enter(self, process: Process) -> Steps[Place | None]:
        """Enter the run; ``None``: there is nothing to be done there."""
        turn = str(self.turn) if self.turns > 1 else None
        entry = yield from transact(process, EnterRun(self.run_id, TENANT, turn, tuple(self.history)))
        if not isinstance(entry, Entry):
            return None
        charge = Charge(self.run_id, self.budget) if self.budget else None
        return Place(scope_of_run(TENANT, self.run_id), self.run_id, entry, entry.no, self.by_model, charge)

    def _left(self, process: Process) -> None:
        """It works there no longer."""

    def _all_messages(self, process: Process, number: int, place: Place) -> Steps[None]:
        self.said.clear()
        mind, messages = self._replan()
        for index in range(self.finished if self.variation == "resume" else 0, len(messages)):
            going = yield from self._message(process, place, mind, messages[index], index)
            if not going or number != self.serial:
                return
            if self.variation == "resume":
                self.finished, self.memory = index + 1, mind.copy()
                self._remember()
        self._finish(mind)

    def _replan(self) -> tuple[Mind, list[Message]]:
        if self.by_model and self.tries > 1 and self.variation in ("order", "more", "fewer", "group"):
            mark = f"{self.run_id}.{self.turn}.{self.tries}"
            self.plan, self.messages = planned_anew(
                self.sim.dice, self.plan, self.sim.profile.tools, self.variation, mark
            )
            if self.bare:
                self.messages = [[intent] for intent in self.plan]
        self.meant |= Counter(i.intention for i in self.plan)
        self._intend(self.before + self.meant)
        resumed = self.memory.copy() if self.variation == "resume" and self.memory else None
        mind = resumed or Mind(self.sim, self.plan, past=self.past)
        mind.first = self.tries == 1
        return mind, self.messages

    @property
    def _of(self) -> str:
        """Whose plans these are: who shares it may mean the very same things."""
        return self.run_id

    def _intend(self, meant: Counter[Intention]) -> None:
        """Tell the oracle what is meant to be done, and how often."""
        for intention, count in meant.items():
            self.sim.oracle.intended[intention] = count

    def _remember(self) -> None:
        if self.by_model:
            self.history += self.said
        self.said.clear()

    def _finish(self, mind: Mind) -> None:
        self.over = True
        self._remember()
        self.believed.update(mind.succeeded())
        self.past |= mind.done()

    def _message(self, process: Process, place: Place, mind: Mind, message: Message, index: int) -> Steps[bool]:
        """Ask for all intents of one message, and again for what was not answered. False: stop the entry."""
        despite: dict[int, frozenset[str]] = {}
        for round_no in range(ROUNDS):
            left = [i for i in message if mind.pending(i)]
            if not left:
                return True
            asks = []
            for pos, intent in enumerate(left):
                now = place.lane_entry or place.run_entry
                spot = self._spot(intent, f"m{index}.{round_no}", pos, len(left), now, first=mind.first)
                ask = make_ask(process, intent, self._words(mind, intent), place, spot)
                asks.append(replace(ask, despite=despite.get(id(intent), frozenset())))
            answers = yield from self._at_once(process, place, left, asks)
            if answers is None or any(told and told.answer.reason in FENCED_OUT for told in answers):
                return False
            heard = sorted(zip(left, asks, answers, strict=True), key=_lists_last)
            for intent, ask, told in heard:
                another = mind.hear(intent, ask, told)
                if another is not None and not self.by_model:
                    despite[id(intent)] = despite.get(id(intent), frozenset()) | {another.operation_id}
            for intent, ask, told in heard:
                mind.close(ask, told)
                self._reconsider(mind, intent, round_no)
            yield self.sim.dice.uniform(0.0, 15.0)
        for intent in message:
            mind.outcome.setdefault(id(intent), "given_up")
        return True

    def _reconsider(self, mind: Mind, intent: Intent, round_no: int) -> None:
        """Ask once more for what did not come to a good end."""
        open_end = mind.outcome.get(id(intent)) in ("not_done", "unknown", "in_progress", "awaiting_approval")
        if open_end and round_no < ROUNDS - 1 and self.sim.dice.random() < 0.5:
            del mind.outcome[id(intent)]

    def _words(self, mind: Mind, intent: Intent) -> Words:
        """Once said, or seen to have been said, an intent keeps its words for this entry."""
        if id(intent) not in mind.words:
            variation = "same" if mind.first else self.variation
            mind.words[id(intent)] = in_words(self.sim.dice, intent, variation)
        return mind.words[id(intent)]

    def _spot(self, intent: Intent, name: str, pos: int, size: int, entry: int, *, first: bool) -> Spot:
        if self.bare:
            return Spot()
        replayed = self.variation in ("same", "resume") and name.endswith(".0")
        mark = "" if self.by_model and (first or replayed) else entry
        message = f"{self.turn}/{mark}{name}"
        if self.by_model:
            return Spot(f"{message}/{pos}", message, f"{message}\x1f{pos}")
        step = f"s{self.plan.index(intent)}" if self.steps_given else ""
        return Spot(step, message, f"{message}\x1f{pos}") if size > 1 else Spot(step)

    def _at_once(
        self, process: Process, place: Place, intents: list[Intent], asks: list[Ask]
    ) -> Steps[list[Told | None] | None]:
        try:
            if len(asks) > 1 and not self.bare:
                yield from transact(process, Reserve(asks))
        except JournalError:
            return None
        self.said += [ask.step for ask in asks if ask.step]
        tasks = [
            self.sim.loop.start(call(process, intent, ask, place.charge), process)
            for intent, ask in zip(intents, asks, strict=True)
        ]
        for task in tasks:
            yield Until(task.done)
        answers: list[Told | None] = [task.done.value for task in tasks]
        for told in answers:
            self._look_at(told)
        return answers

    def _look_at(self, told: Told | None) -> None:
        """Look at an answer for more than what was asked."""


def _lists_last(heard: tuple[Intent, Ask, Told | None]) -> int:
    """First one's own attempts and calls, then answers of like calls, last the lists of such."""
    told = heard[2]
    if told is None:
        return 0
    return 3 if told.answer.earlier else 2 if told.answer.like else 0 if told.own else 1


@dataclass(slots=True)
class Loner:
    """A call outside of any run: by business key, by step, or with a key of its own."""

    sim: Simulation
    intent: Intent
    step: str = ""
    outcome: str = ""

    def supervise(self) -> Steps[None]:
        """Ask, and ask again after a crash where the key comes again."""
        keyed = self.intent.tool.business or bool(self.step)
        for _ in range(self.sim.profile.entries if keyed else 1):
            process = self.sim.some_process()
            task = self.sim.loop.start(self._work(process, keyed=keyed), process)
            while not task.done.is_open and process.alive and self.sim.loop.now < self.sim.profile.ends:
                yield Until(task.done, 20.0)
            if task.done.is_open and (self.outcome == "succeeded" or self.sim.dice.random() < 0.7):
                return
            yield self.sim.dice.uniform(0.1, 30.0)

    def _work(self, process: Process, *, keyed: bool) -> Steps[None]:
        intent = self.intent
        for again in range(3):
            # a key of its own each time: the library cannot know that it is meant to be the same
            self.sim.oracle.intended[intent.intention] = 1 if keyed else again + 1
            ask = make_ask(process, intent, Words(intent.who, intent.what), Place(), Spot(self.step))
            told = yield from call(process, intent, ask)
            if told is not None:
                self._check(told.answer)
                self.outcome = told.answer.status
            if self.outcome in ("succeeded", "failed", "conflict") or (told is None and not keyed):
                return
            yield self.sim.dice.uniform(0.0, 30.0)

    def _check(self, answer: Answer) -> None:
        known = answer.call
        if known is None or answer.status == "conflict":
            return
        if self.sim.truth_of(known) != self.intent.intention:
            self.sim.oracle.object_to(f"I3 {known.operation_id}: answers another action, {self.intent.intention}")
