"""What a program or a model makes of the answers: which intent came to what, by which call."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from settled.core.answer import STATUS_OF
from settled.testing.simulation.plans import Words

if TYPE_CHECKING:
    from settled.core.ask import Ask
    from settled.core.call import Call
    from settled.testing.simulation.asking import Told
    from settled.testing.simulation.plans import Intent, Plan
    from settled.testing.simulation.simulation import Simulation
    from settled.testing.simulation.world import Intention


@dataclass(slots=True)
class Mind:
    """What program or model believes in one entry: which intent came to what, by which call."""

    sim: Simulation
    plan: Plan
    first: bool = True
    """Whether it is the first entry of its turn: nothing can be said in other words than before."""
    outcome: dict[int, str] = field(default_factory=dict)
    """Identity of an intent -> status."""
    credit: dict[str, Intent] = field(default_factory=dict)
    """Operation id -> the intent that it answered."""
    closed: dict[str, str] = field(default_factory=dict)
    """Operation id -> the words of the ask that was given its final outcome."""
    words: dict[int, Words] = field(default_factory=dict)
    """Identity of an intent -> how it was put, or was found to have been put."""
    past: frozenset[str] = frozenset()
    """Operation ids of what it knows, from its history, to have been done in the turns before."""

    def copy(self) -> Mind:
        """Return what a checkpoint keeps of it."""
        return Mind(
            self.sim,
            self.plan,
            self.first,
            dict(self.outcome),
            dict(self.credit),
            dict(self.closed),
            dict(self.words),
            self.past,
        )

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
            self.sim.oracle.object_to(f"I3 {known.operation_id}: answers {intent.intention} after its final outcome")
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
        if self.sim.truth_of(known) != intent.intention or known.operation_id in self.past:
            return False
        if holder is None or holder is intent or self.pending(holder):
            return True
        if own and self.outcome.get(id(holder)) == "succeeded":
            del self.outcome[id(holder)]  # it was answered by likeness; this asker has made the call itself
        return own

    def recognise(self, known: Call) -> None:
        """See in a list of earlier calls what oneself has meant by them."""
        holder = self.credit.get(known.operation_id)
        if holder is not None:
            if self.outcome.get(id(holder)) not in ("succeeded", "failed"):
                self.outcome[id(holder)] = STATUS_OF[known.state]  # news of what was asked for before
            return
        meant = self.sim.truth_of(known)
        for intent in self.plan if known.operation_id not in self.past else ():
            if intent.intention == meant and self.pending(intent):
                self.credit[known.operation_id] = intent
                self.outcome[id(intent)] = STATUS_OF[known.state]
                who, _, what = known.arguments.decode().partition("|")
                self.words[id(intent)] = Words(who, what)
                return

    def done(self) -> set[str]:
        """Return the operation ids of what it believes to be done."""
        return {op for op, intent in self.credit.items() if self.outcome.get(id(intent)) == "succeeded"}

    def succeeded(self) -> Counter[Intention]:
        """What it believes to be done."""
        return Counter(i.intention for i in self.plan if self.outcome.get(id(i)) == "succeeded")
