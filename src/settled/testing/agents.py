"""Programs and models at work: they ask, hear answers, die, and start again from the top."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from settled.core.answer import STATUS_OF, Answer
from settled.core.ask import Ask
from settled.core.claim import Reserve
from settled.core.entry import Entry
from settled.core.keys import scoped_key
from settled.core.machine import Life
from settled.core.model import KeyKind
from settled.core.policy import Limits
from settled.core.progress import Charge
from settled.core.runs import EnterRun, scope_of_run
from settled.core.states import State
from settled.errors import JournalError
from settled.testing.driver import Hand, drive, transact
from settled.testing.loop import Until
from settled.testing.plans import Intent, Message, Plan, Words, grouped, in_words, make_plan, planned_anew

if TYPE_CHECKING:
    from settled.core.budget import RetryBudget
    from settled.core.call import Call
    from settled.testing.loop import Steps
    from settled.testing.simulation import Simulation
    from settled.testing.workers import Process
    from settled.testing.world import Intention

TENANT = "t"
ROUNDS = 4
"""How often one message is asked again before its intents are given up."""


class Place(NamedTuple):
    """Where a call is made."""

    scope: str = ""
    run_id: str = ""
    entry: Entry | None = None
    run_entry: int = 0
    by_model: bool = False
    charge: Charge | None = None


class Spot(NamedTuple):
    """Which call of which message it is."""

    step: str = ""
    message: str = ""
    sibling: str = ""


def make_ask(process: Process, intent: Intent, words: Words, place: Place, spot: Spot, key: str = "") -> Ask:
    """Return the ask of an intent, as it is put into words."""
    tool, sim = intent.tool, process.sim
    everything = f"{words.who}|{words.what}"
    mark = words.who if tool.identity else everything
    operation_id = sim.mint("op")
    sim.oracle.meant[operation_id] = intent.intention
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
        identity_declared=tool.identity,
        step=spot.step,
        message=spot.message,
        sibling=spot.sibling,
        by_model=place.by_model,
        while_unknown=tool.while_unknown,
        untold=tool.untold,
        entry=place.entry,
    )


class Told(NamedTuple):
    """What an asker was told; ``own``: by an attempt made for it."""

    answer: Answer
    own: bool


def call(process: Process, intent: Intent, ask: Ask, charge: Charge | None = None) -> Steps[Told | None]:
    """Make one call; ``None``: the asker was cancelled, or the journal failed before."""
    sim = process.sim
    within = sim.dice.choice(sim.profile.deadlines)
    deadline = None if within is None else sim.loop.now + within
    limits = Limits(deadline=deadline, wait=sim.dice.choice((0.0, 5.0, 40.0)))
    life = Life(ask, intent.tool.policy, limits, sim.loop.now, budget=charge)
    task = sim.loop.start(_driven(process, intent, life), process)
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
        return Told(answer, own=life.made > 0)
    return None


def _driven(process: Process, intent: Intent, life: Life) -> Steps[Answer | None]:
    hand = Hand(process, intent.tool, intent.intention, life)
    try:
        answer = yield from drive(life.run(), hand)
    except JournalError:
        process.sim.oracle.facts["journal error"] += 1
        return None
    process.sim.oracle.ended(hand)
    return answer


@dataclass(slots=True)
class Mind:
    """What program or model believes in one entry: which intent came to what, by which call."""

    sim: Simulation
    plan: Plan
    outcome: dict[int, str] = field(default_factory=dict)
    """Identity of an intent -> status."""
    credit: dict[str, Intent] = field(default_factory=dict)
    """Operation id -> the intent that it answered."""
    closed: dict[str, str] = field(default_factory=dict)
    """Operation id -> the words of the ask that was given its final outcome."""
    words: dict[int, Words] = field(default_factory=dict)
    """Identity of an intent -> how it was put, or was found to have been put."""

    def pending(self, intent: Intent) -> bool:
        """Whether it is still to be asked for."""
        return id(intent) not in self.outcome

    def hear(self, intent: Intent, ask: Ask, told: Told | None) -> Call | None:
        """Take in one answer. Returns the call that is known to be another intent's, if it is."""
        if told is None:
            return None
        answer, known = told.answer, told.answer.call
        if answer.status in ("rejected", "conflict"):
            for earlier in answer.earlier if answer.status == "rejected" else ():
                self.recognise(earlier)
            return None
        if known is None or self._mine(intent, known, own=told.own):
            self.outcome[id(intent)] = answer.status
            if known is not None:
                self._credit(known, intent)
            return None
        if self.closed.get(known.operation_id) == ask.words and not ask.step:
            self.sim.oracle.object_to(f"I3 {known.operation_id}: answers {intent.intention} too, after its final outcome")
        if not (answer.like or known.words != ask.words):
            self.sim.oracle.object_to(f"I3 {known.operation_id}: answers {intent.intention} too, and does not say so")
        self.recognise(known)
        return known

    def close(self, ask: Ask, told: Told | None) -> None:
        """Note whose final outcome was given: no other intent may be answered from it."""
        if told is not None and told.answer.call is not None and told.answer.status in ("succeeded", "failed"):
            self.closed.setdefault(told.answer.call.operation_id, ask.words)

    def _credit(self, known: Call, intent: Intent) -> None:
        """One call answers one intent; what answered it before is free for a twin."""
        for operation_id in [op for op, holder in self.credit.items() if holder is intent]:
            del self.credit[operation_id]
        self.credit[known.operation_id] = intent

    def _mine(self, intent: Intent, known: Call, *, own: bool) -> bool:
        holder = self.credit.get(known.operation_id)
        if self.sim.truth_of(known) != intent.intention:
            return False
        if holder is None or holder is intent or self.pending(holder):
            return True
        if own and self.outcome.get(id(holder)) == "succeeded":
            del self.outcome[id(holder)]  # it was answered by likeness; this asker has made the call itself
        return own

    def recognise(self, known: Call) -> None:
        """See in a list of earlier calls what oneself has meant by them."""
        if known.operation_id in self.credit:
            return
        meant = self.sim.truth_of(known)
        for intent in self.plan:
            if intent.intention == meant and self.pending(intent):
                self.credit[known.operation_id] = intent
                self.outcome[id(intent)] = STATUS_OF[known.state]
                who, _, what = known.arguments.decode().partition("|")
                self.words[id(intent)] = Words(who, what)
                return

    def succeeded(self) -> Counter[Intention]:
        """What it believes to be done."""
        return Counter(i.intention for i in self.plan if self.outcome.get(id(i)) == "succeeded")


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
    believed: Counter[Intention] = field(default_factory=Counter)
    all: Plan = field(default_factory=list)
    over: bool = False
    at_work: int = 0

    # --- around the entries ----------------------------------------------------------------

    def supervise(self) -> Steps[None]:
        """Start entry after entry, turn after turn, until all is done or the patience is spent."""
        for self.turn in range(self.turns):
            self._begin_turn()
            while not self.over and self.tries < self.sim.profile.entries:
                self.tries += 1
                yield from self._one_entry()
            if not self.over:
                return
            self.before.update(i.intention for i in self.plan)
            self.all += self.plan
            yield self.sim.dice.uniform(0.0, 20.0)

    def _begin_turn(self) -> None:
        dice, names = self.sim.dice, self.sim.profile.tools
        self.over, self.tries, self.finished, self.memory = False, 0, 0, None
        self.plan = make_plan(dice, names, dice.randrange(1, 5), f"{self.run_id}.{self.turn}")
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
        turn = str(self.turn) if self.turns > 1 else None
        enter = EnterRun(self.run_id, TENANT, turn, tuple(self.history))
        try:
            entry = yield from transact(process, enter)
        except JournalError:
            return
        if number != self.serial:
            return
        self.said.clear()
        mind, messages = self._replan()
        place = Place(
            scope_of_run(TENANT, self.run_id),
            self.run_id,
            entry,
            entry.no,
            self.by_model,
            Charge(self.run_id, self.budget) if self.budget else None,
        )
        for index in range(self.finished if self.variation == "resume" else 0, len(messages)):
            going = yield from self._message(process, place, mind, messages[index], index)
            if not going or number != self.serial:
                return
            if self.variation == "resume":
                self.finished, self.memory = index + 1, mind
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
        intended = self.before + Counter(i.intention for i in self.plan)
        for intention, count in intended.items():
            self.sim.oracle.intended[intention] = max(count, self.sim.oracle.intended[intention])
        mind = self.memory if self.variation == "resume" and self.memory else Mind(self.sim, self.plan)
        return mind, self.messages

    def _remember(self) -> None:
        if self.by_model:
            self.history += self.said
        self.said.clear()

    def _finish(self, mind: Mind) -> None:
        self.over = True
        self._remember()
        self.believed.update(mind.succeeded())

    def _message(self, process: Process, place: Place, mind: Mind, message: Message, index: int) -> Steps[bool]:
        """Ask for all intents of one message, and again for what was not answered. False: stop the entry."""
        despite: dict[int, frozenset[str]] = {}
        for round_no in range(ROUNDS):
            left = [i for i in message if mind.pending(i)]
            if not left:
                return True
            asks = [
                make_ask(process, intent, self._words(mind, intent), place, self._spot(intent, index, round_no, pos, len(left)))
                for pos, intent in enumerate(left)
            ]
            asks = [replace(a, despite=despite.get(id(i), frozenset())) for i, a in zip(left, asks, strict=True)]
            answers = yield from self._at_once(process, place, left, asks)
            if answers is None or any(told and told.answer.reason == "superseded" for told in answers):
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
        open_end = mind.outcome.get(id(intent)) in ("not_done", "unknown", "in_progress")
        if open_end and round_no < ROUNDS - 1 and self.sim.dice.random() < 0.5:
            del mind.outcome[id(intent)]

    def _words(self, mind: Mind, intent: Intent) -> Words:
        """Once said, or seen to have been said, an intent keeps its words for this entry."""
        if id(intent) not in mind.words:
            variation = "same" if self.tries == 1 else self.variation
            mind.words[id(intent)] = in_words(self.sim.dice, intent, variation)
        return mind.words[id(intent)]

    def _spot(self, intent: Intent, index: int, round_no: int, pos: int, size: int) -> Spot:
        if self.bare:
            return Spot()
        same = self.by_model and (self.tries == 1 or self.variation in ("same", "resume"))
        message = f"{self.turn}/{'' if same else self.tries}m{index}.{round_no}"
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
        return [task.done.value for task in tasks]


def _lists_last(heard: tuple[Intent, Ask, Told | None]) -> int:
    """First one's own attempts and calls, then answers of like calls, last the lists of such."""
    told = heard[2]
    if told is None or told.own:
        return 0
    return 3 if told.answer.earlier else 2 if told.answer.like else 1


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
            self.sim.oracle.object_to(f"I3 {known.operation_id}: answers {self.intent.intention}, which is another action")


__all__ = ["Errand", "Loner", "Mind", "Place", "Spot", "State", "make_ask"]
